//! What happened with a packet and may cost time, as rows.

use model::{CapturedEvent, EventKind};
use wire::packet::tcp::Flags;

use super::{Clock, clock, micros, side};
use crate::Nanos;
use crate::budget::Parts;
use crate::collect::watch::Passed;
use crate::direction::Kind;
use crate::stall::Reason;
use crate::stream::Stream;

/// The events of a packet, in order; `since` is where the time since the packet before it went.
pub fn of(passed: &Passed<'_>, since: &Parts, mut each: impl FnMut(CapturedEvent)) {
    let Passed { tcp, event, stream, .. } = passed;
    if event.kind == Kind::Copy {
        return;
    }
    let mut add = |kind: EventKind, from: usize, waited: Option<Nanos>| {
        each(CapturedEvent {
            stream: stream.number,
            packet: Some(passed.packet),
            at_us: micros(passed.began, passed.at),
            side: side(stream, from),
            event: kind,
            bytes: tcp.length.into(),
            waited_us: waited.map(|time| u64::try_from(time / 1_000).unwrap_or(0)),
        });
    };
    let lost = Some(clock::lost(since));
    let repeated = match event.kind {
        Kind::RepeatedFast => Some(EventKind::FastRetransmission),
        Kind::RepeatedTimeout => Some(EventKind::RtoRetransmission),
        Kind::RepeatedUnseen => Some(EventKind::RetransmissionOriginalNotCaptured),
        Kind::Repeated => Some(EventKind::RetransmissionKindUnknown),
        _ => None,
    };
    match (repeated, event.kind) {
        (Some(_), _) if tcp.flags.all(Flags::SYN) => {
            add(EventKind::SynRetransmission, passed.side, lost)
        }
        (Some(kind), _) => add(kind, passed.side, lost),
        (None, Kind::Reordered) => add(EventKind::Reordered, passed.side, None),
        (None, Kind::WindowProbe) => add(EventKind::WindowProbe, passed.side, None),
        _ => {}
    }
    if let Some(stall) = &event.stall {
        let kind = match stall.reason {
            Reason::Window => EventKind::WindowStall,
            Reason::DelayedAck => EventKind::DelayedAckStall,
        };
        add(kind, stall.side, Some(stall.lasted));
    }
    if tcp.flags.all(Flags::RST) {
        add(EventKind::Reset, passed.side, None);
    } else if tcp.window == 0 && !tcp.flags.all(Flags::SYN) {
        add(EventKind::ZeroWindow, passed.side, None);
    }
}

/// The stall that was going on when a stream ended.
pub fn last(stream: &Stream, clock: &Clock, began: Nanos) -> Option<CapturedEvent> {
    let (held, time) = clock.still_closed(stream)?;
    Some(CapturedEvent {
        stream: stream.number,
        packet: None,
        at_us: micros(began, stream.last),
        side: side(stream, held),
        event: EventKind::WindowStall,
        bytes: 0,
        waited_us: Some(micros(0, time)),
    })
}

/// How long an end could not get data through before a packet: the stall that the packet ended, or
/// what was lost since the packet before it.
pub fn stalled(passed: &Passed<'_>, since: &Parts) -> Nanos {
    let stall = passed.event.stall.map_or(0, |stall| stall.lasted);
    clock::lost(since).max(stall)
}
