//! What is known of a hop while a route is traced.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use model::{Hop, HopProbe, ReplyKind, Router};

use super::method::Reply;
use crate::rtt::RttStats;

/// Most routers of a hop that are listed.
const MAX_ROUTERS: usize = 16;
/// Most changes of a packet that are listed at a hop.
const MAX_CHANGES: usize = 8;

/// A hop.
#[derive(Debug)]
pub(super) struct HopState {
    hop: Hop,
    round_trips: RttStats,
    /// The latest packets with their numbers.
    latest: VecDeque<(u64, HopProbe)>,
    max_latest: usize,
    /// Whether the route ends here: the target replied, or an ICMP error after which no hop follows.
    is_end: bool,
    /// Whether the target replied.
    reached: bool,
}

impl HopState {
    /// A hop of which the latest `max_latest` packets are kept.
    pub(super) fn new(ttl: u8, max_latest: usize) -> Self {
        HopState {
            hop: Hop { ttl, ..Hop::default() },
            round_trips: RttStats::default(),
            latest: VecDeque::new(),
            max_latest,
            is_end: false,
            reached: false,
        }
    }

    /// A packet was sent.
    pub(super) fn record_sent(&mut self, number: u64) {
        self.hop.sent += 1;
        self.latest.push_back((number, HopProbe { from: None, kind: None, round_trip_ms: None }));
        if self.latest.len() > self.max_latest {
            self.latest.pop_front();
        }
    }

    /// Packets without a reply no longer count.
    pub(super) fn forget_unanswered(&mut self) {
        self.hop.sent = self.hop.received;
        self.hop.completed = self.hop.received;
        self.latest.retain(|(_, probe)| probe.from.is_some());
    }

    /// A packet timed out.
    pub(super) fn record_timeout(&mut self) {
        self.hop.completed += 1;
    }

    /// A reply was received in time.
    pub(super) fn record_reply(
        &mut self,
        number: u64,
        reply: &Reply,
        round_trip: Duration,
        target: IpAddr,
    ) {
        self.hop.completed += 1;
        self.hop.received += 1;
        self.round_trips.record(round_trip);
        if let Some((_, probe)) = self.latest.iter_mut().find(|(known, _)| *known == number) {
            *probe = HopProbe {
                from: Some(reply.from),
                kind: Some(reply.kind),
                round_trip_ms: Some(round_trip.as_secs_f64() * 1e3),
            };
        }
        let routers = &mut self.hop.routers;
        if let Some(router) = routers.iter_mut().find(|router| router.address == reply.from) {
            router.replies += 1;
            router.kind = reply.kind;
            router.mpls.clone_from(&reply.mpls);
        } else if routers.len() < MAX_ROUTERS {
            routers.push(Router {
                address: reply.from,
                name: None,
                replies: 1,
                kind: reply.kind,
                mpls: reply.mpls.clone(),
            });
        }
        for change in &reply.changes {
            self.add_change(change);
        }
        let from_target = reply.from == target;
        if reply.kind == ReplyKind::TimeExceeded && from_target {
            self.add_change("NAT: a router replies with the address of the target");
        }
        let reached = is_reply_of_target(reply.kind, from_target);
        self.reached |= reached;
        let last_hop = !matches!(reply.kind, ReplyKind::TimeExceeded | ReplyKind::TooBig);
        self.is_end |= reached || last_hop;
    }

    fn add_change(&mut self, change: &str) {
        let changes = &mut self.hop.changes;
        if changes.len() < MAX_CHANGES && !changes.iter().any(|known| known == change) {
            changes.push(change.to_string());
        }
    }

    /// A packet of this size reached it.
    pub(super) fn raise_mtu(&mut self, bytes: u32) {
        self.hop.mtu = Some(self.hop.mtu.unwrap_or(0).max(bytes));
    }

    pub(super) fn is_end(&self) -> bool {
        self.is_end
    }

    pub(super) fn is_reached(&self) -> bool {
        self.reached
    }

    /// Whether the target's port accepted a connection.
    pub(super) fn is_port_open(&self) -> bool {
        self.has_router(|router| router.kind == ReplyKind::SynAck)
    }

    /// Whether one of its routers is such.
    pub(super) fn has_router(&self, is: impl Fn(&Router) -> bool) -> bool {
        self.hop.routers.iter().any(is)
    }

    pub(super) fn ttl(&self) -> u8 {
        self.hop.ttl
    }

    /// Packets sent that count.
    pub(super) fn sent(&self) -> u64 {
        self.hop.sent
    }

    /// Packets without a reply.
    pub(super) fn unanswered(&self) -> u64 {
        self.hop.sent.saturating_sub(self.hop.received)
    }

    /// The longest round-trip time; `None` without a reply.
    pub(super) fn max_round_trip(&self) -> Option<Duration> {
        self.round_trips.hop_summary().map(|times| Duration::from_secs_f64(times.max_ms / 1e3))
    }

    pub(super) fn has_replied(&self) -> bool {
        self.hop.received > 0
    }

    /// The result so far, with the routers' names.
    pub(super) fn result(&self, name: &dyn Fn(IpAddr) -> Option<String>) -> Hop {
        let mut hop = self.hop.clone();
        hop.routers.sort_by_key(|router| (std::cmp::Reverse(router.replies), router.address));
        for router in &mut hop.routers {
            router.name = name(router.address);
        }
        hop.probes = self.latest.iter().map(|(_, probe)| *probe).collect();
        hop.round_trip = self.round_trips.hop_summary();
        hop
    }
}

/// Whether a reply shows that the packet reached the target.
fn is_reply_of_target(kind: ReplyKind, from_target: bool) -> bool {
    match kind {
        ReplyKind::EchoReply | ReplyKind::SynAck | ReplyKind::Reset | ReplyKind::Datagram => true,
        ReplyKind::PortUnreachable | ReplyKind::ProtocolUnreachable => from_target,
        _ => false,
    }
}

/// Marks hops that reply to a smaller share of packets than a later hop: the packets to the later hop
/// passed them, so they limit the rate of their replies.
pub(super) fn mark_rate_limits(hops: &mut [Hop]) {
    let mut best = 0.0f64;
    for hop in hops.iter_mut().rev() {
        let share = hop.received as f64 / hop.completed.max(1) as f64;
        hop.rate_limits_replies = hop.completed > 0 && share < best;
        best = best.max(share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_with_fewer_replies_than_a_later_one_limits_their_rate() {
        let hop = |received, completed| Hop { received, completed, ..Hop::default() };
        let mut hops = [hop(10, 10), hop(3, 10), hop(0, 10), hop(9, 10), hop(9, 10), hop(0, 10)];
        mark_rate_limits(&mut hops);
        let limited: Vec<bool> = hops.iter().map(|hop| hop.rate_limits_replies).collect();
        assert_eq!(limited, [false, true, true, false, false, false]);
    }
}
