//! One stream packet by packet, in bounded memory: the first packets, the last, and those around the
//! worst stalls; its slowest turns; what it sent over time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::SocketAddr;

use model::{CapturedExchange, Curve, CurveStep, Phase, PhaseKind, TimeCategory};
use wire::packet::tcp::Flags;

use super::clock::{self, Clock, Spent};
use super::curve::Curves;
use super::{event, micros, side};
use crate::Nanos;
use crate::budget::Parts;
use crate::collect::watch::Passed;
use crate::direction::Kind;
use crate::sequence::Sequence;
use crate::stall::Stall;
use crate::stream::Stream;

/// Turns that are kept.
const SLOWEST: usize = 8;
/// Packets that are kept before and after one that ended a stall.
const BEFORE: usize = 4;
const AFTER: usize = 2;

/// A packet of the stream.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Number in the capture, from 1.
    pub packet: u64,
    /// Number in the stream, from 0.
    pub place: u64,
    /// When it passed.
    pub at: Nanos,
    /// Since the packet before it in the stream.
    pub since: Option<Nanos>,
    /// Who sent it.
    pub from: SocketAddr,
    /// Flags.
    pub flags: Flags,
    /// Its first byte, counted from the SYN, which is 0; without a SYN the first packet has 1.
    pub sequence: i64,
    /// Bytes of data.
    pub length: u32,
    /// Next byte that its sender expects.
    pub acknowledgement: Option<i64>,
    /// Window that it offers, bytes.
    pub window: u32,
    /// What it was.
    pub kind: Kind,
    /// The stall that it ended.
    pub stall: Option<Stall>,
    /// What was waited for since the packet before it, and for how long.
    pub waited: Option<(TimeCategory, Nanos)>,
    /// The turn that it began.
    pub began_turn: Option<u64>,
    /// Whether its sender's window was closed before.
    pub still_closed: bool,
    /// How many times its sender has acknowledged the same byte again.
    pub duplicate: u32,
}

/// What was recorded of a stream.
#[derive(Debug)]
pub struct Recorded {
    /// The parts of its life.
    pub phases: Vec<Phase>,
    /// The turns that took longest, the slowest first.
    pub slowest: Vec<CapturedExchange>,
    /// When the first packet passed.
    pub first: Nanos,
    /// Packets of it.
    pub packets: u64,
    /// Some of them, in their order.
    pub steps: Vec<Step>,
    /// What the end sent that sent more.
    pub curve: Curve,
}

/// Packets around a stall.
#[derive(Debug)]
struct Around {
    /// What was lost before the packet, then what was waited for.
    rank: (Nanos, Nanos),
    place: u64,
    steps: Vec<Step>,
}

impl PartialEq for Around {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Around {}

impl PartialOrd for Around {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Around {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.rank, Reverse(self.place)).cmp(&(other.rank, Reverse(other.place)))
    }
}

/// The numbers that one end counts from.
#[derive(Debug, Clone, Copy, Default)]
struct Base {
    /// The sequence number that was seen first, and what it counts as.
    first: Option<(Sequence, i64)>,
    last: Sequence,
    /// Whether its window is closed.
    closed: bool,
    /// The last acknowledgement of this end, with its window, and how often it came again.
    acknowledged: Option<(i64, u16, u32)>,
}

impl Base {
    fn count(&mut self, header: u32, as_first: i64) -> i64 {
        let (first, counts) = *self.first.get_or_insert_with(|| {
            self.last = Sequence::first(header);
            (self.last, as_first)
        });
        self.last = self.last.near(header);
        self.last.0.wrapping_sub(first.0).cast_signed().saturating_add(counts)
    }
}

/// Records one stream.
#[derive(Debug)]
pub struct Recorder {
    /// Most packets that are kept.
    most: usize,
    clock: Clock,
    packets: u64,
    /// The ends in the order in which `bases` and `curves` have them.
    ends: [SocketAddr; 2],
    first: Nanos,
    last: Nanos,
    bases: [Base; 2],
    edges: [u64; 2],
    curves: Curves,
    first_packets: Vec<Step>,
    last_packets: VecDeque<Step>,
    /// The worst are at the far end: the first to go is at the top.
    worst: BinaryHeap<Reverse<Around>>,
    /// Those of which packets are still to come.
    open: Vec<Around>,
    slowest: BinaryHeap<Reverse<(Nanos, u32, Box<Slow>)>>,
    turns: u64,
    first_data: Option<Nanos>,
    second_turn: Option<Nanos>,
    last_data: Option<Nanos>,
}

/// A turn that may be one of the slowest; which of two is kept, its number decides.
#[derive(Debug, Clone)]
struct Slow(CapturedExchange);

impl PartialEq for Slow {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Slow {}

impl PartialOrd for Slow {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slow {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Recorder {
    /// One that keeps so many packets.
    pub fn new(most: usize) -> Self {
        let nobody = SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
        Recorder {
            most: most.max(1),
            clock: Clock::default(),
            packets: 0,
            ends: [nobody; 2],
            first: 0,
            last: 0,
            bases: Default::default(),
            edges: [0; 2],
            curves: Curves::default(),
            first_packets: Vec::new(),
            last_packets: VecDeque::new(),
            worst: BinaryHeap::new(),
            open: Vec::new(),
            slowest: BinaryHeap::new(),
            turns: 0,
            first_data: None,
            second_turn: None,
            last_data: None,
        }
    }

    /// A packet of the stream.
    pub fn packet(&mut self, passed: &Passed<'_>) {
        if self.packets == 0 {
            (self.ends, self.first, self.last) = (passed.ends, passed.at, passed.at);
        }
        // By the ends as they were first seen: the sides of the stream may turn.
        let own = usize::from(self.ends[0] != passed.ends[0]);
        let (since, spent) = self.clock.passed(passed.stream, passed.event);
        if let Some(spent) = &spent {
            self.turn(spent, passed.stream, passed.began);
        }
        let step = self.step(passed, own, &since);
        self.curve(passed, own);
        self.keep(step, passed, &since);
        self.packets += 1;
        self.last = self.last.max(passed.at);
    }

    fn step(&mut self, passed: &Passed<'_>, own: usize, since: &Parts) -> Step {
        let Passed { tcp, event, stream, at, .. } = *passed;
        let syn = tcp.flags.all(Flags::SYN);
        let sequence = self.bases[own].count(tcp.sequence, i64::from(!syn));
        let acknowledgement = tcp
            .flags
            .all(Flags::ACK)
            .then(|| self.bases[1 - own].count_acknowledgement(tcp.acknowledgement));
        let base = &mut self.bases[own];
        let plain =
            tcp.length == 0 && tcp.flags.0 & (Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0) == 0;
        let duplicate = match (acknowledgement, base.acknowledged) {
            (Some(now), Some((before, window, times)))
                if now == before
                    && window == tcp.window
                    && plain
                    && stream.directions[1 - passed.side].flight() > 0 =>
            {
                times.saturating_add(u32::from(event.kind == Kind::Pure))
            }
            _ => 0,
        };
        base.acknowledged = acknowledgement.map(|now| (now, tcp.window, duplicate));
        let turns = stream.turns();
        let began_turn = (turns > self.turns).then(|| turns - 1);
        if tcp.length > 0 {
            self.first_data.get_or_insert(at);
            self.last_data = Some(at);
        }
        if turns > 1 && self.turns <= 1 {
            self.second_turn = Some(at);
        }
        self.turns = turns;
        let still_closed = std::mem::replace(&mut self.bases[own].closed, tcp.window == 0 && !syn);
        Step {
            packet: passed.packet,
            place: self.packets,
            at,
            since: (self.packets > 0).then(|| at.saturating_sub(self.last)),
            from: passed.ends[0],
            flags: tcp.flags,
            sequence,
            length: tcp.length,
            acknowledgement,
            window: window(passed),
            kind: event.kind,
            stall: event.stall,
            waited: clock::waited(since),
            began_turn,
            still_closed,
            duplicate,
        }
    }

    /// How far both ends have come.
    fn curve(&mut self, passed: &Passed<'_>, own: usize) {
        let at = passed.at.saturating_sub(self.first);
        for (place, side) in [(own, passed.side), (1 - own, 1 - passed.side)] {
            let sent = &passed.stream.directions[side];
            let Some((next, began)) = sent.next().zip(sent.began()) else { continue };
            let base = Sequence::first(began);
            let (end, flight) = (next.since(base), sent.flight());
            let acknowledged = end.saturating_sub(flight);
            if place != own
                && passed.tcp.flags.all(Flags::ACK)
                && let Some(window) = passed.stream.directions[passed.side].window
            {
                let edge = acknowledged.saturating_add(window.into());
                self.edges[place] = self.edges[place].max(edge);
            }
            let edge = (self.edges[place] > 0).then_some(self.edges[place]);
            self.curves.add(place, at, CurveStep { sent: end, acknowledged, right_edge: edge });
            let repeated = matches!(
                passed.event.kind,
                Kind::RepeatedFast | Kind::RepeatedTimeout | Kind::RepeatedUnseen | Kind::Repeated
            );
            if place == own && repeated {
                let byte = next.near(passed.tcp.sequence).since(base);
                self.curves.again(place, at, byte);
            }
        }
    }

    /// Keeps a packet where it belongs.
    fn keep(&mut self, step: Step, passed: &Passed<'_>, since: &Parts) {
        for around in &mut self.open {
            around.steps.push(step);
        }
        let whole = BEFORE + 1 + AFTER;
        while let Some(at) = self.open.iter().position(|around| {
            step.place >= around.place + AFTER as u64 || around.steps.len() >= whole
        }) {
            let around = self.open.swap_remove(at);
            self.close(around);
        }
        let thought =
            [TimeCategory::ServerThink, TimeCategory::Application, TimeCategory::Unexplained];
        let rank = (
            event::stalled(passed, since),
            thought.into_iter().map(|part| since[part as usize]).sum::<Nanos>(),
        );
        if rank > (0, 0) && self.is_among_worst(rank) {
            let mut steps: Vec<Step> = self.last_packets.iter().copied().collect();
            let first = steps.len().saturating_sub(BEFORE);
            steps.drain(..first);
            steps.push(step);
            self.open.push(Around { rank, place: step.place, steps });
        }
        if self.first_packets.len() < self.most {
            self.first_packets.push(step);
        }
        if self.last_packets.len() >= BEFORE.max(self.last_ones()) {
            self.last_packets.pop_front();
        }
        self.last_packets.push_back(step);
    }

    /// Packets at the end that are kept.
    fn last_ones(&self) -> usize {
        (self.most / 12).max(2)
    }

    /// Stalls that are kept: more than there may be room for, as packets may be around several.
    fn stalls(&self) -> usize {
        (self.most / 4).clamp(1, 10_000)
    }

    fn is_among_worst(&self, rank: (Nanos, Nanos)) -> bool {
        self.worst.len() < self.stalls()
            || self.worst.peek().is_some_and(|Reverse(least)| rank > least.rank)
    }

    fn close(&mut self, around: Around) {
        self.worst.push(Reverse(around));
        if self.worst.len() > self.stalls() {
            self.worst.pop();
        }
    }

    fn turn(&mut self, spent: &Spent, stream: &Stream, began: Nanos) {
        let told = spent.told(stream, began);
        let whole = told.spent_us().min(i64::MAX as u64).cast_signed();
        let number = u32::MAX - spent.turn.number;
        self.slowest.push(Reverse((whole, number, Box::new(Slow(told)))));
        if self.slowest.len() > SLOWEST {
            self.slowest.pop();
        }
    }

    /// The stream is over, or the capture is.
    pub fn finish(mut self, stream: &Stream, began: Nanos) -> Recorded {
        let (_, spent) = self.clock.over(stream);
        if let Some(spent) = spent {
            self.turn(&spent, stream, began);
        }
        for around in std::mem::take(&mut self.open) {
            self.close(around);
        }
        let phases = self.phases(stream);
        let steps = self.steps();
        let mut slowest: Vec<_> = self.slowest.into_iter().map(|Reverse(one)| one).collect();
        slowest.sort_by(|a, b| b.cmp(a));
        // Who sent more: by the sides of the stream, as it is now.
        let sent = stream.directions.each_ref().map(|one| one.counts.new_bytes);
        let more = usize::from(sent[1] > sent[0]);
        let place = usize::from(self.ends[0] != stream.ends[more]);
        let until = stream.last.saturating_sub(self.first);
        let curve = if sent == [0, 0] {
            Curve::default()
        } else {
            self.curves.told(place, side(stream, more), until)
        };
        Recorded {
            phases,
            slowest: slowest.into_iter().map(|(_, _, slow)| slow.0).collect(),
            first: self.first,
            packets: self.packets,
            steps,
            curve,
        }
    }

    /// The packets that are told, at most as many as were asked for.
    fn steps(&mut self) -> Vec<Step> {
        if self.packets as usize <= self.most {
            return std::mem::take(&mut self.first_packets);
        }
        let (first, last) = ((self.most / 8).max(2), self.last_ones());
        let skip = self.last_packets.len().saturating_sub(last);
        let ends = self.first_packets.iter().take(first).chain(self.last_packets.iter().skip(skip));
        let mut steps: BTreeMap<u64, Step> = ends.map(|step| (step.place, *step)).collect();
        let mut worst: Vec<Around> =
            std::mem::take(&mut self.worst).into_iter().map(|Reverse(around)| around).collect();
        worst.sort_by(|a, b| b.cmp(a));
        for around in &worst {
            let new = around.steps.iter().filter(|step| !steps.contains_key(&step.place)).count();
            if steps.len() + new > self.most {
                continue;
            }
            steps.extend(around.steps.iter().map(|step| (step.place, *step)));
        }
        // No stall: more of the beginning.
        for step in &self.first_packets {
            if steps.len() >= self.most {
                break;
            }
            steps.insert(step.place, *step);
        }
        steps.into_values().collect()
    }

    fn phases(&self, stream: &Stream) -> Vec<Phase> {
        let end = stream.last;
        let mut from = stream.first;
        let mut phases = Vec::new();
        let mut until = |phase: PhaseKind, to: Nanos| {
            let to = to.clamp(from, end.max(from));
            phases.push(Phase {
                phase,
                at_us: micros(stream.first, from),
                duration_us: micros(from, to),
            });
            from = to;
        };
        if stream.syn.is_known() || stream.syn_ack.is_known() {
            until(PhaseKind::Handshake, stream.opened.get().unwrap_or(end));
        }
        if let Some((first, last)) = self.first_data.zip(self.last_data) {
            until(PhaseKind::BeforeData, first);
            until(PhaseKind::FirstExchange, self.second_turn.unwrap_or(last));
            if self.second_turn.is_some() {
                until(PhaseKind::LaterExchanges, last);
            }
        }
        until(PhaseKind::AfterData, end);
        phases
    }
}

/// The window that a packet offers.
fn window(passed: &Passed<'_>) -> u32 {
    let [own, peer] = [passed.side, 1 - passed.side].map(|side| &passed.stream.directions[side]);
    own.offered(passed.tcp, peer)
}

impl Base {
    /// An acknowledgement of what this end sent.
    fn count_acknowledgement(&mut self, header: u32) -> i64 {
        let Some((first, counts)) = self.first else {
            return self.count(header, 1);
        };
        let to = self.last.near(header);
        to.0.wrapping_sub(first.0).cast_signed().saturating_add(counts)
    }
}
