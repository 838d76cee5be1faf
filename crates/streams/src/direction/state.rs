//! What is known of one direction of a stream.

use wire::packet::Ip;
use wire::packet::tcp::{Flags, Tcp, TcpOption};

use crate::loss_recovery::{ChecksumCounts, LossRecovery, SegmentTimeouts, Unanswered};
use crate::path_mtu::PathMtu;
use crate::policing::PolicerDetector;
use crate::right_edge::RightEdges;
use crate::round_trip::{RoundTripTimer, RoundTripTimes};
use crate::segment::SegmentCounts;
use crate::sequence::Sequence;
use crate::sequence_gaps::SequenceGaps;
use crate::time::{Nanos, OptionalTime};
use crate::time_breakdown::SettledWindow;
use crate::timestamp_echo::TimestampEcho;

/// Segment size where no SYN was captured: the default of RFC 9293, 3.7.1, and that of Ethernet.
const MIN_ASSUMED_MSS: u32 = 536;
const MAX_ASSUMED_MSS: u32 = 1460;
/// Retransmissions of one segment that are no accident.
const MIN_REPEATS: u64 = 3;
/// Bytes that time stamps take of each segment.
const TIMESTAMP_BYTES: u16 = 12;

/// Identifications that are so near each other are of one count. Of random ones, one in a thousand is.
const MAX_ID_STEPS: u16 = 64;

/// What the IP header says of a packet, addresses aside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IpFields {
    pub(super) ecn: u8,
    /// Hop limit.
    pub(super) hops: u8,
    /// Identification; 0 for none.
    pub(super) id: u16,
}

impl IpFields {
    #[inline(always)]
    pub(crate) fn of(ip: &Ip<'_>) -> Self {
        IpFields { ecn: ip.ecn, hops: ip.ttl, id: ip.id.unwrap_or(0) as u16 }
    }

    /// Whether a packet with this identification was sent soon after one with the other: where a sender
    /// counts its packets.
    pub(super) fn follows(id: u16, other: u16) -> bool {
        id != 0 && other != 0 && (1..=MAX_ID_STEPS).contains(&id.wrapping_sub(other))
    }

    /// Whether both have an identification, and this one is not the later of both.
    pub(super) fn has_no_later_id(self, other: Self) -> bool {
        let later = self.id.wrapping_sub(other.id) as i16;
        self.id != 0 && other.id != 0 && later <= 0
    }
}

/// The newest data in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Newest {
    /// Its time stamp; 0 for none.
    pub(super) timestamp: u32,
    pub(super) ip: IpFields,
}

/// One direction of a stream: what one end sends.
#[derive(Debug, Clone, Default)]
pub struct Direction {
    /// Packets by kind.
    pub counts: SegmentCounts,
    /// Times from data of this direction to its acknowledgement.
    pub round_trip: RoundTripTimer,
    /// Times from a time stamp of this end to data of the other end that echoes it: what is seen
    /// near the receiver of data in place of acknowledgements.
    pub timestamp_round_trips: Option<Box<RoundTripTimes>>,
    /// The MSS option of this end's SYN.
    pub mss_option: Option<u16>,
    /// The largest segment that either end may send, by their SYNs; 0: none was captured.
    pub(super) negotiated_mss: u16,
    /// The window scale option of this end's SYN.
    pub window_scale: Option<u8>,
    /// Whether the capture cut off options of its SYN, and perhaps the window scale.
    pub options_truncated: bool,
    /// Whether this end offered selective acknowledgements.
    pub sack_permitted: bool,
    /// Whether this end sends time stamps.
    pub timestamps: bool,
    /// Most data of one packet, bytes.
    pub max_segment: u32,
    /// The window that this end last advertised, bytes.
    pub window: Option<u32>,
    /// The largest window that it ever advertised, bytes.
    pub max_window: u32,
    /// Most bytes in flight.
    pub max_in_flight: u64,
    /// When it last sent data.
    pub last_data_at: OptionalTime,
    /// Whether it has sent a FIN.
    pub(crate) finished: bool,
    /// Whether its receiver has closed after it had all that it asked for: it may hear more, but
    /// does not wait for it.
    pub(crate) is_unwanted: bool,
    /// Whether either end has reset the connection: what follows is not lost.
    pub(crate) is_reset: bool,
    /// Whether its last data left no room for another segment in its peer's window, as this end
    /// knew that window.
    pub(crate) window_full: bool,
    /// Whether that window was much smaller then than it can be: the reader is behind.
    pub(crate) reader_behind: bool,
    pub(crate) settled_window: SettledWindow,
    /// Whether its last retransmission had already been acknowledged.
    pub(crate) is_spurious: bool,
    /// Whether its last data was less than a segment.
    pub(crate) is_small: bool,
    /// When the last of its data was acknowledged, if nothing is in flight.
    pub(crate) drained_at: OptionalTime,
    pub(crate) policer: PolicerDetector,
    pub(crate) path_mtu: PathMtu,
    pub(super) timestamp_echo: TimestampEcho,
    pub(super) newest: Newest,
    /// Right edge of the window that the peer advertises; unknown at first.
    pub(super) right_edge: Sequence,
    /// The latest of those edges, where the peer is far from this end.
    pub(super) right_edges: Option<Box<RightEdges>>,
    /// Sequence number of the first packet.
    pub(super) first: Sequence,
    /// End of what was sent.
    pub(super) next: Sequence,
    /// End of what was acknowledged.
    pub(super) acknowledged: Sequence,
    /// Duplicate acknowledgements of that number.
    pub(super) duplicate_acks: u32,
    /// The window field of its last packet, not scaled.
    pub(super) last_window_field: u16,
    /// While it is calm: by how much its windows are scaled, and the smallest that has room.
    pub(super) window_shift: u8,
    pub(super) calm_window: u32,
    /// Boxed: most directions have neither gaps nor losses.
    pub(super) gaps: Option<Box<SequenceGaps>>,
    pub(super) loss_recovery: Option<Box<LossRecovery>>,
}

impl Direction {
    /// Bytes sent and not acknowledged, as seen at the capture point.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.next.since(self.acknowledged)
    }

    /// Whether some of its data was retransmitted, or captured without what is before it: lost, late, or not
    /// captured.
    pub(crate) fn has_lost(&self) -> bool {
        self.gaps.is_some() || self.counts.retransmitted() > 0
    }

    /// Retransmissions to which the receiver sent nothing more, and the time that the sender waited
    /// for it meanwhile.
    pub fn unanswered(&self) -> (u32, Nanos) {
        let found = self.loss_recovery.as_ref().map(|recovery| recovery.unanswered);
        found.map_or((0, 0), |unanswered| (unanswered.count, unanswered.waited))
    }

    /// The segment that was retransmitted most often after timeouts.
    pub fn max_timeouts(&self) -> SegmentTimeouts {
        self.loss_recovery.as_ref().map_or_else(Default::default, |recovery| recovery.max_timeouts)
    }

    /// Segments whose checksum was verified: those after the first loss, if captured whole.
    pub fn checksums(&self) -> ChecksumCounts {
        let recovery = self.loss_recovery.as_ref();
        recovery.map_or_else(Default::default, |recovery| recovery.checksums(self.acknowledged))
    }

    /// It had waited this long before its last retransmission. Once either end has closed, an answer
    /// that never comes is not waited for.
    pub(crate) fn waited_for_loss(&mut self, time: Nanos, peer_finished: bool) {
        let gave_up = self.finished || peer_finished;
        self.loss_recovery.get_or_insert_default().waited(time, gave_up);
    }

    /// Bytes that were acknowledged and not captured. SYN and FIN have a number each, and no bytes.
    pub fn not_captured_bytes(&self) -> u64 {
        const NO_BYTES: u64 = 2;
        let Some(first) = self.first.known() else { return 0 };
        let acknowledged = self.acknowledged.min(self.next).since(first);
        let missing = acknowledged.saturating_sub(self.counts.new_bytes);
        if missing > NO_BYTES { missing } else { 0 }
    }

    /// Whether all its retransmissions are of one segment, after timeouts: whatever a capture lacks,
    /// the sender got no answer to it. A byte of data may be one that a keepalive repeats.
    pub(crate) fn repeats_one_segment(&self) -> bool {
        let SegmentTimeouts { count, bytes } = self.max_timeouts();
        let timeouts = u64::from(count);
        timeouts >= MIN_REPEATS && timeouts == self.counts.retransmitted() && bytes > 1
    }

    /// The stream is over. Time before retransmissions that counts as lost and was not: they were
    /// spurious; or nobody waited for them. `shows_acknowledgements`: what was not answered was not
    /// only not captured.
    pub(crate) fn end_losses(&mut self, shows_acknowledgements: bool) -> [Nanos; 2] {
        let retransmitted = u32::try_from(self.counts.retransmitted()).unwrap_or(u32::MAX);
        let Some(recovery) = &mut self.loss_recovery else { return [0; 2] };
        let unanswered = &mut recovery.unanswered;
        if !shows_acknowledgements {
            // It shows neither losses nor who waited.
            *unanswered = Unanswered { count: retransmitted, time: Nanos::MAX, waited: 0 };
        }
        let unwaited = unanswered.time.saturating_sub(unanswered.waited);
        unanswered.time = unanswered.waited;
        [std::mem::take(&mut recovery.spurious_time), unwaited]
    }

    /// Verifies the checksum of a segment, if something was lost before: damage is one reason.
    #[inline(always)]
    pub(crate) fn verify_checksum(&mut self, ip: &Ip<'_>, tcp: &Tcp<'_>) {
        if self.loss_recovery.is_none() {
            return;
        }
        let (mss, acknowledged) = (self.mss(), self.acknowledged);
        let from = self.next.near(tcp.sequence);
        if let Some(recovery) = &mut self.loss_recovery
            // A segment that an offload put together has another checksum, or none.
            && tcp.length <= mss
        {
            recovery.verify_checksum(&{ *ip }, from, acknowledged);
        }
    }

    /// End of what was acknowledged.
    #[inline]
    pub(crate) fn acknowledged(&self) -> Sequence {
        self.acknowledged
    }

    /// Whether everything that it sent before this number was acknowledged.
    #[inline]
    pub(crate) fn is_acknowledged(&self, end: Sequence) -> bool {
        self.acknowledged >= end
    }

    /// End of what it has sent; `None` before its first packet.
    pub fn next_sequence(&self) -> Option<Sequence> {
        self.first.known().map(|_| self.next)
    }

    /// Sequence number of its first captured packet, as in the header.
    pub fn first_sequence(&self) -> Option<u32> {
        self.first.known().map(Sequence::header)
    }

    /// Keeps the peer's right edges for this time: that end is so far away.
    pub(crate) fn keep_right_edges(&mut self, time: Nanos) {
        self.right_edges.get_or_insert_default().keep_for(time);
    }

    /// Notes the options of a SYN.
    pub(super) fn read_options(&mut self, tcp: &Tcp<'_>) {
        self.options_truncated = tcp.has_truncated_options();
        for option in tcp.options() {
            match option {
                TcpOption::MaxSegmentSize(size) => self.mss_option = Some(size),
                TcpOption::WindowScale(scale) => self.window_scale = Some(scale),
                TcpOption::SackPermitted => self.sack_permitted = true,
                TcpOption::TimeStamps(..) => self.timestamps = true,
                _ => {}
            }
        }
    }

    /// Sets the largest segment of both directions by the SYNs captured so far.
    pub(super) fn negotiate_mss(&mut self, peer: &mut Direction) {
        let reserved = if self.timestamps && peer.timestamps { TIMESTAMP_BYTES } else { 0 };
        let offered = [self.mss_option, peer.mss_option].into_iter().flatten().min();
        let mss = offered.map_or(0, |mss| mss.saturating_sub(reserved));
        (self.negotiated_mss, peer.negotiated_mss) = (mss, mss);
    }

    /// What its socket knows of the SYNs, which were not captured.
    pub(crate) fn take_known_options(&mut self, mss: u16, window_scale: Option<u8>) {
        if self.negotiated_mss == 0 {
            self.negotiated_mss = mss;
        }
        self.window_scale = self.window_scale.or(window_scale);
    }

    /// The largest segment that this end may send, bytes of data.
    #[inline]
    pub(crate) fn mss(&self) -> u32 {
        match self.negotiated_mss {
            0 => self.max_segment.clamp(MIN_ASSUMED_MSS, MAX_ASSUMED_MSS),
            mss => mss.into(),
        }
    }

    /// Whether it is known how this end scales its windows.
    #[inline]
    pub(crate) fn is_scale_known(&self) -> bool {
        self.window_scale.is_some() || (self.mss_option.is_some() && !self.options_truncated)
    }

    /// The window that a packet of this end advertises: that of a SYN is not scaled (RFC 7323, 2.2),
    /// nor any if one of the two SYNs does not offer it.
    #[inline]
    pub(crate) fn advertised_window(&self, tcp: &Tcp<'_>, peer: &Direction) -> u32 {
        let shift = if tcp.flags.all(Flags::SYN) { 0 } else { self.scale(peer) };
        // No scale is more than 14: this fits.
        u32::from(tcp.window) << shift
    }

    /// By how much the windows of this end are scaled, those of SYNs excepted.
    #[inline]
    pub(super) fn scale(&self, peer: &Direction) -> u8 {
        let refused =
            peer.mss_option.is_some() && peer.window_scale.is_none() && !peer.options_truncated;
        self.window_scale.filter(|_| !refused).unwrap_or(0)
    }
}
