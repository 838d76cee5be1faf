//! What one end of a connection sent: bytes that are new, bytes that came again, holes; and what its
//! peer acknowledged of it.

use wire::packet::Ip;
use wire::packet::tcp::{Flags, Tcp, TcpOption};

use crate::budget::Settled;
pub use crate::counts::{Counts, Kind};
use crate::echo::Echo;
use crate::edges::Edges;
use crate::holes::{Filled, Hole, Holes};
use crate::policing::Policing;
use crate::round_trip::{RoundTrip, Times};
use crate::sequence::Sequence;
use crate::sizes::Sizes;
use crate::trouble::Trouble;
use crate::{Maybe, Nanos};

/// Duplicate acknowledgements that make a sender repeat (RFC 5681).
const DUPLICATES: u32 = 3;
/// Segments on their way that make a transfer of what is sent.
const BULK: u64 = 4;
/// Segment size where the handshake was not seen, at least and at most.
const SEGMENT: u32 = 536;
const ETHERNET: u32 = 1460;
/// Shortest time in which a repeated segment can have been asked for: below, the network or the
/// capture has shuffled segments.
const SHUFFLED: Nanos = 3_000_000;

/// One direction of a stream.
#[derive(Debug, Clone, Default)]
pub struct Direction {
    /// Counts.
    pub counts: Counts,
    /// Times from data of this direction to its acknowledgement.
    pub round_trip: RoundTrip,
    /// Largest segment that this end takes, by its SYN.
    pub segment_size: Option<u16>,
    /// The largest segment that may pass; 0: no SYN was seen.
    agreed: u16,
    /// By how many bits windows of this end are to be shifted, by its SYN.
    pub window_scale: Option<u8>,
    /// Whether this end offered selective acknowledgements.
    pub sack: bool,
    /// Whether this end sends time stamps.
    pub time_stamps: bool,
    /// Largest data of one packet.
    pub largest: u32,
    /// The window that this end last offered, bytes.
    pub window: Option<u32>,
    /// The largest it ever offered.
    pub largest_window: u32,
    /// Most bytes that were out at once.
    pub greatest_flight: u64,
    /// When it last sent data.
    pub last_data: Maybe,
    /// From this end's time stamps to data of the other end that echoes them: what is seen near the
    /// receiver of data in place of acknowledgements.
    pub echo: Option<Box<Times>>,
    /// End of what the peer allows to be sent, once it has told.
    edge: Sequence,
    /// Whether its last data left no room for another segment in the window of its peer, as it knew
    /// that window.
    pub(crate) filled: bool,
    /// Whether that window was much smaller then than it can be: its reader is behind.
    pub(crate) behind: bool,
    pub(crate) settled: Settled,
    /// Whether its last data was less than a segment, and to be handed over at once.
    pub(crate) small: bool,
    /// When the last of its data was acknowledged, if nothing is out.
    pub(crate) drained: Maybe,
    pub(crate) policing: Policing,
    stamps: Echo,
    pub(crate) edges: Option<Box<Edges>>,
    pub(crate) sizes: Sizes,
    first: Sequence,
    next: Sequence,
    acknowledged: Sequence,
    duplicates: u32,
    /// Rare: most directions never have one.
    holes: Option<Box<Holes>>,
    trouble: Option<Box<Trouble>>,
    last_window: u16,
}

impl Direction {
    /// Bytes that were sent and not acknowledged, as seen here.
    #[inline]
    pub fn flight(&self) -> u64 {
        self.next.since(self.acknowledged)
    }

    /// Most times that one segment was repeated after a timeout, and its bytes of data.
    pub fn most_timeouts(&self) -> (u32, u32) {
        self.trouble.as_ref().map_or((0, 0), |trouble| trouble.most_timeouts)
    }

    /// Segments whose checksum was looked at: those after something had gone wrong, as far as they
    /// were captured whole; and how many of them were damaged.
    pub fn checked(&self) -> (u32, u32) {
        self.trouble.as_ref().map_or((0, 0), |trouble| trouble.checked)
    }

    /// Looks at the checksum of a segment, where something has gone wrong before: damage is one reason.
    #[inline]
    pub(crate) fn check(&mut self, ip: &Ip<'_>, tcp: &Tcp<'_>) {
        let segment = self.segment();
        if let Some(trouble) = &mut self.trouble
            // What the network card has put together has another one, or none.
            && tcp.length <= segment
        {
            trouble.check(ip);
        }
    }

    /// Whether what it sent up to here was acknowledged.
    #[inline]
    pub(crate) fn has(&self, end: Sequence) -> bool {
        self.acknowledged >= end
    }

    /// The end of what it has sent so far; `None` before its first packet.
    pub fn next(&self) -> Option<Sequence> {
        self.first.known().map(|_| self.next)
    }

    /// The sequence number of the first packet that was seen of it, as in the header.
    pub fn began(&self) -> Option<u32> {
        self.first.known().map(|first| first.0 as u32)
    }

    /// Takes a packet of this direction in. `peer` is the other direction.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        tcp: &Tcp<'_>,
        stamps: Option<(u32, u32)>,
        at: Nanos,
        ecn: u8,
        peer: &mut Direction,
    ) -> Kind {
        self.counts.packets += 1;
        self.counts.congestion_marks += u32::from(ecn == 3);
        if tcp.flags.has(Flags::SYN) {
            self.options(tcp);
            self.agree(peer);
        }
        let before = self.last_data;
        let kind = self.data(tcp, at, peer);
        self.count(kind);
        if let Some((value, echo)) = stamps {
            self.stamps.passed(value, at, peer.next);
            if let Some((trip, flight)) = peer.stamps.came_back(echo, at, self.next) {
                if tcp.length == 0 {
                    peer.round_trip.echoed(trip, peer.flight());
                } else if flight >= BULK * u64::from(tcp.length) {
                    // Before the first data after a pause its sender had waited for itself.
                    let silent = before.get().map_or(0, |before| at.saturating_sub(before));
                    let times = peer.echo.get_or_insert_default();
                    let least = times.least().or(peer.round_trip.least());
                    let usual = least.is_none_or(|least| trip <= least.saturating_mul(2));
                    if usual || silent <= trip / 2 {
                        times.add(trip, flight);
                    }
                }
            }
        }
        if tcp.flags.has(Flags::ACK) {
            self.acknowledge(tcp, at, kind, peer);
        }
        self.offer(tcp, at, peer);
        kind
    }

    /// The largest segment that may pass either way, by the SYNs seen so far.
    pub(crate) fn agree(&mut self, peer: &mut Direction) {
        let stamps = if self.time_stamps && peer.time_stamps { 12 } else { 0 };
        let offered = [self.segment_size, peer.segment_size].into_iter().flatten().min();
        let agreed = offered.map_or(0, |size| size.saturating_sub(stamps));
        (self.agreed, peer.agreed) = (agreed, agreed);
    }

    /// The largest segment that this end may send.
    #[inline]
    pub(crate) fn segment(&self) -> u32 {
        match self.agreed {
            0 => self.largest.clamp(SEGMENT, ETHERNET),
            agreed => agreed.into(),
        }
    }

    /// Notes what its last data left of the window. `loop_to_self` is the time from the place of
    /// capture to this end and back: so old is the window that it knew.
    #[inline]
    pub(crate) fn sent(&mut self, tcp: &Tcp<'_>, peer: &Direction, at: Nanos, loop_to_self: Nanos) {
        // On loopback a segment may be as large as the window: half of that is sent at once
        // (`tcp_bound_to_half_wnd`).
        let segment = self.segment().min(peer.largest_window / 2).max(1);
        self.drained = Maybe::default();
        self.small = tcp.length < segment;
        let then = at.saturating_sub(loop_to_self);
        let known = self.edges.as_ref().and_then(|edges| edges.at(then)).or(self.edge.known());
        // A sender that puts segments together waits for room for several (TSO).
        let several = self.largest.min(peer.window.unwrap_or(0) / 4).max(segment);
        self.behind = peer.window.is_some_and(|window| window < peer.largest_window / 4 * 3);
        // Without the SYN nobody knows how large the window is.
        self.filled = peer.scale_known()
            && known.is_some_and(|edge| edge.since(self.next) < u64::from(several));
    }

    fn options(&mut self, tcp: &Tcp<'_>) {
        for option in tcp.options() {
            match option {
                TcpOption::SegmentSize(size) => self.segment_size = Some(size),
                TcpOption::WindowScale(scale) => self.window_scale = Some(scale),
                TcpOption::SackPermitted => self.sack = true,
                TcpOption::TimeStamps(..) => self.time_stamps = true,
                _ => {}
            }
        }
    }

    /// What the data of a packet is.
    #[inline]
    fn data(&mut self, tcp: &Tcp<'_>, at: Nanos, peer: &Direction) -> Kind {
        let length = tcp.length
            + u32::from(tcp.flags.has(Flags::SYN))
            + u32::from(tcp.flags.has(Flags::FIN));
        if self.first.known().is_none() {
            let from = Sequence::first(tcp.sequence);
            self.first = from;
            (self.next, self.acknowledged) = (from, from);
        }
        let from = self.next.near(tcp.sequence);
        let to = from.plus(length);
        if tcp.length > 0 {
            self.counts.data += 1;
            self.counts.bytes += u64::from(tcp.length);
            self.largest = self.largest.max(tcp.length);
        }
        // A reset has no place in the sequence.
        if tcp.flags.has(Flags::RST) {
            return Kind::Pure;
        }
        let closed = peer.window == Some(0);
        if length <= 1
            && to <= self.next
            && !tcp.flags.has(Flags::SYN)
            && !tcp.flags.has(Flags::FIN)
        {
            // One byte before what comes next, or none there: asks whether the peer lives.
            if from.plus(1) == self.next && self.flight() <= 1 && !closed {
                return Kind::KeepAlive;
            }
            if length == 0 {
                return Kind::Pure;
            }
        }
        if length == 0 {
            return Kind::Pure;
        }
        if closed && from <= self.acknowledged && to > self.acknowledged && tcp.length > 0 {
            // One byte, or as much as a segment has, beyond a closed window: RFC 9293, 3.8.6.1.
            // Whether it is kept, its acknowledgement tells.
            self.last_data = at.into();
            return Kind::WindowProbe;
        }
        if let Some(edge) = self.edge.known()
            && to > edge.plus(1)
            && peer.scale_known()
        {
            let refused = &mut self.trouble.get_or_insert_default().refused;
            let (first, last) = refused.unwrap_or((from, to));
            *refused = Some((first.min(from), last.max(to)));
        }
        if from >= self.next {
            self.sizes.sent(from, to, tcp.length, self.segment());
        }
        if from == self.next {
            self.counts.new_bytes += u64::from(tcp.length);
            self.advance(to, at);
            self.round_trip.sent(to, at);
            return Kind::New;
        }
        if from > self.next {
            let stamp = tcp.time_stamps().map(|(value, _)| value);
            let hole = Hole { from: self.next, to: from, since: at, stamp };
            self.holes.get_or_insert_default().open(hole);
            self.counts.new_bytes += u64::from(tcp.length);
            self.advance(to, at);
            return Kind::Ahead;
        }
        let (kind, missing) = self.again(from, to, tcp, at);
        // A part of it may be new: data put together anew when it was repeated.
        let new = missing + to.since(self.next);
        self.counts.new_bytes += new.min(u64::from(tcp.length));
        self.advance(to, at);
        kind
    }

    #[inline]
    fn advance(&mut self, to: Sequence, at: Nanos) {
        self.next = self.next.max(to);
        self.greatest_flight = self.greatest_flight.max(self.flight());
        self.last_data = at.into();
    }

    /// Data at or before what is expected: why does it come now? And how many of its bytes were
    /// missing.
    fn again(&mut self, from: Sequence, to: Sequence, tcp: &Tcp<'_>, at: Nanos) -> (Kind, u64) {
        let stamp = tcp.time_stamps().map(|(value, _)| value);
        let filled = self.holes.as_mut().and_then(|holes| holes.fill(from, to));
        if let Some(Filled { since, missing, stamp: next }) = filled {
            let late = match stamp.zip(next).map(|(own, next)| own.wrapping_sub(next).cast_signed())
            {
                // Its stamp tells whether it was sent before what follows it, or with it.
                Some(stamped) => stamped <= 0,
                None => {
                    let quick = SHUFFLED.max(self.round_trip.least().unwrap_or(0) / 4);
                    at - since < quick && self.duplicates < DUPLICATES
                }
            };
            // Or it was captured after what follows it, and came before.
            if late || at < since {
                return (Kind::Reordered, missing);
            }
            self.round_trip.repeated(to);
            self.trouble.get_or_insert_default().repaired(from, to, stamp);
            return (Kind::RepeatedUnseen, missing);
        }
        if let Some(trouble) = &mut self.trouble
            && trouble.was_late(from, to, stamp)
        {
            // What was sent again to fill a hole came first: this is what was late.
            self.counts.unseen = self.counts.unseen.saturating_sub(1);
            self.counts.late_originals += 1;
            return (Kind::Reordered, 0);
        }
        self.round_trip.repeated(to);
        self.sizes.again(from, to);
        let silence = self.last_data.get().map_or(0, |last| at - last);
        let trouble = self.trouble.get_or_insert_default();
        if trouble.refused.is_some_and(|(first, last)| from >= first && from < last) {
            // Its receiver had no room for it and dropped it: nothing was lost on the way.
            return (Kind::WindowProbe, 0);
        }
        let asked = from <= self.acknowledged && self.duplicates >= DUPLICATES;
        trouble.repair = asked.then_some((to, at));
        let kind = if asked {
            Kind::RepeatedFast
        } else if silence >= self.round_trip.timeout().min(1_000_000_000) {
            let (segment, times) = trouble.timeouts;
            let times = if segment == from { times.saturating_add(1) } else { 1 };
            trouble.timeouts = (from, times);
            trouble.most_timeouts = trouble.most_timeouts.max((times, to.since(from) as u32));
            Kind::RepeatedTimeout
        } else {
            Kind::Repeated
        };
        (kind, 0)
    }

    #[inline]
    fn count(&mut self, kind: Kind) {
        let counts = &mut self.counts;
        match kind {
            Kind::Pure | Kind::New | Kind::Ahead | Kind::Copy => {}
            Kind::Reordered => counts.reordered += 1,
            Kind::RepeatedUnseen => counts.unseen += 1,
            Kind::RepeatedFast => counts.fast += 1,
            Kind::RepeatedTimeout => counts.timeouts += 1,
            Kind::Repeated => counts.repeated += 1,
            Kind::WindowProbe => counts.window_probes += 1,
            Kind::KeepAlive => counts.keep_alives += 1,
        }
    }

    /// What this packet says of the peer's data.
    #[inline]
    fn acknowledge(&mut self, tcp: &Tcp<'_>, at: Nanos, kind: Kind, peer: &mut Direction) {
        if peer.first.known().is_none() {
            // The capture began in the middle, or has one direction only.
            let next = Sequence::first(tcp.acknowledgement);
            (peer.next, peer.acknowledged) = (next, next);
            return;
        }
        let to = peer.acknowledged.near(tcp.acknowledgement);
        if to > peer.acknowledged {
            let flight = peer.flight();
            peer.acknowledged = to;
            peer.next = peer.next.max(to);
            peer.duplicates = 0;
            peer.sizes.acknowledged(to);
            peer.round_trip.acknowledged(to, at, flight);
            peer.policing.acknowledged(to, at);
            if let Some(trouble) = &mut peer.trouble {
                if let Some((_, sent)) = trouble.repair.take_if(|(end, _)| *end <= to) {
                    peer.round_trip.repaired(at.saturating_sub(sent), flight);
                }
                // What was kept after all; or an acknowledgement that had made room was not captured.
                if let Some((first, last)) = trouble.refused
                    && to > first
                {
                    trouble.refused = (to < last).then_some((to, last));
                }
            }
            if peer.flight() == 0 {
                peer.drained = at.into();
            }
            self.select(tcp, at, to, peer);
            return;
        }
        let same_window = tcp.window == self.last_window;
        if to == peer.acknowledged
            && kind == Kind::Pure
            && !tcp.flags.has(Flags::SYN)
            && !tcp.flags.has(Flags::RST)
            && peer.flight() > 0
            && same_window
        {
            peer.duplicates += 1;
            self.counts.duplicate_acks += 1;
        }
        self.select(tcp, at, to, peer);
    }

    /// What a selective acknowledgement says of the peer's data; `to` is what is acknowledged anyway.
    #[inline]
    fn select(&mut self, tcp: &Tcp<'_>, at: Nanos, to: Sequence, peer: &mut Direction) {
        if tcp.has_time_stamps_alone() {
            return;
        }
        let flight = peer.flight();
        for option in tcp.options() {
            let TcpOption::Sack(sack) = option else { continue };
            for (number, (first, last)) in sack.blocks().enumerate() {
                let (first, last) = (to.near(first), to.near(last));
                if number == 0 {
                    peer.policing.selected(to, first, last, at);
                }
                if number == 0 && last <= to {
                    // It arrived twice (RFC 2883).
                    self.counts.duplicate_sacks += 1;
                } else {
                    peer.round_trip.selected(first, last, at, flight);
                }
            }
        }
    }

    /// Whether it is known by how much this end's windows are shifted.
    #[inline]
    pub(crate) fn scale_known(&self) -> bool {
        self.segment_size.is_some() || self.window_scale.is_some()
    }

    /// The window that a packet offers.
    #[inline]
    fn offer(&mut self, tcp: &Tcp<'_>, at: Nanos, peer: &mut Direction) {
        if tcp.flags.has(Flags::RST) {
            return;
        }
        // That of a SYN is not scaled (RFC 7323, 2.2).
        // Nor any, where one of two SYNs does not offer it.
        let refused = peer.segment_size.is_some() && peer.window_scale.is_none();
        let scale = if tcp.flags.has(Flags::SYN) || refused { None } else { self.window_scale };
        let scale = scale.unwrap_or(0);
        let window = u32::from(tcp.window) << scale;
        self.counts.zero_windows += u32::from(window == 0 && !tcp.flags.has(Flags::SYN));
        self.window = Some(window);
        self.last_window = tcp.window;
        self.largest_window = self.largest_window.max(window);
        if tcp.flags.has(Flags::ACK) && peer.first.known().is_some() {
            let edge = peer.acknowledged.plus(window);
            // An edge that was offered stays (RFC 9293, 3.8.6).
            if peer.edge < edge {
                peer.edge = edge;
                if let Some(edges) = &mut peer.edges {
                    edges.moved(edge, at);
                }
            }
        }
    }
}
