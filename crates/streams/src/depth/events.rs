//! What happened with a packet and may cost time, as rows.

use model::{CapturedEvent, EventKind, Side};
use wire::packet::tcp::Flags;

use super::time_tracker::TimeTracker;
use crate::collect::watch::WatchedSegment;
use crate::segment::SegmentKind;
use crate::stall::StallReason;
use crate::stream::Stream;
use crate::time::{Nanos, micros, micros_between};
use crate::time_breakdown::CategoryTimes;

/// The events of a packet, in order; `since` is where the time since the packet before it went.
pub fn of_segment(
    segment: &WatchedSegment<'_>,
    since: &CategoryTimes,
    mut each: impl FnMut(CapturedEvent),
) {
    let WatchedSegment { tcp, event, stream, side, .. } = *segment;
    if event.kind == SegmentKind::DuplicatePacket {
        return;
    }
    let mut add = |kind: EventKind, of: Side, waited: Option<Nanos>| {
        each(CapturedEvent {
            stream: stream.number,
            packet: Some(segment.packet),
            at_us: micros_between(segment.capture_began, segment.at),
            side: stream.role(of),
            event: kind,
            bytes: tcp.length.into(),
            waited_us: waited.map(micros),
        });
    };
    let lost = Some(since.lost());
    let is_syn = tcp.flags.all(Flags::SYN);
    match event.kind {
        kind if is_syn && kind.is_retransmission() => {
            add(EventKind::SynRetransmission, side, lost);
        }
        SegmentKind::FastRetransmission => add(EventKind::FastRetransmission, side, lost),
        SegmentKind::RtoRetransmission => add(EventKind::RtoRetransmission, side, lost),
        SegmentKind::OriginalNotCaptured => {
            add(EventKind::RetransmissionOriginalNotCaptured, side, lost);
        }
        SegmentKind::RetransmissionKindUnknown => {
            add(EventKind::RetransmissionKindUnknown, side, lost);
        }
        SegmentKind::Reordered => add(EventKind::Reordered, side, None),
        SegmentKind::WindowProbe => add(EventKind::WindowProbe, side, None),
        _ => {}
    }
    if let Some(stall) = &event.stall {
        let kind = match stall.reason {
            StallReason::ClosedWindow => EventKind::WindowStall,
            StallReason::DelayedAck => EventKind::DelayedAckStall,
        };
        add(kind, stall.side, Some(stall.duration));
    }
    if tcp.flags.all(Flags::RST) {
        add(EventKind::Reset, side, None);
    } else if tcp.window == 0 && !is_syn {
        add(EventKind::ZeroWindow, side, None);
    }
}

/// The stall that went on when a stream ended.
pub fn open_stall(
    stream: &Stream,
    tracker: &TimeTracker,
    capture_began: Nanos,
) -> Option<CapturedEvent> {
    let (side, time) = tracker.open_stall(stream)?;
    Some(CapturedEvent {
        stream: stream.number,
        packet: None,
        at_us: micros_between(capture_began, stream.last),
        side: stream.role(side),
        event: EventKind::WindowStall,
        bytes: 0,
        waited_us: Some(micros(time)),
    })
}

/// How long an end could not send before a packet: the stall that the packet ended, or the time
/// lost since the packet before it.
pub fn stall_time(segment: &WatchedSegment<'_>, since: &CategoryTimes) -> Nanos {
    let stall = segment.event.stall.map_or(0, |stall| stall.duration);
    since.lost().max(stall)
}
