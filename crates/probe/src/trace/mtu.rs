//! The largest packet that reaches each hop and the target without fragmentation: first as large as
//! the interface allows, then as small as routers report, or by bisection where they report nothing.

use std::net::IpAddr;
use std::time::Instant;

use model::ReplyKind;
use sys::Stop;

use super::hop::HopState;
use super::method::NotSent;
use super::tracer::{PACKET_INTERVAL, Purpose, SizeReply, Tracer};
use crate::Error;

/// MTUs of common links and tunnels, for routers that do not report theirs (RFC 1191, section 7.1).
const COMMON_MTUS: [u32; 22] = [
    65_535, 9_000, 4_352, 2_002, 1_500, 1_492, 1_480, 1_476, 1_472, 1_468, 1_460, 1_450, 1_440,
    1_430, 1_420, 1_412, 1_400, 1_380, 1_360, 1_280, 1_006, 576,
];
/// The first size at least, where the kernel knows a smaller path MTU.
const ETHERNET_MTU: u32 = 1_500;
/// Smallest MTU of an IPv4 link (RFC 791).
const MIN_MTU: u32 = 68;
/// Most sizes that are tried.
const MAX_ROUNDS: usize = 24;

impl Tracer {
    /// Finds the largest packet that reaches the target and each hop before it.
    ///
    /// # Errors
    ///
    /// A socket cannot be used any more.
    pub fn find_mtu(&mut self, stop: &Stop) -> Result<(), Error> {
        let end = self.end().unwrap_or_else(|| self.last_replied());
        if end == 0 {
            return Ok(());
        }
        let mut size = self.method.kernel_path_mtu().unwrap_or(ETHERNET_MTU).max(ETHERNET_MTU);
        // The largest size that reached the end, and the smallest that was lost without an ICMP error,
        // with the last hop that it reached.
        let mut passed: Option<u32> = None;
        let mut lost: Option<(u32, u8)> = None;
        let mut retry = true;
        for _ in 0..MAX_ROUNDS {
            if stop.is_set() {
                return Ok(());
            }
            self.size_replies.clear();
            if !self.send_size(end, size, stop)? {
                // The interface's own MTU is smaller.
                let known = self.method.kernel_path_mtu().filter(|known| *known < size);
                size = known.unwrap_or_else(|| next_common_mtu(size));
                continue;
            }
            let replies = std::mem::take(&mut self.size_replies);
            let too_big = smallest_too_big(&replies);
            let reached = self.reached_by(&replies, too_big);
            for hop in self.hops.iter_mut().take(usize::from(reached)) {
                hop.raise_mtu(size);
            }
            if reached >= end {
                passed = Some(size);
            } else if let Some(SizeReply { mtu, from, .. }) = too_big {
                let next = mtu.filter(|mtu| *mtu < size && *mtu >= MIN_MTU);
                let limit = match next {
                    Some(mtu) => format!("an MTU of {mtu} B"),
                    None => format!("an MTU below {size} B"),
                };
                self.notes.push(format!("{from}, hop {reached}: the link after it has {limit}"));
                size = next.unwrap_or_else(|| next_common_mtu(size));
                if size < MIN_MTU {
                    break;
                }
                retry = true;
                continue;
            } else if retry {
                // Another loss, or a rate-limited reply: tried once more.
                retry = false;
                continue;
            } else {
                lost = Some((size, reached));
            }
            let Some((lost, _)) = lost else { break };
            match middle_mtu(passed.unwrap_or(0), lost) {
                Some(middle) => size = middle,
                None => break,
            }
        }
        if self.hops.iter().any(HopState::is_reached) {
            self.path_mtu = passed;
        }
        if let (Some((lost, hop)), Some(passed)) = (lost, passed) {
            self.notes.push(format!(
                "packets of {lost} B are lost after hop {hop} without an ICMP error, packets of \
                 {passed} B are not: a path MTU black hole (see: netwhy explain path-mtu-blackhole)"
            ));
        }
        Ok(())
    }

    /// The last hop that packets of one size reached.
    fn reached_by(&self, replies: &[SizeReply], too_big: Option<SizeReply>) -> u8 {
        let other = replies.iter().filter(|reply| reply.kind != ReplyKind::TooBig);
        let farthest = other.map(|reply| reply.ttl).max().unwrap_or(0);
        // A router that reports the next link's MTU received the packet.
        let reporting = too_big.and_then(|reply| self.ttl_of(reply.from)).unwrap_or(0);
        farthest.max(reporting)
    }

    /// The TTL at which a router replied.
    fn ttl_of(&self, router: IpAddr) -> Option<u8> {
        let is = |hop: &&HopState| hop.has_router(|known| known.address == router);
        self.hops.iter().find(is).map(HopState::ttl)
    }

    /// Sends a packet of this size to each hop; `false`: larger than the interface's MTU.
    fn send_size(&mut self, end: u8, size: u32, stop: &Stop) -> Result<bool, Error> {
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        for ttl in self.settings.first_ttl..=end {
            match self.send(ttl, length, Purpose::Size) {
                Ok(()) => {}
                Err(NotSent::TooLarge) => return Ok(false),
                Err(NotSent::Failed(why)) => return Err(Error::Failed(why)),
            }
            self.collect(Instant::now() + PACKET_INTERVAL, stop)?;
        }
        self.collect_outstanding(Instant::now() + self.settings.timeout, stop)?;
        Ok(true)
    }
}

/// The «packet too big» reply with the smallest MTU.
fn smallest_too_big(replies: &[SizeReply]) -> Option<SizeReply> {
    let too_big = replies.iter().filter(|reply| reply.kind == ReplyKind::TooBig);
    too_big.min_by_key(|reply| reply.mtu.unwrap_or(0)).copied()
}

/// The next smaller common MTU; 0: none.
fn next_common_mtu(size: u32) -> u32 {
    COMMON_MTUS.iter().copied().find(|mtu| *mtu < size).unwrap_or(0)
}

/// The middle one of the common MTUs between a size that passes and one that is lost.
fn middle_mtu(passed: u32, lost: u32) -> Option<u32> {
    let between = COMMON_MTUS.iter().copied().filter(|mtu| *mtu < lost && *mtu > passed);
    let between: Vec<u32> = between.collect();
    between.get(between.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_mtus_decrease() {
        assert!(COMMON_MTUS.is_sorted_by(|a, b| a > b));
        let next = [1500, 1499, 576].map(next_common_mtu);
        assert_eq!(next, [1492, 1492, 0]);
        assert_eq!((middle_mtu(1_480, 1_500), middle_mtu(1_492, 1_500)), (Some(1_492), None));
    }
}
