//! ## What fixing a cause is expected to give
//!
//! A finding has an expected gain: a figure that users feel, as it is now and as it would be without this
//! one cause, with the range that the model allows. Each page says which model its cause has. These are
//! the models:
//!
//! | model | what is predicted | assumption |
//! |---|---|---|
//! | difference | the mean time of an exchange, less the time that the cause took | everything else takes as long as before, give or take a quarter; an exchange takes at least a round trip |
//! | next limit | a transfer's rate: the least of the limits that remain (the window over the round trip, the rate at which the path delivers) | the path delivers a flight's segments as far apart as its slowest link sends them (Keshav 1991; Dovrolis and others 2001); loss limits what remains as Padhye and others (1998) say |
//! | token bucket | the rate of the bucket (fluid model) | the bucket's rate stays |
//! | queue | a round trip without the queue | the sender keeps the queue short |
//! | dropped SYNs | the delay of a connection that lost SYNs: 1 s, 1 s, 1 s, 1 s, 2 s, 4 s (RFC 6298, tcp_syn_linear_timeouts) | SYNs are dropped independently |
//! | failures | none | of N operations without a failure up to 3 / N may fail all the same (rule of three, 95 %) |
//! | pool | the rate of requests: a worker for each request that waits (Little 1961) | neither the CPU nor what the workers wait for is the next limit |
//!
//! Where the evidence does not hold what the model needs, the gain is «not predictable», with the reason.

use std::net::SocketAddr;

use model::{CombinedGain, ExpectedGain, Finding, GainFigure, PredictedGain};

/// What remains without a cause varies by so much, share.
const VARIES: f64 = 0.25;
/// With none of N failed, at most so many of N fail (95 %).
const RULE_OF_THREE: f64 = 3.0;
/// Exchange times that differ by no more than this factor are of the same exchanges.
const MAX_SAME_EXCHANGES: f64 = 1.25;
/// Seconds until each retransmission of a SYN.
const SYN_TIMEOUTS_S: [f64; 6] = [1.0, 1.0, 1.0, 1.0, 2.0, 4.0];

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

/// Failures: so many of all failed.
pub(crate) fn of_failures(figure: GainFigure, failed: f64, all: f64) -> ExpectedGain {
    let now = text::share(failed, all).min(1.0);
    predicted(figure, now, 0.0, (0.0, text::share(RULE_OF_THREE, all).min(now)))
}

/// Dropped SYNs: so many of all SYNs were.
pub(crate) fn of_dropped_syns(dropped: f64, passed: f64) -> ExpectedGain {
    let share = text::share(dropped, dropped + passed);
    // Of the connections that lost a SYN, those that lost no more open after the first timeout.
    let delay_s: f64 = SYN_TIMEOUTS_S
        .iter()
        .scan(1.0, |still_waiting, timeout| {
            let waits = *still_waiting * timeout;
            *still_waiting *= share;
            Some(waits)
        })
        .sum();
    predicted(GainFigure::OpeningDelay, delay_s * 1e3, 0.0, (0.0, 0.0))
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
        None => not_predictable("the rate of the path is not known: nothing filled it"),
    }
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
        assert_eq!(gain(&of_dropped_syns(10.0, 1e9)).now.round(), 1_000.0);
        // Half are dropped: of those hit, one in two again.
        assert_eq!(
            gain(&of_dropped_syns(10.0, 10.0)).now,
            1_000.0 * (1.0 + 0.5 + 0.25 + 0.125 + 0.125 + 0.125)
        );
        assert!(gain(&of_dropped_syns(10.0, 0.0)).now <= 10_000.0);
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
