//! ## How severe a finding is
//!
//! A share alone says little: a single acknowledgement that is 40 ms late can take most of a connection
//! that lived for 50 ms, and nobody noticed. Findings that cost time are judged by the share of the
//! active time and by the time itself:
//!
//! | severity | share of the active time | time lost |
//! |---|---|---|
//! | critical | 10 % or more | 1 s or more in all |
//! | warning | 1 % or more | 1 s or more in all |
//! | warning | 10 % or more | 100 ms or more for each connection or transfer that was hit |
//! | info | | anything less |
//!
//! People do not notice less than 100 ms, and are interrupted by 1 s (Nielsen: Usability Engineering,
//! 1993, section 5.5). The active time of a connection is all but its idle periods.
//!
//! Where operations failed, their share decides: see the page of the cause.

use model::Severity;

/// What is noticed: one wait, and time in all, microseconds.
const NOTICED_US: u64 = 100_000;
const MIN_LOST_US: u64 = 1_000_000;
/// Shares of the active time: of what counts at all, and of what dominates.
const MIN_SHARE: f64 = 0.01;
const MIN_SHARE_DOMINANT: f64 = 0.1;

/// Severity of time that was lost, microseconds, by so many connections or transfers; `share` of their
/// active time.
pub(crate) fn of_lost_time(lost_us: u64, hit: u64, share: f64) -> Severity {
    let dominates = share >= MIN_SHARE_DOMINANT;
    let long = lost_us >= MIN_LOST_US;
    let noticed_each = lost_us / hit.max(1) >= NOTICED_US;
    if long && dominates {
        Severity::Critical
    } else if (long && share >= MIN_SHARE) || (noticed_each && dominates) {
        Severity::Warning
    } else {
        Severity::Info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_share_nor_a_time_alone_makes_it_severe() {
        let of = |lost_ms: u64, hit: u64, share: f64| of_lost_time(lost_ms * 1000, hit, share);
        assert_eq!(of(44, 1, 0.96), Severity::Info, "one late acknowledgement");
        assert_eq!(of(60_000, 10, 0.001), Severity::Info, "a minute in a day");
        assert_eq!(of(300, 1, 0.3), Severity::Warning);
        assert_eq!(of(300, 6, 0.3), Severity::Info, "50 ms each");
        assert_eq!(of(4_000, 100, 0.05), Severity::Warning, "40 ms each, again and again");
        assert_eq!(of(4_000, 100, 0.5), Severity::Critical);
    }
}
