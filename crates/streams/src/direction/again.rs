//! Data that comes again, or late, or was acknowledged before it was seen: why?

use wire::packet::tcp::Tcp;

use super::{DUPLICATES, Direction, Kind};
use crate::Nanos;
use crate::holes::{Filled, Hole};
use crate::sequence::Sequence;

/// Shortest time in which a repeated segment can have been asked for: below, the network or the
/// capture has shuffled segments.
const SHUFFLED: Nanos = 3_000_000;

impl Direction {
    /// Data was acknowledged that was not seen: the capture lost it, or has it behind this packet.
    #[cold]
    pub(super) fn unseen(&mut self, to: Sequence, at: Nanos) {
        self.holes.get_or_insert_default().widen(Hole {
            from: self.next,
            to,
            since: at,
            stamp: None,
        });
        self.next = to;
    }

    /// Data at or before what is expected: why does it come now? And how many of its bytes were
    /// missing.
    pub(super) fn again(
        &mut self,
        from: Sequence,
        to: Sequence,
        tcp: &Tcp<'_>,
        at: Nanos,
    ) -> (Kind, u64) {
        let stamp = tcp.time_stamps().map(|(value, _)| value);
        // Its receiver has it: the acknowledgement came too late, or was lost behind this place.
        self.needless = to <= self.acknowledged;
        let filled = self.holes.as_mut().and_then(|holes| holes.fill(from, to));
        if let Some(Filled { since, missing, stamp: next }) = filled {
            let late = match stamp.zip(next).map(|(own, next)| own.wrapping_sub(next).cast_signed())
            {
                // Its stamp tells whether it was sent before what follows it, or with it.
                Some(stamped) => stamped <= 0,
                None => {
                    let quick = SHUFFLED.max(self.round_trip.least().unwrap_or(0) / 4);
                    at - since < quick && self.duplicates < DUPLICATES
                }
            };
            if at < since || (late && self.needless) {
                // It passed before what follows it, or what acknowledges it, and was captured after.
                return (Kind::New, missing);
            }
            if late {
                return (Kind::Reordered, missing);
            }
            if self.needless {
                self.counts.acknowledged_before += 1;
                return (Kind::RepeatedUnseen, missing);
            }
            self.round_trip.repeated(to);
            self.trouble.get_or_insert_default().repaired(from, to, stamp);
            return (Kind::RepeatedUnseen, missing);
        }
        if let Some(trouble) = &mut self.trouble
            && trouble.was_late(from, to, stamp)
        {
            // What was sent again to fill a hole came first: this is what was late.
            self.counts.unseen = self.counts.unseen.saturating_sub(1);
            self.counts.late_originals += 1;
            return (Kind::Reordered, 0);
        }
        let silence = self.last_data.get().map_or(0, |last| at - last);
        let timeout = silence >= self.round_trip.timeout().min(1_000_000_000);
        if self.needless {
            self.counts.acknowledged_before += 1;
            return (if timeout { Kind::RepeatedTimeout } else { Kind::Repeated }, 0);
        }
        self.round_trip.repeated(to);
        self.sizes.again(from, to);
        let trouble = self.trouble.get_or_insert_default();
        if trouble.refused.is_some_and(|(first, last)| from >= first && from < last) {
            // Its receiver had no room for it and dropped it: nothing was lost on the way.
            return (Kind::WindowProbe, 0);
        }
        let asked = from <= self.acknowledged && self.duplicates >= DUPLICATES;
        trouble.repair = asked.then_some((to, at));
        let kind = if asked {
            Kind::RepeatedFast
        } else if timeout {
            let (segment, times) = trouble.timeouts;
            let times = if segment == from { times.saturating_add(1) } else { 1 };
            trouble.timeouts = (from, times);
            trouble.most_timeouts = trouble.most_timeouts.max((times, to.since(from) as u32));
            Kind::RepeatedTimeout
        } else {
            Kind::Repeated
        };
        (kind, 0)
    }
}
