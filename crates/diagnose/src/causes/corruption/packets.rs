//! Damaged segments in packets: their checksums are wrong where they were captured.

use model::{Evidence, Finding, Packets, Proof, TimeCategory};
use text::{count, micros, number, percent, share};

use super::{LEAST, SHARE};
use crate::captured::{Group, StreamDirection, group_directions};
use crate::make::{WithFigures as _, advice};

/// So many times as many as were damaged are looked at, at least: cards and drivers that leave
/// checksums to others do so with all.
const ONE_IN: u64 = 2;

/// Whether what was sent again one way was lost by damage, behind which it was captured.
pub(in crate::causes) fn is_damaged(direction: StreamDirection<'_>) -> bool {
    let sent = direction.sent();
    sent.bad_checksums >= LEAST
        && sent.bad_checksums * ONE_IN <= sent.checksums_verified
        && sent.bad_checksums <= sent.retransmitted()
        && share(sent.bad_checksums as f64, sent.data_segments as f64) >= SHARE
        // The rest may have been lost in front of the place of capture.
        && sent.bad_checksums * ONE_IN >= sent.lost()
}

/// A finding for each service and direction.
pub(super) fn findings(evidence: &Evidence, packets: &Packets) -> Vec<Finding> {
    damaged(packets).iter().map(|group| finding(evidence, group)).collect()
}

fn damaged(packets: &Packets) -> Vec<Group<'_>> {
    group_directions(packets, |direction| {
        is_damaged(direction).then(|| direction.sent().time_us(TimeCategory::Loss))
    })
}

/// The same as a proof of what the kernel's counters tell.
pub(super) fn proof(evidence: &Evidence, packets: &Packets) -> Option<Proof> {
    damaged(packets).first().map(|group| seen(evidence, group, "packets"))
}

fn seen(evidence: &Evidence, group: &Group<'_>, label: &str) -> Proof {
    let damaged = group.sum(|sent| sent.bad_checksums);
    let checked = group.sum(|sent| sent.checksums_verified);
    let text = format!(
        "{} to {}: {} of {} have wrong checksums;\n{} were sent again",
        group.sender(),
        group.receiver(),
        number(damaged),
        count(checked, "segment"),
        number(group.sum(|sent| sent.retransmitted()))
    );
    group
        .proof(evidence, label, text)
        .over_window(evidence, "damaged segments", damaged as f64, "segments")
        .over_window(evidence, "segments looked at", checked as f64, "segments")
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let (sender, receiver) = (group.sender(), group.receiver());
    let damaged = group.sum(|sent| sent.bad_checksums);
    let checked = group.sum(|sent| sent.checksums_verified);
    let part = percent(share(damaged as f64, checked as f64));
    group.finding(
        evidence,
        "corruption",
        format!("{part} of the segments arrive damaged: their checksums are wrong"),
        &format!(
            "{} of those from {sender} damaged, {} spent on it",
            count(damaged, "segment"),
            micros(group.lost_us)
        ),
        vec![seen(evidence, group, "proof")],
        vec![
            advice(format!(
                "cable, transceiver, port, card or memory between {sender} and {receiver}"
            )),
            advice("ethtool -K DEVICE rx off there: if it helps, the card's offload miscounts"),
        ],
    )
}

pub(super) fn words(packets: &Packets) -> String {
    let damaged = packets.directions().map(|direction| direction.bad_checksums).sum();
    let checked = packets.directions().map(|direction| direction.checksums_verified).sum();
    format!("damaged segments ({} of {} looked at)", number(damaged), number(checked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::fixtures::{add_stream, findings_of, healthy, set_time};

    fn damaged(damaged: u64, checked: u64, repeated: u64) -> Evidence {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        (sent.bad_checksums, sent.checksums_verified, sent.fast_retransmissions) =
            (damaged, checked, repeated);
        set_time(sent, TimeCategory::Loss, 400_000);
        evidence
    }

    fn rule(evidence: &Evidence) -> Verdict {
        super::super::rule(evidence)
    }

    #[test]
    fn fires_for_damaged_segments_and_no_loss_is_named() {
        let evidence = damaged(10, 500, 10);
        let finding = &findings_of(rule(&evidence))[0];
        let title = "2.0 % of the segments arrive damaged: their checksums are wrong";
        assert_eq!(finding.title, title);
        assert!(finding.evidence[0].text.contains("10 of 500 segments"), "{finding:?}");
        let loss = crate::cause("packet-loss").unwrap().judge(&evidence);
        assert!(matches!(loss, Verdict::RuledOut(_)));
        // Most of it was lost elsewhere.
        let loss = crate::cause("packet-loss").unwrap().judge(&damaged(10, 500, 100));
        assert_eq!(findings_of(loss).len(), 1);
    }

    #[test]
    fn stays_quiet_for_few_for_offload_and_for_what_was_not_sent_again() {
        for (one, all, again) in [(4, 500, 4), (400, 500, 400), (10, 500, 3), (10, 500, 100)] {
            let verdict = rule(&damaged(one, all, again));
            assert!(matches!(verdict, Verdict::RuledOut(_)), "{one} of {all}, {again}");
        }
    }

    #[test]
    fn counters_and_packets_are_one_finding() {
        let mut evidence = damaged(10, 500, 10);
        let counters = &mut evidence.counters.as_mut().unwrap().0;
        counters.insert("TcpInCsumErrors".into(), model::Change::new(0, 10));
        counters.insert("TcpInSegs".into(), model::Change::new(0, 1_000));
        let found = findings_of(rule(&evidence));
        assert_eq!((found.len(), found[0].evidence.len()), (1, 2));
        assert_eq!(found[0].evidence[1].label, "packets");
    }
}
