//! What is said in a stream, and when nobody speaks.

use wire::packet::tcp::{Flags, Tcp};

use super::{End, Stream};
use crate::Nanos;
use crate::silence::{SILENT, Silences};
use crate::spoken::{Data, Spoken};
use crate::turn::Turn;

impl Stream {
    /// Data that may say what it is about.
    pub(super) fn listen(&mut self, side: usize, tcp: &Tcp<'_>, at: Nanos, asks: bool) {
        let turn = self.turns.count().wrapping_sub(1) as u32;
        let data = Data { side, bytes: tcp.payload, length: tcp.length, at, turn, asks };
        match &mut self.spoken {
            Some(spoken) => {
                spoken.data(data);
                self.in_handshake = spoken.is_in_handshake();
            }
            None => {
                let mut spoken = Spoken::default();
                if spoken.data(data) {
                    self.in_handshake = spoken.is_in_handshake();
                    self.spoken = Some(Box::new(spoken));
                }
            }
        }
    }

    /// A turn is over: what was asked in it.
    #[inline]
    pub(crate) fn heard(&mut self, turn: &Turn) {
        if let Some(spoken) = &mut self.spoken {
            let way = self.loops[1 - usize::from(turn.asker)].get().unwrap_or(0);
            spoken.turn_over(turn, way);
        }
    }

    /// What its bytes say in clear.
    pub fn spoken(&self) -> Option<&Spoken> {
        self.spoken.as_deref()
    }

    /// A packet after a silence, or of a stream that had one.
    #[cold]
    pub(super) fn silence(&mut self, side: usize, flags: Flags, before: Nanos, at: Nanos) {
        let silences = self.silences.get_or_insert_default();
        if silences.is_open() {
            silences.packet(side, flags.all(Flags::RST));
        } else if at.saturating_sub(before) >= SILENT
            // Nobody waited for anything, and both may go on.
            && self.directions.iter().all(|direction| direction.flight() == 0)
            && self.directions[1 - side].counts.packets > 0
            && self.finished == [false; 2]
            && self.end == End::Open
            && !flags.any(Flags(Flags::SYN.0 | Flags::RST.0))
        {
            silences.broken(side, before, at);
        }
    }

    /// Its silences, if there were any.
    pub fn silences(&self) -> Option<&Silences> {
        self.silences.as_deref()
    }
}
