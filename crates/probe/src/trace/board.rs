//! What is known of each hop.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use model::{Hop, HopProbe, ReplyKind, Router};

use super::way::Answer;
use crate::ping::times::Times;

/// Most routers of a hop that are told apart.
const ROUTERS: usize = 16;
/// Most changes of a packet that are told at a hop.
const CHANGES: usize = 8;

/// A hop.
#[derive(Debug)]
pub(super) struct State {
    hop: Hop,
    times: Times,
    /// The latest packets by their numbers.
    latest: VecDeque<(u64, HopProbe)>,
    keeps: usize,
    /// Whether the target itself, or an error that nothing comes after, answered here.
    ends: bool,
    reached: bool,
}

impl State {
    pub(super) fn new(distance: u8, keeps: usize) -> Self {
        State {
            hop: Hop { ttl: distance, ..Hop::default() },
            times: Times::default(),
            latest: VecDeque::new(),
            keeps,
            ends: false,
            reached: false,
        }
    }

    /// A packet was sent.
    pub(super) fn sent(&mut self, number: u64) {
        self.hop.sent += 1;
        self.latest.push_back((number, HopProbe { from: None, kind: None, round_trip_ms: None }));
        if self.latest.len() > self.keeps {
            self.latest.pop_front();
        }
    }

    /// Packets that were not answered do not count after all.
    pub(super) fn forget_silence(&mut self) {
        self.hop.sent = self.hop.received;
        self.hop.completed = self.hop.received;
        self.latest.retain(|(_, probe)| probe.from.is_some());
    }

    /// The time out of a packet passed.
    pub(super) fn silent(&mut self) {
        self.hop.completed += 1;
    }

    /// A packet was answered in time.
    pub(super) fn answered(&mut self, number: u64, answer: &Answer, time: Duration, to: IpAddr) {
        self.hop.completed += 1;
        self.hop.received += 1;
        self.times.record(time);
        if let Some((_, probe)) = self.latest.iter_mut().find(|(known, _)| *known == number) {
            *probe = HopProbe {
                from: Some(answer.from),
                kind: Some(answer.kind),
                round_trip_ms: Some(time.as_secs_f64() * 1e3),
            };
        }
        let routers = &mut self.hop.routers;
        if let Some(router) = routers.iter_mut().find(|router| router.address == answer.from) {
            router.replies += 1;
            router.kind = answer.kind;
            router.mpls.clone_from(&answer.mpls);
        } else if routers.len() < ROUTERS {
            routers.push(Router {
                address: answer.from,
                name: None,
                replies: 1,
                kind: answer.kind,
                mpls: answer.mpls.clone(),
            });
        }
        for change in &answer.changes {
            self.change(change);
        }
        if answer.kind == ReplyKind::TimeExceeded && answer.from == to {
            self.change("NAT: who answers has the address of the target, and is not the target");
        }
        let reached = is_of_target(answer.kind, answer.from == to);
        self.reached |= reached;
        let over = !matches!(answer.kind, ReplyKind::TimeExceeded | ReplyKind::TooBig);
        self.ends |= reached || over;
    }

    fn change(&mut self, words: &str) {
        let changes = &mut self.hop.changes;
        if changes.len() < CHANGES && !changes.iter().any(|known| known == words) {
            changes.push(words.to_string());
        }
    }

    /// A packet of this size reached it, bytes.
    pub(super) fn fits(&mut self, bytes: u32) {
        self.hop.mtu = Some(self.hop.mtu.unwrap_or(0).max(bytes));
    }

    pub(super) fn ends(&self) -> bool {
        self.ends
    }

    pub(super) fn reached(&self) -> bool {
        self.reached
    }

    /// Whether a connection was accepted here.
    pub(super) fn is_open(&self) -> bool {
        self.hop.routers.iter().any(|router| router.kind == ReplyKind::SynAck)
    }

    pub(super) fn distance(&self) -> u8 {
        self.hop.ttl
    }

    /// Packets sent that count.
    pub(super) fn count(&self) -> u64 {
        self.hop.sent
    }

    pub(super) fn longest(&self) -> Option<Duration> {
        self.times.of_hop().map(|times| Duration::from_secs_f64(times.max_ms / 1e3))
    }

    pub(super) fn is_answered(&self) -> bool {
        self.hop.received > 0
    }

    /// What is known of it now.
    pub(super) fn hop(&self, name: &dyn Fn(IpAddr) -> Option<String>) -> Hop {
        let mut hop = self.hop.clone();
        hop.routers.sort_by_key(|router| (std::cmp::Reverse(router.replies), router.address));
        for router in &mut hop.routers {
            router.name = name(router.address);
        }
        hop.probes = self.latest.iter().map(|(_, probe)| *probe).collect();
        hop.round_trip = self.times.of_hop();
        hop
    }
}

/// Whether an answer says that the packet reached the target.
pub(super) fn is_of_target(kind: ReplyKind, from_target: bool) -> bool {
    match kind {
        ReplyKind::EchoReply | ReplyKind::SynAck | ReplyKind::Reset | ReplyKind::Datagram => true,
        ReplyKind::PortUnreachable | ReplyKind::ProtocolUnreachable => from_target,
        _ => false,
    }
}

/// Marks the hops that answer fewer packets than one behind them: nothing can be lost at a hop that
/// packets to a farther one passed.
pub(super) fn mark_limited(hops: &mut [Hop]) {
    let share = |hop: &Hop| hop.received as f64 / hop.completed.max(1) as f64;
    let mut best = 0.0f64;
    for hop in hops.iter_mut().rev() {
        let own = share(hop);
        hop.rate_limits_replies = hop.completed > 0 && own < best;
        best = best.max(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_that_others_are_seen_behind_loses_nothing() {
        let hop =
            |answered, finished| Hop { received: answered, completed: finished, ..Hop::default() };
        let mut hops = [hop(10, 10), hop(3, 10), hop(0, 10), hop(9, 10), hop(9, 10), hop(0, 10)];
        mark_limited(&mut hops);
        let limited: Vec<bool> = hops.iter().map(|hop| hop.rate_limits_replies).collect();
        assert_eq!(limited, [false, true, true, false, false, false]);
    }
}
