//! Turns: one end asks, the other answers. Of any protocol: a turn ends when the first end sends new
//! data after the answer has begun.
//!
//! What an observer sees of a turn are four moments: the first and the last byte of the request, the
//! first and the last byte of the answer; and between them the acknowledgement of the request, which
//! the kernel gives: what passes after it, before the answer, is the application's time.

use crate::{Maybe, Nanos};

/// One turn of a stream, as it passed the place of capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Number in the stream, from 0.
    pub number: u32,
    /// Who asked: 0 is the client.
    pub asker: u8,
    /// First byte of the request.
    pub asked: Nanos,
    /// Last byte of the request, before the answer began.
    pub asked_last: Nanos,
    /// When all of the request was acknowledged, if that was seen before the answer began.
    pub acknowledged: Maybe,
    /// First byte of the answer; `None`: it never came.
    pub answered: Maybe,
    /// Last new byte of the answer.
    pub answered_last: Maybe,
    /// New bytes of the request.
    pub request_bytes: u64,
    /// New bytes of the answer.
    pub answer_bytes: u64,
}

impl Turn {
    /// From the last byte of the request to the first of the answer.
    pub fn wait(&self) -> Option<Nanos> {
        Some(self.answered.get()? - self.asked_last)
    }

    /// From the first byte of the request to the last of the answer.
    pub fn whole(&self) -> Option<Nanos> {
        Some(self.answered_last.get()? - self.asked)
    }
}

/// The turn that is going on in a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns {
    now: Option<Turn>,
    count: u32,
}

impl Turns {
    /// New data passed; the turn that this ends is written to `over`.
    #[inline]
    pub(crate) fn data(&mut self, side: usize, bytes: u64, at: Nanos, over: &mut Option<Turn>) {
        match &mut self.now {
            Some(turn) if usize::from(turn.asker) != side => {
                turn.answered.or_set(at);
                turn.answered_last = at.into();
                turn.answer_bytes += bytes;
            }
            Some(turn) if !turn.answered.is_known() => {
                turn.asked_last = at;
                turn.acknowledged = Maybe::default();
                turn.request_bytes += bytes;
            }
            now => {
                *over = *now;
                self.begin(side, bytes, at);
            }
        }
    }

    fn begin(&mut self, asker: usize, request_bytes: u64, at: Nanos) {
        self.now = Some(Turn {
            number: self.count,
            asker: asker as u8,
            asked: at,
            asked_last: at,
            acknowledged: Maybe::default(),
            answered: Maybe::default(),
            answered_last: Maybe::default(),
            request_bytes,
            answer_bytes: 0,
        });
        self.count = self.count.wrapping_add(1);
    }

    /// All data of one end has been acknowledged.
    #[inline(always)]
    pub(crate) fn acknowledged(&mut self, side: usize, at: Nanos) {
        if let Some(turn) = &mut self.now
            && usize::from(turn.asker) == side
            && !turn.answered.is_known()
        {
            turn.acknowledged.or_set(at);
        }
    }

    /// Whether this new data of one end begins a request; only asked right after it passed.
    #[inline(always)]
    pub(crate) fn began(&self, side: usize, bytes: u64) -> bool {
        self.now.as_ref().is_some_and(|turn| {
            usize::from(turn.asker) == side && turn.request_bytes == bytes && turn.answer_bytes == 0
        })
    }

    /// Who asked in the turn that goes on.
    pub(crate) fn asker(&self) -> Option<usize> {
        self.now.as_ref().map(|turn| usize::from(turn.asker))
    }

    /// How many turns there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.into()
    }

    /// The turn that goes on, when the stream is over.
    pub(crate) fn last(&self) -> Option<Turn> {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// New data passes; the turn that this ends.
    fn data(turns: &mut Turns, side: usize, bytes: u64, at: Nanos) -> Option<Turn> {
        let mut over = None;
        turns.data(side, bytes, at, &mut over);
        over
    }

    #[test]
    fn a_turn_ends_when_the_next_one_begins() {
        let mut turns = Turns::default();
        assert_eq!(data(&mut turns, 0, 100, 10), None);
        assert_eq!(data(&mut turns, 0, 50, 12), None);
        turns.acknowledged(0, 20);
        turns.acknowledged(0, 30);
        assert_eq!(data(&mut turns, 1, 1000, 60), None);
        assert_eq!(data(&mut turns, 1, 1000, 70), None);
        let turn = data(&mut turns, 0, 100, 90).expect("the first turn");
        assert_eq!((turn.asked, turn.asked_last, turn.acknowledged.get()), (10, 12, Some(20)));
        assert_eq!((turn.wait(), turn.whole()), (Some(48), Some(60)));
        assert_eq!((turn.request_bytes, turn.answer_bytes), (150, 2000));
        let open = turns.last().expect("the second");
        assert_eq!((open.number, open.answered.get(), open.wait()), (1, None, None));
    }

    #[test]
    fn an_acknowledgement_of_a_part_of_the_request_is_none() {
        let mut turns = Turns::default();
        data(&mut turns, 0, 100, 10);
        turns.acknowledged(0, 11);
        data(&mut turns, 0, 100, 12);
        data(&mut turns, 1, 5, 20);
        assert_eq!(turns.last().expect("a turn").acknowledged.get(), None);
    }

    #[test]
    fn a_server_that_speaks_first_asks() {
        let mut turns = Turns::default();
        data(&mut turns, 1, 20, 5);
        data(&mut turns, 0, 20, 9);
        let turn = data(&mut turns, 1, 20, 12).expect("a banner and its answer");
        assert_eq!((turn.asker, turn.wait()), (1, Some(4)));
    }
}
