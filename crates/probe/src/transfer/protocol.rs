//! The protocol between `netwhy transfer` and its server, version 1: frames of a fixed size.
//!
//! All numbers are big-endian. Every connection begins with an [`Opening`] of the client. A control
//! connection goes on with a [`Challenge`] of the server, the client's [`Plan`], and the server's
//! [`Answer`], which has the number of the session; at the end the client asks for the report with
//! [`REPORT`], and gets its length (four bytes) and so many bytes of JSON. A data connection tells
//! the number of the session in its opening; then come a [`Request`] for each transfer, and as many
//! bytes as it says, from the server (down), or from the client (up), which the server confirms with
//! [`Confirmed`]. The token itself is never sent: a plan carries its HMAC-SHA256 over the challenge
//! and the plan, and the number of a session, 128 random bits, is told to nobody else.
//!
//! Parsers take bytes and never panic; what is wrong is said in words that the peer is told.

use model::TransferDirection;
use ring::hmac;

/// Version of the protocol.
pub(super) const VERSION: u16 = 1;
/// What every connection begins with.
const MAGIC: [u8; 8] = *b"nwxfer\r\n";
/// Longest text of an answer, bytes.
pub(super) const MOST_WORDS: usize = 240;
/// Longest report, bytes.
pub(super) const MOST_REPORT: usize = 8 << 20;
/// What the client sends for the report.
pub(super) const REPORT: [u8; 8] = *b"report\r\n";
/// Most streams of a session.
pub(super) const MOST_STREAMS: u32 = 64;
/// Largest buffer of a write, bytes.
pub(super) const MOST_BUFFER: u32 = 64 << 20;
/// A size that says: until the time is over.
pub(super) const UNTIL: u64 = u64::MAX;

/// What a frame has in place of what it should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bad {
    /// It is not of this protocol.
    Magic,
    /// It is of another version.
    Version(u16),
    /// A field is out of its range.
    Field(&'static str),
}

impl Bad {
    /// In words, for the peer.
    pub(super) fn words(&self) -> String {
        match self {
            Bad::Magic => "this is not the protocol of netwhy transfer".to_string(),
            Bad::Version(version) => {
                format!("this is protocol version {VERSION}, that was version {version}")
            }
            Bad::Field(words) => (*words).to_string(),
        }
    }
}

fn at<const N: usize>(bytes: &[u8], from: usize) -> [u8; N] {
    let mut value = [0; N];
    if let Some(found) = bytes.get(from..from + N) {
        value.copy_from_slice(found);
    }
    value
}

fn u16_at(bytes: &[u8], from: usize) -> u16 {
    u16::from_be_bytes(at(bytes, from))
}

fn u32_at(bytes: &[u8], from: usize) -> u32 {
    u32::from_be_bytes(at(bytes, from))
}

fn u64_at(bytes: &[u8], from: usize) -> u64 {
    u64::from_be_bytes(at(bytes, from))
}

/// Number of a session.
pub(super) type Session = [u8; 16];

/// The first bytes of a connection, from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// A session is to begin.
    Control,
    /// A connection of a session, and the number of its stream.
    Data {
        /// The session.
        session: Session,
        /// Number of the stream, from 0.
        stream: u32,
    },
}

impl Opening {
    pub(super) const SIZE: usize = 32;

    pub(super) fn bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_be_bytes());
        if let Opening::Data { session, stream } = self {
            bytes[11] = 1;
            bytes[12..16].copy_from_slice(&stream.to_be_bytes());
            bytes[16..].copy_from_slice(session);
        }
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Self::SIZE]) -> Result<Self, Bad> {
        known(bytes)?;
        match u16_at(bytes, 10) {
            0 => Ok(Opening::Control),
            1 => Ok(Opening::Data { session: at(bytes, 16), stream: u32_at(bytes, 12) }),
            _ => Err(Bad::Field("a connection is for control or for data")),
        }
    }
}

fn known(bytes: &[u8]) -> Result<(), Bad> {
    if at(bytes, 0) != MAGIC {
        return Err(Bad::Magic);
    }
    match u16_at(bytes, 8) {
        VERSION => Ok(()),
        other => Err(Bad::Version(other)),
    }
}

/// What the server says to a control connection: its version, and a number that was never used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) nonce: [u8; 24],
    /// Whether it wants a token.
    pub(super) token: bool,
}

impl Challenge {
    pub(super) const SIZE: usize = 40;

    pub(super) fn bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_be_bytes());
        bytes[10] = u8::from(self.token);
        bytes[16..].copy_from_slice(&self.nonce);
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Self::SIZE]) -> Result<Self, Bad> {
        known(bytes)?;
        Ok(Challenge { nonce: at(bytes, 16), token: bytes[10] != 0 })
    }
}

/// What the client wants of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) direction: TransferDirection,
    /// Connections at the same time, 1 to [`MOST_STREAMS`].
    pub(super) streams: u32,
    /// Most transfers of each stream; 0: as many as the time allows.
    pub(super) count: u32,
    /// Bytes of each transfer; [`UNTIL`]: until the time is over.
    pub(super) size: u64,
    /// Bytes of each write of the sender, 1 to [`MOST_BUFFER`].
    pub(super) buffer: u32,
    /// Time to get each buffer, microseconds.
    pub(super) source_delay_us: u32,
    /// How long the session lasts at most, milliseconds.
    pub(super) time_ms: u64,
    /// Congestion control of the sender; empty: the host's.
    pub(super) congestion: String,
}

impl Plan {
    pub(super) const SIZE: usize = 96;
    const SIGNED: usize = Self::SIZE - 32;

    /// The plan with the proof that its sender knows the token.
    pub(super) fn bytes(&self, challenge: &Challenge, token: &str) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[0] = u8::from(self.direction == TransferDirection::Up);
        bytes[4..8].copy_from_slice(&self.streams.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.count.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.size.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.buffer.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.source_delay_us.to_be_bytes());
        bytes[28..36].copy_from_slice(&self.time_ms.to_be_bytes());
        let name = self.congestion.as_bytes();
        let name = name.get(..16).unwrap_or(name);
        bytes[36..36 + name.len()].copy_from_slice(name);
        let proof = hmac::sign(&key(token), &signed(challenge, &bytes));
        bytes[Self::SIGNED..].copy_from_slice(proof.as_ref());
        bytes
    }

    /// Reads a plan whose sender knows the token; compared in constant time.
    pub(super) fn parse(
        bytes: &[u8; Self::SIZE],
        challenge: &Challenge,
        token: Option<&str>,
    ) -> Result<Self, Bad> {
        if let Some(token) = token {
            let proof = &bytes[Self::SIGNED..];
            hmac::verify(&key(token), &signed(challenge, bytes), proof)
                .map_err(|_| Bad::Field("the token is wrong: give the server's with --token"))?;
        }
        let within =
            |is: bool, words: &'static str| if is { Ok(()) } else { Err(Bad::Field(words)) };
        within(bytes[0] <= 1, "the direction is 0 or 1")?;
        let name: Vec<u8> = bytes[36..52].iter().copied().take_while(|byte| *byte != 0).collect();
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
        within(name.iter().all(plain), "the congestion control has no such name")?;
        let plan = Plan {
            direction: match bytes[0] {
                0 => TransferDirection::Down,
                _ => TransferDirection::Up,
            },
            streams: u32_at(bytes, 4),
            count: u32_at(bytes, 8),
            size: u64_at(bytes, 12),
            buffer: u32_at(bytes, 20),
            source_delay_us: u32_at(bytes, 24),
            time_ms: u64_at(bytes, 28),
            congestion: String::from_utf8_lossy(&name).into_owned(),
        };
        within((1..=MOST_STREAMS).contains(&plan.streams), "there are 1 to 64 streams")?;
        within((1..=MOST_BUFFER).contains(&plan.buffer), "a buffer has 1 byte to 64 MiB")?;
        within(plan.size > 0, "a transfer has 1 byte and more")?;
        within(plan.time_ms > 0, "a session takes a millisecond and more")?;
        within(plan.source_delay_us <= 10_000_000, "a buffer is there within 10 s")?;
        Ok(plan)
    }
}

fn key(token: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes())
}

fn signed(challenge: &Challenge, plan: &[u8; Plan::SIZE]) -> Vec<u8> {
    [&challenge.nonce[..], &plan[..Plan::SIGNED]].concat()
}

/// The server's answer to a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is done so: the number of the session.
    Accepted(Session),
    /// It is not, and why.
    Refused(String),
}

impl Answer {
    /// Bytes before the words.
    pub(super) const SIZE: usize = 20;

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::SIZE];
        match self {
            Answer::Accepted(session) => bytes[4..].copy_from_slice(session),
            Answer::Refused(words) => {
                let cut = words.floor_char_boundary(MOST_WORDS);
                let words = &words.as_bytes()[..cut];
                bytes[1] = 1;
                bytes[2..4].copy_from_slice(&(words.len() as u16).to_be_bytes());
                bytes.extend_from_slice(words);
            }
        }
        bytes
    }

    /// How many bytes of words follow its head, at most [`MOST_WORDS`].
    pub(super) fn words(head: &[u8; Self::SIZE]) -> usize {
        usize::from(u16_at(head, 2)).min(MOST_WORDS)
    }

    pub(super) fn parse(head: &[u8; Self::SIZE], words: &[u8]) -> Self {
        match u16_at(head, 0) {
            0 => Answer::Accepted(at(head, 4)),
            _ => Answer::Refused(String::from_utf8_lossy(words).into_owned()),
        }
    }
}

/// One transfer, asked for by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// Bytes; [`UNTIL`]: until the time is over, and its end is that of the connection.
    pub(super) size: u64,
    /// Number in the stream, from 0.
    pub(super) number: u32,
    /// Time of one without a size, milliseconds.
    pub(super) time_ms: u32,
}

impl Request {
    pub(super) const SIZE: usize = 16;

    pub(super) fn bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&self.size.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_be_bytes());
        bytes[12..].copy_from_slice(&self.time_ms.to_be_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Self::SIZE]) -> Self {
        Request { size: u64_at(bytes, 0), number: u32_at(bytes, 8), time_ms: u32_at(bytes, 12) }
    }
}

/// What the server has of a transfer up: sent when all of it, or the end, has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Confirmed {
    pub(super) bytes: u64,
}

impl Confirmed {
    pub(super) const SIZE: usize = 8;

    pub(super) fn bytes(self) -> [u8; Self::SIZE] {
        self.bytes.to_be_bytes()
    }

    pub(super) fn parse(bytes: [u8; Self::SIZE]) -> Self {
        Confirmed { bytes: u64::from_be_bytes(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plan() -> Plan {
        Plan {
            direction: TransferDirection::Up,
            streams: 3,
            count: 7,
            size: 4_000_000,
            buffer: 1024,
            source_delay_us: 300,
            time_ms: 60_000,
            congestion: "cubic".to_string(),
        }
    }

    const CHALLENGE: Challenge = Challenge { nonce: [9; 24], token: true };

    #[test]
    fn frames_come_back_as_they_went() {
        let data = Opening::Data { session: [5; 16], stream: 2 };
        assert_eq!(Opening::parse(&data.bytes()), Ok(data));
        assert_eq!(Opening::parse(&Opening::Control.bytes()), Ok(Opening::Control));
        assert_eq!(Challenge::parse(&CHALLENGE.bytes()), Ok(CHALLENGE));
        let bytes = plan().bytes(&CHALLENGE, "secret");
        assert_eq!(Plan::parse(&bytes, &CHALLENGE, Some("secret")), Ok(plan()));
        let request = Request { size: UNTIL, number: 3, time_ms: 10 };
        assert_eq!(Request::parse(&request.bytes()), request);
        for answer in [Answer::Accepted([3; 16]), Answer::Refused("no".to_string())] {
            let bytes = answer.bytes();
            let head = at(&bytes, 0);
            assert_eq!(Answer::words(&head), bytes.len() - Answer::SIZE);
            assert_eq!(Answer::parse(&head, &bytes[Answer::SIZE..]), answer);
        }
    }

    #[test]
    fn a_wrong_token_another_challenge_and_a_changed_plan_are_refused() {
        let bytes = plan().bytes(&CHALLENGE, "secret");
        let wrong = |bytes, challenge: &Challenge, token| {
            Plan::parse(bytes, challenge, Some(token)).unwrap_err().words()
        };
        assert!(wrong(&bytes, &CHALLENGE, "Secret").contains("the token is wrong"));
        let other = Challenge { nonce: [8; 24], token: true };
        assert!(wrong(&bytes, &other, "secret").contains("the token is wrong"));
        let mut changed = bytes;
        changed[19] ^= 1;
        assert!(wrong(&changed, &CHALLENGE, "secret").contains("the token is wrong"));
        assert!(Plan::parse(&changed, &CHALLENGE, None).is_ok(), "a server without a token");
    }

    #[test]
    fn hostile_headers_are_refused_in_words() {
        let mut bytes = Opening::Control.bytes();
        bytes[9] = 2;
        let words = Opening::parse(&bytes).unwrap_err().words();
        assert_eq!(words, "this is protocol version 1, that was version 2");
        bytes[0] = b'G';
        assert_eq!(Opening::parse(&bytes), Err(Bad::Magic));
        for (change, says) in [
            (Plan { streams: 0, ..plan() }, "streams"),
            (Plan { streams: u32::MAX, ..plan() }, "streams"),
            (Plan { buffer: 0, ..plan() }, "buffer"),
            (Plan { buffer: u32::MAX, ..plan() }, "buffer"),
            (Plan { size: 0, ..plan() }, "transfer"),
            (Plan { time_ms: 0, ..plan() }, "session"),
            (Plan { source_delay_us: u32::MAX, ..plan() }, "within"),
            (Plan { congestion: "a b".to_string(), ..plan() }, "congestion"),
        ] {
            let bytes = change.bytes(&CHALLENGE, "");
            let words = Plan::parse(&bytes, &CHALLENGE, None).unwrap_err().words();
            assert!(words.contains(says), "{words}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 96)) {
            let _ = Opening::parse(&at(&bytes, 0));
            let _ = Challenge::parse(&at(&bytes, 0));
            let _ = Plan::parse(&at(&bytes, 0), &CHALLENGE, None);
            let head = at(&bytes, 0);
            prop_assert!(Answer::words(&head) <= MOST_WORDS);
            Answer::parse(&head, &bytes);
            Request::parse(&at(&bytes, 0));
        }
    }
}
