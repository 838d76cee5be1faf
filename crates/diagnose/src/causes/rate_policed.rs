//! # rate-policed
//!
//! ## What happens
//!
//! A policer on the way lets a rate pass and drops at once what is above it. It
//! holds tokens, up to the size of its bucket: a burst passes whole, then packets
//! are lost in a row, again and again. Nothing waits, the round trip stays short,
//! and TCP takes the losses for congestion that is not there. Providers limit
//! customers so, and video; clouds their small instances.
//!
//! ## Evidence
//!
//! In packets captured before the policer: there is a rate at which all losses of
//! an answer come at one level of the bucket, what passed was below that level,
//! chance would not do it, and the round trips do not grow with it, as they would
//! in a queue. Each answer is judged, and the next ones of the stream look for the
//! rate that is known.
//!
//! ## Threshold
//!
//! The level is sharp to a packet and the jitter of the path; the probability that
//! losses at random would lie so is below e^-12 (e^-5 where the rate is known from
//! the answer before); round trips follow the level by less than 0.35 of what a
//! queue would do.
//!
//! ## Looks like it, but is not
//!
//! - A shaper or a full queue: packets wait before they are dropped, that is
//!   bufferbloat.
//! - packet-loss of a bad line: losses at any level.
//!
//! ## Check by hand
//!
//! ```sh
//! # sequence numbers over time: a straight line, its gaps at even distances
//! tshark -r FILE -Y tcp.analysis.retransmission -T fields \
//!   -e frame.time_relative -e tcp.seq
//! ```
//!
//! ## Mend
//!
//! Send below its rate: pacing (`SO_MAX_PACING_RATE`, `tc qdisc ... tbf`), bbr, or
//! smaller pieces than the bucket; or ask for a higher rate. Who runs the policer
//! can give it a queue: a shaper in its place.
//!
//! ## References
//!
//! - Flach et al.: An Internet-wide analysis of traffic policing (SIGCOMM 2016)
//! - RFC 2697, RFC 2698 (token buckets that mark and drop)

use model::{Evidence, Finding, PolicedExchange, TimeCategory};
use text::{bit_rate, bytes, count, micros, number};

use crate::Verdict;
use crate::captured::{Group, StreamDirection, verdict_from_packets};
use crate::make::{WithFigures as _, advice};

/// Turns that are told one by one.
const TOLD: usize = 4;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    verdict_from_packets(evidence, hit, finding, |_| "policers".to_string())
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let sent = direction.sent();
    (!sent.policed.is_empty()).then(|| sent.time_us(TimeCategory::Loss))
}

/// The rate that most of the turns agree on, bits a second.
fn common(group: &Group<'_>) -> Option<u64> {
    let turns = group.directions.iter().flat_map(|direction| &direction.sent().policed);
    let mut rates: Vec<u64> = turns.filter_map(|turn| turn.rate_bps).collect();
    rates.sort_unstable();
    rates.get(rates.len() / 2).copied()
}

fn turn_words(turn: &PolicedExchange) -> String {
    let at = match turn.rate_bps {
        Some(bps) => bit_rate(bps as f64),
        None => {
            format!(
                "{} to {}",
                bit_rate(turn.min_rate_bps as f64),
                bit_rate(turn.max_rate_bps as f64)
            )
        }
    };
    format!(
        "turn {}: {at}, bucket {}; {} lost of {} in {}",
        number(turn.exchange),
        bytes(turn.bucket_bytes),
        number(turn.lost),
        number(turn.lost + turn.passed),
        micros(turn.duration_us),
    )
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let policed = &direction.sent().policed;
    let mut lines: Vec<String> = policed.iter().take(TOLD).map(turn_words).collect();
    if let Some(more) = policed.len().checked_sub(TOLD).filter(|more| *more > 0) {
        lines.push(format!("and {} more", count(more as u64, "turn")));
    }
    let lost = group
        .directions
        .iter()
        .flat_map(|direction| &direction.sent().policed)
        .map(|turn| turn.lost)
        .sum();
    let common = common(group);
    let mut proof = group
        .proof(
            evidence,
            "proof",
            format!("stream {}:\n{}", direction.stream.number, lines.join("\n")),
        )
        .over_window(evidence, "packets dropped", lost as f64, "packets");
    if let Some(bps) = common {
        proof = proof.over_window(evidence, "rate", bps as f64, "bit/s");
    }
    let title = match common {
        Some(bps) => format!("A policer on the way drops what is above {}", bit_rate(bps as f64)),
        None => {
            let most = policed.iter().map(|turn| turn.bucket_bytes).max().unwrap_or(0);
            format!("A policer on the way drops bursts above {}", bytes(most))
        }
    };
    let turns: u64 =
        group.directions.iter().map(|direction| direction.sent().policed.len() as u64).sum();
    let all: u64 = group.directions.iter().map(|direction| direction.stream.exchanges).sum();
    let below = common.map_or_else(String::new, |bps| format!(" below {}", bit_rate(bps as f64)));
    group.finding(
        evidence,
        "rate-policed",
        title,
        &format!(
            "{} of {} policed, {} dropped",
            number(turns),
            count(all, "turn"),
            count(lost, "packet")
        ),
        vec![proof],
        vec![
            advice(format!("{}: pacing{below} (SO_MAX_PACING_RATE), or bbr", group.sender())),
            advice("whoever runs the policer: a higher rate, or a shaper with a queue"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use model::Source;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    fn turn(rate_bps: Option<u64>) -> PolicedExchange {
        PolicedExchange {
            exchange: 2,
            rate_bps,
            min_rate_bps: 1_480_000,
            max_rate_bps: 1_520_000,
            bucket_bytes: 100_000,
            lost: 40,
            passed: 1_300,
            bursts: 9,
            duration_us: 9_000_000,
        }
    }

    fn policed(rate_bps: Option<u64>) -> Evidence {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        stream.from_server.policed = vec![turn(rate_bps)];
        evidence
    }

    #[test]
    fn fires_with_the_rate_and_the_bucket() {
        let finding = &findings_of(rule(&policed(Some(1_500_000))))[0];
        assert_eq!(finding.title, "A policer on the way drops what is above 1.5 Mbit/s");
        assert!(finding.evidence[0].text.contains("turn 2: 1.5 Mbit/s, bucket 98 KiB; 40 lost"));
        let finding = &findings_of(rule(&policed(None)))[0];
        assert_eq!(finding.title, "A policer on the way drops bursts above 98 KiB");
        assert!(finding.evidence[0].text.contains("turn 2: 1.48 Mbit/s to 1.52 Mbit/s"));
    }

    #[test]
    fn stays_quiet_for_losses_that_no_policer_explains() {
        let mut evidence = healthy();
        add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80")
            .from_server
            .fast_retransmissions = 90;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = crate::cause("rate-policed").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
