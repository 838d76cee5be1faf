//! # corruption
//!
//! ## What happens
//!
//! Bits flip on the path: a bad cable or transceiver, a network card or a router
//! with bad memory, a device that rewrites packets and computes a wrong checksum.
//! The checksum fails, and the kernel silently drops the segment. To its sender
//! that is loss: it retransmits, and slows down. And a checksum of 16 bits lets one
//! in 65,536 damaged segments pass.
//!
//! ## Evidence
//!
//! The kernel's counters `TcpInCsumErrors` and `UdpInCsumErrors` (and those of
//! IPv6) over the window, compared with the packets received; and which connections
//! dropped segments, by their own counters. In packets, behind the place of the
//! damage: the checksums of segments that were captured whole, once something was
//! retransmitted.
//!
//! ## Threshold
//!
//! Five damaged packets or more, and one in 10,000 received: a healthy link has
//! none. In packets, those of all streams in which at most half of the verified
//! ones are damaged, at most as many as were retransmitted, and at least half of
//! the losses are damage.
//!
//! ## Looks like it, but is not
//!
//! - packet-loss: the segment never arrived, no counter increases here.
//! - Outgoing packets with wrong checksums in a capture: the network card fills
//!   them in beyond the capture point (offload). netwhy recognises what the
//!   kernel leaves in their place, and such packets are not retransmitted.
//! - A scanner that sends broken packets on purpose: single ones.
//!
//! ## Check by hand
//!
//! ```sh
//! nstat -az TcpInCsumErrors UdpInCsumErrors
//! # errors that the network card counted itself: rx_crc_errors and the like
//! ethtool -S DEVICE | grep -i err
//! ```
//!
//! ## Fix
//!
//! Cable, transceiver, port, network card: replace one after the other. Where the
//! card's own counters show nothing, a device that computes checksums anew does the
//! damage, or the card's offload: `ethtool -K DEVICE rx off` shows whether it is
//! the card.
//!
//! ## Expected gain
//!
//! From packets: the mean time of an exchange without the time of loss recovery
//! (model «difference»). From counters: not predictable, as they do not say what
//! each damaged packet delays.
//!
//! ## References
//!
//! - Stone, Partridge: When the CRC and TCP checksum disagree (SIGCOMM 2000)
//! - RFC 9293, section 3.1; Linux: `tcp_rcv_established` (`csum_error`)

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{
    Evidence, Finding, Impact, ImpactUnit, Packets, Remedy, Severity, Source, SubjectKind,
};
use text::{count, number, percent, share};

use crate::captured::{MIN_DAMAGED, MIN_DAMAGED_SHARE};
use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{Noted as _, advice, ethtool};
use crate::words::subject;

mod packets;

pub(super) const CAUSE: Cause = Cause {
    id: "corruption",
    title: "packets arrive damaged, and the kernel drops them",
    slows: Slows::Transfers,
    needs: &[&[Source::Counters], &[Source::Packets]],
    rule,
    source: include_str!("corruption.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Share of the packets received from which on it is critical: no transfer is fast with so much loss.
const MIN_SHARE_CRITICAL: f64 = 1e-3;
/// Counters of damaged packets, each with that of all packets received.
const COUNTERS: [(&str, &str); 3] = [
    ("TcpInCsumErrors", "TcpInSegs"),
    ("UdpInCsumErrors", "UdpInDatagrams"),
    ("Udp6InCsumErrors", "Udp6InDatagrams"),
];
/// Peers that are listed.
const MAX_PEERS_LISTED: usize = 3;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let increase = |name: &str| evidence.increase(name).unwrap_or(0);
    let damaged = COUNTERS.iter().map(|(damaged, _)| increase(damaged));
    let damaged = damaged.fold(0, u64::saturating_add);
    let received = COUNTERS.iter().map(|(_, all)| increase(all)).fold(0, u64::saturating_add);
    let part = share(damaged as f64, received.max(damaged) as f64);
    let counted = damaged >= MIN_DAMAGED && part >= MIN_DAMAGED_SHARE;
    let captured = evidence.packets.as_ref();
    // The counters are those of the whole host.
    if counted && evidence.focus.is_everything() {
        let mut finding = finding(evidence, damaged, part);
        finding.evidence.extend(captured.and_then(|packets| packets::proof(evidence, packets)));
        return Verdict::Found(vec![finding]);
    }
    let findings = captured.map(|packets| packets::findings(evidence, packets));
    Verdict::from_findings(findings.unwrap_or_default(), || match captured {
        _ if counted => Verdict::Undecided {
            needs: "the whole host: damaged packets have no port".to_string(),
            sources: vec![Source::Counters],
            how_to_observe: Some("netwhy".to_string()),
        },
        _ if received > 0 => Verdict::RuledOut(format!(
            "damaged packets ({} of {} received)",
            number(damaged),
            number(received)
        )),
        Some(packets) => packets::otherwise(packets),
        None => Verdict::not_checked("no packet was received"),
    })
}

fn finding(evidence: &Evidence, damaged: u64, part: f64) -> Finding {
    let increased: Vec<(&str, u64)> = COUNTERS
        .iter()
        .filter_map(|(name, _)| Some((*name, evidence.increase(name)?)))
        .filter(|(_, increase)| *increase > 0)
        .collect();
    let text: Vec<String> =
        increased.iter().map(|(name, increase)| format!("{name} +{}", number(*increase))).collect();
    let mut counters = proof(Source::Counters, "proof", text.join(", "));
    for (name, increase) in &increased {
        counters = counters.over_window(evidence, name, *increase as f64, "packets");
    }
    let mut proofs = vec![counters];
    let peers = peers(evidence);
    if !peers.is_empty() {
        let listed: Vec<String> = peers
            .iter()
            .take(MAX_PEERS_LISTED)
            .map(|(peer, drops)| format!("{peer} ({})", number(*drops)))
            .collect();
        let text = format!("connections that dropped segments: from {}", listed.join(", "));
        let all: u64 = peers.iter().map(|(_, drops)| *drops).fold(0, u64::saturating_add);
        let dropped = proof(Source::Sockets, "peers", text);
        proofs.push(dropped.at_moment("dropped since they were opened", all as f64, "packets"));
    }
    Finding {
        cause: CAUSE.id.to_string(),
        title: "Packets arrive damaged: their checksums are wrong".to_string(),
        severity: if part >= MIN_SHARE_CRITICAL { Severity::Critical } else { Severity::Warning },
        subject: subject(
            SubjectKind::Host,
            match &peers[..] {
                [(peer, _)] => format!("what arrives from {peer}"),
                _ => "what arrives at this host".to_string(),
            },
            None,
            None,
            Vec::new(),
        ),
        impact: Impact {
            text: format!(
                "{} dropped, {} of those received",
                count(damaged, "damaged packet"),
                percent(part)
            ),
            unit: ImpactUnit::PacketsDropped,
            amount: damaged as f64,
            share: Some(part),
        },
        evidence: proofs,
        checks: commands([
            CommandLine::new("nstat -az TcpInCsumErrors UdpInCsumErrors").in_netns(evidence),
            CommandLine::new("ip -s -s link").in_netns(evidence),
        ]),
        remedies: remedies(evidence),
        gain: gain::not_predictable("what each damaged packet delays is not known"),
        also_causes: Vec::new(),
    }
}

fn remedies(evidence: &Evidence) -> Vec<Remedy> {
    let replace = "replace the cable, transceiver, port or card of the interface whose errors increase \
                   (ip -s -s link)";
    let interfaces = evidence.packets.as_ref().map(Packets::interfaces).unwrap_or_default();
    // The name is known where one interface was captured; «any» is all of them.
    let interface = match interfaces[..] {
        [interface] if interface != "any" => Some(interface),
        _ => None,
    };
    let offload = ethtool(evidence, interface, "rx", "off");
    vec![advice(replace), offload.noted("if the errors stop, its checksum offload is wrong")]
}

/// Peers whose connections dropped segments, most first.
fn peers(evidence: &Evidence) -> Vec<(IpAddr, u64)> {
    let mut peers: BTreeMap<IpAddr, u64> = BTreeMap::new();
    for socket in evidence.sockets.iter().flat_map(|table| &table.sockets) {
        let drops = socket.memory.map_or(0, |memory| memory.drops);
        if drops > 0 {
            *peers.entry(socket.remote.ip().to_canonical()).or_default() += u64::from(drops);
        }
    }
    let mut peers: Vec<(IpAddr, u64)> = peers.into_iter().collect();
    peers.sort_by_key(|(peer, drops)| (std::cmp::Reverse(*drops), *peer));
    peers
}

#[cfg(test)]
pub(super) mod tests {
    use model::Change;

    use super::*;
    use crate::fixtures::{add_socket, findings_of, healthy, remove_source};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        let mut counters = damaged(120, 10_000);
        let socket = add_socket(&mut counters, "198.18.0.1:5000", "198.18.0.2:80", None);
        socket.memory.as_mut().unwrap().drops = 119;
        vec![counters, packets::tests::example()]
    }

    fn damaged(errors: u64, arrived: u64) -> Evidence {
        let mut evidence = healthy();
        let counters = &mut evidence.counters.as_mut().unwrap().0;
        counters.insert("TcpInCsumErrors".into(), Change::new(7, 7 + errors));
        counters.insert("TcpInSegs".into(), Change::new(1_000, 1_000 + arrived));
        evidence
    }

    #[test]
    fn fires_for_wrong_checksums_and_names_the_peer() {
        let mut evidence = damaged(120, 10_000);
        add_socket(&mut evidence, "198.18.0.1:5000", "198.18.0.2:80", None)
            .memory
            .as_mut()
            .unwrap()
            .drops = 119;
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.subject.name, "what arrives from 198.18.0.2");
        assert_eq!(finding.evidence[0].text, "TcpInCsumErrors +120");
        assert!(finding.evidence[1].text.ends_with("from 198.18.0.2 (119)"), "{finding:?}");
        assert_eq!(finding.severity, Severity::Critical);
    }

    #[test]
    fn the_card_is_named_where_one_interface_was_captured() {
        let mut evidence = damaged(120, 10_000);
        let named = |evidence: &Evidence| {
            let finding = findings_of(rule(evidence)).remove(0);
            finding.remedies.into_iter().find_map(|remedy| remedy.command)
        };
        assert_eq!(named(&evidence), None);
        evidence.packets.as_mut().unwrap().sources = vec!["interface eth0".into()];
        assert_eq!(named(&evidence).unwrap().argv, [["ethtool", "-K", "eth0", "rx", "off"]]);
        evidence.packets.as_mut().unwrap().sources = vec!["interface any".into()];
        assert_eq!(named(&evidence), None);
    }

    #[test]
    fn stays_quiet_for_a_few_and_for_a_small_share() {
        assert!(matches!(rule(&damaged(4, 1_000)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&damaged(50, 1_000_000)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&healthy()), Verdict::NotChecked(_)));
    }

    #[test]
    fn undecided_without_counters() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Counters);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
