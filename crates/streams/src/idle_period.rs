//! Idle periods of a stream, and whether it survived them: middleboxes forget connections of which
//! they have not seen a packet for a while.

use model::Side;

use crate::time::Nanos;

/// Shorter times without a packet are no idle period.
pub(crate) const MIN_IDLE: Nanos = 3_000_000_000;
/// Packets without a response before the connection counts as lost.
const MIN_UNANSWERED_PACKETS: u32 = 3;

/// Idle periods of a stream.
#[derive(Debug, Clone, Default)]
pub struct IdlePeriods {
    /// The longest after which both ends sent packets.
    pub longest_survived: Nanos,
    /// The one after which the stream was lost.
    pub fatal: Option<FatalIdlePeriod>,
    /// The one that has just ended.
    unanswered: Option<Unanswered>,
}

/// An idle period after which one end sent packets that never reached the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FatalIdlePeriod {
    /// When it began.
    pub began: Nanos,
    /// How long it was.
    pub duration: Nanos,
    /// The end that sent first after it.
    pub first_sender: Side,
    /// Whether a reset came back; if not, nothing did.
    pub reset: bool,
}

/// An idle period that one end has ended, while the other one has not answered yet.
#[derive(Debug, Clone, Copy)]
struct Unanswered {
    began: Nanos,
    ended: Nanos,
    first_sender: Side,
    packets: u32,
}

impl Unanswered {
    fn duration(&self) -> Nanos {
        self.ended.saturating_sub(self.began)
    }

    fn fatal(&self, reset: bool) -> FatalIdlePeriod {
        let Unanswered { began, first_sender, .. } = *self;
        FatalIdlePeriod { began, duration: self.duration(), first_sender, reset }
    }
}

impl IdlePeriods {
    /// Whether an end waits for an answer after an idle period.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered.is_some()
    }

    /// One end ends an idle period, in which nothing was in flight.
    pub(crate) fn ended_by(&mut self, first_sender: Side, began: Nanos, ended: Nanos) {
        self.unanswered = Some(Unanswered { began, ended, first_sender, packets: 1 });
    }

    /// A packet after the one that ended the idle period.
    pub(crate) fn packet(&mut self, side: Side, is_reset: bool) {
        let Some(period) = &mut self.unanswered else { return };
        if period.first_sender == side {
            period.packets = period.packets.saturating_add(1);
            return;
        }
        if is_reset {
            self.fatal = Some(period.fatal(true));
        } else {
            self.longest_survived = self.longest_survived.max(period.duration());
        }
        self.unanswered = None;
    }

    /// The stream is over.
    pub(crate) fn finish(&mut self) {
        let unanswered = self.unanswered.take();
        if let Some(period) = unanswered.filter(|period| period.packets >= MIN_UNANSWERED_PACKETS) {
            self.fatal = Some(period.fatal(false));
        }
    }

    /// The client turns out to be the server.
    pub(crate) fn swap_roles(&mut self) {
        if let Some(fatal) = &mut self.fatal {
            fatal.first_sender = fatal.first_sender.other();
        }
        if let Some(unanswered) = &mut self.unanswered {
            unanswered.first_sender = unanswered.first_sender.other();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Nanos = 1_000_000_000;

    #[test]
    fn a_reset_comes_back() {
        let mut periods = IdlePeriods::default();
        periods.ended_by(Side::Client, 10 * S, 70 * S);
        periods.packet(Side::Server, false);
        assert_eq!((periods.longest_survived, periods.fatal), (60 * S, None));
        periods.ended_by(Side::Client, 80 * S, 430 * S);
        periods.packet(Side::Server, true);
        let fatal = FatalIdlePeriod {
            began: 80 * S,
            duration: 350 * S,
            first_sender: Side::Client,
            reset: true,
        };
        assert_eq!((periods.longest_survived, periods.fatal), (60 * S, Some(fatal)));
        assert!(!periods.is_unanswered());
    }

    #[test]
    fn nothing_comes_back() {
        let mut periods = IdlePeriods::default();
        periods.ended_by(Side::Server, 0, 400 * S);
        periods.packet(Side::Server, false);
        let mut early = periods.clone();
        early.finish();
        assert_eq!(early.fatal, None, "the capture may have ended before the answer");
        periods.packet(Side::Server, false);
        periods.finish();
        assert!(periods.fatal.is_some_and(|fatal| !fatal.reset && fatal.duration == 400 * S));
    }
}
