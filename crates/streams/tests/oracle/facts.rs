//! Facts of a frame, from its header and from all frames of its stream before it. This keeps everything
//! that passed, which neither netwhy nor tshark does, and judges nothing: the classes do.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::frame::{ACK, FIN, Frame, RST, SYN};

/// How late a duplicate may be, nanoseconds; the second, if it has no identification.
const MAX_DELAY: i64 = 200_000_000;
const MAX_DELAY_WITHOUT_ID: i64 = 5_000;

/// Facts of a frame.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facts {
    /// The same header, identification included, passed a moment ago.
    pub(crate) is_duplicate: bool,
    /// All of its data passed before, and it was sent no later than that: a copy in other pieces.
    pub(crate) is_copy: bool,
    /// Sequence numbers that it takes, SYN and FIN included.
    pub(crate) sequence_length: i64,
    /// How many of them passed before.
    pub(crate) passed: i64,
    /// It begins one number before the end of what its sender had sent.
    pub(crate) begins_one_before: bool,
    /// It was sent after data of its sender that is beyond it: its time stamp is later, or its
    /// identification where there are no time stamps.
    pub(crate) after_later: bool,
    /// Data of its sender that is beyond it passed before and was sent after it, by the same signs.
    pub(crate) before_later: bool,
    /// It was sent after the frame in which its first byte passed first.
    pub(crate) after_first: bool,
    /// Its first byte was beyond the window of its receiver when it passed first.
    pub(crate) was_beyond_window: bool,
    /// How often its first byte passed before, duplicates left out.
    pub(crate) times: usize,
    /// Data towards its sender is in flight after what it acknowledges.
    pub(crate) is_data_in_flight: bool,
    /// It acknowledges less than its sender did before.
    pub(crate) acknowledges_less: bool,
    /// So did the last frame of its sender.
    pub(crate) last_acknowledged_less: bool,
}

/// All streams of a capture.
#[derive(Debug, Default)]
pub(crate) struct Streams(HashMap<u64, Stream>);

/// A stream, from its frames.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Number of its first frame.
    pub(crate) first: u64,
    ends: [Option<SocketAddr>; 2],
    sent: [Sent; 2],
    headers: HashMap<Header, i64>,
    handshake: Handshake,
    /// Whether a frame of it has no time.
    lacks_times: bool,
}

type Header = (SocketAddr, Option<u16>, u32, u32, u64, u16, u16, Option<(u32, u32)>);

/// What one end sent.
#[derive(Debug, Default)]
struct Sent {
    /// The sequence number that counts as 0.
    base: Option<u32>,
    /// End of what it has sent.
    next: i64,
    passes: Vec<Pass>,
    /// End of what was acknowledged of it.
    acknowledged: Option<i64>,
    /// Right edge of its peer's window.
    right_edge: Option<i64>,
    /// Whether its last acknowledgement was lower than an earlier one.
    acknowledged_less: bool,
    /// Window scale option of its SYN; `None`: no SYN was captured.
    scale: Option<Option<u32>>,
}

#[derive(Debug)]
struct Pass {
    from: i64,
    to: i64,
    id: Option<u16>,
    timestamp: Option<u32>,
    is_beyond_window: bool,
}

impl Pass {
    fn has(&self, number: i64) -> bool {
        self.from <= number && number < self.to
    }

    /// Whether it was sent before a frame of the same sender; `None`: that is not known.
    fn is_before(&self, frame: &Frame) -> Option<bool> {
        match (self.timestamp, frame.timestamps, self.id, frame.id) {
            (Some(then), Some((now, _)), ..) if now != then => {
                Some((now.wrapping_sub(then) as i32) > 0)
            }
            (_, _, Some(then), Some(now)) => Some((now.wrapping_sub(then) as i16) > 0),
            _ => None,
        }
    }
}

impl Sent {
    fn place(&mut self, number: u32) -> i64 {
        let base = *self.base.get_or_insert(number);
        let near = base.wrapping_add(self.next as u32);
        self.next + i64::from(number.wrapping_sub(near) as i32)
    }
}

impl Streams {
    /// Takes a frame. Returns its facts.
    pub(crate) fn take(&mut self, frame: &Frame, length: u64) -> Facts {
        let stream = self.0.entry(frame.stream).or_default();
        stream.lacks_times |= !frame.has_time;
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
    /// SYNs of the client, duplicates left out.
    pub(crate) syns: u32,
    /// Whether the first answer was a reset.
    pub(crate) refused: bool,
    pub(crate) answered: bool,
    /// First packet of the client after the answer.
    pub(crate) opened: Option<i64>,
    /// Its duration by tshark.
    pub(crate) theirs: Option<i64>,
    client: Option<usize>,
}

impl Handshake {
    /// From the first SYN to the first packet of the client after the answer.
    pub(crate) fn time(&self) -> Option<i64> {
        Some(self.opened? - self.syn?)
    }

    fn take(&mut self, frame: &Frame, side: usize, is_duplicate: bool) {
        let syn = frame.has(SYN) && !frame.has(ACK);
        if syn && self.opened.is_none() {
            self.client.get_or_insert(side);
            self.syn.get_or_insert(frame.at);
            self.last_syn = Some(frame.at);
            self.syns += u32::from(!is_duplicate);
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
    /// How it opened, and whether its frames have times.
    pub(crate) fn handshake(&self) -> (Handshake, bool) {
        (self.handshake, !self.lacks_times)
    }

    fn take(&mut self, frame: &Frame, length: u64) -> Facts {
        let from = Some(frame.from);
        if self.ends[0].is_none() {
            self.first = frame.number;
            self.ends[0] = from;
        }
        let side = usize::from(self.ends[0] != from);
        let is_duplicate = self.is_duplicate(frame, length);
        let mut facts = Facts { is_duplicate, ..Facts::default() };
        let [a, b] = &mut self.sent;
        let (own, peer) = if side == 0 { (a, b) } else { (b, a) };
        let flags = i64::from(frame.has(SYN)) + i64::from(frame.has(FIN));
        let started = own.base.is_some();
        let at = own.place(frame.sequence);
        facts.sequence_length = if frame.has(RST) { 0 } else { length as i64 + flags };
        let to = at + facts.sequence_length;
        facts.begins_one_before = started && at + 1 == own.next;
        if peer.base.is_some() && frame.has(ACK) {
            let acknowledged = peer.place(frame.acknowledgement);
            facts.is_data_in_flight = acknowledged < peer.next;
            facts.acknowledges_less = peer.acknowledged.is_some_and(|most| acknowledged < most);
            facts.last_acknowledged_less = own.acknowledged_less;
        }
        if facts.sequence_length > 0 && at < own.next {
            for pass in &own.passes {
                facts.times += usize::from(pass.has(at));
                let before = pass.is_before(frame).filter(|_| pass.from >= to);
                facts.after_later |= before == Some(true);
                facts.before_later |= before == Some(false);
            }
            let first = own.passes.iter().find(|pass| pass.has(at));
            facts.after_first = first.and_then(|pass| pass.is_before(frame)) == Some(true);
            facts.was_beyond_window = first.is_some_and(|pass| pass.is_beyond_window);
            facts.passed = passed(&own.passes, at, to);
            let is_later = first.and_then(|pass| pass.is_before(frame));
            facts.is_copy = facts.passed == facts.sequence_length && is_later == Some(false);
        }
        self.handshake.take(frame, side, is_duplicate);
        if is_duplicate {
            return facts;
        }
        let [a, b] = &mut self.sent;
        let (own, peer) = if side == 0 { (a, b) } else { (b, a) };
        own.acknowledged_less = facts.acknowledges_less;
        if facts.sequence_length > 0 {
            let is_beyond_window =
                peer.scale.is_some() && own.right_edge.is_some_and(|edge| to > edge + 1);
            let (id, timestamp) = (frame.id, frame.timestamps.map(|(own, _)| own));
            own.passes.push(Pass { from: at, to, id, timestamp, is_beyond_window });
            own.next = own.next.max(to);
        }
        if frame.has(SYN) {
            own.scale = Some(frame.scale);
        }
        if frame.has(ACK) && !frame.has(RST) {
            let acknowledged = peer.place(frame.acknowledgement);
            let most = peer.acknowledged.map_or(acknowledged, |before| before.max(acknowledged));
            peer.acknowledged = Some(most);
            peer.next = peer.next.max(most);
            let both = own.scale.flatten().filter(|_| peer.scale != Some(None));
            let scale = both.filter(|_| !frame.has(SYN)).unwrap_or(0);
            let edge = most + (i64::from(frame.window) << scale);
            peer.right_edge = Some(peer.right_edge.map_or(edge, |before| before.max(edge)));
        }
        facts
    }

    fn is_duplicate(&mut self, frame: &Frame, length: u64) -> bool {
        let Frame { from, id, sequence, acknowledgement, flags, window, timestamps, .. } = *frame;
        let header = (from, id, sequence, acknowledgement, length, flags, window, timestamps);
        let max_delay = if id.is_some() { MAX_DELAY } else { MAX_DELAY_WITHOUT_ID };
        match self.headers.get(&header) {
            Some(before) if (frame.at - before).abs() <= max_delay => true,
            _ => {
                self.headers.insert(header, frame.at);
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
