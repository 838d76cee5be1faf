//! Who spent the time of a stream: each piece of data ends a time that was somebody's; and how what is
//! sent grows from round trip to round trip.

use super::{LEAST_TIMEOUT, PAUSE, SECOND, Stream};
use crate::direction::Kind;
use crate::growth::{Begin, Data, FAR, Starts};
use crate::rates::{Rates, Shaped};
use crate::stall::{Reason, Stall};
use crate::{Maybe, Nanos};
use model::TimeCategory;

/// What is this much beyond a round trip, and half of one, is more than a delay on the way.
const LATE: Nanos = 1_000_000;
/// Segments in which a header was sent before the rest.
const HEADERS: u64 = 3;

impl Stream {
    /// Data passes: gives the time since the last data to who spent it.
    #[inline]
    pub(super) fn spend(&mut self, side: usize, kind: Kind, stall: Option<&Stall>, at: Nanos) {
        let before = self.sender.replace(side);
        let own = &self.directions[side];
        let again = std::mem::take(&mut self.again);
        match kind {
            Kind::RepeatedTimeout | Kind::Repeated | Kind::RepeatedUnseen
                if own.needless && own.flight() == 0 =>
            {
                self.again = at.into();
                return;
            }
            Kind::RepeatedFast | Kind::RepeatedTimeout | Kind::Repeated | Kind::RepeatedUnseen => {
                self.budget.until(at, side, TimeCategory::Loss);
                if let Some(growth) = &mut self.growth[side] {
                    growth.ruled();
                }
                return;
            }
            Kind::WindowProbe => {
                self.budget.until(at, side, TimeCategory::ReceiverStalled);
                return;
            }
            _ => {}
        }
        if let Some(Stall { reason: Reason::DelayedAck, lasted, .. }) = stall {
            let rest = self.budget.since(at) - lasted;
            self.budget.split(at, side, (rest, TimeCategory::Network), TimeCategory::DelayedAck);
            return;
        }
        if before == Some(side) {
            // The same end goes on, perhaps when an acknowledgement has come at last.
            if let Some(again) = again.get() {
                self.budget.until(again, side, TimeCategory::Loss);
            }
            let own = &self.directions[side];
            let round_trip = own.round_trip.smoothed().unwrap_or(0);
            match own.drained.get() {
                Some(drained) => {
                    let far = self.loop_to(side).unwrap_or(0);
                    let free = drained.saturating_add(far);
                    if at.saturating_sub(free) > PAUSE.max(round_trip / 4) {
                        // Nothing was out, nothing was missing: it had nothing to send.
                        let pause = if self.turns.asker() == Some(side) {
                            TimeCategory::ClientIdle
                        } else {
                            TimeCategory::Application
                        };
                        self.sent_on(side, free);
                        self.budget.until(at, side, pause);
                        return;
                    }
                }
                None if !own.filled && self.budget.since(at) > PAUSE.max(2 * round_trip) => {
                    // Something was out, there was room, nothing came: why did it pause?
                    let pause = if own.small {
                        TimeCategory::Application
                    } else {
                        TimeCategory::Unexplained
                    };
                    self.budget.split(at, side, (round_trip, TimeCategory::Network), pause);
                    return;
                }
                None => {}
            }
            self.sent_on(side, at);
            return;
        }
        // The other end begins: to it and back, and what it thought meanwhile.
        let way = self.loop_to(side).unwrap_or(0);
        let thought = match (before, self.turns.asker()) {
            (None, _) => {
                if side == 0 {
                    TimeCategory::ClientIdle
                } else {
                    TimeCategory::ServerThink
                }
            }
            (_, Some(asker)) if asker != side => TimeCategory::ServerThink,
            _ => TimeCategory::ClientIdle,
        };
        self.budget.split(at, side, (way, TimeCategory::Network), thought);
    }

    /// The end that sent before sends on: it waited for room in the window, or for the way.
    #[inline]
    fn sent_on(&mut self, side: usize, at: Nanos) {
        if !self.directions[side].filled {
            self.budget.until(at, side, TimeCategory::Network);
            return;
        }
        let waited = self.budget.since(at);
        self.budget.until(at, side, TimeCategory::ReceiveWindow);
        let spent = self.budget.sides[side][TimeCategory::ReceiveWindow as usize];
        let window = self.directions[1 - side].largest_window;
        // Linux acknowledges nothing as long as it cannot offer more: the reader is awaited. So is it, or
        // a queue, where round trips are long: a larger window would be filled as well.
        let trip = self.loop_to(0).zip(self.loop_to(1)).map(|(there, back)| there + back);
        let own = &mut self.directions[side];
        let unread = trip.is_some_and(|trip| {
            let late = LATE.max(trip / 2);
            let [least, now] = [own.round_trip.least(), own.round_trip.smoothed()];
            waited > trip + late
                || least.zip(now).is_some_and(|(least, now)| now.saturating_sub(least) > late)
        });
        own.settled.grown(window, spent);
        if own.behind || unread {
            own.settled.leave_out(waited);
        }
    }

    /// Gives the time that is left to its parts, when the stream or the capture is over.
    pub fn finish(&mut self) {
        let stalls: Vec<Stall> = self.last_stalls().collect();
        stalls.iter().for_each(|stall| self.note(stall, 0));
        let at = self.last;
        let part = if !self.opened.is_known() && self.syn.is_known() {
            if self.refused { TimeCategory::Connect } else { TimeCategory::SynWait }
        } else if self.directions.iter().any(|direction| direction.flight() > 1) {
            TimeCategory::Unexplained
        } else if self.turns.last().is_some_and(|turn| !turn.answered.is_known() && turn.asker == 0)
        {
            TimeCategory::ServerThink
        } else {
            TimeCategory::ClientIdle
        };
        let side = usize::from(part == TimeCategory::ServerThink);
        let out = &self.directions[self.sender.unwrap_or(0)];
        let trip = out.round_trip.smoothed().unwrap_or(0);
        self.budget.split(at, side, (trip, TimeCategory::Network), part);
        self.turn_over();
        if let Some(silences) = &mut self.silences {
            silences.finish();
        }
        let last = self.turns.last();
        last.iter().for_each(|turn| self.heard(turn));
        let turn = last.map_or(0, |turn| turn.number);
        [0, 1].into_iter().for_each(|side| self.judge(side, turn));
        self.growth.iter_mut().flatten().for_each(|growth| growth.end());
    }

    /// New data of a transfer, where the way is long enough for slow start to be felt.
    #[inline]
    pub(super) fn grow(&mut self, side: usize, new: u64, last_sent: Maybe, at: Nanos, packet: u64) {
        let [Some(there), Some(back)] = [self.loop_to(0), self.loop_to(1)] else { return };
        let trip = there.saturating_add(back);
        if FAR.contains(&trip) {
            let own = &self.directions[side];
            let idle = last_sent.get().map(|last| at.saturating_sub(last));
            // Seen from the receiver, round trips are shorter than the sender knows them.
            let timeout =
                own.round_trip.timeout().min(SECOND).max(trip.saturating_add(LEAST_TIMEOUT));
            let segment = own.segment();
            // Short questions and answers have no slow start.
            if self.growth[side].is_some() || new >= u64::from(segment / 2) {
                self.grow_far(side, new, Begin { at, packet, trip, idle, timeout, segment });
            }
        }
    }

    fn grow_far(&mut self, side: usize, new: u64, begin: Begin) {
        let own = &self.directions[side];
        // A header may have been sent just before.
        let first = self.growth[side].is_none();
        let headed = first && own.counts.data <= HEADERS;
        let bytes = if headed { own.counts.new_bytes } else { new };
        let growth = self.growth[side].get_or_insert_default();
        if first || self.sender != Some(side) || begin.idle.is_some_and(|idle| idle > begin.timeout)
        {
            growth.begin(begin);
        }
        if own.filled {
            growth.ruled();
        }
        let far = self.loops[side].get().unwrap_or(0);
        let acknowledged = (far <= begin.trip / 4).then_some(|mark| own.has(mark));
        let paused = own.drained.get().is_some_and(|drained| {
            begin.at.saturating_sub(drained.saturating_add(far)) > PAUSE.max(begin.trip / 4)
        });
        let end = own.next().unwrap_or_default();
        growth.data(Data { bytes, at: begin.at, end, paused }, acknowledged);
    }

    /// New data of a bulk transfer: its rate.
    #[inline]
    pub(super) fn pace(&mut self, side: usize, new: u64, at: Nanos) {
        // Near the sender its acknowledgements tell the round trip, near the receiver time stamps.
        let there = self.directions[side].round_trip.smoothed();
        let echo = self.directions[1 - side].echo.as_ref().and_then(|echo| echo.smoothed());
        let trip = there.max(echo).unwrap_or(0);
        let rates = &mut self.rates[side];
        rates.get_or_insert_with(|| Box::new(Rates::new(at))).data(new, at, trip);
    }

    /// Whether what one end sends was held to the rate of a token bucket with a queue.
    pub fn shaped(&self, side: usize) -> Option<Shaped> {
        self.rates[side].as_ref()?.shaped()
    }

    /// Transfers of one end that began slowly.
    pub fn starts(&self, side: usize) -> Starts {
        self.growth[side].as_ref().map_or_else(Starts::default, |growth| growth.starts)
    }
}
