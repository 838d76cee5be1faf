//! Idle periods of a stream.

use model::Side;
use wire::packet::tcp::{Flags, Tcp};

use super::state::{Stream, StreamState};
use crate::idle_period::MIN_IDLE;
use crate::sequence::Sequence;
use crate::time::Nanos;

impl Stream {
    /// Takes a packet after an idle time, or of a stream that had one; `before` is the time of the
    /// packet before.
    #[cold]
    pub(super) fn take_idle_period(&mut self, side: Side, tcp: &Tcp<'_>, before: Nanos, at: Nanos) {
        let flags = tcp.flags;
        let idle_periods = self.idle_periods.get_or_insert_default();
        if idle_periods.is_unanswered() {
            // Who does not know the connection acknowledges nothing (RFC 9293, 3.5.2): a reset that
            // acknowledges the newest data is the peer's own, which knows it.
            let newest = self.ends.get(side.other()).sent.next_sequence().map(Sequence::header);
            let is_own = flags.all(Flags::ACK) && newest == Some(tcp.acknowledgement);
            idle_periods.packet(side, flags.all(Flags::RST) && !is_own);
        } else if at.saturating_sub(before) >= MIN_IDLE
            // Neither end waited for anything, and both may go on.
            && self.ends.iter().all(|end| end.sent.in_flight() == 0 && !end.sent.finished)
            && self.ends.get(side.other()).sent.counts.packets > 0
            && self.state == StreamState::Open
            && !flags.all(Flags::SYN)
            && !flags.all(Flags::RST)
        {
            idle_periods.ended_by(side, before, at);
        }
    }
}
