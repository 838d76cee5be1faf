//! What a frame is, by its header and by all frames of its stream before it. This keeps everything
//! that passed, which neither of the two does, and judges nothing: the classes do.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::frame::{ACK, FIN, Frame, RST, SYN};

/// A copy may be as late as this; without an identification as late as the second.
const COPY: i64 = 200_000_000;
const COPY_AT_ONCE: i64 = 5_000;

/// What is known of a frame before anybody judges it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facts {
    /// The same header, identification included, passed a moment ago.
    pub(crate) copy: bool,
    /// Sequence numbers that it takes, SYN and FIN included, and those of them that passed before.
    pub(crate) takes: i64,
    pub(crate) passed: i64,
    /// It begins one number before what its sender had reached.
    pub(crate) one_before: bool,
    /// It was sent after data of its sender that is beyond it: its time stamp is later, or its
    /// identification where there are no stamps.
    pub(crate) after_later: bool,
    /// Data of its sender that is beyond it passed before and was sent after it, by the same signs.
    pub(crate) before_later: bool,
    /// It was sent after the frame that first brought its first byte.
    pub(crate) after_first: bool,
    /// Its first byte was beyond the window of its receiver when it passed first.
    pub(crate) had_no_room: bool,
    /// How often its first byte passed before, copies not counted.
    pub(crate) times: usize,
    /// What it acknowledges is not all that passed towards its sender.
    pub(crate) outstanding: bool,
    /// It acknowledges less than its sender did before.
    pub(crate) acknowledges_less: bool,
    /// So did the last frame of its sender.
    pub(crate) last_acknowledged_less: bool,
}

/// All streams of a capture.
#[derive(Debug, Default)]
pub(crate) struct Streams(HashMap<u64, Stream>);

/// A stream, as its frames tell.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Number of its first frame.
    pub(crate) first: u64,
    ends: [Option<SocketAddr>; 2],
    sides: [Side; 2],
    copies: HashMap<Header, i64>,
    handshake: Handshake,
    /// A frame of it has a time that cannot be.
    broken_clock: bool,
}

type Header = (SocketAddr, Option<u16>, u32, u32, u64, u16, u16, Option<(u32, u32)>);

/// What one end sent.
#[derive(Debug, Default)]
struct Side {
    /// The number in the header that stands for 0.
    base: Option<u32>,
    /// The end of what it has sent.
    next: i64,
    passes: Vec<Pass>,
    /// What of it was acknowledged.
    acknowledged: Option<i64>,
    /// The furthest that it may send.
    edge: Option<i64>,
    /// Whether its last acknowledgement was of less than one before.
    acknowledged_less: bool,
    /// Shift of its own windows; `None`: no SYN of it was seen.
    shift: Option<Option<u32>>,
}

#[derive(Debug)]
struct Pass {
    from: i64,
    to: i64,
    id: Option<u16>,
    stamp: Option<u32>,
    no_room: bool,
}

impl Pass {
    fn has(&self, number: i64) -> bool {
        self.from <= number && number < self.to
    }

    /// Whether it was sent before a frame of the same sender that has these; `None`: that is not
    /// known.
    fn is_before(&self, frame: &Frame) -> Option<bool> {
        match (self.stamp, frame.stamps, self.id, frame.id) {
            (Some(then), Some((now, _)), ..) if now != then => {
                Some((now.wrapping_sub(then) as i32) > 0)
            }
            (_, _, Some(then), Some(now)) => Some((now.wrapping_sub(then) as i16) > 0),
            _ => None,
        }
    }
}

impl Side {
    fn place(&mut self, number: u32) -> i64 {
        let base = *self.base.get_or_insert(number);
        let near = base.wrapping_add(self.next as u32);
        self.next + i64::from(number.wrapping_sub(near) as i32)
    }
}

impl Streams {
    /// What this frame is; the next one is judged with it.
    pub(crate) fn take(&mut self, frame: &Frame, length: u64) -> Facts {
        let stream = self.0.entry(frame.stream).or_default();
        stream.broken_clock |= !frame.clock;
        stream.handshake.theirs = frame.handshake.or(stream.handshake.theirs);
        stream.take(frame, length)
    }

    /// The streams by tshark's numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, &Stream)> {
        self.0.iter().map(|(number, stream)| (*number, stream))
    }
}

/// Moments of a handshake.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Handshake {
    /// The first SYN, and the last one before the end.
    pub(crate) syn: Option<i64>,
    pub(crate) last_syn: Option<i64>,
    /// SYNs of the client, copies not counted.
    pub(crate) syns: u32,
    /// The first answer: whether it was a reset.
    pub(crate) refused: bool,
    pub(crate) answered: bool,
    /// What the client sent first after the answer.
    pub(crate) opened: Option<i64>,
    /// What tshark makes of it.
    pub(crate) theirs: Option<i64>,
    client: Option<usize>,
}

impl Handshake {
    /// From the first SYN to what the client sent after the answer to it.
    pub(crate) fn time(&self) -> Option<i64> {
        Some(self.opened? - self.syn?)
    }

    fn take(&mut self, frame: &Frame, side: usize, copy: bool) {
        let syn = frame.has(SYN) && !frame.has(ACK);
        if syn && self.opened.is_none() {
            self.client.get_or_insert(side);
            self.syn.get_or_insert(frame.at);
            self.last_syn = Some(frame.at);
            self.syns += u32::from(!copy);
        } else if frame.has(SYN) {
            self.answered = true;
        } else if self.client == Some(1 - side) && !self.answered {
            self.refused |= frame.has(RST);
        } else if self.answered && self.client == Some(side) {
            self.opened.get_or_insert(frame.at);
        }
    }
}

impl Stream {
    /// How it opened, and whether that can be told.
    pub(crate) fn handshake(&self) -> (Handshake, bool) {
        (self.handshake, !self.broken_clock)
    }

    fn take(&mut self, frame: &Frame, length: u64) -> Facts {
        let from = Some(frame.from);
        if self.ends[0].is_none() {
            self.first = frame.number;
            self.ends[0] = from;
        }
        let side = usize::from(self.ends[0] != from);
        let mut facts = Facts { copy: self.is_copy(frame, length), ..Facts::default() };
        let [a, b] = &mut self.sides;
        let (own, peer) = if side == 0 { (a, b) } else { (b, a) };
        let flags = i64::from(frame.has(SYN)) + i64::from(frame.has(FIN));
        let started = own.base.is_some();
        let at = own.place(frame.sequence);
        facts.takes = if frame.has(RST) { 0 } else { length as i64 + flags };
        let to = at + facts.takes;
        facts.one_before = started && at + 1 == own.next;
        if peer.base.is_some() && frame.has(ACK) {
            let acknowledged = peer.place(frame.acknowledgement);
            facts.outstanding = acknowledged < peer.next;
            facts.acknowledges_less = peer.acknowledged.is_some_and(|most| acknowledged < most);
            facts.last_acknowledged_less = own.acknowledged_less;
        }
        if facts.takes > 0 && at < own.next {
            for pass in &own.passes {
                facts.times += usize::from(pass.has(at));
                let before = pass.is_before(frame).filter(|_| pass.from >= to);
                facts.after_later |= before == Some(true);
                facts.before_later |= before == Some(false);
            }
            let first = own.passes.iter().find(|pass| pass.has(at));
            facts.after_first = first.and_then(|pass| pass.is_before(frame)) == Some(true);
            facts.had_no_room = first.is_some_and(|pass| pass.no_room);
            facts.passed = passed(&own.passes, at, to);
        }
        self.handshake.take(frame, side, facts.copy);
        if facts.copy {
            return facts;
        }
        let [a, b] = &mut self.sides;
        let (own, peer) = if side == 0 { (a, b) } else { (b, a) };
        own.acknowledged_less = facts.acknowledges_less;
        if facts.takes > 0 {
            let no_room = peer.shift.is_some() && own.edge.is_some_and(|edge| to > edge + 1);
            let (id, stamp) = (frame.id, frame.stamps.map(|(own, _)| own));
            own.passes.push(Pass { from: at, to, id, stamp, no_room });
            own.next = own.next.max(to);
        }
        if frame.has(SYN) {
            own.shift = Some(frame.scale);
        }
        if frame.has(ACK) && !frame.has(RST) {
            let acknowledged = peer.place(frame.acknowledgement);
            let most = peer.acknowledged.map_or(acknowledged, |before| before.max(acknowledged));
            peer.acknowledged = Some(most);
            peer.next = peer.next.max(most);
            let both = own.shift.flatten().filter(|_| peer.shift != Some(None));
            let shift = both.filter(|_| !frame.has(SYN)).unwrap_or(0);
            let edge = most + (i64::from(frame.window) << shift);
            peer.edge = Some(peer.edge.map_or(edge, |before| before.max(edge)));
        }
        facts
    }

    fn is_copy(&mut self, frame: &Frame, length: u64) -> bool {
        let Frame { from, id, sequence, acknowledgement, flags, window, stamps, .. } = *frame;
        let header = (from, id, sequence, acknowledgement, length, flags, window, stamps);
        let late = if id.is_some() { COPY } else { COPY_AT_ONCE };
        match self.copies.get(&header) {
            Some(before) if (frame.at - before).abs() <= late => true,
            _ => {
                self.copies.insert(header, frame.at);
                false
            }
        }
    }
}

/// How many of these numbers passed before.
fn passed(passes: &[Pass], from: i64, to: i64) -> i64 {
    let mut parts: Vec<(i64, i64)> = passes
        .iter()
        .map(|pass| (pass.from.max(from), pass.to.min(to)))
        .filter(|(from, to)| from < to)
        .collect();
    parts.sort_unstable();
    let mut reached = from;
    let mut sum = 0;
    for (from, to) in parts {
        sum += (to - from.max(reached)).max(0);
        reached = reached.max(to);
    }
    sum
}
