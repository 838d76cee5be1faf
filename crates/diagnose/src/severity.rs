//! ## How severe a finding is
//!
//! A share alone says little: a single acknowledgement that is 40 ms late can take most of a connection
//! that lived for 50 ms, and nobody noticed. Findings that cost time are judged by the share of the
//! active time and by the time itself:
//!
//! | severity | share of the active time | time lost in all |
//! |---|---|---|
//! | critical | 10 % or more | 1 s or more |
//! | warning | 1 % or more | 1 s or more |
//! | info | | anything less |
//!
//! People are interrupted by a wait of 1 s (Nielsen: Usability Engineering, 1993, section 5.5). The active
//! time of a connection is all but its idle periods.
//!
//! Where operations failed, their share decides: see the page of the cause.

use model::Severity;

/// Time in all that interrupts, microseconds.
const MIN_LOST_US: u64 = 1_000_000;
/// Shares of the active time: of what counts at all, and of what dominates.
const MIN_SHARE: f64 = 0.01;
const MIN_SHARE_DOMINANT: f64 = 0.1;

/// Severity of time that was lost, microseconds; `share` of the active time.
pub(crate) fn of_lost_time(lost_us: u64, share: f64) -> Severity {
    match share {
        _ if lost_us < MIN_LOST_US => Severity::Info,
        MIN_SHARE_DOMINANT.. => Severity::Critical,
        MIN_SHARE.. => Severity::Warning,
        _ => Severity::Info,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_share_nor_a_time_alone_makes_it_severe() {
        assert_eq!(of_lost_time(44_000, 0.96), Severity::Info, "one late acknowledgement");
        assert_eq!(of_lost_time(60_000_000, 0.001), Severity::Info, "a minute in a day");
        assert_eq!(of_lost_time(4_000_000, 0.05), Severity::Warning);
        assert_eq!(of_lost_time(4_000_000, 0.5), Severity::Critical);
        assert_eq!(of_lost_time(4_000_000, f64::NAN), Severity::Info);
    }
}
