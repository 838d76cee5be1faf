//! What became of the packets to one target: counted in bounded memory.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use model::{Ping, PingClock, PingReplies, ReplyKind};

use super::plain::is_by_target;
use super::times::Times;
use super::way::{Came, Number};

/// Most packets that are remembered: fewer than half of the numbers that an answer can tell apart.
const REMEMBERED: usize = 32_000;
/// How long a packet is remembered after its time out, for answers that come late or again.
const GRACE: Duration = Duration::from_secs(10);
/// Most kinds of answers that are told apart.
const KINDS: usize = 64;

/// A packet.
#[derive(Debug, Clone, Copy)]
struct Packet {
    sent: Instant,
    /// When the kernel says it left.
    left: Option<Duration>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Over,
    /// Its time out passed.
    Silent,
    /// It could not be sent.
    Unsent,
}

/// What an answer was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Counted {
    /// The first answer to a packet.
    Answer {
        number: u64,
        round_trip: Duration,
        /// Whether both times are the kernel's.
        by_kernel: bool,
    },
    /// A router said that it cannot be: the packet is lost.
    Error {
        number: u64,
    },
    Late {
        number: u64,
        round_trip: Duration,
    },
    Duplicate {
        number: u64,
    },
    /// It is for no packet that is remembered.
    Unknown,
}

/// The packets of one target.
pub(super) struct Tally {
    target: IpAddr,
    timeout: Duration,
    packets: VecDeque<Packet>,
    /// Number of the first of them.
    first: u64,
    /// All before this are over.
    oldest_waiting: u64,
    result: Ping,
    times: Times,
    /// What the process's own clock adds.
    added: Times,
}

impl Tally {
    pub(super) fn new(target: IpAddr, timeout: Duration, result: Ping) -> Self {
        Tally {
            target,
            timeout,
            packets: VecDeque::new(),
            first: 1,
            oldest_waiting: 1,
            result,
            times: Times::default(),
            added: Times::default(),
        }
    }

    /// The number of the next packet.
    pub(super) fn next(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// The next packet was sent, having been begun at this time; or not.
    pub(super) fn sent(&mut self, begun: Instant, done: Result<(), String>) {
        let state = match done {
            Ok(()) => {
                self.result.sent += 1;
                State::Waiting
            }
            Err(why) => {
                self.result.send_errors += 1;
                self.result.last_send_error = Some(why);
                State::Unsent
            }
        };
        self.packets.push_back(Packet { sent: begun, left: None, state });
        if self.packets.len() > REMEMBERED {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(packet) = self.packets.pop_front() {
            if packet.state == State::Waiting {
                self.result.lost += 1;
            }
            self.first += 1;
        }
    }

    /// The kernel says when a packet left.
    pub(super) fn left(&mut self, number: u64, at: Duration) {
        let packet = number.checked_sub(self.first).map(|index| index as usize);
        if let Some(packet) = packet.and_then(|index| self.packets.get_mut(index)) {
            packet.left.get_or_insert(at);
        }
    }

    /// An answer came.
    pub(super) fn came(&mut self, came: &Came) -> Counted {
        let index = match came.number {
            Number::Low(low) => usize::from(low.wrapping_sub(self.first as u16)),
            Number::Oldest => {
                let waits = |packet: &Packet| packet.state == State::Waiting;
                self.packets.iter().position(waits).unwrap_or(usize::MAX)
            }
        };
        let Some(packet) = self.packets.get_mut(index) else { return Counted::Unknown };
        let number = self.first + index as u64;
        let by_process = came.at.process.saturating_duration_since(packet.sent);
        // Both of the kernel's times, unless its clock was set meanwhile: it cannot see the packet
        // longer on its way than this process does.
        let by_kernel = came.at.kernel.zip(packet.left).and_then(|(came, left)| {
            came.checked_sub(left).filter(|round_trip| *round_trip <= by_process)
        });
        let round_trip = by_kernel.unwrap_or(by_process);
        let state = packet.state;
        match state {
            State::Unsent => return Counted::Unknown,
            State::Over => {
                self.result.duplicates += 1;
                return Counted::Duplicate { number };
            }
            State::Silent => {
                packet.state = State::Over;
                self.result.late += 1;
                return Counted::Late { number, round_trip };
            }
            State::Waiting => packet.state = State::Over,
        }
        self.count(came.kind, came.from);
        if !is_by_target(came, self.target) {
            self.result.lost += 1;
            return Counted::Error { number };
        }
        self.result.received += 1;
        self.times.record(round_trip);
        if by_kernel.is_some() {
            self.result.clock.kernel_timed += 1;
            self.added.record(by_process.saturating_sub(round_trip));
        } else {
            self.result.clock.process_timed += 1;
        }
        Counted::Answer { number, round_trip, by_kernel: by_kernel.is_some() }
    }

    fn count(&mut self, kind: ReplyKind, from: IpAddr) {
        let answers = &mut self.result.replies;
        if let Some(known) = answers.iter_mut().find(|one| one.kind == kind && one.from == from) {
            known.count += 1;
        } else if answers.len() < KINDS {
            answers.push(PingReplies { kind, from, count: 1 });
        }
    }

    /// Packets whose time out has passed become lost; each is told. What is long over is forgotten.
    pub(super) fn expire(&mut self, now: Instant, silent: &mut dyn FnMut(u64)) {
        let old =
            |packet: &Packet, age: Duration| now.saturating_duration_since(packet.sent) >= age;
        let from = self.oldest_waiting.saturating_sub(self.first) as usize;
        let mut over = true;
        for (index, packet) in self.packets.iter_mut().enumerate().skip(from) {
            if packet.state == State::Waiting {
                if !old(packet, self.timeout) {
                    break;
                }
                packet.state = State::Silent;
                self.result.lost += 1;
                silent(self.first + index as u64);
            }
            if over {
                self.oldest_waiting = self.first + index as u64 + 1;
            }
            over = over && packet.state != State::Waiting;
        }
        while self.packets.front().is_some_and(|packet| {
            packet.state != State::Waiting && old(packet, self.timeout + GRACE)
        }) {
            self.drop_first();
        }
    }

    /// The number of the oldest packet that waits, or of the next one.
    pub(super) fn oldest(&self) -> u64 {
        let from = self.oldest_waiting.saturating_sub(self.first) as usize;
        let waits = |packet: &Packet| packet.state == State::Waiting;
        let found = self.packets.iter().skip(from).position(waits);
        found.map_or(self.next(), |index| self.first + (from + index) as u64)
    }

    /// Packets that are waited for.
    pub(super) fn waiting(&self) -> u64 {
        self.result.sent.saturating_sub(self.result.received + self.result.lost)
    }

    /// When the first time out passes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let index = self.oldest().checked_sub(self.first)? as usize;
        self.packets.get(index).map(|packet| packet.sent + self.timeout)
    }

    /// What was measured so far.
    pub(super) fn result(&self, lasted: Duration) -> Ping {
        let mut answers = self.result.replies.clone();
        answers.sort_by_key(|one| (std::cmp::Reverse(one.count), one.kind, one.from));
        let us = |percent| self.added.percentile_ms(percent).map(|ms| ms * 1e3);
        Ping {
            duration_ms: lasted.as_secs_f64() * 1e3,
            pending: self.waiting(),
            round_trip: self.times.spread(),
            replies: answers,
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
    use crate::numbered::Moment;

    const TARGET: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 1));

    fn answer(number: u16, process: Instant, kernel: Option<u64>) -> Came {
        Came {
            number: Number::Low(number),
            kind: ReplyKind::EchoReply,
            from: TARGET,
            hops: Some(64),
            bytes: Some(64),
            at: Moment { process, kernel: kernel.map(Duration::from_micros) },
        }
    }

    fn tally() -> Tally {
        Tally::new(TARGET, Duration::from_secs(1), Ping::default())
    }

    #[test]
    fn answers_are_counted_once() {
        let (mut tally, now) = (tally(), Instant::now());
        for _ in 0..3 {
            tally.sent(now, Ok(()));
        }
        tally.left(1, Duration::from_micros(1000));
        let at = now + Duration::from_millis(2);
        let Counted::Answer { number: 1, round_trip, by_kernel: true } =
            tally.came(&answer(1, at, Some(2500)))
        else {
            panic!("no answer")
        };
        assert_eq!(round_trip, Duration::from_micros(1500));
        assert_eq!(tally.came(&answer(1, at, None)), Counted::Duplicate { number: 1 });
        assert_eq!(tally.came(&answer(9, at, None)), Counted::Unknown);
        let mut silent = Vec::new();
        tally.expire(now + Duration::from_secs(1), &mut |number| silent.push(number));
        assert_eq!(silent, [2, 3]);
        assert!(matches!(tally.came(&answer(2, at, None)), Counted::Late { number: 2, .. }));
        let result = tally.result(Duration::from_secs(1));
        assert_eq!((result.sent, result.received, result.lost), (3, 1, 2));
        assert_eq!((result.late, result.duplicates, result.pending), (1, 1, 0));
        assert!((result.clock.process_overhead_p50_us.unwrap() - 500.0).abs() < 1.0);
    }

    #[test]
    fn a_clock_that_was_set_is_not_believed() {
        let (mut tally, now) = (tally(), Instant::now());
        for (left, came) in [(5000, 1000), (1000, 900_000)] {
            tally.sent(now, Ok(()));
            let number = tally.next() - 1;
            tally.left(number, Duration::from_micros(left));
            let at = now + Duration::from_millis(2);
            let counted = tally.came(&answer(number as u16, at, Some(came)));
            let round_trip = Duration::from_millis(2);
            assert_eq!(counted, Counted::Answer { number, round_trip, by_kernel: false });
        }
    }

    #[test]
    fn an_error_of_a_router_is_a_loss_and_one_of_the_target_an_answer() {
        let (mut tally, now) = (tally(), Instant::now());
        let router = IpAddr::from([198, 18, 9, 9]);
        for (number, from) in [(1, router), (2, TARGET)] {
            tally.sent(now, Ok(()));
            let kind = ReplyKind::PortUnreachable;
            let came = Came { kind, from, number: Number::Oldest, ..answer(number, now, None) };
            tally.came(&came);
        }
        let result = tally.result(Duration::ZERO);
        assert_eq!((result.received, result.lost, result.replies.len()), (1, 1, 2));
    }

    #[test]
    fn memory_is_bounded_and_numbers_wrap() {
        let (mut tally, now) = (tally(), Instant::now());
        for _ in 0..100_000u32 {
            tally.sent(now, Ok(()));
            let number = tally.next() - 1;
            if number.is_multiple_of(2) {
                let counted = tally.came(&answer(number as u16, now, None));
                assert!(matches!(counted, Counted::Answer { .. }), "{counted:?}");
            }
        }
        assert_eq!(tally.packets.len(), REMEMBERED);
        tally.expire(now + Duration::from_secs(60), &mut |_| ());
        assert!(tally.packets.is_empty());
        let result = tally.result(Duration::ZERO);
        assert_eq!((result.received, result.lost, result.pending), (50_000, 50_000, 0));
    }
}
