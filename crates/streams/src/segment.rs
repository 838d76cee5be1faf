//! What a segment is, and how many of each kind one end sent.

use std::ops::{Deref, DerefMut};

use crate::time::Nanos;

/// What a segment is in the stream of its sender, as seen at the capture point. The decision is
/// made in `direction/classify.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SegmentKind {
    /// No data, no SYN and no FIN.
    #[default]
    NoData,
    /// New data in order.
    New,
    /// New data beyond a gap: data before it was not captured.
    AfterGap,
    /// Data that fills a gap and was sent before what was captured ahead of it.
    Reordered,
    /// A retransmission that fills a gap: the original was lost before the capture point.
    OriginalNotCaptured,
    /// A retransmission after three duplicate acknowledgements.
    FastRetransmission,
    /// A retransmission after a retransmission timeout.
    RtoRetransmission,
    /// A retransmission of unknown kind: a tail-loss probe, or spurious.
    RetransmissionKindUnknown,
    /// A duplicate packet of the capture: a fault of the capture, not of the network.
    DuplicatePacket,
    /// A probe of a closed window, or data for which the receiver had no room: no loss.
    WindowProbe,
    /// A keep-alive.
    KeepAlive,
}

impl SegmentKind {
    /// Whether it has no data of the stream.
    pub(crate) fn is_no_data(self) -> bool {
        matches!(self, SegmentKind::KeepAlive | SegmentKind::NoData | SegmentKind::DuplicatePacket)
    }

    /// Whether it is a retransmission, of any kind.
    pub fn is_retransmission(self) -> bool {
        matches!(
            self,
            SegmentKind::OriginalNotCaptured
                | SegmentKind::FastRetransmission
                | SegmentKind::RtoRetransmission
                | SegmentKind::RetransmissionKindUnknown
        )
    }
}

/// Packets of one end by kind. Most ends have the first few alone: the others take no room until one is
/// counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentCounts {
    /// Packets, duplicate ones left out.
    pub packets: u64,
    /// Bytes of data, retransmitted ones included.
    pub bytes: u64,
    /// Bytes of new data.
    pub new_bytes: u64,
    /// Packets with data.
    pub data_packets: u64,
    rare: Option<Box<RareCounts>>,
}

impl Deref for SegmentCounts {
    type Target = RareCounts;

    fn deref(&self) -> &RareCounts {
        self.rare.as_deref().unwrap_or(&RareCounts::NONE)
    }
}

impl DerefMut for SegmentCounts {
    fn deref_mut(&mut self) -> &mut RareCounts {
        self.rare.get_or_insert_default()
    }
}

/// Counts that most ends do not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RareCounts {
    /// Fast retransmissions.
    pub fast_retransmissions: u32,
    /// RTO retransmissions.
    pub rto_retransmissions: u32,
    /// Retransmissions of unknown kind.
    pub retransmissions_kind_unknown: u32,
    /// Retransmissions whose original was not captured.
    pub originals_not_captured: u32,
    /// Segments that arrived late and were not retransmitted.
    pub reordered: u32,
    /// How late they were, together: for so long was data missing behind which more had arrived.
    pub late: Nanos,
    /// Segments that arrived after their own retransmission, which was spurious; counted among
    /// `reordered` too.
    pub late_originals: u32,
    /// Times that data began to be missing, after all before it had been acknowledged.
    pub missing_began: u32,
    /// Retransmissions of data that was not lost, as far as its acknowledgements tell; counted by
    /// their kind too.
    pub already_acknowledged: u32,
    /// Duplicate packets of the capture; no other count includes them.
    pub duplicate_packets: u32,
    /// Bytes of data of those.
    pub duplicate_bytes: u64,
    /// Probes of a closed window.
    pub window_probes: u32,
    /// Keep-alives.
    pub keep_alives: u32,
    /// Duplicate acknowledgements.
    pub duplicate_acks: u32,
    /// Packets that closed this end's window.
    pub zero_windows: u32,
    /// Packets of this end with a congestion mark (ECN CE).
    pub ecn_ce_marks: u32,
    /// Blocks of this end that report data received twice (D-SACK).
    pub duplicate_sacks: u32,
}

impl RareCounts {
    const NONE: RareCounts = RareCounts {
        fast_retransmissions: 0,
        rto_retransmissions: 0,
        retransmissions_kind_unknown: 0,
        originals_not_captured: 0,
        reordered: 0,
        late: 0,
        late_originals: 0,
        missing_began: 0,
        already_acknowledged: 0,
        duplicate_packets: 0,
        duplicate_bytes: 0,
        window_probes: 0,
        keep_alives: 0,
        duplicate_acks: 0,
        zero_windows: 0,
        ecn_ce_marks: 0,
        duplicate_sacks: 0,
    };

    /// All retransmissions.
    pub fn retransmitted(&self) -> u64 {
        [
            self.fast_retransmissions,
            self.rto_retransmissions,
            self.retransmissions_kind_unknown,
            self.originals_not_captured,
        ]
        .map(u64::from)
        .iter()
        .sum()
    }
}

impl SegmentCounts {
    /// Packets, duplicate ones included.
    pub fn captured_packets(&self) -> u64 {
        self.packets.saturating_add(self.duplicate_packets.into())
    }

    /// Counts a segment by its kind. Its bytes, and duplicate packets, are counted elsewhere.
    #[inline]
    pub(crate) fn add(&mut self, kind: SegmentKind) {
        let count = match kind {
            SegmentKind::NoData
            | SegmentKind::New
            | SegmentKind::AfterGap
            | SegmentKind::DuplicatePacket => return,
            SegmentKind::Reordered => &mut self.reordered,
            SegmentKind::OriginalNotCaptured => &mut self.originals_not_captured,
            SegmentKind::FastRetransmission => &mut self.fast_retransmissions,
            SegmentKind::RtoRetransmission => &mut self.rto_retransmissions,
            SegmentKind::RetransmissionKindUnknown => &mut self.retransmissions_kind_unknown,
            SegmentKind::WindowProbe => &mut self.window_probes,
            SegmentKind::KeepAlive => &mut self.keep_alives,
        };
        *count = count.saturating_add(1);
    }
}
