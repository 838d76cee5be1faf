//! The largest packet that gets through: to each hop, and to the target. Packets that may not be
//! fragmented, as large as the interface takes, then as small as routers say.

use std::time::Instant;

use model::ReplyKind;

use super::way::Unsent;
use super::{PACE, State, Trace};
use sys::Stop;

use crate::Error;

/// Sizes that links have, for routers that do not say theirs (RFC 1191, and those of tunnels).
const USUAL: [u32; 22] = [
    65_535, 9_000, 4_352, 2_002, 1_500, 1_492, 1_480, 1_476, 1_472, 1_468, 1_460, 1_450, 1_440,
    1_430, 1_420, 1_412, 1_400, 1_380, 1_360, 1_280, 1_006, 576,
];
/// What is tried first, where the kernel knows of something smaller.
const ETHERNET: u32 = 1_500;
/// Smallest MTU that a link of IPv4 may have.
const LEAST: u32 = 68;
/// Most sizes that are tried.
const ROUNDS: usize = 24;

impl Trace {
    /// Looks for the largest packet that reaches the target and each hop before it.
    ///
    /// # Errors
    ///
    /// A socket is of no use any more.
    pub fn find_mtu(&mut self, stop: &Stop) -> Result<(), Error> {
        let answering = self.hops.iter().rposition(State::is_answered).map_or(0, |at| at as u8 + 1);
        let end = self.end().unwrap_or(answering);
        if end == 0 {
            return Ok(());
        }
        let mut size = self.way.known_mtu().unwrap_or(ETHERNET).max(ETHERNET);
        // The largest size that got through, and the smallest that was lost without a word, with the
        // hop behind which it was.
        let mut fits: Option<u32> = None;
        let mut silent: Option<(u32, u8)> = None;
        let mut again = true;
        for _ in 0..ROUNDS {
            if stop.is_set() {
                return Ok(());
            }
            self.sized.clear();
            if !self.send_sized(end, size, stop)? {
                // The interface itself takes less.
                size = self.way.known_mtu().filter(|known| *known < size).unwrap_or(below(size));
                continue;
            }
            let sized = std::mem::take(&mut self.sized);
            let told = sized.iter().filter(|(_, kind, ..)| *kind == ReplyKind::TooBig);
            let told = told.min_by_key(|(_, _, mtu, _)| mtu.unwrap_or(0)).copied();
            let through = sized.iter().filter(|(_, kind, ..)| *kind != ReplyKind::TooBig);
            let through = through.map(|(distance, ..)| *distance).max().unwrap_or(0);
            // Who says that the next link is too small got the packet.
            let through = through.max(told.and_then(|told| self.distance_of(told.3)).unwrap_or(0));
            // What reached a hop passed those before it.
            for hop in self.hops.iter_mut().take(usize::from(through)) {
                hop.fits(size);
            }
            if through >= end {
                fits = Some(size);
            } else if let Some((_, _, mtu, from)) = told {
                let next = mtu.filter(|mtu| *mtu < size && *mtu >= LEAST);
                self.notes.push(match next {
                    Some(mtu) => format!("{from}, hop {through}: the link behind it takes {mtu} B"),
                    None => format!(
                        "{from}, hop {through}: the link behind it takes less than {size} B"
                    ),
                });
                size = next.unwrap_or_else(|| below(size));
                if size < LEAST {
                    break;
                }
                again = true;
                continue;
            } else if again {
                // Silence may be a lost packet, or an answer held back: it is asked once more.
                again = false;
                continue;
            } else {
                silent = Some((size, through));
            }
            // Between what fits and what does not, in the middle of the usual sizes.
            let Some((lost, _)) = silent else { break };
            let between: Vec<u32> = (USUAL.iter().copied())
                .filter(|usual| *usual < lost && *usual > fits.unwrap_or(0))
                .collect();
            match between.get(between.len() / 2) {
                Some(usual) => size = *usual,
                None => break,
            }
        }
        if self.hops.iter().any(State::reached) {
            self.path_mtu = fits;
        }
        if let (Some((lost, hop)), Some(fits)) = (silent, fits) {
            self.notes.push(format!(
                "packets of {lost} B are lost behind hop {hop} and nobody says so, those of {fits} B \
                 are not: a path MTU black hole (see: netwhy explain path-mtu-blackhole)"
            ));
        }
        Ok(())
    }

    /// How far away a router is.
    fn distance_of(&self, router: std::net::IpAddr) -> Option<u8> {
        let is = |hop: &State| hop.hop(&|_| None).routers.iter().any(|one| one.address == router);
        self.hops.iter().position(is).map(|at| at as u8 + 1)
    }

    /// Sends a packet of this size to each distance; `false`: the interface takes only smaller ones.
    fn send_sized(&mut self, end: u8, size: u32, stop: &Stop) -> Result<bool, Error> {
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        for distance in self.settings.first..=end {
            match self.send_one(distance, length, false) {
                Ok(()) => {}
                Err(Unsent::TooLarge) => return Ok(false),
                Err(Unsent::Other(words)) => return Err(Error::Failed(words)),
            }
            self.collect(Instant::now() + PACE, false, stop)?;
        }
        self.collect(Instant::now() + self.settings.timeout, true, stop)?;
        Ok(true)
    }
}

/// The next usual size.
fn below(size: u32) -> u32 {
    USUAL.iter().copied().find(|usual| *usual < size).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_sizes_shrink() {
        assert!(USUAL.is_sorted_by(|a, b| a > b));
        assert_eq!((below(1500), below(1499), below(576)), (1492, 1492, 0));
    }
}
