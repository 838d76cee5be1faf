//! # corruption
//!
//! ## What happens
//!
//! Bits flip on the way: a bad cable or transceiver, a network card or a router
//! with bad memory, a device that rewrites packets and miscounts. The checksum
//! fails, and the kernel drops the segment without a word. To its sender that is
//! loss: it sends again, and slows down. And a checksum of 16 bits lets one in
//! 65,536 damaged segments pass.
//!
//! ## Evidence
//!
//! The kernel's counters `TcpInCsumErrors` and `UdpInCsumErrors` (and those of
//! IPv6) over the window, against what arrived; and which connections dropped
//! segments, by their own counters. In packets, behind the place of the damage: the
//! checksums of segments that were captured whole, once something was sent again.
//!
//! ## Threshold
//!
//! Five damaged packets and more, and one in 10,000 that arrived: a link in order
//! has none. In packets no more than half of those that were looked at, and no more
//! than were sent again.
//!
//! ## Looks like it, but is not
//!
//! - packet-loss: the segment never arrived, no counter grows here.
//! - Outgoing packets with wrong checksums in a capture: the network card fills
//!   them in after the place of capture (offload). What the kernel leaves in their
//!   place is known, and such packets are not sent again.
//! - A scanner that sends broken packets on purpose: single ones.
//!
//! ## Check by hand
//!
//! ```sh
//! nstat -az TcpInCsumErrors UdpInCsumErrors
//! # errors that the network card saw itself: rx_crc_errors and the like
//! ethtool -S DEVICE | grep -i err
//! ```
//!
//! ## Mend
//!
//! Cable, transceiver, port, network card: exchange one after the other. Where the
//! card's own counters show nothing, the damage is done by a device that computes
//! checksums anew, or by the card's offload: `ethtool -K DEVICE rx off` tells.
//!
//! ## References
//!
//! - Stone, Partridge: When the CRC and TCP checksum disagree (SIGCOMM 2000)
//! - RFC 9293, section 3.1; Linux: `tcp_rcv_established` (`csum_error`)

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{Evidence, Finding, Impact, ImpactUnit, Severity, Source, SubjectKind};
use text::{count, number, percent, share};

use crate::Verdict;
use crate::make::{WithFigures as _, advice, proof, subject};
use crate::words::command;

mod packets;

pub(super) use packets::is_damaged;

/// Damaged packets from which it is no accident.
const LEAST: u64 = 5;
/// Share of what arrived.
const SHARE: f64 = 1e-4;
/// From this share on, it is critical: no transfer is fast with so much loss.
const CRITICAL: f64 = 1e-3;
/// Counters of damaged packets, each with that of all that arrived.
const COUNTERS: [(&str, &str); 3] = [
    ("TcpInCsumErrors", "TcpInSegs"),
    ("UdpInCsumErrors", "UdpInDatagrams"),
    ("Udp6InCsumErrors", "Udp6InDatagrams"),
];
/// Peers that are told.
const PEERS: usize = 3;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let grew = |name: &str| evidence.increase(name).unwrap_or(0);
    let damaged: u64 = COUNTERS.iter().map(|(damaged, _)| grew(damaged)).sum();
    let arrived: u64 = COUNTERS.iter().map(|(_, all)| grew(all)).sum();
    let part = share(damaged as f64, arrived.max(damaged) as f64);
    let grew = damaged >= LEAST && part >= SHARE;
    let captured = evidence.packets.as_ref();
    // The counters have no focus.
    if grew && evidence.focus.is_everything() {
        let mut finding = finding(evidence, damaged, part);
        finding.evidence.extend(captured.and_then(|packets| packets::proof(evidence, packets)));
        return Verdict::Found(vec![finding]);
    }
    let findings = captured.map(|packets| packets::findings(evidence, packets));
    Verdict::from_findings(findings.unwrap_or_default(), || match captured {
        _ if grew => "damaged packets (the counters have no focus)".to_string(),
        _ if damaged > 0 => format!("damaged packets ({})", number(damaged)),
        Some(packets) => packets::words(packets),
        None => "damaged packets (0)".to_string(),
    })
}

fn finding(evidence: &Evidence, damaged: u64, part: f64) -> Finding {
    let grew: Vec<(&str, u64)> = COUNTERS
        .iter()
        .filter_map(|(name, _)| Some((*name, evidence.increase(name)?)))
        .filter(|(_, growth)| *growth > 0)
        .collect();
    let text: Vec<String> =
        grew.iter().map(|(name, growth)| format!("{name} +{}", number(*growth))).collect();
    let mut counters = proof(Source::Counters, "proof", text.join(", "));
    for (name, growth) in &grew {
        counters = counters.over_window(evidence, name, *growth as f64, "packets");
    }
    let mut proofs = vec![counters];
    let peers = peers(evidence);
    if !peers.is_empty() {
        let told: Vec<String> = peers
            .iter()
            .take(PEERS)
            .map(|(peer, drops)| format!("{peer} ({})", number(*drops)))
            .collect();
        let text = format!("connections that dropped segments: from {}", told.join(", "));
        let all: u64 = peers.iter().map(|(_, drops)| drops).sum();
        let dropped = proof(Source::Sockets, "peers", text);
        proofs.push(dropped.at_moment("dropped since they were opened", all as f64, "packets"));
    }
    Finding {
        cause: "corruption".to_string(),
        title: "Packets arrive damaged: their checksums are wrong".to_string(),
        severity: if part >= CRITICAL { Severity::Critical } else { Severity::Warning },
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
                "{} dropped, {} of those that arrived",
                count(damaged, "damaged packet"),
                percent(part)
            ),
            unit: ImpactUnit::PacketsDropped,
            amount: damaged as f64,
            share: Some(part),
        },
        evidence: proofs,
        checks: vec![
            command(evidence, "nstat -az TcpInCsumErrors UdpInCsumErrors"),
            command(evidence, "ip -s -s link"),
        ],
        remedies: vec![
            advice("cable, transceiver, port or card: see ethtool -S DEVICE for its errors"),
            advice("ethtool -K DEVICE rx off: if it helps, the card's offload miscounts"),
        ],
        also_causes: Vec::new(),
    }
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
mod tests {
    use model::Change;

    use super::*;
    use crate::fixtures::{add_socket, findings_of, healthy, remove_source};

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
    fn stays_quiet_for_single_ones_and_a_small_share() {
        assert!(matches!(rule(&damaged(4, 1_000)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&damaged(50, 1_000_000)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&healthy()), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_counters() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Counters);
        let verdict = crate::cause("corruption").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
