//! # rate-shaped
//!
//! ## What happens
//!
//! A token bucket with a queue: a burst passes at full speed, then its credit is
//! used up, and what is above its rate waits. Clouds do this with their instances,
//! providers with their links. Throughput falls at one moment, and the round trip,
//! which was short, is that of a full queue from then on.
//!
//! ## Evidence
//!
//! In packets, from both ends of the path: the throughput of a bulk transfer over
//! time, and its round trip. At one step the throughput falls and stays even after
//! it, and the round trip grows: the rate is that of the bucket, and the bytes
//! above it before the step are its burst. Pauses do not count: the burst may have
//! been an earlier transfer, and a long transfer does not hide a short burst.
//! Transfers between two hosts, from one host or to one host are also judged
//! together: the sum of what they send is even, where none of them is.
//!
//! ## Threshold
//!
//! The throughput, of what is sent or of what is acknowledged, falls to 1/2.4 or
//! less (another transfer on the same link takes half), or to a third or less where
//! it was higher for less than eight round trips (slow start may exceed the rate of
//! a link for some). It deviates by at most a fifth after that. The median round
//! trip, of the rest or of the first eight intervals while the queue fills, is
//! 20 ms longer, and five times as long, or so much longer that at least half of
//! what was in flight before still is: it waits in the queue, and a sender keeps
//! half even after a loss (RFC 5681). It is 20 ms longer for at least 30 % of the
//! rest. Three intervals before the step, eight after it, of 20 ms or more and a
//! round trip or more each. Between different hosts, the round trip of each
//! stream is 20 ms longer.
//!
//! ## Looks like it, but is not
//!
//! - bufferbloat: the link was always the limit, its queue was there from the
//!   beginning.
//! - rate-policed: what is above the rate is dropped, nothing waits.
//! - Other transfers that begin on the same link: the throughput is not even.
//!
//! ## Check by hand
//!
//! ```sh
//! tshark -r FILE -q -z io,stat,0.1,tcp
//! ethtool -S DEVICE | grep allowance_exceeded   # ENA, in a cloud
//! ```
//!
//! ## Fix
//!
//! No setting gives more than is paid for: a larger instance or link; or pace below
//! the rate (`tc qdisc ... fq maxrate`, bbr), so that nothing waits in the queue,
//! and the credit comes back.
//!
//! ## Expected gain
//!
//! A round trip: that before the step, which a sender keeps that paces below the
//! rate (model «queue»). The rate itself stays.
//!
//! ## References
//!
//! - tc-tbf(8): rate, burst, latency
//! - Flach et al.: An Internet-wide analysis of traffic policing (SIGCOMM 2016)

use model::{Evidence, Finding, Reach, Source};
use text::{bit_rate, bytes, count, micros, share};

use crate::captured::{Group, StreamDirection, verdict_from_packets, without_data};
use crate::cause::{Cause, Slows, Verdict};
use crate::gain;
use crate::proofs::WithFigures as _;
use crate::remedies::{Noted as _, advice, qdisc};

pub(super) const CAUSE: Cause = Cause {
    id: "rate-shaped",
    title: "a shaper limits transfers to its rate after a burst",
    slows: Slows::Transfers,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("rate_shaped.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Share of the shaper's rate at which the sender paces, so that the queue stays empty.
const PACED_SHARE: f64 = 0.95;
/// Bytes after which a transfer's rate is compared with that before.
const MIN_BYTES: u64 = 1_000_000;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    verdict_from_packets(evidence, hit, finding, |packets| {
        let long = packets.directions().filter(|sent| sent.new_bytes >= MIN_BYTES);
        match long
            .map(|sent| sent.new_bytes)
            .fold((0, 0), |(count, sum): (u64, u64), bytes| (count + 1, sum.saturating_add(bytes)))
        {
            (0, _) => {
                without_data(packets).unwrap_or_else(|| Verdict::not_checked("no transfer of 1 MB"))
            }
            (transfers, sum) => Verdict::RuledOut(format!(
                "shapers (no step in {} of {})",
                count(transfers, "transfer"),
                bytes(sum)
            )),
        }
    })
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let shaped = direction.sent().shaped?;
    // At the rate before, as much would have passed in a part of the time.
    let kept = share(shaped.rate_bps as f64, shaped.before_bps as f64).min(1.0);
    Some((shaped.duration_us as f64 * (1.0 - kept)) as u64)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let shaped = direction.sent().shaped.unwrap_or_default();
    let (before, after) = (bit_rate(shaped.before_bps as f64), bit_rate(shaped.rate_bps as f64));
    let text = format!(
        "stream {}{}: {before} for {} and {}, then an even {after}; the round trip steps from {} to \
         {}",
        direction.stream.number,
        match shaped.other_streams {
            0 => String::new(),
            others => format!(" and {} together", count(others, "other")),
        },
        micros(shaped.after_us),
        bytes(shaped.burst_bytes),
        micros(shaped.round_trip_before_us),
        micros(shaped.round_trip_after_us),
    );
    let proof = group
        .proof(evidence, "proof", text)
        .over_window(evidence, "rate", shaped.rate_bps as f64, "bit/s")
        .over_window(evidence, "rate before", shaped.before_bps as f64, "bit/s")
        .at_moment("burst", shaped.burst_bytes as f64, "bytes");
    let (sender, receiver) = (group.sender(), group.receiver());
    let host = group.sending_host();
    let sharing = shaped.other_streams.saturating_add(1);
    let each = shaped.rate_bps as f64 / sharing as f64;
    let mut pace = qdisc(
        format!("fq maxrate {:.0}kbit", each * PACED_SHARE / 1e3),
        format!(
            "on {host}: pace {}below {} (fq maxrate, SO_MAX_PACING_RATE)",
            if sharing > 1 { "each stream " } else { "" },
            bit_rate(each)
        ),
    )
    .noted("then nothing waits in the queue, and the credit comes back; bbr paces too");
    (pace.reaches, pace.host) = (Reach::NewConnections, Some(host));
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        format!("A shaper on the path limits transfers to {after} after a burst"),
        &format!("{before} until {} had passed, {after} from then on", bytes(shaped.burst_bytes)),
        vec![proof],
        vec![advice(format!("a larger instance or link between {sender} and {receiver}")), pace],
    );
    let (before_ms, after_ms) =
        (shaped.round_trip_before_us as f64 / 1e3, shaped.round_trip_after_us as f64 / 1e3);
    finding.gain = gain::of_queue(after_ms, (before_ms, before_ms));
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use model::ShapedRate;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    fn stepped() -> Evidence {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        sent.shaped = Some(ShapedRate {
            before_bps: 200_000_000,
            rate_bps: 40_000_000,
            burst_bytes: 35 << 20,
            round_trip_before_us: 900,
            round_trip_after_us: 61_000,
            after_us: 1_800_000,
            duration_us: 4_000_000,
            other_streams: 0,
        });
        evidence
    }

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![stepped()]
    }

    #[test]
    fn fires_for_a_step_of_the_throughput() {
        let finding = &findings_of(rule(&stepped()))[0];
        let title = "A shaper on the path limits transfers to 40 Mbit/s after a burst";
        assert_eq!((&finding.title[..], finding.impact.amount), (title, 3.2));
        assert!(finding.evidence[0].text.contains("from 900 µs to 61 ms"), "{finding:?}");
    }

    #[test]
    fn streams_that_share_the_shaper_share_its_rate() {
        let mut evidence = stepped();
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.shaped.as_mut().unwrap().other_streams = 1;
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(
            finding.title,
            "A shaper on the path limits transfers to 40 Mbit/s after a burst"
        );
        let text = &finding.evidence[0].text;
        assert!(text.contains(" and 1 other together: 200 Mbit/s for"), "{text}");
        assert!(finding.remedies[1].text.contains("pace each stream below 20 Mbit/s"));
    }

    #[test]
    fn stays_quiet_without_a_step() {
        let mut evidence = healthy();
        add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
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
