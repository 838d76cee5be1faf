//! ## What fixing a cause is expected to give
//!
//! A finding has an expected gain: a figure that users feel, as it is now and as it would be without this
//! one cause, with the range that the model allows. Each page says which model its cause has. These are
//! the models:
//!
//! | model | what is predicted | assumption |
//! |---|---|---|
//! | difference | the mean time of an exchange, less the time that the cause took | everything else takes as long as before, give or take a quarter; an exchange takes at least a round trip |
//! | next limit | a transfer's rate: the least of the limits that remain (the window over the round trip, the rate at which the path delivers; of whole transfers also slow start, Cardwell and others 2000) | the path delivers a flight's segments as far apart as its slowest link sends them (Keshav 1991; Dovrolis and others 2001); losses limit what remains as in Reno with timeouts (Padhye and others 1998) or CUBIC (RFC 9438, section 5.1), whichever is faster |
//! | token bucket | the rate of the bucket (fluid model) | the bucket's rate stays |
//! | queue | a round trip without the queue | the sender keeps the queue short |
//! | dropped SYNs | the delay of the slowest in a hundred connections: the timeouts of the SYNs that it lost, 1 s, 1 s, 1 s, 1 s, 2 s, 4 s (RFC 6298, tcp_syn_linear_timeouts) | SYNs are dropped independently; where a listener dropped none a second after others, none twice |
//! | failures | none | of N operations without a failure up to 3 / N may fail all the same (rule of three, 95 %) |
//! | pool | the rate of requests: a worker for each request that waits (Little 1961) | neither the CPU nor what the workers wait for is the next limit |
//!
//! Where the evidence does not hold what the model needs, the gain is «not predictable», with the reason.

use std::net::SocketAddr;

use model::{CombinedGain, Evidence, ExpectedGain, Finding, GainFigure, Listener, PredictedGain};

/// What remains without a cause varies by so much, share.
const VARIES: f64 = 0.25;
/// With none of N failed, at most so many of N fail (95 %).
const RULE_OF_THREE: f64 = 3.0;
/// Exchange times that differ by no more than this factor are of the same exchanges.
const MAX_SAME_EXCHANGES: f64 = 1.25;
/// Segments that one acknowledgement covers, least retransmission timeout of Linux beyond the round trip,
/// and the factor of CUBIC's mean window with its constants C = 0.4 and β = 0.7.
const ACKED_SEGMENTS: f64 = 2.0;
const MIN_RTO_S: f64 = 0.2;
const CUBIC_FACTOR: f64 = 1.054;
/// The share of the connections whose delay is predicted.
const SLOWEST: f64 = 0.01;
/// Seconds until each retransmission of a SYN.
const SYN_TIMEOUTS_S: [f64; 6] = [1.0, 1.0, 1.0, 1.0, 2.0, 4.0];
/// Of a listener that is watched for so many seconds it is known whether it drops the same SYNs twice.
const MIN_WATCHED_S: f64 = 2.0;

/// The evidence does not predict it.
pub(crate) fn not_predictable(why: impl Into<String>) -> ExpectedGain {
    ExpectedGain::NotPredictable { why: why.into() }
}

/// A prediction; not predictable where its figures are none.
pub(crate) fn predicted(
    figure: GainFigure,
    now: f64,
    expected: f64,
    (lowest, highest): (f64, f64),
) -> ExpectedGain {
    if ![now, expected, lowest, highest].iter().all(|value| value.is_finite() && *value >= 0.0) {
        return not_predictable("its figures are not known");
    }
    let gain = PredictedGain {
        figure,
        now,
        expected,
        lowest: lowest.min(expected),
        highest: highest.max(expected),
    };
    ExpectedGain::Predicted(gain)
}

/// Difference: a time of which some was lost, and which is never shorter than another; milliseconds.
pub(crate) fn of_time(
    figure: GainFigure,
    now_ms: f64,
    lost_ms: f64,
    least_ms: f64,
) -> ExpectedGain {
    let least_ms = least_ms.min(now_ms);
    let expected = (now_ms - lost_ms).max(least_ms);
    let varies = (now_ms - expected) * VARIES;
    let lowest = (expected * (1.0 - VARIES)).max(least_ms);
    predicted(
        figure,
        now_ms,
        expected,
        (lowest, (expected * (1.0 + VARIES)).max(expected + varies)),
    )
}

/// Queue: a round trip with it, and without it, milliseconds: at least, and as it was seen.
pub(crate) fn of_queue(now_ms: f64, (least_ms, seen_ms): (f64, f64)) -> ExpectedGain {
    let highest = (seen_ms * (1.0 + VARIES)).min(now_ms);
    predicted(GainFigure::RoundTripTime, now_ms, seen_ms, (least_ms, highest))
}

/// The rate of the path was not seen.
pub(crate) fn path_is_not_known() -> ExpectedGain {
    not_predictable("the rate of the path is not known: nothing filled it, not even for a moment")
}

/// Failures: so many of all failed.
pub(crate) fn of_failures(figure: GainFigure, failed: f64, all: f64) -> ExpectedGain {
    let now = text::share(failed, all).min(1.0);
    predicted(figure, now, 0.0, (0.0, text::share(RULE_OF_THREE, all).min(now)))
}

/// Dropped SYNs: so many of all SYNs were.
pub(crate) fn of_dropped_syns(dropped: f64, passed: f64) -> ExpectedGain {
    let share = text::share(dropped, dropped + passed);
    of_syn_timeouts(timeouts_of_slowest(share, share))
}

/// The same, where this share of the connections lost a SYN, and this share of those another one, or lost it
/// again; the slowest that were seen waited so long, milliseconds.
pub(crate) fn of_repeated_drops(hit: f64, again: f64, waited_ms: f64) -> ExpectedGain {
    let least_ms = match timeouts_of_slowest(hit, again) {
        timeouts @ 2.. => syn_timeouts_s(timeouts) * 1e3,
        _ => 0.0,
    };
    of_delay(GainFigure::OpeningDelay, least_ms.max(waited_ms))
}

/// How many SYNs the slowest in a hundred connections lose, where this share loses one, and this share of
/// those one more each time.
fn timeouts_of_slowest(hit: f64, again: f64) -> usize {
    // Those that lose one more, until they are fewer than one in a hundred.
    let hits = std::iter::successors(Some(hit), |hits| Some(hits * again));
    hits.take_while(|hits| *hits >= SLOWEST).take(SYN_TIMEOUTS_S.len() - 1).count()
}

/// The same of the SYNs to a listener.
pub(crate) fn of_syns_dropped_by(
    evidence: &Evidence,
    listener: &Listener,
    dropped: f64,
    passed: f64,
) -> ExpectedGain {
    if evidence.window.seconds() >= MIN_WATCHED_S && listener.samples_dropping_again == Some(0) {
        of_syn_timeouts(1)
    } else {
        of_dropped_syns(dropped, passed)
    }
}

fn of_syn_timeouts(timeouts: usize) -> ExpectedGain {
    predicted(GainFigure::OpeningDelay, syn_timeouts_s(timeouts) * 1e3, 0.0, (0.0, 0.0))
}

/// So many timeouts, seconds; of a connection that lost a SYN, one at least.
fn syn_timeouts_s(timeouts: usize) -> f64 {
    SYN_TIMEOUTS_S.iter().take(timeouts.max(1)).sum()
}

/// Next limit: a rate that the lowest of these limits the cause apart.
pub(crate) fn of_rate(now_bps: f64, limits_bps: impl IntoIterator<Item = f64>) -> ExpectedGain {
    let known = limits_bps.into_iter().filter(|limit| limit.is_finite() && *limit > 0.0);
    match known.min_by(f64::total_cmp) {
        Some(limit) => {
            let expected = limit.max(now_bps);
            let lowest = (expected * (1.0 - VARIES)).max(now_bps);
            predicted(
                GainFigure::TransferRate,
                now_bps,
                expected,
                (lowest, expected * (1.0 + VARIES)),
            )
        }
        None => path_is_not_known(),
    }
}

/// Rate of a sender that takes losses for congestion, bits a second: that of Reno with timeouts (Padhye and
/// others 1998, equation 30) or of CUBIC (RFC 9438, section 5.1), whichever is higher. Segments of so many
/// bytes, a round trip in seconds, share of the segments that are lost.
pub(crate) fn loss_limit_bps(segment: f64, round_trip_s: f64, lost: f64) -> Option<f64> {
    if lost <= 0.0 || round_trip_s <= 0.0 || segment <= 0.0 {
        return None;
    }
    let timeout_s = round_trip_s + MIN_RTO_S;
    let fast = round_trip_s * (2.0 * ACKED_SEGMENTS * lost / 3.0).sqrt();
    let timeouts = timeout_s
        * (3.0 * (3.0 * ACKED_SEGMENTS * lost / 8.0).sqrt()).min(1.0)
        * lost
        * (1.0 + 32.0 * lost * lost);
    let reno = 1.0 / (fast + timeouts);
    let cubic = CUBIC_FACTOR * (round_trip_s / lost).powf(0.75) / round_trip_s;
    Some(reno.max(cubic) * segment * 8.0)
}

/// Difference: a delay that is gone without its cause, milliseconds.
pub(crate) fn of_delay(figure: GainFigure, delay_ms: f64) -> ExpectedGain {
    predicted(figure, delay_ms, 0.0, (0.0, delay_ms * VARIES))
}

/// Pool: so many requests a second with so many workers, and so many more wait on average.
pub(crate) fn of_more_workers(per_second: f64, workers: f64, waiting: f64) -> ExpectedGain {
    let expected = per_second * (workers + waiting) / workers;
    let varies = expected * VARIES;
    let range = ((expected - varies).max(per_second), expected + varies);
    predicted(GainFigure::RequestRate, per_second, expected, range)
}

/// What fixing all causes of the same slow exchanges gives: no moment was lost to two of them.
pub(crate) fn together(findings: &[Finding]) -> Vec<CombinedGain> {
    let of_exchanges = |finding: &Finding| -> Option<(SocketAddr, String, PredictedGain)> {
        let gain = *finding.gain.predicted()?;
        let service = finding.subject.local?;
        (gain.figure == GainFigure::ExchangeTime).then(|| (service, finding.cause.clone(), gain))
    };
    let mut all: Vec<(SocketAddr, Vec<String>, PredictedGain)> = Vec::new();
    for (service, cause, gain) in findings.iter().filter_map(of_exchanges) {
        let same = |now: f64| now.max(gain.now) <= now.min(gain.now) * MAX_SAME_EXCHANGES;
        match all.iter_mut().find(|(known, _, sum)| *known == service && same(sum.now)) {
            Some((_, causes, sum)) => {
                causes.push(cause);
                let saved = gain.now - gain.expected;
                let varies = (sum.highest - sum.expected).max(gain.highest - gain.expected);
                sum.expected = (sum.expected - saved).max(0.0);
                sum.lowest = (sum.lowest - saved).max(0.0).min(sum.expected);
                sum.highest = sum.expected + varies;
            }
            None => all.push((service, vec![cause], gain)),
        }
    }
    let several = all.into_iter().filter(|(_, causes, _)| causes.len() > 1);
    several
        .map(|(service, causes, gain)| CombinedGain { service: service.to_string(), causes, gain })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::finding;
    use model::SubjectKind;

    fn gain(one: &ExpectedGain) -> PredictedGain {
        *one.predicted().unwrap()
    }

    #[test]
    fn a_time_without_its_cause_is_the_difference_and_at_least_a_round_trip() {
        let of = |now, lost, least| gain(&of_time(GainFigure::ExchangeTime, now, lost, least));
        assert_eq!(of(44.0, 40.0, 0.2).expected, 4.0);
        assert_eq!(of(44.0, 43.9, 10.0).expected, 10.0);
        assert_eq!(of(5.0, 9.0, 10.0).expected, 5.0, "no longer than it is now");
        let range = of(44.0, 40.0, 0.2);
        assert!(range.lowest < 4.0 && range.highest > 4.0 && range.highest < 44.0, "{range:?}");
    }

    #[test]
    fn a_dropped_syn_waits_for_its_timeouts() {
        let delay_ms = |share: f64| gain(&of_dropped_syns(share, 1.0 - share)).now;
        for (share, delay) in [(0.001, 1_000.0), (0.05, 1_000.0), (0.2, 2_000.0), (0.3, 3_000.0)] {
            assert_eq!(delay_ms(share), delay, "{share}");
        }
        assert!(delay_ms(1.0) <= 10_000.0);
    }

    #[test]
    fn what_a_short_capture_has_not_seen_the_end_of_counts_too() {
        let delay_ms = |hit, again, waited_ms| gain(&of_repeated_drops(hit, again, waited_ms)).now;
        // A quarter loses a SYN, a quarter of these another: 1.6 % lose three.
        assert_eq!(delay_ms(0.25, 0.25, 2_040.0), 3_000.0);
        assert_eq!(delay_ms(0.25, 0.0, 1_030.0), 1_030.0, "none twice");
        assert_eq!(delay_ms(0.25, 0.1, 7_000.0), 7_000.0, "other timeouts");
        assert_eq!(delay_ms(0.001, 0.0, 400.0), 400.0);
        assert!(delay_ms(1.0, 1.0, 0.0) <= 10_000.0);
    }

    #[test]
    fn a_listener_that_drops_for_less_than_a_second_drops_no_syn_twice() {
        let mut evidence = crate::fixtures::healthy();
        let listener =
            crate::fixtures::add_listener(&mut evidence, "0.0.0.0:80", 128, &[7]).clone();
        let delay_ms = |again, duration_ms| {
            let listener = Listener { samples_dropping_again: again, ..listener.clone() };
            let mut evidence = evidence.clone();
            evidence.window.duration_ms = duration_ms;
            gain(&of_syns_dropped_by(&evidence, &listener, 3.0, 7.0)).now
        };
        assert_eq!(delay_ms(Some(0), 3_000), 1_000.0);
        assert_eq!(delay_ms(Some(2), 3_000), 3_000.0, "three in ten, again and again");
        assert_eq!(delay_ms(Some(0), 1_500), 3_000.0, "too short to tell");
        assert_eq!(delay_ms(None, 3_000), 3_000.0, "not observed");
    }

    #[test]
    fn failures_stop_but_for_those_that_chance_hides() {
        let few = gain(&of_failures(GainFigure::FailedRequests, 3.0, 10.0));
        assert_eq!((few.now, few.expected, few.highest), (0.3, 0.0, 0.3));
        let many = gain(&of_failures(GainFigure::FailedRequests, 300.0, 1_000.0));
        assert_eq!(many.highest, 0.003);
    }

    #[test]
    fn the_lowest_limit_that_remains_is_the_rate() {
        let limits = [f64::NAN, 90e6, 50e6, 0.0];
        assert_eq!(gain(&of_rate(5e6, limits)).expected, 50e6);
        assert_eq!(gain(&of_rate(60e6, limits)).expected, 60e6, "no slower than it is now");
        assert!(of_rate(5e6, []).predicted().is_none());
    }

    #[test]
    fn losses_limit_a_rate_as_the_papers_say() {
        let rate = |lost| loss_limit_bps(1448.0, 0.1, lost).unwrap();
        // Mathis and others 1997: MSS / R * sqrt(3 / (2 * b * p)), without timeouts.
        let mathis = |lost: f64| 1448.0 * 8.0 / 0.1 * (1.5 / (2.0 * lost)).sqrt();
        assert!(rate(1e-2) < mathis(1e-2) && rate(1e-2) > mathis(1e-2) / 2.0);
        assert!(rate(1e-5) > mathis(1e-5), "CUBIC on a long path");
        assert!(rate(0.2) < 1448.0 * 8.0 / 0.1, "less than a segment a round trip");
        assert_eq!(loss_limit_bps(1448.0, 0.1, 0.0), None);
    }

    #[test]
    fn workers_for_those_who_wait() {
        let more = gain(&of_more_workers(100.0, 5.0, 15.0));
        assert_eq!((more.now, more.expected), (100.0, 400.0));
        assert!(of_more_workers(100.0, 0.0, 15.0).predicted().is_none());
    }

    #[test]
    fn causes_of_the_same_exchanges_save_their_sum() {
        let of = |cause: &str, service: &str, now: f64, expected: f64| {
            let mut one = finding(cause, SubjectKind::Connection, &[], Some(service), None);
            one.gain = of_time(GainFigure::ExchangeTime, now, now - expected, 0.0);
            one
        };
        let all = together(&[
            of("a", "198.18.0.1:80", 100.0, 60.0),
            of("b", "198.18.0.1:80", 100.0, 50.0),
            of("c", "198.18.0.1:80", 300.0, 50.0),
            of("d", "198.18.0.1:81", 100.0, 50.0),
        ]);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!((all[0].causes.join(" "), all[0].gain.expected), ("a b".to_string(), 10.0));
    }
}
