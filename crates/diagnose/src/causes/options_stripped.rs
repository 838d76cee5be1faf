//! # options-stripped
//!
//! ## What happens
//!
//! The first two packets of a connection negotiate what it may do: how large
//! windows may be, selective acknowledgements (SACK), time stamps. A firewall or
//! load balancer on the path that removes these options, or changes them, makes
//! each end believe that the other lacks them: windows end at 64 KiB, and after a
//! loss only one segment is repaired in each round trip.
//!
//! ## Evidence
//!
//! Two captures of the same connections, one at each end: the options of each SYN
//! and SYN-ACK as they left and as they arrived.
//!
//! ## Threshold
//!
//! One connection of which a SYN left with the option and arrived without it, or
//! with another window scale: no device changes these by accident.
//!
//! ## Looks like it, but is not
//!
//! - window-scaling-off, or SACK off, at an end itself: its SYN leaves without the
//!   option.
//! - A smaller MSS that arrives: a tunnel or a gateway that clamps it, as it
//!   should.
//! - A proxy, which opens connections of its own: no connection is in both
//!   captures.
//!
//! ## Check by hand
//!
//! ```sh
//! # at both ends: what is there in one and not in the other
//! tshark -r FILE -Y tcp.flags.syn==1 -T fields -e ip.src -e tcp.options.mss_val \
//!   -e tcp.options.wscale.shift -e tcp.options.sack_perm
//! ```
//!
//! ## Fix
//!
//! On the device: no rule that removes TCP options (`TCPOPTSTRIP` of iptables,
//! `reset tcp option` of nft, the TCP normalisation of firewalls). No setting of an
//! end brings them back.
//!
//! ## Expected gain
//!
//! That of its consequence: where the window scale is removed, see
//! window-scaling-off. Otherwise not predictable: the captures do not show what
//! both ends would agree on.
//!
//! ## References
//!
//! - RFC 7323 (window scale, time stamps), RFC 2018 (SACK)
//! - Honda et al.: Is it still possible to extend TCP? (IMC 2011)

use model::{
    ChangedField, Evidence, Finding, Impact, ImpactUnit, Path, PathChange, Severity, Side, Source,
    SubjectKind,
};
use text::{count, number};

use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::advice;
use crate::words::{list, subject, title};

pub(super) const CAUSE: Cause = Cause {
    id: "options-stripped",
    title: "a device on the path removes options from SYNs",
    slows: Slows::Transfers,
    needs: &[&[Source::Path]],
    rule,
    source: include_str!("options_stripped.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(path) = &evidence.path else {
        return Verdict::not_checked("no captures of both ends");
    };
    let stripped: Vec<&PathChange> = path.changes.iter().filter(|one| costs(one)).collect();
    if stripped.is_empty() {
        return match path.streams_in_both {
            0 => Verdict::not_checked("no stream is in both captures"),
            both => Verdict::RuledOut(format!(
                "options of SYNs (unchanged in {})",
                count(both, "stream")
            )),
        };
    }
    Verdict::Found(vec![finding(path, &stripped)])
}

/// Whether a change takes something from a connection.
fn costs(change: &PathChange) -> bool {
    match change.field {
        ChangedField::WindowScale => change.before.is_some(),
        ChangedField::SelectiveAcknowledgements
        | ChangedField::TimeStamps
        | ChangedField::SegmentSize => change.before.is_some() && change.after.is_none(),
        ChangedField::OtherOptions | ChangedField::Window => false,
    }
}

fn option(field: ChangedField) -> &'static str {
    match field {
        ChangedField::WindowScale => "window scale",
        ChangedField::SelectiveAcknowledgements => "SACK",
        ChangedField::TimeStamps => "time stamps",
        _ => "MSS",
    }
}

fn finding(path: &Path, stripped: &[&PathChange]) -> Finding {
    let mut options: Vec<&str> = Vec::new();
    for change in stripped {
        if !options.contains(&option(change.field)) {
            options.push(option(change.field));
        }
    }
    let hit = stripped.iter().map(|change| change.streams).max().unwrap_or(0);
    // Without time stamps, only round trips are known less well.
    let felt = stripped.iter().any(|change| change.field != ChangedField::TimeStamps);
    let proofs = stripped.iter().map(|change| {
        let [from, to] = match change.left_at {
            Side::Client => ["client", "server"],
            Side::Server => ["server", "client"],
        };
        let [client, server] = change.packets;
        let value = |value: Option<u64>| match (change.field, value) {
            (_, None) => "without it".to_string(),
            (ChangedField::WindowScale | ChangedField::SegmentSize, Some(value)) => {
                format!("with {value}")
            }
            _ => "with it".to_string(),
        };
        let text = format!(
            "{} left the {from} {}, reached the {to} {}: {} (packet {} at the client, {} at \
             the server)",
            change.field.words(),
            value(change.before),
            value(change.after),
            count(change.streams, "stream"),
            number(client),
            number(server)
        );
        proof(Source::Path, "proof", text).at_moment("streams", change.streams as f64, "streams")
    });
    let captures = path.captures.each_ref().map(|capture| capture.file.as_str());
    let alone = match &path.services[..] {
        [service] => service.servers.first().copied(),
        _ => None,
    };
    let to = alone.map_or("the server".to_string(), |server| server.to_string());
    Finding {
        cause: CAUSE.id.to_string(),
        title: title(
            format!("A device on the path removes {} from SYNs", list(&options)),
            "A device on the path removes options from SYNs",
        ),
        severity: if felt { Severity::Warning } else { Severity::Info },
        subject: subject(
            SubjectKind::Connection,
            format!("between the captures of the client and of {to}"),
            alone,
            None,
            Vec::new(),
        ),
        impact: Impact {
            text: format!(
                "{} of {} in both captures opened without {}",
                number(hit),
                count(path.streams_in_both, "stream"),
                list(&options)
            ),
            unit: ImpactUnit::ConnectionsDegraded,
            amount: hit as f64,
            share: Some(text::share(hit as f64, path.streams_in_both as f64).min(1.0)),
        },
        evidence: proofs.collect(),
        checks: commands(captures.map(|file| {
            CommandLine::new("tshark -r").file(file).args("-Y tcp.flags.syn==1 -V").here()
        })),
        remedies: vec![advice(
            "on the device between both: no TCPOPTSTRIP, no normalisation of TCP options",
        )],
        gain: gain::not_predictable("what the ends would agree on without it is not known"),
        also_causes: Vec::new(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use model::{PathCapture, PathClock, PathDirection};

    use super::*;
    use crate::fixtures::findings_of;

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![changed(ChangedField::WindowScale, Some(7), None)]
    }

    fn changed(field: ChangedField, before: Option<u64>, after: Option<u64>) -> Evidence {
        let capture = |name: &str| PathCapture {
            file: name.to_string(),
            packets: 100,
            streams: 4,
            first_unix_us: 0,
            span_us: 1_000_000,
        };
        let change =
            PathChange { field, left_at: Side::Client, before, after, packets: [1, 2], streams: 3 };
        let path = Path {
            captures: [capture("a.pcap"), capture("b.pcap")],
            streams_in_both: 4,
            streams_rewritten: 0,
            streams_not_followed: 0,
            streams_opened_at_server: 0,
            syns_never_arrived: [0, 0],
            clock: PathClock::default(),
            to_server: PathDirection::default(),
            to_client: PathDirection::default(),
            changes: vec![change],
            services: Vec::new(),
            worst: Vec::new(),
        };
        Evidence { path: Some(path), ..Evidence::default() }
    }

    #[test]
    fn fires_for_an_option_that_does_not_arrive() {
        let finding = &findings_of(rule(&changed(ChangedField::WindowScale, Some(7), None)))[0];
        assert_eq!(finding.title, "A device on the path removes window scale from SYNs");
        assert!(finding.evidence[0].text.contains("with 7, reached"), "{finding:?}");
        assert_eq!((finding.impact.amount, finding.impact.share), (3.0, Some(0.75)));
        let other = rule(&changed(ChangedField::WindowScale, Some(7), Some(0)));
        assert_eq!(findings_of(other).len(), 1, "it is another one");
        let stamps = &findings_of(rule(&changed(ChangedField::TimeStamps, Some(1), None)))[0];
        assert_eq!(stamps.severity, Severity::Info);
    }

    #[test]
    fn stays_quiet_for_clamps_and_for_added_options() {
        for (field, before, after) in [
            (ChangedField::SegmentSize, Some(1460), Some(1380)),
            (ChangedField::SelectiveAcknowledgements, None, Some(1)),
            (ChangedField::OtherOptions, Some(34), None),
            (ChangedField::Window, Some(100), Some(90)),
        ] {
            let verdict = rule(&changed(field, before, after));
            assert!(matches!(verdict, Verdict::RuledOut(_)), "{field:?}");
        }
    }

    #[test]
    fn undecided_without_both_captures() {
        let verdict = CAUSE.judge(&crate::fixtures::healthy());
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
