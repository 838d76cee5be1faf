//! One connection: its two ends, which of them asked for it, how it opened and how it ended.

use std::net::SocketAddr;

use hashbrown::DefaultHashBuilder;
use wire::packet::Ip;
use wire::packet::tcp::{Flags, Tcp};

use model::TimeCategory;

use crate::budget::{Budget, PARTS};
use crate::copies::Copies;
use crate::direction::{Direction, Kind};
use crate::growth::Growth;
use crate::policing::Policed;
use crate::rates::{BULK, Rates};
use crate::silence::{SILENT, Silences};
use crate::spoken::Spoken;
use crate::stall::{Reason, Stall, Waiting};
pub use crate::stall::{Stalled, Sum};
use crate::turn::{Turn, Turns};
use crate::{Maybe, Nanos};

mod hear;
mod spend;

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum End {
    /// It has not, as far as the capture goes.
    #[default]
    Open,
    /// One end has sent all that it has.
    Half,
    /// Both have.
    Closed,
    /// One end broke it off.
    Reset,
}

/// One connection. Direction 0 is that of the first packet seen, unless the handshake tells
/// otherwise: then it is the client's.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Number in the capture, from 0, in the order of first packets.
    pub number: u64,
    /// The two ends; the first is the client where that is known.
    pub ends: [SocketAddr; 2],
    /// Whether the first of them is the lower one: how packets are told to come from it.
    low_first: bool,
    /// Whether the handshake told which end is the client.
    pub roles_known: bool,
    /// What each end sent.
    pub directions: [Direction; 2],
    /// First and last packet.
    pub first: Nanos,
    /// Last packet.
    pub last: Nanos,
    /// When the client first asked.
    pub syn: Maybe,
    /// When the server first answered that.
    pub syn_ack: Maybe,
    /// When the client's last part of the handshake passed.
    pub opened: Maybe,
    /// SYNs beyond the first.
    pub syns_repeated: u32,
    /// Answers to a SYN beyond the first.
    pub syn_acks_repeated: u32,
    /// How it ended.
    pub end: End,
    /// Whether the SYN was answered with a reset.
    pub refused: bool,
    /// Where its time went.
    pub budget: Budget,
    /// Stalls by who could not send.
    stalled: Option<Box<[Stalled; 2]>>,
    policed: Option<Box<[PolicedTurns; 2]>>,
    /// What each end sends in a round trip; only on long paths.
    growth: [Option<Box<Growth>>; 2],
    /// Rates of each end's bulk transfer.
    rates: [Option<Box<Rates>>; 2],
    /// What its bytes say in clear.
    spoken: Option<Box<Spoken>>,
    in_handshake: bool,
    silences: Option<Box<Silences>>,
    /// Turns in which each part took time.
    pub turns_with: [u32; PARTS],
    finished: [bool; 2],
    turns: Turns,
    waiting: [Waiting; 2],
    copies: Copies,
    /// The shortest ways from here to the ends and back.
    loops: [Maybe; 2],
    /// Who last sent data: the time since is somebody's.
    sender: Option<usize>,
    /// When the last data was sent again for nothing; somebody waited for it if its sender goes on.
    again: Maybe,
    /// Where whoever adds up streams adds this one; unknown at first.
    pub(crate) place: u32,
    /// Handed over and forgotten.
    pub(crate) given: bool,
}

/// Policed turns of one end, with their numbers.
type PolicedTurns = Vec<(u32, Policed)>;
/// Policed turns that are told of an end.
const POLICED: usize = 64;
/// An end that is nearer than this knows the windows that pass: a millisecond.
const NEAR: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;
/// Linux waits so much longer than a round trip before it takes something for lost (`TCP_RTO_MIN`).
const LEAST_TIMEOUT: Nanos = 200_000_000;
/// A part that takes less of a turn, microseconds, is not told.
const PART_OF_A_TURN: u32 = 1_000;
/// The kernel releases what is held as soon as it may; a pause that is longer is somebody's.
const PAUSE: Nanos = 10_000_000;

/// What a packet was in its stream, and what it ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Event {
    /// What it was.
    pub kind: Kind,
    /// The turn that it ended.
    pub turn: Option<Turn>,
    /// The stall that it ended.
    pub stall: Option<Stall>,
}

impl Stream {
    pub(crate) fn new(number: u64, ends: [SocketAddr; 2], low_first: bool, at: Nanos) -> Self {
        Stream {
            number,
            ends,
            low_first,
            roles_known: false,
            directions: Default::default(),
            first: at,
            last: at,
            syn: Maybe::default(),
            syn_ack: Maybe::default(),
            opened: Maybe::default(),
            syns_repeated: 0,
            syn_acks_repeated: 0,
            end: End::Open,
            refused: false,
            budget: Budget::default(),
            stalled: None,
            policed: None,
            growth: Default::default(),
            rates: Default::default(),
            spoken: None,
            in_handshake: false,
            silences: None,
            copies: Copies::default(),
            loops: Default::default(),
            turns_with: [0; PARTS],
            finished: [false; 2],
            turns: Turns::default(),
            waiting: Default::default(),
            sender: None,
            again: Maybe::default(),
            place: u32::MAX,
            given: false,
        }
    }

    /// Who sent a packet that comes from the lower of both ends, or not.
    #[inline]
    pub(crate) fn side(&self, from_low: bool) -> usize {
        usize::from(from_low != self.low_first)
    }

    /// Takes a packet in; `side` is who sent it, by what was known before. Returns who sent it.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "each is in a register: this is the hot path")]
    pub(crate) fn take(
        &mut self,
        build: &DefaultHashBuilder,
        mut side: usize,
        ip: &Ip<'_>,
        tcp: &Tcp<'_>,
        at: Nanos,
        packet: u64,
        event: &mut Event,
    ) -> usize {
        (event.turn, event.stall) = (None, None);
        self.budget.begin(at);
        let before = self.last;
        self.last = before.max(at);
        let stamps = tcp.time_stamps();
        if self.copies.is_copy(build, ip, tcp, stamps, at) {
            let counts = &mut self.directions[side].counts;
            counts.copies += 1;
            counts.copied_bytes += u64::from(tcp.length);
            event.kind = Kind::Copy;
            return side;
        }
        if !self.opened.is_known() || tcp.flags.all(Flags::SYN) {
            side = self.opening(side, tcp, at);
        }
        if self.silences.is_some() || at.saturating_sub(before) >= SILENT {
            self.silence(side, tcp.flags, before, at);
        }
        let way = self.loop_to(side);
        let [a, b] = &mut self.directions;
        let (own, peer) = if side == 0 { (a, b) } else { (b, a) };
        let (before, last_sent) = (own.counts.new_bytes, own.last_data);
        let kind = own.take(tcp, stamps, at, ip.ecn, peer);
        let new = own.counts.new_bytes - before;
        if peer.flight() == 0 {
            self.turns.acknowledged(1 - side, at);
        }
        let named = |side, stall: Option<(Reason, Nanos, Nanos)>| {
            stall.map(|(reason, began, lasted)| Stall { reason, side, began, lasted })
        };
        let heard = self.waiting[1 - side].heard(peer, own, tcp, at);
        let sent = self.waiting[side].sent(own, kind, tcp, at, way);
        event.kind = kind;
        if heard.is_some() || sent.is_some() {
            event.stall = named(1 - side, heard).or(named(side, sent));
            if let Some(stall) = &event.stall {
                self.note(stall, packet);
            }
        }
        if tcp.length > 0 && !matches!(kind, Kind::KeepAlive | Kind::Pure) {
            if self.directions[side].counts.data.is_power_of_two() {
                self.measure();
            }
            if new > 0 {
                self.grow(side, new, last_sent, at, packet);
                if self.directions[side].counts.new_bytes > BULK {
                    self.pace(side, new, at);
                }
            }
            self.spend(side, kind, event.stall.as_ref(), at);
            if new > 0 {
                if !self.answers_unseen(side) {
                    self.turns.data(side, new, at, &mut event.turn);
                }
                if let Some(turn) = &event.turn {
                    self.turn_over();
                    let answers = 1 - usize::from(turn.asker);
                    // Bytes that are out: more of the same answer, whatever was said meanwhile.
                    if self.directions[answers].flight() == 0 {
                        self.judge(answers, turn.number);
                    }
                    self.heard(turn);
                }
                // What overlaps with data that was seen begins with old bytes.
                if new == u64::from(tcp.length) {
                    let asks = self.turns.began(side, new);
                    let first = tcp.payload.first().copied().unwrap_or(0);
                    if self.in_handshake || Spoken::may_begin(first, asks) {
                        self.listen(side, tcp, at, asks);
                    }
                }
            }
            let far = self.loop_to(side).unwrap_or(0);
            let [a, b] = &mut self.directions;
            let (own, peer) = if side == 0 { (a, b) } else { (b, a) };
            own.sent(tcp, peer, at, far);
            own.check(ip, tcp);
            if let Some(next) = own.next() {
                // Of TCP and of IP; options of IP are rare.
                let ip_header = if ip.source.is_ipv4() { 20 } else { 40 };
                let headers = ip.length.saturating_sub(tcp.length) + ip_header;
                own.policing.sent(kind, next.near(tcp.sequence), tcp.length, headers, at);
            }
        }
        if tcp.flags.any(Flags::FIN_OR_RST) {
            self.ending(side, tcp.flags);
        }
        side
    }

    /// A packet of a stream of which the handshake is not over. Returns who sent it: that changes
    /// when the roles were taken the wrong way round.
    fn opening(&mut self, side: usize, tcp: &Tcp<'_>, at: Nanos) -> usize {
        if tcp.flags.all(Flags::SYN) {
            return self.handshake(side, tcp, at);
        }
        if self.syn_ack.is_known() && side == 0 {
            self.opened = at.into();
            self.measure();
            self.budget.until(at, 0, TimeCategory::Connect);
        } else if tcp.flags.all(Flags::RST) && !self.syn_ack.is_known() && self.syn.is_known() {
            self.refused = side == 1;
        }
        side
    }

    fn ending(&mut self, side: usize, flags: Flags) {
        if flags.all(Flags::RST) {
            self.end = End::Reset;
            return;
        }
        self.finished[side] = true;
        if self.end != End::Reset {
            self.end = if self.finished == [true; 2] { End::Closed } else { End::Half };
        }
    }

    /// Time from the place of capture to an end and back, as short as it was ever seen.
    #[inline]
    pub fn loop_to(&self, side: usize) -> Option<Nanos> {
        self.loops[side].get()
    }

    /// Looks again how long the ways are.
    fn measure(&mut self) {
        self.loops = [0, 1].map(|side| self.shortest(side).into());
    }

    fn shortest(&self, side: usize) -> Option<Nanos> {
        let opened = match side {
            // An answer to which of several SYNs is not known.
            _ if self.syns_repeated + self.syn_acks_repeated > 0 => None,
            0 => self
                .opened
                .get()
                .zip(self.syn_ack.get())
                .map(|(opened, answered)| opened - answered),
            _ => self.syn_ack.get().zip(self.syn.get()).map(|(answered, asked)| answered - asked),
        };
        let data = self.directions[1 - side].round_trip.least();
        let echo = self.directions[1 - side].echo.as_ref().and_then(|echo| echo.least());
        [opened, data, echo].into_iter().flatten().min().map(|time| time.max(0))
    }

    /// Whether nothing more is to come.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.end, End::Closed | End::Reset)
    }

    /// Stalls of one end that could not send.
    pub fn stalled(&self, side: usize) -> Stalled {
        self.stalled.as_ref().map_or_else(Stalled::default, |both| both[side])
    }

    /// How many turns it had.
    pub fn turns(&self) -> u64 {
        self.turns.count()
    }

    /// Small segments of one end of which the acknowledgement came as late as a delayed one.
    pub fn acknowledged_late(&self, side: usize) -> u64 {
        self.waiting[side].late.into()
    }

    fn note(&mut self, stall: &Stall, packet: u64) {
        let stalled = &mut self.stalled.get_or_insert_default()[stall.side];
        match stall.reason {
            Reason::Window => {
                stalled.window.add(stall.lasted, packet);
                self.budget.until(stall.began, stall.side, TimeCategory::Network);
                let end = stall.began.saturating_add(stall.lasted);
                self.budget.until(end, stall.side, TimeCategory::ReceiverStalled);
            }
            Reason::DelayedAck => stalled.delayed_ack.add(stall.lasted, packet),
        }
    }

    /// Whether this data answers a request from before the capture: the end with the lower port speaks
    /// first, and no handshake was seen.
    #[inline]
    fn answers_unseen(&self, side: usize) -> bool {
        !self.roles_known
            && self.turns.asker().is_none()
            && self.ends[side].port() < self.ends[1 - side].port()
    }

    /// An answer is over: was it policed?
    fn judge(&mut self, side: usize, turn: u32) {
        if let Some(found) = self.directions[side].policing.end() {
            let all = &mut self.policed.get_or_insert_default()[side];
            if all.len() < POLICED {
                all.push((turn, found));
            }
        }
    }

    /// Turns of which a policer dropped a part of what this end sent.
    pub fn policed(&self, side: usize) -> &[(u32, Policed)] {
        self.policed.as_ref().map_or(&[], |both| &both[side])
    }

    fn turn_over(&mut self) {
        let parts = self.budget.turn_over();
        for (count, time) in self.turns_with.iter_mut().zip(parts) {
            *count = count.saturating_add(u32::from(time >= PART_OF_A_TURN));
        }
    }

    /// The stalls that were going on when the stream ended.
    pub fn last_stalls(&mut self) -> impl Iterator<Item = Stall> + '_ {
        let at = self.last;
        self.waiting.iter_mut().enumerate().filter_map(move |(side, waiting)| {
            let (reason, began, lasted) = waiting.over(at)?;
            Some(Stall { reason, side, began, lasted })
        })
    }

    /// The turn that was going on when the capture or the stream ended.
    pub fn last_turn(&self) -> Option<Turn> {
        self.turns.last()
    }

    /// A SYN, or the answer to one: who is the client. Returns the side of the sender, which
    /// changes when the roles were taken the wrong way round.
    fn handshake(&mut self, side: usize, tcp: &Tcp<'_>, at: Nanos) -> usize {
        let answer = tcp.flags.all(Flags::ACK);
        let client = if answer { 1 - side } else { side };
        if !self.roles_known && client == 1 {
            self.ends.swap(0, 1);
            self.low_first = !self.low_first;
            self.growth.swap(0, 1);
            self.rates.swap(0, 1);
            self.directions.swap(0, 1);
            self.finished.swap(0, 1);
        }
        let turned = !self.roles_known && client == 1;
        self.roles_known = true;
        let (time, repeated) = if answer {
            (&mut self.syn_ack, &mut self.syn_acks_repeated)
        } else {
            (&mut self.syn, &mut self.syns_repeated)
        };
        let part = match time.get() {
            None => {
                *time = at.into();
                TimeCategory::Connect
            }
            Some(_) => {
                *repeated += 1;
                TimeCategory::SynWait
            }
        };
        self.budget.until(at, client, part);
        if answer && let Some(asked) = self.syn.get() {
            // So far away is the end that the windows of the client are for.
            let time = at.saturating_sub(asked);
            if time > NEAR {
                self.directions[1].edges.get_or_insert_default().last_for(time);
            }
        }
        if turned { 1 - side } else { side }
    }

    /// From the first SYN to the end of the handshake.
    pub fn handshake_time(&self) -> Option<Nanos> {
        Some(self.opened.get()? - self.syn.get()?)
    }

    /// Whether a SYN opens another connection that uses the same ports again: the number with which
    /// this one began stays the same however often its SYN is repeated.
    pub(crate) fn is_over_for(&self, side: usize, tcp: &Tcp<'_>) -> bool {
        let opens = tcp.flags.all(Flags::SYN) && !tcp.flags.all(Flags::ACK);
        opens && self.directions[side].began().is_some_and(|began| began != tcp.sequence)
    }
}
