//! # locally-shaped
//!
//! ## What happens
//!
//! The sender's own host holds a transfer to a rate: a shaper on its device (tbf,
//! htb, a hypervisor's limit), a pacing rate of the socket
//! (`SO_MAX_PACING_RATE`), or a limit of the process itself. The path would carry
//! more, and nothing is lost.
//!
//! ## Evidence
//!
//! Packets that were captured near the sender: for seconds, each interval holds as
//! much as the others, all segments are full, and no acknowledgement releases what
//! is sent. The round trip stays as short as it was: no queue fills on the path.
//! (What waits in the sender's queueing discipline is captured when it leaves it.)
//!
//! ## Threshold
//!
//! Four seconds, forty intervals, and half of the sending time. An interval is a
//! round trip or more, and 16 segments or more; it deviates by no more than a tenth
//! from those before it (one in 32 may). It takes two round trips at most, unless
//! fewer than two segments are sent in one: bbr sends a quarter more for one round
//! trip in eight, and that must not be lost in it. Where 16 segments would take
//! longer, three suffice. Of the departures after a pause,
//! no more than three quarters come within 100 µs of an acknowledgement (and of the
//! way to the sender), or after a pause no longer than twice that. In no more than
//! a quarter of the intervals a pause follows a segment that is not full, or an
//! answer: messages of one size that come evenly are no pace. The mean round trip
//! is no more than half longer than the shortest, or 1 ms. The transfer lost
//! nothing until then.
//!
//! It is `info`: packets do not show whether the rate is meant.
//!
//! ## Looks like it, but is not
//!
//! - rate-shaped: a queue on the path; round trips become longer.
//! - application-limited: the process has nothing to send; what it sends ends with
//!   a segment that is not full. (A process that writes as evenly as a shaper, and
//!   leaves it to the kernel to fill segments, looks the same.)
//! - bbr at the rate of the slowest link: it tries again and again whether more
//!   passes.
//! - A slow link between the sender and the capture point shows the same. At the
//!   sender there is none.
//!
//! ## Check by hand
//!
//! ```sh
//! # on the sender: overlimits of a shaper; pacing_rate of the connection
//! tc -s qdisc show
//! ss -tin dst HOST
//! # bytes in each tenth of a second
//! tshark -r FILE -q -z io,stat,0.1,tcp
//! ```
//!
//! ## Fix
//!
//! If it is not meant: delete the shaper or raise its rate, or remove the limit
//! from the application's configuration.
//!
//! ## Expected gain
//!
//! The rate of a transfer: the rate at which the path delivers a flight (model
//! «next limit»). Not predictable where no flight was faster than the pace, as is
//! usual: then nothing shows what the path would carry.
//!
//! ## References
//!
//! - tc-tbf(8), tc-htb(8), tc-fq(8); socket(7), `SO_MAX_PACING_RATE`
//! - Cardwell et al.: BBR: congestion-based congestion control (CACM 2017)

use model::{EvenPace, Evidence, Finding, Severity, Source};
use text::{bit_rate, bytes, count, micros, percent, share};

use crate::captured::{Group, StreamDirection, verdict_from_packets, window_limit, without_data};
use crate::cause::{Cause, Slows, Verdict};
use crate::gain;
use crate::proofs::WithFigures as _;
use crate::remedies::advice_about;
use crate::words::title;

pub(super) const CAUSE: Cause = Cause {
    id: "locally-shaped",
    title: "the sender's own host holds a transfer to a rate",
    slows: Slows::Transfers,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("locally_shaped.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Share of the sending time in which the pace was kept.
const MIN_TIME_SHARE: f64 = 0.5;
/// The mean round trip is no more than so much longer than the shortest; microseconds.
const MAX_QUEUE_PART: u64 = 2;
const MIN_QUEUE_US: u64 = 1_000;
/// Bytes of a transfer that can show it.
const MIN_BYTES: u64 = 1_000_000;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    verdict_from_packets(evidence, hit, finding, |packets| {
        let all = packets.worst.iter().flat_map(StreamDirection::both);
        let near = all.filter(|one| one.sent().new_bytes >= MIN_BYTES && one.is_near_sender());
        match near.count() as u64 {
            0 => without_data(packets).unwrap_or_else(|| {
                Verdict::not_checked("no transfer of 1 MB was captured near its sender")
            }),
            transfers => Verdict::RuledOut(format!(
                "pacing (no even pace in {})",
                count(transfers, "transfer")
            )),
        }
    })
}

/// How long the pace was kept, microseconds.
fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let sent = direction.sent();
    let pace = sent.even_pace?;
    let part = share(pace.duration_us as f64, direction.sending_us() as f64);
    let is_flat = sent.round_trip.is_none_or(|trips| {
        trips.mean_us.saturating_sub(trips.min_us)
            <= (trips.min_us / MAX_QUEUE_PART).max(MIN_QUEUE_US)
    });
    (part >= MIN_TIME_SHARE && is_flat && !direction.is_within_one_host())
        .then_some(pace.duration_us)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let pace = direction.sent().even_pace.unwrap_or_default();
    let EvenPace { rate_bps, duration_us, intervals, departures, released, .. } = pace;
    let rate = bit_rate(rate_bps as f64);
    let text = format!(
        "stream {}: {rate} for {}, even in {}; {} of the departures follow an acknowledgement, \
         segments are full, nothing was lost",
        direction.stream.number,
        micros(duration_us),
        count(intervals, "interval"),
        percent(share(released as f64, departures as f64)),
    );
    let proof = group
        .proof(evidence, "proof", text)
        .over_window(evidence, "rate", rate_bps as f64, "bit/s")
        .over_window(evidence, "intervals", intervals as f64, "intervals");
    let mut proofs = vec![proof];
    if let Some(trips) = direction.sent().round_trip {
        let text = format!(
            "round trips: shortest {}, {} on average: no queue on the path",
            micros(trips.min_us),
            micros(trips.mean_us)
        );
        proofs.push(group.proof(evidence, "why", text));
    }
    let (sender, host) = (group.sender(), group.sending_host());
    let remedy = format!(
        "on {host}: find what holds the rate, and whether it is meant: tc -s qdisc show (overlimits), \
         ss -tin (pacing_rate), a limit of the application"
    );
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        title(
            format!("{sender} keeps to an even {rate} by itself"),
            "A sender keeps to an even rate by itself",
        ),
        &format!("{} took {} at this rate", bytes(pace.bytes), group.lost_text()),
        proofs,
        vec![advice_about(&host, remedy)],
    );
    // It may be meant.
    finding.severity = Severity::Info;
    finding.gain = group.gain_of_transfers(window_limit).unwrap_or_else(gain::path_is_not_known);
    finding.subject.name = format!("{sender} (sender) · {}", finding.subject.name);
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use model::TimeCategory;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source, set_time};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![paced(8_000_000, 40_500)]
    }

    /// A pace of 5 Mbit/s for so long, and a mean round trip, where the shortest takes 40 ms;
    /// microseconds.
    fn paced(duration_us: u64, mean_us: u64) -> Evidence {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        sent.new_bytes = 5_000_000;
        sent.even_pace = Some(EvenPace {
            rate_bps: 5_000_000,
            bytes: 5_000_000,
            duration_us,
            intervals: 180,
            departures: 3_400,
            released: 136,
        });
        let trips = sent.round_trip.get_or_insert_default();
        (trips.min_us, trips.mean_us) = (40_000, mean_us);
        set_time(sent, TimeCategory::Network, 9_000_000);
        evidence
    }

    #[test]
    fn fires_for_a_pace_that_was_kept() {
        let finding = &findings_of(rule(&examples()[0]))[0];
        assert_eq!(finding.title, "198.18.0.2:80 keeps to an even 5 Mbit/s by itself");
        assert_eq!((finding.impact.amount, finding.severity), (8.0, Severity::Info));
        let text = &finding.evidence[0].text;
        assert!(text.contains("5 Mbit/s for 8.0 s, even in 180 intervals; 4.0 %"), "{text}");
    }

    #[test]
    fn stays_quiet_for_a_part_of_the_time_and_for_a_queue() {
        assert!(matches!(rule(&paced(4_100_000, 40_500)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&paced(8_000_000, 61_000)), Verdict::RuledOut(_)));
        let mut evidence = examples().remove(0);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.client.set_ip(stream.server.ip());
        assert!(!matches!(rule(&evidence), Verdict::Found(_)));
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        assert!(matches!(CAUSE.judge(&evidence), Verdict::Undecided { .. }));
    }

    #[test]
    fn far_from_the_sender_nothing_is_checked() {
        let mut evidence = paced(8_000_000, 40_500);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        stream.from_server.even_pace = None;
        stream.from_client.new_bytes = 500;
        (stream.to_client_us, stream.to_server_us) = (Some(50), Some(40_000));
        assert!(matches!(rule(&evidence), Verdict::NotChecked(_)));
    }
}
