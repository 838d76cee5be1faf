//! Where the time between two packets of a stream went, and that of each turn: differences of the
//! stream's budget.

use model::{CapturedExchange, TimeCategory, TimeShare};

use super::{micros, side};
use crate::Nanos;
use crate::budget::{PARTS, Parts};
use crate::stream::{Event, Stream};
use crate::turn::Turn;

/// A turn, and where its time went.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// The turn.
    pub turn: Turn,
    /// Where its time went, up to the next request.
    pub parts: Parts,
}

/// The budget of one stream as it was a packet ago, and as it was when the turn began.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    last: Parts,
    turn: Parts,
    /// Whether a turn has begun.
    begun: bool,
    /// How long windows were closed to each end, all in all.
    closed: [Nanos; 2],
}

impl Clock {
    /// A packet has passed: where the time since the one before it went, as far as that is known by
    /// now, and the turn that is over with it.
    pub fn passed(&mut self, stream: &Stream, event: &Event) -> (Parts, Option<Spent>) {
        let now = sums(stream);
        let since = difference(&now, &self.last);
        self.last = now;
        self.closed = closed(stream);
        if !self.begun && stream.turns() > 0 {
            self.begun = true;
            self.turn = now;
        }
        let spent = event.turn.map(|turn| {
            let parts = difference(&now, &self.turn);
            self.turn = now;
            Spent { turn, parts }
        });
        (since, spent)
    }

    /// The stream is over: the same of the time since its last packet, and of its last turn.
    pub fn over(&self, stream: &Stream) -> (Parts, Option<Spent>) {
        let now = sums(stream);
        let since = difference(&now, &self.last);
        let parts = difference(&now, &self.turn);
        (since, stream.last_turn().map(|turn| Spent { turn, parts }))
    }
}

impl Clock {
    /// The stream is over: who could not send then because a window was closed, and for how long.
    pub fn still_closed(&self, stream: &Stream) -> Option<(usize, Nanos)> {
        let now = closed(stream);
        let longer = [0, 1].map(|side| now[side].saturating_sub(self.closed[side]));
        (0..2).map(|side| (side, longer[side])).find(|(_, time)| *time > 0)
    }
}

fn closed(stream: &Stream) -> [Nanos; 2] {
    [0, 1].map(|side| stream.stalled(side).window.total)
}

/// Time lost in these parts.
pub fn lost(parts: &Parts) -> Nanos {
    TimeCategory::ALL
        .into_iter()
        .zip(parts)
        .filter(|(part, _)| part.is_lost())
        .fold(0, |sum, (_, time)| sum.saturating_add(*time))
}

/// What was waited for most, and for how long, if it was a good part of the time: the way and
/// transmission are no waiting.
pub fn waited(parts: &Parts) -> Option<(TimeCategory, Nanos)> {
    let whole = parts.iter().fold(0, |sum: Nanos, time| sum.saturating_add(*time));
    let all = TimeCategory::ALL.into_iter().zip(parts.iter().copied());
    let all =
        all.filter(|(part, _)| !matches!(part, TimeCategory::Network | TimeCategory::Connect));
    all.max_by_key(|(_, time)| *time).filter(|(_, time)| *time > 0 && *time >= whole / 4)
}

fn sums(stream: &Stream) -> Parts {
    let [a, b] = &stream.budget.sides;
    std::array::from_fn(|part| a[part].saturating_add(b[part]))
}

fn difference(now: &Parts, before: &Parts) -> Parts {
    let mut parts = [0; PARTS];
    for ((part, now), before) in parts.iter_mut().zip(now).zip(before) {
        *part = now.saturating_sub(*before).max(0);
    }
    parts
}

impl Spent {
    /// As a row. `began` is the time of the first packet of the capture.
    pub fn told(&self, stream: &Stream, began: Nanos) -> CapturedExchange {
        let turn = &self.turn;
        let time = |nanos: Nanos| u64::try_from(nanos / 1_000).unwrap_or(0);
        let shares = TimeCategory::ALL.into_iter().zip(self.parts);
        let said = stream.spoken().and_then(|spoken| spoken.of_turn(turn.number));
        let asked = said.and_then(|said| said.request);
        CapturedExchange {
            stream: stream.number,
            exchange: turn.number.into(),
            requester: side(stream, turn.asker.into()),
            at_us: micros(began, turn.asked),
            request_bytes: turn.request_bytes,
            request_us: micros(turn.asked, turn.asked_last),
            response_wait_us: turn.wait().map(time),
            response_bytes: turn.answer_bytes,
            total_us: turn.whole().map(time),
            method: asked.map(|(method, _)| method.to_string()),
            target: asked.map(|(_, target)| target.to_string()),
            status: said.and_then(|said| said.status),
            time_breakdown: shares
                .filter(|(part, spent)| *part != TimeCategory::ClientIdle && time(*spent) > 0)
                .map(|(part, spent)| TimeShare {
                    category: part,
                    time_us: time(spent),
                    exchanges: 1,
                })
                .collect(),
        }
    }
}
