//! Which refusals a server reports: the first ones of each minute, and how many more there were.

use std::time::{Duration, Instant};

use super::event::Event;

/// Refusals are counted for this long.
const PERIOD: Duration = Duration::from_secs(60);
/// Most refusals in it that are reported one by one.
const MAX_REPORTED: u64 = 10;

/// The refusals of a period.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// When its first refusal was.
    since: Option<Instant>,
    count: u64,
}

impl Refusals {
    /// Reports these events.
    pub(super) fn report(
        &mut self,
        events: &mut dyn Iterator<Item = Event>,
        now: Instant,
        report: &mut dyn FnMut(Event),
    ) {
        if self.since.is_some_and(|since| now.saturating_duration_since(since) >= PERIOD) {
            self.finish(now, report);
        }
        for event in events {
            if matches!(event, Event::Refused(..)) {
                self.since.get_or_insert(now);
                self.count += 1;
                if self.count > MAX_REPORTED {
                    continue;
                }
            }
            report(event);
        }
    }

    /// Ends the period.
    pub(super) fn finish(&mut self, now: Instant, report: &mut dyn FnMut(Event)) {
        let Refusals { since, count } = std::mem::take(self);
        if let (Some(since), 1..) = (since, count.saturating_sub(MAX_REPORTED)) {
            let time = now.saturating_duration_since(since);
            report(Event::RefusedMore(count - MAX_REPORTED, time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_refusals_a_minute_are_reported_and_the_others_counted() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let refused = Event::Refused("198.18.0.1:9".parse().unwrap(), "no".to_string());
        let mut reported = Vec::new();
        let mut at = |seconds: u64, count: usize| {
            let mut events = std::iter::repeat_n(refused.clone(), count);
            let now = start + Duration::from_secs(seconds);
            refusals.report(&mut events, now, &mut |event| reported.push(event));
        };
        for seconds in [0, 20, 59] {
            at(seconds, 100);
        }
        at(60, 0);
        at(90, 3);
        refusals.finish(start + Duration::from_secs(95), &mut |event| reported.push(event));
        assert_eq!(reported.len(), 10 + 1 + 3);
        assert_eq!(reported[10], Event::RefusedMore(290, Duration::from_secs(60)));
    }
}
