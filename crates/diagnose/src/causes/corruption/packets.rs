//! Damaged segments, as packets show them: their checksums are wrong.

use model::{CapturedDirection, Evidence, Finding, Packets, Proof, Source, TimeCategory};
use text::{count, number, percent, share};

use crate::captured::{
    Group, MIN_DAMAGED, StreamDirection, are_of_the_path, capture_again, group_directions,
    is_damaged, total, without_data,
};
use crate::cause::Verdict;
use crate::proofs::WithFigures as _;
use crate::remedies::{Noted as _, advice, ethtool_on};

/// A finding for each service and direction.
pub(super) fn findings(evidence: &Evidence, packets: &Packets) -> Vec<Finding> {
    damaged(packets).iter().map(|group| finding(evidence, group)).collect()
}

fn damaged(packets: &Packets) -> Vec<Group<'_>> {
    let mut groups = group_directions(packets, |direction| {
        is_damaged(direction).then(|| direction.sent().time_us(TimeCategory::Loss))
    });
    groups.retain(|group| group.sum(|sent| sent.bad_checksums) >= MIN_DAMAGED);
    groups
}

/// The same as a proof beside the kernel's counters.
pub(super) fn proof(evidence: &Evidence, packets: &Packets) -> Option<Proof> {
    damaged(packets).first().map(|group| checksums_proof(evidence, group, "packets"))
}

fn checksums_proof(evidence: &Evidence, group: &Group<'_>, label: &str) -> Proof {
    let damaged = group.sum(|sent| sent.bad_checksums);
    let checked = group.sum(|sent| sent.checksums_verified);
    let text = format!(
        "{} to {}: {} of {} have wrong checksums; {} retransmitted",
        group.sender(),
        group.receiver(),
        number(damaged),
        count(checked, "segment"),
        count(group.sum(|sent| sent.retransmitted()), "segment")
    );
    group
        .proof(evidence, label, text)
        .over_window(evidence, "damaged segments", damaged as f64, "segments")
        .over_window(evidence, "segments verified", checked as f64, "segments")
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let (sender, receiver) = (group.sender(), group.receiver());
    let host = group.receiving_host();
    let damaged = group.sum(|sent| sent.bad_checksums);
    let checked = group.sum(|sent| sent.checksums_verified);
    let part = percent(share(damaged as f64, checked as f64));
    group.finding(
        evidence,
        "corruption",
        format!("{part} of the segments arrive damaged: their checksums are wrong"),
        &format!(
            "{} from {sender} damaged, loss recovery took {}",
            count(damaged, "segment"),
            group.lost_text()
        ),
        vec![checksums_proof(evidence, group, "proof")],
        vec![
            advice(format!(
                "replace the cable, transceiver, port or card on the path from {sender} to {receiver}"
            )),
            ethtool_on(&host, "rx", "off")
                .noted("if the errors stop, the checksum offload of the card is wrong"),
        ],
    )
}

/// What the packets show where none are damaged. A damaged segment is dropped, and so retransmitted.
pub(super) fn otherwise(packets: &Packets) -> Verdict {
    if let Some(not_checked) = without_data(packets) {
        return not_checked;
    }
    let sum = |of: fn(&CapturedDirection) -> u64| total(packets, of);
    let directions = packets.worst.iter().flat_map(StreamDirection::both);
    let of_the_path = directions.filter(|direction| are_of_the_path(*direction));
    let (damaged, checked) = of_the_path.fold((0_u64, 0_u64), |(damaged, checked), direction| {
        let sent = direction.sent();
        let add = u64::saturating_add;
        (add(damaged, sent.bad_checksums), add(checked, sent.checksums_verified))
    });
    match (checked, sum(CapturedDirection::lost)) {
        (0, lost) if lost < MIN_DAMAGED => Verdict::RuledOut(format!(
            "damaged segments ({} of {} lost)",
            number(lost),
            number(sum(|sent| sent.data_segments))
        )),
        (0, lost) => Verdict::Undecided {
            needs: match sum(|sent| sent.checksums_verified) {
                0 => format!("whole packets: no checksum of {} was verified", count(lost, "loss")),
                all => format!(
                    "packets as they arrive: {} of {} are wrong as captured",
                    number(sum(|sent| sent.bad_checksums)),
                    count(all, "verified checksum")
                ),
            },
            sources: vec![Source::Packets],
            how_to_observe: Some(capture_again(packets).replace("--analyse", "--analyse -s 0")),
        },
        _ => Verdict::RuledOut(format!(
            "damaged segments ({} of {} verified)",
            number(damaged),
            number(checked)
        )),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, set_time};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn example() -> Evidence {
        damaged(10, 500, 10)
    }

    fn damaged(damaged: u64, checked: u64, retransmitted: u64) -> Evidence {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        (sent.bad_checksums, sent.checksums_verified, sent.fast_retransmissions) =
            (damaged, checked, retransmitted);
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
    fn damage_of_other_streams_of_the_path_explains_losses_that_were_not_verified() {
        for (elsewhere, damaged_there, is_lost) in
            [(false, 10, false), (false, 4, true), (true, 10, true)]
        {
            let mut evidence = damaged(damaged_there, 500, damaged_there);
            let streams = &mut evidence.packets.as_mut().unwrap().worst;
            let mut other = streams[0].clone();
            other.number = 1;
            (other.from_server.bad_checksums, other.from_server.fast_retransmissions) = (0, 2);
            if elsewhere {
                other.client.set_ip("198.18.0.3".parse().unwrap());
            }
            streams.push(other);
            let loss = crate::cause("packet-loss").unwrap().judge(&evidence);
            assert_eq!(matches!(loss, Verdict::Found(_)), is_lost, "{elsewhere} {damaged_there}");
        }
    }

    #[test]
    fn damage_counts_over_all_streams_and_explains_the_losses_of_each() {
        let mut evidence = damaged(3, 500, 3);
        let streams = &mut evidence.packets.as_mut().unwrap().worst;
        let mut other = streams[0].clone();
        other.number = 1;
        streams.push(other);
        let finding = &findings_of(rule(&evidence))[0];
        assert!(finding.evidence[0].text.contains("6 of 1,000 segments"), "{finding:?}");
        let loss = crate::cause("packet-loss").unwrap().judge(&evidence);
        assert!(matches!(loss, Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_for_few_for_offload_and_without_retransmissions() {
        for (one, all, again) in [(4, 500, 4), (400, 500, 3), (10, 500, 3), (10, 500, 100)] {
            let verdict = rule(&damaged(one, all, again));
            assert!(matches!(verdict, Verdict::RuledOut(_)), "{one} of {all}, {again}");
        }
        assert!(matches!(rule(&damaged(400, 500, 400)), Verdict::Undecided { .. }));
    }

    #[test]
    fn most_of_them_wrong_they_rule_out_nothing() {
        let needs = |bad, all, lost| match rule(&damaged(bad, all, lost)) {
            Verdict::Undecided { needs, .. } => Some(needs),
            Verdict::RuledOut(because) => Some(because),
            _ => None,
        };
        let needs = |bad, all, lost| needs(bad, all, lost).expect("ruled out, or undecided");
        assert_eq!(needs(2, 100, 6), "damaged segments (2 of 100 verified)");
        assert!(needs(60, 100, 6).contains("60 of 100 verified checksums are wrong as captured"));
        assert!(needs(0, 0, 6).starts_with("whole packets"));
        // Nothing was lost.
        assert!(needs(60, 100, 0).starts_with("damaged segments (0 of "), "{}", needs(60, 100, 0));
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
