//! The classes of disagreement between netwhy and tshark, and which of them is right. A class is defined
//! by facts of a packet, never by its file; docs/decisions/0013-tshark-as-oracle.md has the reasons.

use streams::SegmentKind;
use wire::packet::DecodeError;

use super::captures::Segment;
use super::facts::{Facts, Handshake};
use super::frame::{Again, FIN, Frame, SYN};

/// What they may disagree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Whether there is a segment.
    Segment,
    Length,
    Again,
    DuplicateAck,
    ZeroWindow,
    Handshake,
}

/// A disagreement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Case<'a> {
    /// Only one of them finds a segment.
    Missing(Option<&'a Frame>, Result<Segment, DecodeError>),
    Packet(Subject, &'a Frame, Segment, Facts),
    /// The handshake, whether its frames have times, and its duration by netwhy.
    Handshake(Handshake, bool, Option<i64>),
}

#[derive(Clone, Copy)]
enum Holds {
    Missing(fn(Option<&Frame>, Result<Segment, DecodeError>) -> bool),
    Packet(fn(&Frame, &Segment, &Facts) -> bool),
    Handshake(fn(&Handshake, bool, Option<i64>) -> bool),
}

/// Disagreements for the same reason.
pub(crate) struct Class {
    pub(crate) subject: Subject,
    pub(crate) name: &'static str,
    /// Which of them is right.
    pub(crate) right: &'static str,
    holds: Holds,
}

impl Case<'_> {
    pub(crate) fn subject(&self) -> Subject {
        match self {
            Case::Missing(..) => Subject::Segment,
            Case::Packet(subject, ..) => *subject,
            Case::Handshake(..) => Subject::Handshake,
        }
    }

    /// The classes to which it belongs: one, or it has no reason.
    pub(crate) fn classes(&self) -> Vec<usize> {
        let held = CLASSES.iter().enumerate().filter(|(_, class)| {
            class.subject == self.subject()
                && match (class.holds, self) {
                    (Holds::Missing(holds), Case::Missing(frame, segment)) => {
                        holds(*frame, *segment)
                    }
                    (Holds::Packet(holds), Case::Packet(_, frame, segment, facts)) => {
                        holds(frame, segment, facts)
                    }
                    (Holds::Handshake(holds), Case::Handshake(handshake, has_times, ours)) => {
                        holds(handshake, *has_times, *ours)
                    }
                    _ => false,
                }
        });
        held.map(|(number, _)| number).collect()
    }
}

const fn class(subject: Subject, name: &'static str, right: &'static str, holds: Holds) -> Class {
    Class { subject, name, right, holds }
}

/// Retransmitted for netwhy, out of order for tshark.
fn is_out_of_order_for_tshark(frame: &Frame, segment: &Segment) -> bool {
    segment.verdict.again == Again::Retransmitted && frame.verdict.again == Again::Reordered
}

/// It was beyond the window when it passed first; netwhy counts no loss.
fn was_beyond_window(frame: &Frame, segment: &Segment, facts: &Facts) -> bool {
    segment.kind == SegmentKind::WindowProbe
        && frame.verdict.again != Again::No
        && facts.was_beyond_window
}

fn is_duplicate(_: &Frame, segment: &Segment, facts: &Facts) -> bool {
    segment.kind == SegmentKind::DuplicatePacket && (facts.is_duplicate || facts.is_copy)
}

/// tshark counts from the last SYN.
fn from_last_syn(handshake: &Handshake) -> bool {
    let time = handshake.opened.zip(handshake.last_syn).map(|(opened, syn)| opened - syn);
    time.zip(handshake.theirs).is_some_and(|(time, theirs)| (time - theirs).abs() <= 1_000)
}

/// Whether it has one of these protocols.
fn within(frame: &Frame, names: &[&str]) -> bool {
    frame.protocols.split(':').any(|name| names.contains(&name))
}

pub(crate) const CLASSES: [Class; 28] = [
    class(
        Subject::Segment,
        "link type that netwhy does not support",
        "tshark",
        Holds::Missing(|_, segment| segment == Err(DecodeError::UnknownLinkType)),
    ),
    class(
        Subject::Segment,
        "tunnel that netwhy does not open",
        "tshark",
        Holds::Missing(|frame, segment| {
            let tunnel = frame.is_some_and(|frame| within(frame, &["l2tp", "wccp", "gre"]));
            segment == Err(DecodeError::NotIp) && tunnel
        }),
    ),
    class(
        Subject::Segment,
        "quoted by sFlow",
        "netwhy",
        Holds::Missing(|frame, segment| {
            let quoted = frame.is_some_and(|frame| within(frame, &["sflow"]));
            segment == Err(DecodeError::NotIp) && quoted
        }),
    ),
    class(
        Subject::Segment,
        "BIG TCP",
        "netwhy",
        Holds::Missing(|frame, segment| {
            frame.is_none() && segment.is_ok_and(|segment| segment.length > u64::from(u16::MAX))
        }),
    ),
    class(
        Subject::Length,
        "first fragment",
        "netwhy",
        Holds::Packet(|frame, _, _| frame.length.is_none()),
    ),
    class(
        Subject::Length,
        "frame cut together with its length",
        "netwhy",
        Holds::Packet(|frame, segment, _| {
            frame.length.is_some() && frame.length_by_ip == Some(segment.length)
        }),
    ),
    class(Subject::Again, "duplicate packet", "netwhy", Holds::Packet(is_duplicate)),
    class(
        Subject::Again,
        "retransmitted soon",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            is_out_of_order_for_tshark(frame, segment) && facts.after_first && !facts.is_duplicate
        }),
    ),
    class(
        Subject::Again,
        "SYN retransmitted",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            is_out_of_order_for_tshark(frame, segment)
                && frame.has(SYN)
                && facts.passed > 0
                && !facts.after_first
                && !facts.is_duplicate
        }),
    ),
    class(
        Subject::Again,
        "original not captured",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            is_out_of_order_for_tshark(frame, segment) && facts.passed == 0 && facts.after_later
        }),
    ),
    class(
        Subject::Again,
        "reordered, sent before what came first",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            segment.verdict.again == Again::Reordered
                && frame.verdict.again == Again::Retransmitted
                && facts.passed == 0
                && facts.before_later
        }),
    ),
    class(
        Subject::Again,
        "captured out of order",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            segment.kind == SegmentKind::New
                && frame.verdict.again != Again::No
                && facts.passed == 0
                && facts.before_later
                && !frame.has(FIN)
        }),
    ),
    class(
        Subject::Again,
        "overtaken by an empty segment",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            segment.kind == SegmentKind::New
                && frame.verdict.again == Again::Retransmitted
                && facts.passed == 0
                && frame.has(FIN)
        }),
    ),
    class(
        Subject::Again,
        "one byte twice",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            segment.verdict.again == Again::Retransmitted
                && frame.verdict.again == Again::No
                && facts.begins_one_before
                && facts.passed == 1
                && facts.sequence_length > 1
        }),
    ),
    class(
        Subject::Again,
        "beyond the window at first",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            was_beyond_window(frame, segment, facts) && facts.times == 1
        }),
    ),
    class(
        Subject::Again,
        "beyond the window at first, and sent more than twice",
        "tshark",
        Holds::Packet(|frame, segment, facts| {
            was_beyond_window(frame, segment, facts) && facts.times > 1
        }),
    ),
    class(Subject::DuplicateAck, "duplicate packet", "netwhy", Holds::Packet(is_duplicate)),
    class(
        Subject::DuplicateAck,
        "nothing in flight",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            frame.verdict.duplicate_ack
                && frame.length == Some(segment.length)
                && !facts.is_data_in_flight
                && !facts.is_duplicate
        }),
    ),
    class(
        Subject::DuplicateAck,
        "less than was acknowledged before",
        "netwhy",
        Holds::Packet(|frame, _, facts| {
            frame.verdict.duplicate_ack && facts.acknowledges_less && !facts.is_duplicate
        }),
    ),
    class(
        Subject::DuplicateAck,
        "after one that acknowledges less",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            segment.verdict.duplicate_ack
                && frame.window > 0
                && facts.is_data_in_flight
                && facts.last_acknowledged_less
                && !facts.acknowledges_less
        }),
    ),
    class(
        Subject::DuplicateAck,
        "closed window",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            segment.verdict.duplicate_ack && frame.window == 0 && facts.is_data_in_flight
        }),
    ),
    class(
        Subject::DuplicateAck,
        "frame cut together with its length",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            frame.verdict.duplicate_ack
                && frame.length != Some(segment.length)
                && frame.length_by_ip == Some(segment.length)
                && !facts.is_duplicate
        }),
    ),
    class(
        Subject::ZeroWindow,
        "FIN with a closed window",
        "netwhy",
        Holds::Packet(|frame, segment, facts| {
            segment.verdict.zero_window && frame.has(FIN) && !facts.is_duplicate
        }),
    ),
    class(
        Subject::Handshake,
        "SYN retransmitted",
        "netwhy",
        Holds::Handshake(|handshake, has_times, _| {
            has_times && handshake.syns > 1 && from_last_syn(handshake)
        }),
    ),
    class(
        Subject::Handshake,
        "duplicate SYN",
        "netwhy",
        Holds::Handshake(|handshake, has_times, _| {
            has_times
                && handshake.syns == 1
                && handshake.syn != handshake.last_syn
                && from_last_syn(handshake)
        }),
    ),
    class(
        Subject::Handshake,
        "refused",
        "netwhy",
        Holds::Handshake(|handshake, has_times, ours| {
            has_times && ours.is_none() && handshake.refused && !handshake.answered
        }),
    ),
    class(
        Subject::Handshake,
        "answer not captured",
        "tshark",
        Holds::Handshake(|handshake, has_times, ours| {
            has_times && ours.is_none() && !handshake.refused && !handshake.answered
        }),
    ),
    class(
        Subject::Handshake,
        "all at one moment, or without times",
        "netwhy",
        Holds::Handshake(|handshake, has_times, ours| {
            !has_times || (ours == Some(0) && handshake.syn == handshake.opened)
        }),
    ),
];
