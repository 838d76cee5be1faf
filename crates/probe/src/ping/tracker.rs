//! The outstanding packets of one target, and the counts of all of them, in bounded memory.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use model::{Ping, PingClock, PingMtu, PingReplies, ReplyKind};

use super::method::{Reply, ReplyTo};
use crate::rtt::RttStats;

/// Most packets that are remembered: fewer than half of the numbers that 16 bits distinguish.
const MAX_PACKETS: usize = 32_000;
/// How long a packet is remembered after its timeout, for late and duplicate replies.
const LATE_REPLY_TIME: Duration = Duration::from_secs(10);
/// Most kinds of replies that are counted separately.
const MAX_REPLY_KINDS: usize = 64;

/// A packet.
#[derive(Debug, Clone, Copy)]
struct Packet {
    sent: Instant,
    /// When the kernel sent it.
    kernel_sent: Option<Duration>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Outstanding,
    /// A reply or an ICMP error was received.
    Completed,
    TimedOut,
    /// It could not be sent.
    NotSent,
}

/// What a reply means for its packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Outcome {
    /// The first reply of the target.
    Received {
        number: u64,
        round_trip: Duration,
        /// Whether both times are the kernel's.
        kernel_timed: bool,
    },
    /// A router's ICMP error: the packet is lost.
    RouterError {
        number: u64,
    },
    Late {
        number: u64,
        round_trip: Duration,
    },
    Duplicate {
        number: u64,
    },
    /// It belongs to no packet that is remembered.
    Unknown,
}

/// The packets of one target.
pub(super) struct PacketTracker {
    target: IpAddr,
    timeout: Duration,
    packets: VecDeque<Packet>,
    /// Number of the first of them.
    first: u64,
    /// No packet before this number is outstanding.
    outstanding_from: u64,
    result: Ping,
    round_trips: RttStats,
    /// By how much the process's own clock exceeds the kernel's.
    process_overhead: RttStats,
}

impl PacketTracker {
    pub(super) fn new(target: IpAddr, timeout: Duration, result: Ping) -> Self {
        PacketTracker {
            target,
            timeout,
            packets: VecDeque::new(),
            first: 1,
            outstanding_from: 1,
            result,
            round_trips: RttStats::default(),
            process_overhead: RttStats::default(),
        }
    }

    /// The number of the next packet.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// The next packet was sent, or could not be; sending began at this time.
    pub(super) fn sent(&mut self, at: Instant, result: Result<(), String>) {
        let state = match result {
            Ok(()) => {
                self.result.sent += 1;
                State::Outstanding
            }
            Err(why) => {
                self.result.send_errors += 1;
                self.result.last_send_error = Some(why);
                State::NotSent
            }
        };
        self.packets.push_back(Packet { sent: at, kernel_sent: None, state });
        if self.packets.len() > MAX_PACKETS {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(packet) = self.packets.pop_front() {
            if packet.state == State::Outstanding {
                self.result.lost += 1;
            }
            self.first += 1;
        }
    }

    /// The kernel's time stamp of a sent packet.
    pub(super) fn kernel_sent(&mut self, number: u64, at: Duration) {
        let index = number.checked_sub(self.first).map(|index| index as usize);
        if let Some(packet) = index.and_then(|index| self.packets.get_mut(index)) {
            packet.kernel_sent.get_or_insert(at);
        }
    }

    /// A reply was received: what it means for its packet.
    pub(super) fn reply(&mut self, reply: &Reply) -> Outcome {
        let index = match reply.to {
            ReplyTo::Sequence(low) => usize::from(low.wrapping_sub(self.first as u16)),
            ReplyTo::Oldest => {
                let outstanding = |packet: &Packet| packet.state == State::Outstanding;
                self.packets.iter().position(outstanding).unwrap_or(usize::MAX)
            }
        };
        let Some(packet) = self.packets.get_mut(index) else { return Outcome::Unknown };
        let number = self.first + index as u64;
        let process_time = reply.at.process.saturating_duration_since(packet.sent);
        // The kernel's times, unless its clock was set in between: the packet cannot have been under
        // way for longer than this process measured.
        let kernel_time = reply.at.kernel.zip(packet.kernel_sent).and_then(|(received, sent)| {
            received.checked_sub(sent).filter(|round_trip| *round_trip <= process_time)
        });
        let round_trip = kernel_time.unwrap_or(process_time);
        match packet.state {
            State::NotSent => return Outcome::Unknown,
            State::Completed => {
                self.result.duplicates += 1;
                return Outcome::Duplicate { number };
            }
            State::TimedOut => {
                packet.state = State::Completed;
                self.result.late += 1;
                return Outcome::Late { number, round_trip };
            }
            State::Outstanding => packet.state = State::Completed,
        }
        self.count(reply.kind, reply.from);
        if let (ReplyKind::TooBig, Some(mtu)) = (reply.kind, reply.mtu) {
            self.record_mtu(PingMtu { mtu, from: Some(reply.from) });
        }
        if !reply.is_from_target(self.target) {
            self.result.lost += 1;
            return Outcome::RouterError { number };
        }
        self.result.received += 1;
        self.round_trips.record(round_trip);
        if kernel_time.is_some() {
            self.result.clock.kernel_timed += 1;
            self.process_overhead.record(process_time.saturating_sub(round_trip));
        } else {
            self.result.clock.process_timed += 1;
        }
        Outcome::Received { number, round_trip, kernel_timed: kernel_time.is_some() }
    }

    /// A packet was larger than this MTU.
    pub(super) fn record_mtu(&mut self, met: PingMtu) {
        if self.result.mtu.is_none_or(|known| met.mtu < known.mtu) {
            self.result.mtu = Some(met);
        }
    }

    fn count(&mut self, kind: ReplyKind, from: IpAddr) {
        let replies = &mut self.result.replies;
        if let Some(same) = replies.iter_mut().find(|one| one.kind == kind && one.from == from) {
            same.count += 1;
        } else if replies.len() < MAX_REPLY_KINDS {
            replies.push(PingReplies { kind, from, count: 1 });
        }
    }

    /// Outstanding packets past their timeout become lost, each is reported; long completed ones are
    /// forgotten.
    pub(super) fn expire(&mut self, now: Instant, report_timeout: &mut dyn FnMut(u64)) {
        let expired =
            |packet: &Packet, age: Duration| now.saturating_duration_since(packet.sent) >= age;
        let from = self.outstanding_from.saturating_sub(self.first) as usize;
        let mut none_outstanding = true;
        for (index, packet) in self.packets.iter_mut().enumerate().skip(from) {
            if packet.state == State::Outstanding {
                if !expired(packet, self.timeout) {
                    break;
                }
                packet.state = State::TimedOut;
                self.result.lost += 1;
                report_timeout(self.first + index as u64);
            }
            if none_outstanding {
                self.outstanding_from = self.first + index as u64 + 1;
            }
            none_outstanding = none_outstanding && packet.state != State::Outstanding;
        }
        while self.packets.front().is_some_and(|packet| {
            packet.state != State::Outstanding && expired(packet, self.timeout + LATE_REPLY_TIME)
        }) {
            self.forget_first();
        }
    }

    /// The number of the oldest outstanding packet, or of the next one.
    pub(super) fn oldest_outstanding(&self) -> u64 {
        let from = self.outstanding_from.saturating_sub(self.first) as usize;
        let outstanding = |packet: &Packet| packet.state == State::Outstanding;
        let found = self.packets.iter().skip(from).position(outstanding);
        found.map_or(self.next_number(), |index| self.first + (from + index) as u64)
    }

    /// How many packets are outstanding.
    pub(super) fn outstanding(&self) -> u64 {
        self.result.sent.saturating_sub(self.result.received + self.result.lost)
    }

    /// When the next timeout passes.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let index = self.oldest_outstanding().checked_sub(self.first)? as usize;
        self.packets.get(index).map(|packet| packet.sent + self.timeout)
    }

    /// The result so far.
    pub(super) fn result(&self, duration: Duration) -> Ping {
        let mut replies = self.result.replies.clone();
        replies.sort_by_key(|one| (std::cmp::Reverse(one.count), one.kind, one.from));
        let us = |percent| self.process_overhead.percentile_ms(percent).map(|ms| ms * 1e3);
        Ping {
            duration_ms: duration.as_secs_f64() * 1e3,
            pending: self.outstanding(),
            round_trip: self.round_trips.summary(),
            replies,
            clock: PingClock {
                process_overhead_p50_us: us(50.0),
                process_overhead_p99_us: us(99.0),
                ..self.result.clock
            },
            ..self.result.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Timestamp;

    const TARGET: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 1));

    fn reply(number: u16, process: Instant, kernel: Option<u64>) -> Reply {
        Reply {
            to: ReplyTo::Sequence(number),
            kind: ReplyKind::EchoReply,
            from: TARGET,
            ttl: Some(64),
            bytes: Some(64),
            mtu: None,
            at: Timestamp { process, kernel: kernel.map(Duration::from_micros) },
        }
    }

    fn tracker() -> PacketTracker {
        PacketTracker::new(TARGET, Duration::from_secs(1), Ping::default())
    }

    #[test]
    fn each_packet_is_received_or_lost_once() {
        let (mut tracker, now) = (tracker(), Instant::now());
        for _ in 0..3 {
            tracker.sent(now, Ok(()));
        }
        tracker.kernel_sent(1, Duration::from_micros(1000));
        let at = now + Duration::from_millis(2);
        let Outcome::Received { number: 1, round_trip, kernel_timed: true } =
            tracker.reply(&reply(1, at, Some(2500)))
        else {
            panic!("not received")
        };
        assert_eq!(round_trip, Duration::from_micros(1500));
        assert_eq!(tracker.reply(&reply(1, at, None)), Outcome::Duplicate { number: 1 });
        assert_eq!(tracker.reply(&reply(9, at, None)), Outcome::Unknown);
        let mut timed_out = Vec::new();
        tracker.expire(now + Duration::from_secs(1), &mut |number| timed_out.push(number));
        assert_eq!(timed_out, [2, 3]);
        assert!(matches!(tracker.reply(&reply(2, at, None)), Outcome::Late { number: 2, .. }));
        let result = tracker.result(Duration::from_secs(1));
        assert_eq!((result.sent, result.received, result.lost), (3, 1, 2));
        assert_eq!((result.late, result.duplicates, result.pending), (1, 1, 0));
        assert!((result.clock.process_overhead_p50_us.unwrap() - 500.0).abs() < 1.0);
    }

    #[test]
    fn kernel_times_are_ignored_when_the_clock_was_set_in_between() {
        let (mut tracker, now) = (tracker(), Instant::now());
        for (sent, received) in [(5000, 1000), (1000, 900_000)] {
            tracker.sent(now, Ok(()));
            let number = tracker.next_number() - 1;
            tracker.kernel_sent(number, Duration::from_micros(sent));
            let at = now + Duration::from_millis(2);
            let outcome = tracker.reply(&reply(number as u16, at, Some(received)));
            let round_trip = Duration::from_millis(2);
            assert_eq!(outcome, Outcome::Received { number, round_trip, kernel_timed: false });
        }
    }

    #[test]
    fn an_icmp_error_is_a_loss_from_a_router_and_a_reply_from_the_target() {
        let (mut tracker, now) = (tracker(), Instant::now());
        let router = IpAddr::from([198, 18, 9, 9]);
        for (number, from) in [(1, router), (2, TARGET)] {
            tracker.sent(now, Ok(()));
            let kind = ReplyKind::PortUnreachable;
            tracker.reply(&Reply { kind, from, to: ReplyTo::Oldest, ..reply(number, now, None) });
        }
        let result = tracker.result(Duration::ZERO);
        assert_eq!((result.received, result.lost, result.replies.len()), (1, 1, 2));
    }

    #[test]
    fn the_smallest_mtu_is_kept_with_its_router() {
        let (mut tracker, now) = (tracker(), Instant::now());
        for (number, mtu) in [(1, Some(1400)), (2, Some(1300)), (3, None), (4, Some(1350))] {
            tracker.sent(now, Ok(()));
            let from = IpAddr::from([198, 18, 9, number as u8]);
            let kind = ReplyKind::TooBig;
            tracker.reply(&Reply { kind, from, mtu, ..reply(number, now, None) });
        }
        let from = Some(IpAddr::from([198, 18, 9, 2]));
        assert_eq!(tracker.result(Duration::ZERO).mtu, Some(PingMtu { mtu: 1300, from }));
    }

    #[test]
    fn memory_is_bounded_and_numbers_wrap() {
        let (mut tracker, now) = (tracker(), Instant::now());
        for _ in 0..100_000u32 {
            tracker.sent(now, Ok(()));
            let number = tracker.next_number() - 1;
            if number.is_multiple_of(2) {
                let outcome = tracker.reply(&reply(number as u16, now, None));
                assert!(matches!(outcome, Outcome::Received { .. }), "{outcome:?}");
            }
        }
        assert_eq!(tracker.packets.len(), MAX_PACKETS);
        tracker.expire(now + Duration::from_secs(60), &mut |_| ());
        assert!(tracker.packets.is_empty());
        let result = tracker.result(Duration::ZERO);
        assert_eq!((result.received, result.lost, result.pending), (50_000, 50_000, 0));
    }
}
