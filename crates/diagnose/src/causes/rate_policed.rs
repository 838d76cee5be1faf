//! # rate-policed
//!
//! ## What happens
//!
//! A policer on the path passes a rate and drops at once what is above it. It holds
//! tokens, up to the size of its bucket: a burst passes whole, then packets are
//! lost in a row, again and again. Nothing waits, the round trip stays short, and
//! TCP takes the losses for congestion that is not there. Providers limit customers
//! and video this way, clouds their small instances.
//!
//! ## Evidence
//!
//! In packets captured before the policer: there is a rate at which all losses of a
//! response occur at one level of the bucket, what passed was below that level,
//! chance does not explain it, and round trips do not grow with the level, as they
//! would in a queue. Each response is judged, and the next ones of the stream are
//! tested at the rate that is known. Streams that share a policer show it together:
//! between two hosts, from one host or to one host, what all of them sent explains
//! the losses of each, though none keeps a constant rate.
//!
//! ## Threshold
//!
//! The level is sharp to a packet and the jitter of the path; the probability of
//! random losses in this pattern is below e^-12 (e^-5 where the rate is known from
//! the response before); round trips grow with the level by less than 0.35 of what
//! they would in a queue. Until the rate is known, the level has to have been
//! reached from below three times: losses in one run agree at some rate.
//!
//! ## Looks like it, but is not
//!
//! - A shaper or a full queue: packets wait before they are dropped, that is
//!   bufferbloat.
//! - packet-loss of a bad link: losses at any level, or in runs that do not come
//!   back to the level of the one before.
//! - reordering: where ten times as many retransmissions were spurious as segments
//!   were lost, the few may have been late.
//!
//! ## Check by hand
//!
//! ```sh
//! # sequence numbers over time: a straight line with holes at even distances
//! tshark -r FILE -Y tcp.analysis.retransmission -T fields \
//!   -e frame.time_relative -e tcp.seq
//! ```
//!
//! ## Fix
//!
//! Send below its rate: pacing (`SO_MAX_PACING_RATE`, `tc qdisc ... fq maxrate`),
//! bbr, or smaller pieces than the bucket; or ask for a higher rate. The operator
//! of the policer can replace it with a shaper, which has a queue.
//!
//! ## Expected gain
//!
//! The rate of a transfer: that of the bucket, which a sender that paces below it
//! reaches (model «token bucket»). Not predictable where only its bounds are
//! known.
//!
//! ## References
//!
//! - Flach et al.: An Internet-wide analysis of traffic policing (SIGCOMM 2016)
//! - RFC 2697, RFC 2698 (token buckets that mark and drop)

use model::{
    CapturedDirection, Evidence, Finding, Packets, PolicedExchange, Reach, Remedy, Source,
    TimeCategory,
};
use text::{bit_rate, bytes, count, micros, number};

use crate::captured::{Group, StreamDirection, capture_again, verdict_from_packets, without_data};
use crate::cause::{Cause, Slows, Verdict};
use crate::gain;
use crate::proofs::WithFigures as _;
use crate::remedies::{Noted as _, advice, qdisc};

pub(super) const CAUSE: Cause = Cause {
    id: "rate-policed",
    title: "a policer drops what is sent above its rate",
    slows: Slows::Transfers,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("rate_policed.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Exchanges that are listed.
const MAX_EXCHANGES_LISTED: usize = 4;
/// Share of the policer's rate at which the sender paces: headers of the link count for some policers.
const PACED_SHARE: f64 = 0.95;
/// Segments of a transfer below which no rate is looked for, and losses that can show one: dropping
/// begins so many times.
const MIN_SEGMENTS: u64 = 64;
const MIN_LOSSES: u64 = 4;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    verdict_from_packets(evidence, hit, finding, otherwise)
}

/// A policer drops what exceeds its rate: without losses there is none, and a few losses show no rate.
fn otherwise(packets: &Packets) -> Verdict {
    if let Some(not_checked) = without_data(packets) {
        return not_checked;
    }
    let long = || packets.directions().filter(|sent| sent.data_segments >= MIN_SEGMENTS);
    let segments = long().map(|sent| sent.data_segments).fold(0, u64::saturating_add);
    let most = long().map(CapturedDirection::lost).max();
    match most {
        None => Verdict::not_checked("no transfer of 64 segments"),
        Some(0) => {
            Verdict::RuledOut(format!("policers (0 of {} lost)", count(segments, "segment")))
        }
        Some(lost) if lost < MIN_LOSSES => Verdict::Undecided {
            needs: format!("a longer transfer: {} show no rate", count(lost, "loss")),
            sources: vec![Source::Packets],
            how_to_observe: Some(capture_again(packets)),
        },
        Some(_) => Verdict::RuledOut(format!(
            "policers (no rate fits the losses among {})",
            count(segments, "segment")
        )),
    }
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let sent = direction.sent();
    let is_policed = !sent.policed.is_empty() && !sent.is_mostly_reordered();
    is_policed.then(|| sent.time_us(TimeCategory::Loss))
}

/// The rate that most of the exchanges agree on, bits per second.
fn common(group: &Group<'_>) -> Option<u64> {
    let exchanges = group.directions.iter().flat_map(|direction| &direction.sent().policed);
    let mut rates: Vec<u64> = exchanges.filter_map(|exchange| exchange.rate_bps).collect();
    rates.sort_unstable();
    rates.get(rates.len() / 2).copied()
}

/// Streams that share the bucket.
fn sharing(group: &Group<'_>) -> u64 {
    let policed = group.directions.iter().flat_map(|direction| &direction.sent().policed);
    policed.map(|exchange| exchange.other_streams).max().unwrap_or(0).saturating_add(1)
}

fn exchange_text(exchange: &PolicedExchange) -> String {
    let at = match exchange.rate_bps {
        Some(bps) => bit_rate(bps as f64),
        None => {
            format!(
                "{} to {}",
                bit_rate(exchange.min_rate_bps as f64),
                bit_rate(exchange.max_rate_bps as f64)
            )
        }
    };
    let shared = match exchange.other_streams {
        0 => String::new(),
        others => format!(" shared with {}", count(others, "other stream")),
    };
    format!(
        "exchange {}: {at}{shared}, bucket {}; {} of {} dropped in {}",
        number(exchange.exchange),
        bytes(exchange.bucket_bytes),
        number(exchange.lost),
        count(exchange.lost.saturating_add(exchange.passed), "packet"),
        micros(exchange.duration_us),
    )
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let policed = &direction.sent().policed;
    let mut lines: Vec<String> =
        policed.iter().take(MAX_EXCHANGES_LISTED).map(exchange_text).collect();
    if let Some(more) = policed.len().checked_sub(MAX_EXCHANGES_LISTED).filter(|more| *more > 0) {
        lines.push(format!("and {} more", count(more as u64, "exchange")));
    }
    let lost = group
        .directions
        .iter()
        .flat_map(|direction| &direction.sent().policed)
        .map(|exchange| exchange.lost)
        .fold(0, u64::saturating_add);
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
        Some(bps) => format!("A policer on the path drops what is above {}", bit_rate(bps as f64)),
        None => {
            let most = policed.iter().map(|exchange| exchange.bucket_bytes).max().unwrap_or(0);
            format!("A policer on the path drops bursts above {}", bytes(most))
        }
    };
    let exchanges: u64 =
        group.directions.iter().map(|direction| direction.sent().policed.len() as u64).sum();
    let all = group.exchanges();
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        title,
        &format!(
            "{} of {} policed, {} dropped",
            number(exchanges),
            count(all, "exchange"),
            count(lost, "packet")
        ),
        vec![proof],
        remedies(group, common),
    );
    finding.gain = match common {
        Some(bps) => group.gain_at(bps as f64 / sharing(group) as f64),
        None => gain::not_predictable("the rate of the policer is not known"),
    };
    finding
}

fn remedies(group: &Group<'_>, rate_bps: Option<u64>) -> Vec<Remedy> {
    let host = group.sending_host();
    let mut pace = match rate_bps.map(|bps| bps / sharing(group)) {
        Some(bps) => qdisc(
            format!("fq maxrate {:.0}kbit", bps as f64 * PACED_SHARE / 1e3),
            format!(
                "on {host}: pace {}below {} (fq maxrate, SO_MAX_PACING_RATE)",
                if sharing(group) > 1 { "each stream " } else { "" },
                bit_rate(bps as f64)
            ),
        ),
        None => advice(format!("on {host}: pacing (SO_MAX_PACING_RATE)")),
    };
    pace.reaches = Reach::NewConnections;
    pace.host = Some(host);
    if !group.worst().is_within_one_host() {
        pace = pace.noted("or bbr, which paces by what passes");
    }
    vec![pace, advice("operator of the policer: a higher rate, or a shaper with a queue")]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![policed(Some(1_500_000)), policed(None)]
    }

    fn exchange(rate_bps: Option<u64>) -> PolicedExchange {
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
            other_streams: 0,
        }
    }

    fn policed(rate_bps: Option<u64>) -> Evidence {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        stream.from_server.policed = vec![exchange(rate_bps)];
        evidence
    }

    #[test]
    fn fires_with_the_rate_and_the_bucket() {
        let finding = &findings_of(rule(&policed(Some(1_500_000))))[0];
        assert_eq!(finding.title, "A policer on the path drops what is above 1.5 Mbit/s");
        assert!(finding.evidence[0].text.contains("exchange 2: 1.5 Mbit/s, bucket 98 KiB; 40 of"));
        let finding = &findings_of(rule(&policed(None)))[0];
        assert_eq!(finding.title, "A policer on the path drops bursts above 98 KiB");
        assert!(finding.evidence[0].text.contains("exchange 2: 1.48 Mbit/s to 1.52 Mbit/s"));
    }

    #[test]
    fn streams_that_share_the_bucket_share_its_rate() {
        let mut evidence = policed(Some(1_500_000));
        let packets = evidence.packets.as_mut().unwrap();
        packets.worst[0].from_server.policed[0].other_streams = 2;
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.title, "A policer on the path drops what is above 1.5 Mbit/s");
        let text = &finding.evidence[0].text;
        assert!(text.contains("1.5 Mbit/s shared with 2 other streams, bucket"), "{text}");
        let pace = &finding.remedies[0].text;
        assert!(pace.contains("pace each stream below 500 kbit/s"), "{pace}");
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
    fn stays_quiet_where_segments_were_late() {
        let mut evidence = examples().remove(0);
        let packets = evidence.packets.as_mut().unwrap();
        for sent in packets.worst.iter_mut().map(|stream| &mut stream.from_server) {
            sent.late_originals = 100;
        }
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
