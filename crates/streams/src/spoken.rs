//! What the bytes of a stream say in clear: what HTTP/1 asked for and how it was answered, the name
//! that TLS asked for and how long its handshake took.
//!
//! Looked at where a request or an answer begins, and while a TLS handshake goes on; the rest of a
//! transfer costs a look at its first byte.

use wire::payload::http;
use wire::payload::tls::{self, ContentType};

use crate::turn::Turn;
use crate::{Maybe, Nanos};

/// Bytes of a request line that are kept.
const LINE: usize = 160;
/// Bytes of a ClientHello that are kept until all of it is there; today's have 0.5 to 2 kB.
const HELLO: usize = 4096;
/// Statuses of one stream that are told apart.
const STATUSES: usize = 16;
/// Targets of one stream that are told apart.
const TARGETS: usize = 16;
/// An answer that begins so long after its request is a slow one.
const SLOW: Nanos = 10_000_000;

/// What the bytes of a stream say.
#[derive(Debug, Clone, Default)]
pub struct Spoken {
    /// Request lines, `GET /path?query`: that of the turn that goes on, and the one before it. They
    /// are often the same.
    lines: [String; 2],
    /// The turn that goes on, and the one before it.
    now: Said,
    before: Said,
    /// Statuses of HTTP and how often each came.
    statuses: Vec<(u16, u32)>,
    /// Targets with slow answers.
    slow: Vec<Slow>,
    tls: Option<Tls>,
}

/// What was said in one turn.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    turn: u32,
    /// Its request line is this one.
    line: u8,
    /// Whether it has one.
    asked: bool,
    /// The last status; 0: none.
    status: u16,
}

/// What was asked in one turn, and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange<'a> {
    /// The method and the target.
    pub request: Option<(&'a str, &'a str)>,
    /// The status of the answer.
    pub status: Option<u16>,
}

/// What was asked for and slowly answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slow {
    /// Method and path; what stands behind a `?` is left out.
    pub request: String,
    /// Turns whose answer began 10 ms after the request and later, the way not counted.
    pub turns: u32,
    /// All that time.
    pub time: Nanos,
}

/// TLS of a stream.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// The host that the client asked for.
    pub server_name: Option<Box<str>>,
    /// First byte of the ClientHello.
    pub began: Nanos,
    /// When both ends were ready to send data.
    pub ready: Maybe,
    /// Who ended the handshake with an alert, and its number.
    pub alert: Option<(u8, u8)>,
    client: u8,
    /// Whether the server has answered: what a client encrypts before is early data.
    answered: bool,
    /// Who encrypts.
    changed: [bool; 2],
    /// Bytes of a record that are still to come, by side.
    left: [u32; 2],
    /// A ClientHello of which the rest is to come.
    hello: Vec<u8>,
}

/// New data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Data<'a> {
    pub(crate) side: usize,
    /// What was captured of it.
    pub(crate) bytes: &'a [u8],
    /// How much there was.
    pub(crate) length: u32,
    pub(crate) at: Nanos,
    /// The turn that goes on.
    pub(crate) turn: u32,
    /// Whether it begins a request.
    pub(crate) asks: bool,
}

impl Spoken {
    /// Whether it is worth a closer look: whether HTTP or TLS may begin here.
    #[inline(always)]
    pub(crate) fn may_begin(first: u8, asks: bool) -> bool {
        first == b'H' || asks && (first.is_ascii_uppercase() || first == 22)
    }

    /// Whether a handshake goes on: then every segment is of interest.
    pub(crate) fn is_in_handshake(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.is_over())
    }

    /// A turn is over; `way` is the time to who answers and back.
    #[inline]
    pub(crate) fn turn_over(&mut self, turn: &Turn, way: Nanos) {
        let time = turn.wait().unwrap_or(0).saturating_sub(way);
        if time >= SLOW && self.now.turn == turn.number && self.now.asked {
            self.slow_turn(time);
        }
    }

    fn slow_turn(&mut self, time: Nanos) {
        let Some(path) = self.lines[usize::from(self.now.line)].split('?').next() else { return };
        match self.slow.iter().position(|slow| slow.request == path) {
            Some(at) => {
                self.slow[at].turns = self.slow[at].turns.saturating_add(1);
                self.slow[at].time = self.slow[at].time.saturating_add(time);
            }
            None if self.slow.len() < TARGETS => {
                self.slow.push(Slow { request: path.to_string(), turns: 1, time });
            }
            None => {}
        }
    }

    /// Data of interest. Returns whether anything was understood.
    pub(crate) fn data(&mut self, data: Data<'_>) -> bool {
        let mut heard = false;
        if let Some(tls) = &mut self.tls
            && !tls.is_over()
        {
            tls.gather(&data);
            tls.data(&data);
            heard = true;
        } else if data.asks
            && self.tls.is_none()
            && let Some(hello) = tls::client_hello(data.bytes)
        {
            let mut tls = Tls { client: data.side as u8, began: data.at, ..Tls::default() };
            tls.hello(data.bytes, &hello);
            tls.data(&data);
            self.tls = Some(tls);
            heard = true;
        }
        heard | self.http(&data)
    }

    #[inline]
    fn http(&mut self, data: &Data<'_>) -> bool {
        if !data.asks {
            let Some(status) = http::status(data.bytes) else { return false };
            self.turn(data.turn).status = status;
            self.count(status);
            return true;
        }
        // The same as before, as from most clients?
        let line = self.lines[usize::from(self.now.line)].as_bytes();
        let rest = data.bytes.strip_prefix(line).filter(|_| !line.is_empty());
        if rest.is_some_and(|rest| rest.starts_with(b" HTTP/1.")) {
            self.turn(data.turn).asked = true;
            return true;
        }
        let Some(request) = http::request(data.bytes) else { return false };
        let now = self.turn(data.turn);
        (now.asked, now.line) = (true, 1 - now.line);
        // Not that of the turn before: that has the other one.
        let line = &mut self.lines[usize::from(self.now.line)];
        line.clear();
        line.push_str(request.method);
        line.push(' ');
        // A target is ASCII: it can be cut anywhere.
        let room = LINE.saturating_sub(line.len());
        line.push_str(request.target.get(..room).unwrap_or(request.target));
        true
    }

    #[inline]
    fn count(&mut self, status: u16) {
        match self.statuses.iter().position(|(known, _)| *known == status) {
            Some(at) => self.statuses[at].1 = self.statuses[at].1.saturating_add(1),
            None if self.statuses.len() < STATUSES => self.statuses.push((status, 1)),
            None => {}
        }
    }

    /// What is said in a turn that goes on.
    #[inline]
    fn turn(&mut self, turn: u32) -> &mut Said {
        if self.now.turn != turn {
            self.before = self.now;
            // Who waits for «100 Continue» asks once, in two turns.
            let again = self.before.status == 100 && self.before.turn.wrapping_add(1) == turn;
            let (line, asked) = (self.before.line, again && self.before.asked);
            self.now = Said { turn, line, asked, status: 0 };
        }
        &mut self.now
    }

    /// What was said in a turn: the one that goes on, or the one before.
    pub fn of_turn(&self, turn: u32) -> Option<Exchange<'_>> {
        let said = [&self.now, &self.before].into_iter().find(|one| one.turn == turn)?;
        let line = Some(&self.lines[usize::from(said.line)]).filter(|_| said.asked);
        Some(Exchange {
            request: line.and_then(|line| line.split_once(' ')),
            status: (said.status > 0).then_some(said.status),
        })
    }

    /// Statuses of HTTP and how often each came.
    pub fn statuses(&self) -> &[(u16, u32)] {
        &self.statuses
    }

    /// Targets with slow answers.
    pub fn slow(&self) -> &[Slow] {
        &self.slow
    }

    /// TLS, if it is spoken.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }
}

impl Tls {
    /// From the ClientHello until both ends were ready.
    pub fn handshake(&self) -> Option<Nanos> {
        self.ready.get().map(|ready| ready.saturating_sub(self.began))
    }

    fn is_over(&self) -> bool {
        self.ready.is_known() || self.alert.is_some()
    }

    fn hello(&mut self, bytes: &[u8], hello: &tls::ClientHello<'_>) {
        self.server_name = hello.server_name.map(Into::into);
        self.hello.clear();
        if !hello.whole && self.server_name.is_none() {
            self.hello.extend_from_slice(bytes.get(..HELLO).unwrap_or(bytes));
        }
    }

    /// Records of a handshake that goes on. With TLS 1.3 both ends say that they encrypt now for the
    /// sake of boxes in between (RFC 8446, appendix D.4), and where they do not, the first that the
    /// client encrypts ends its handshake.
    fn data(&mut self, data: &Data<'_>) {
        let side = data.side;
        let waited = self.left[side].min(data.length);
        self.left[side] -= waited;
        let mut rest = data.bytes.get(waited as usize..).unwrap_or_default();
        let mut length = data.length - waited;
        while let Some((content, bytes)) = tls::record(rest) {
            match content {
                ContentType::ChangeCipherSpec => self.changed[side] = true,
                ContentType::Alert if !self.changed[side] && bytes == 2 => {
                    let number = rest.get(tls::HEADER_BYTES + 1).copied();
                    self.alert = number.map(|number| (side as u8, number));
                }
                _ => {}
            }
            let client = side == usize::from(self.client);
            self.answered |= !client;
            let first_encrypted =
                content == ContentType::ApplicationData && client && self.answered;
            if self.changed == [true; 2] || first_encrypted {
                self.ready.or_set(data.at);
            }
            let whole = tls::HEADER_BYTES as u32 + u32::from(bytes);
            self.left[side] = whole.saturating_sub(length);
            length = length.saturating_sub(whole);
            rest = rest.get(whole as usize..).unwrap_or_default();
        }
        if self.is_over() {
            self.hello = Vec::new();
        }
    }

    /// More of a ClientHello that has not arrived as a whole.
    fn gather(&mut self, data: &Data<'_>) {
        if self.hello.is_empty() {
            return;
        }
        let mut bytes = std::mem::take(&mut self.hello);
        if data.side == usize::from(self.client) && bytes.len() + data.bytes.len() <= HELLO {
            bytes.extend_from_slice(data.bytes);
            if let Some(hello) = tls::client_hello(&bytes) {
                self.hello(&bytes, &hello);
            }
        }
    }
}

#[cfg(test)]
mod tests;
