//! The classes of disagreement between the two, and who is right. A class is told by what a packet
//! is, never by its file; docs/decisions/0013-tshark-as-oracle.md says why who is right.

use streams::Kind;
use wire::packet::DecodeError;

use super::captures::Seen;
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

/// That on which they disagree.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Case<'a> {
    /// Only one of them sees a segment.
    Missing(Option<&'a Frame>, Result<Seen, DecodeError>),
    Packet(Subject, &'a Frame, Seen, Facts),
    /// The last is netwhy's time.
    Handshake(Handshake, bool, Option<i64>),
}

#[derive(Clone, Copy)]
enum Holds {
    Missing(fn(Option<&Frame>, Result<Seen, DecodeError>) -> bool),
    Packet(fn(&Frame, &Seen, &Facts) -> bool),
    Handshake(fn(&Handshake, bool, Option<i64>) -> bool),
}

/// Disagreements for one reason.
pub(crate) struct Class {
    pub(crate) subject: Subject,
    pub(crate) name: &'static str,
    /// Who is right.
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

    /// The classes to which it belongs: one, or it is not understood.
    pub(crate) fn classes(&self) -> Vec<usize> {
        let held = CLASSES.iter().enumerate().filter(|(_, class)| {
            class.subject == self.subject()
                && match (class.holds, self) {
                    (Holds::Missing(holds), Case::Missing(frame, seen)) => holds(*frame, *seen),
                    (Holds::Packet(holds), Case::Packet(_, frame, seen, facts)) => {
                        holds(frame, seen, facts)
                    }
                    (Holds::Handshake(holds), Case::Handshake(handshake, clock, ours)) => {
                        holds(handshake, *clock, *ours)
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

/// Both say that data passes again; tshark takes it for late.
fn late_for_tshark(frame: &Frame, seen: &Seen) -> bool {
    seen.says.again == Again::Repeated && frame.says.again == Again::Reordered
}

/// It was beyond the window when it passed first; netwhy counts no loss.
fn had_no_room(frame: &Frame, seen: &Seen, facts: &Facts) -> bool {
    seen.kind == Kind::WindowProbe && frame.says.again != Again::No && facts.had_no_room
}

fn copy(_: &Frame, seen: &Seen, facts: &Facts) -> bool {
    seen.kind == Kind::Copy && facts.copy
}

/// tshark's time is from the last SYN to the end.
fn from_last_syn(handshake: &Handshake) -> bool {
    let time = handshake.opened.zip(handshake.last_syn).map(|(opened, syn)| opened - syn);
    time.zip(handshake.theirs).is_some_and(|(time, theirs)| (time - theirs).abs() <= 1_000)
}

/// Whether it is inside one of these protocols.
fn within(frame: &Frame, names: &[&str]) -> bool {
    frame.protocols.split(':').any(|name| names.contains(&name))
}

pub(crate) const CLASSES: [Class; 28] = [
    class(
        Subject::Segment,
        "link type that netwhy does not read",
        "tshark",
        Holds::Missing(|_, seen| seen == Err(DecodeError::UnknownLinkType)),
    ),
    class(
        Subject::Segment,
        "tunnel that netwhy does not open",
        "tshark",
        Holds::Missing(|frame, seen| {
            let tunnel = frame.is_some_and(|frame| within(frame, &["l2tp", "wccp", "gre"]));
            seen == Err(DecodeError::NotIp) && tunnel
        }),
    ),
    class(
        Subject::Segment,
        "quoted by sFlow",
        "netwhy",
        Holds::Missing(|frame, seen| {
            let quoted = frame.is_some_and(|frame| within(frame, &["sflow"]));
            seen == Err(DecodeError::NotIp) && quoted
        }),
    ),
    class(
        Subject::Segment,
        "BIG TCP",
        "netwhy",
        Holds::Missing(|frame, seen| {
            frame.is_none() && seen.is_ok_and(|seen| seen.length > u64::from(u16::MAX))
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
        Holds::Packet(|frame, seen, _| frame.length.is_some() && frame.told == Some(seen.length)),
    ),
    class(Subject::Again, "captured twice", "netwhy", Holds::Packet(copy)),
    class(
        Subject::Again,
        "sent again soon",
        "netwhy",
        Holds::Packet(|frame, seen, facts| {
            late_for_tshark(frame, seen) && facts.after_first && !facts.copy
        }),
    ),
    class(
        Subject::Again,
        "SYN sent again",
        "netwhy",
        Holds::Packet(|frame, seen, facts| {
            late_for_tshark(frame, seen)
                && frame.has(SYN)
                && facts.passed > 0
                && !facts.after_first
                && !facts.copy
        }),
    ),
    class(
        Subject::Again,
        "lost before the capture, sent again",
        "netwhy",
        Holds::Packet(|frame, seen, facts| {
            late_for_tshark(frame, seen) && facts.passed == 0 && facts.after_later
        }),
    ),
    class(
        Subject::Again,
        "late, sent before what came first",
        "netwhy",
        Holds::Packet(|frame, seen, facts| {
            seen.says.again == Again::Reordered
                && frame.says.again == Again::Repeated
                && facts.passed == 0
                && facts.before_later
        }),
    ),
    class(
        Subject::Again,
        "captured behind what came after it",
        "netwhy",
        Holds::Packet(|frame, seen, facts| {
            seen.kind == Kind::New
                && frame.says.again != Again::No
                && facts.passed == 0
                && facts.before_later
                && !frame.has(FIN)
        }),
    ),
    class(
        Subject::Again,
        "overtaken by an empty segment",
        "netwhy",
        Holds::Packet(|frame, seen, facts| {
            seen.kind == Kind::New
                && frame.says.again == Again::Repeated
                && facts.passed == 0
                && frame.has(FIN)
        }),
    ),
    class(
        Subject::Again,
        "one byte twice",
        "netwhy",
        Holds::Packet(|frame, seen, facts| {
            seen.says.again == Again::Repeated
                && frame.says.again == Again::No
                && facts.one_before
                && facts.passed == 1
                && facts.takes > 1
        }),
    ),
    class(
        Subject::Again,
        "no room for it at first",
        "netwhy",
        Holds::Packet(|frame, seen, facts| had_no_room(frame, seen, facts) && facts.times == 1),
    ),
    class(
        Subject::Again,
        "no room for it at first, and sent more than twice",
        "tshark",
        Holds::Packet(|frame, seen, facts| had_no_room(frame, seen, facts) && facts.times > 1),
    ),
    class(Subject::DuplicateAck, "captured twice", "netwhy", Holds::Packet(copy)),
    class(
        Subject::DuplicateAck,
        "nothing is out",
        "netwhy",
        Holds::Packet(|frame, seen, facts| {
            frame.says.duplicate_ack
                && frame.length == Some(seen.length)
                && !facts.outstanding
                && !facts.copy
        }),
    ),
    class(
        Subject::DuplicateAck,
        "less than was acknowledged before",
        "netwhy",
        Holds::Packet(|frame, _, facts| {
            frame.says.duplicate_ack && facts.acknowledges_less && !facts.copy
        }),
    ),
    class(
        Subject::DuplicateAck,
        "after one that acknowledges less",
        "netwhy",
        Holds::Packet(|frame, seen, facts| {
            seen.says.duplicate_ack
                && frame.window > 0
                && facts.outstanding
                && facts.last_acknowledged_less
                && !facts.acknowledges_less
        }),
    ),
    class(
        Subject::DuplicateAck,
        "closed window",
        "netwhy",
        Holds::Packet(|frame, seen, facts| {
            seen.says.duplicate_ack && frame.window == 0 && facts.outstanding
        }),
    ),
    class(
        Subject::DuplicateAck,
        "frame cut together with its length",
        "netwhy",
        Holds::Packet(|frame, seen, facts| {
            frame.says.duplicate_ack
                && frame.length != Some(seen.length)
                && frame.told == Some(seen.length)
                && !facts.copy
        }),
    ),
    class(
        Subject::ZeroWindow,
        "FIN with a closed window",
        "netwhy",
        Holds::Packet(|frame, seen, facts| seen.says.zero_window && frame.has(FIN) && !facts.copy),
    ),
    class(
        Subject::Handshake,
        "SYN repeated",
        "netwhy",
        Holds::Handshake(|handshake, clock, _| {
            clock && handshake.syns > 1 && from_last_syn(handshake)
        }),
    ),
    class(
        Subject::Handshake,
        "SYN captured twice",
        "netwhy",
        Holds::Handshake(|handshake, clock, _| {
            clock
                && handshake.syns == 1
                && handshake.syn != handshake.last_syn
                && from_last_syn(handshake)
        }),
    ),
    class(
        Subject::Handshake,
        "refused",
        "netwhy",
        Holds::Handshake(|handshake, clock, ours| {
            clock && ours.is_none() && handshake.refused && !handshake.answered
        }),
    ),
    class(
        Subject::Handshake,
        "answer not captured",
        "tshark",
        Holds::Handshake(|handshake, clock, ours| {
            clock && ours.is_none() && !handshake.refused && !handshake.answered
        }),
    ),
    class(
        Subject::Handshake,
        "all at one moment, or at none that can be",
        "netwhy",
        Holds::Handshake(|handshake, clock, ours| {
            !clock || (ours == Some(0) && handshake.syn == handshake.opened)
        }),
    ),
];
