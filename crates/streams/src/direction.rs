//! What one end of a connection sent: bytes that are new, bytes that came again, holes; and what its
//! peer acknowledged of it.

use wire::packet::Ip;
use wire::packet::tcp::{Flags, Tcp, TcpOption};

use crate::budget::Settled;
pub use crate::counts::{Counts, Kind};
use crate::echo::Echo;
use crate::edges::Edges;
use crate::holes::{Hole, Holes};
use crate::policing::Policing;
use crate::round_trip::{RoundTrip, Times};
use crate::sequence::Sequence;
use crate::sizes::Sizes;
use crate::trouble::Trouble;
use crate::{Maybe, Nanos};

mod again;

/// Duplicate acknowledgements that make a sender repeat (RFC 5681).
const DUPLICATES: u32 = 3;
/// Segments on their way that make a transfer of what is sent.
const BULK: u64 = 4;
/// Segment size where the handshake was not seen, at least and at most.
const SEGMENT: u32 = 536;
const ETHERNET: u32 = 1460;
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
    /// Whether the capture cut off options of its SYN, and perhaps that one.
    pub options_cut: bool,
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
    /// Whether what it last sent again had been acknowledged before, as seen here.
    pub(crate) needless: bool,
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
        if tcp.flags.all(Flags::SYN) {
            self.options(tcp);
            self.agree(peer);
        }
        let before = self.last_data;
        let kind = self.data(tcp, at, peer);
        self.count(kind);
        if let Some((value, echo)) = stamps {
            if self.options_cut && !self.time_stamps {
                self.time_stamps = true;
                self.agree(peer);
            }
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
        if tcp.flags.all(Flags::ACK) {
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
        self.options_cut = tcp.has_truncated_options();
        for option in tcp.options() {
            match option {
                TcpOption::MaxSegmentSize(size) => self.segment_size = Some(size),
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
            + u32::from(tcp.flags.all(Flags::SYN))
            + u32::from(tcp.flags.all(Flags::FIN));
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
        if tcp.flags.all(Flags::RST) {
            return Kind::Pure;
        }
        let closed = peer.window == Some(0);
        if length <= 1
            && to <= self.next
            && !tcp.flags.all(Flags::SYN)
            && !tcp.flags.all(Flags::FIN)
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
            // A closed window is one however it is scaled.
            && (closed || peer.scale_known())
        {
            self.trouble.get_or_insert_default().refuse(from, to);
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
            if peer.next < to {
                peer.unseen(to, at);
            }
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
            && !tcp.flags.all(Flags::SYN)
            && !tcp.flags.all(Flags::RST)
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
        if tcp.has_only_time_stamps() {
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
        self.window_scale.is_some() || (self.segment_size.is_some() && !self.options_cut)
    }

    /// The window that a packet of this end offers: that of a SYN is not scaled (RFC 7323, 2.2), nor
    /// any where one of two SYNs does not offer it.
    #[inline]
    pub(crate) fn offered(&self, tcp: &Tcp<'_>, peer: &Direction) -> u32 {
        let refused =
            peer.segment_size.is_some() && peer.window_scale.is_none() && !peer.options_cut;
        let scale = self.window_scale.filter(|_| !refused && !tcp.flags.all(Flags::SYN));
        u32::from(tcp.window) << scale.unwrap_or(0)
    }

    /// The window that a packet offers.
    #[inline]
    fn offer(&mut self, tcp: &Tcp<'_>, at: Nanos, peer: &mut Direction) {
        if tcp.flags.all(Flags::RST) {
            return;
        }
        let window = self.offered(tcp, peer);
        self.counts.zero_windows += u32::from(window == 0 && !tcp.flags.all(Flags::SYN));
        self.window = Some(window);
        self.last_window = tcp.window;
        self.largest_window = self.largest_window.max(window);
        if tcp.flags.all(Flags::ACK) && peer.first.known().is_some() {
            let edge = peer.acknowledged.plus(window);
            if window == 0 && peer.next > edge.plus(1) && !self.scale_known() {
                // How far the window went before is not known; now it is.
                peer.trouble.get_or_insert_default().refuse(edge, peer.next);
            }
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
