//! The protocol between `netwhy transfer` and its server, version 1: frames of a fixed size.
//!
//! All numbers are big-endian. Each connection begins with an [`Opening`] of the client. On a control
//! connection the server sends a [`Challenge`], the client its [`Plan`], and the server a [`PlanReply`]
//! with the session's identifier; at the end the client sends [`REPORT_REQUEST`], and the server the
//! length (four bytes) and the JSON of its [`SessionReport`]. On a data connection the opening has the
//! session's identifier; each transfer begins with a [`TransferRequest`], followed by the data, from the
//! server (down) or from the client (up), which the server confirms with a [`Confirmation`].
//!
//! The token is never sent: a plan carries its HMAC-SHA256 over the challenge and the plan. The
//! identifier of a session, 128 random bits, is sent to its own client only.
//!
//! Parsers take bytes and never panic; errors are texts for the peer.

use model::{TransferDirection, TransferSender};
use ring::hmac;
use serde::{Deserialize, Serialize};

use super::options::{MAX_BUFFER_BYTES, MAX_SOURCE_DELAY, MAX_STREAMS};

/// Version of the protocol.
pub(super) const VERSION: u16 = 1;
/// The first bytes of each connection.
const MAGIC: [u8; 8] = *b"nwxfer\r\n";
/// Longest reason of a refusal, bytes.
pub(super) const MAX_REASON_BYTES: usize = 240;
/// Longest report, bytes.
pub(super) const MAX_REPORT_BYTES: usize = 8 << 20;
/// Requests the report.
pub(super) const REPORT_REQUEST: [u8; 8] = *b"report\r\n";
/// A size that means: until the time is over.
pub(super) const UNTIL_TIME_IS_OVER: u64 = u64::MAX;
/// Longest name of a congestion control, bytes.
const MAX_CONGESTION_BYTES: usize = 16;

/// Why a frame is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FrameError {
    /// It belongs to another protocol.
    Magic,
    /// It has another version.
    Version(u16),
    /// A field is out of range.
    Field(&'static str),
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FrameError::Magic => f.write_str("not the protocol of netwhy transfer"),
            FrameError::Version(version) => {
                write!(f, "protocol version {version} is not supported, only version {VERSION}")
            }
            FrameError::Field(why) => f.write_str(why),
        }
    }
}

/// The bytes from this offset; zeros beyond the end.
fn get<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

fn get_u16(bytes: &[u8], offset: usize) -> u16 {
    u16::from_be_bytes(get(bytes, offset))
}

fn get_u32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_be_bytes(get(bytes, offset))
}

fn get_u64(bytes: &[u8], offset: usize) -> u64 {
    u64::from_be_bytes(get(bytes, offset))
}

/// Puts a value at this offset, as far as there is room.
fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    for (byte, value) in bytes.iter_mut().skip(offset).zip(value) {
        *byte = *value;
    }
}

/// Identifier of a session.
pub(super) type SessionId = [u8; 16];

/// The first bytes of a connection, from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// Begins a session.
    Control,
    /// A connection of a session.
    Data {
        session: SessionId,
        /// Number of the stream, from 0.
        stream: u32,
    },
}

impl Opening {
    pub(super) const SIZE: usize = 32;

    pub(super) fn bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &VERSION.to_be_bytes());
        if let Opening::Data { session, stream } = self {
            put(&mut bytes, 10, &1_u16.to_be_bytes());
            put(&mut bytes, 12, &stream.to_be_bytes());
            put(&mut bytes, 16, session);
        }
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Self::SIZE]) -> Result<Self, FrameError> {
        check_version(bytes)?;
        match get_u16(bytes, 10) {
            0 => Ok(Opening::Control),
            1 => Ok(Opening::Data { session: get(bytes, 16), stream: get_u32(bytes, 12) }),
            _ => Err(FrameError::Field("a connection is for control or for data")),
        }
    }
}

fn check_version(bytes: &[u8]) -> Result<(), FrameError> {
    if get(bytes, 0) != MAGIC {
        return Err(FrameError::Magic);
    }
    match get_u16(bytes, 8) {
        VERSION => Ok(()),
        other => Err(FrameError::Version(other)),
    }
}

/// The server's first frame on a control connection: its version, and a number that is used once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) nonce: [u8; 24],
    /// Whether a token is required.
    pub(super) token: bool,
}

impl Challenge {
    pub(super) const SIZE: usize = 40;

    pub(super) fn bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &VERSION.to_be_bytes());
        put(&mut bytes, 10, &[u8::from(self.token)]);
        put(&mut bytes, 16, &self.nonce);
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Self::SIZE]) -> Result<Self, FrameError> {
        check_version(bytes)?;
        Ok(Challenge { nonce: get(bytes, 16), token: bytes[10] != 0 })
    }
}

/// What the client wants to transfer in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) direction: TransferDirection,
    /// Concurrent connections, 1 to [`MAX_STREAMS`].
    pub(super) streams: u32,
    /// Most transfers of each stream; 0: as many as the time allows.
    pub(super) count: u32,
    /// Bytes of each transfer; [`UNTIL_TIME_IS_OVER`].
    pub(super) size: u64,
    /// Bytes of each write of the sender, 1 to [`MAX_BUFFER_BYTES`].
    pub(super) buffer_bytes: u32,
    /// Time for which the sender waits for each buffer, microseconds.
    pub(super) source_delay_us: u32,
    /// Longest duration of the session, milliseconds.
    pub(super) duration_ms: u64,
    /// Congestion control of the sender; empty: the host's.
    pub(super) congestion: String,
}

impl Plan {
    pub(super) const SIZE: usize = 96;
    /// The bytes before the proof.
    const SIGNED: usize = Self::SIZE - 32;

    /// The plan, with the proof that its sender knows the token.
    pub(super) fn bytes(&self, challenge: &Challenge, token: &str) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put(&mut bytes, 0, &[u8::from(self.direction == TransferDirection::Up)]);
        put(&mut bytes, 4, &self.streams.to_be_bytes());
        put(&mut bytes, 8, &self.count.to_be_bytes());
        put(&mut bytes, 12, &self.size.to_be_bytes());
        put(&mut bytes, 20, &self.buffer_bytes.to_be_bytes());
        put(&mut bytes, 24, &self.source_delay_us.to_be_bytes());
        put(&mut bytes, 28, &self.duration_ms.to_be_bytes());
        let congestion = self.congestion.as_bytes();
        put(&mut bytes, 36, congestion.get(..MAX_CONGESTION_BYTES).unwrap_or(congestion));
        let proof = hmac::sign(&key(token), &signed(challenge, &bytes));
        put(&mut bytes, Self::SIGNED, proof.as_ref());
        bytes
    }

    /// Parses a plan whose sender knows the token; compared in constant time.
    pub(super) fn parse(
        bytes: &[u8; Self::SIZE],
        challenge: &Challenge,
        token: Option<&str>,
    ) -> Result<Self, FrameError> {
        if let Some(token) = token {
            let proof: [u8; Self::SIZE - Self::SIGNED] = get(bytes, Self::SIGNED);
            hmac::verify(&key(token), &signed(challenge, bytes), &proof).map_err(|_| {
                FrameError::Field("the token is wrong: give the server's with --token")
            })?;
        }
        let check = |valid: bool, why: &'static str| {
            if valid { Ok(()) } else { Err(FrameError::Field(why)) }
        };
        check(bytes[0] <= 1, "the direction must be 0 or 1")?;
        let congestion: [u8; MAX_CONGESTION_BYTES] = get(bytes, 36);
        let congestion: Vec<u8> = congestion.into_iter().take_while(|byte| *byte != 0).collect();
        let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
        check(congestion.iter().all(in_name), "the name of the congestion control is malformed")?;
        let plan = Plan {
            direction: match bytes[0] {
                0 => TransferDirection::Down,
                _ => TransferDirection::Up,
            },
            streams: get_u32(bytes, 4),
            count: get_u32(bytes, 8),
            size: get_u64(bytes, 12),
            buffer_bytes: get_u32(bytes, 20),
            source_delay_us: get_u32(bytes, 24),
            duration_ms: get_u64(bytes, 28),
            congestion: String::from_utf8_lossy(&congestion).into_owned(),
        };
        let max_delay_us = MAX_SOURCE_DELAY.as_micros();
        check((1..=MAX_STREAMS).contains(&plan.streams), "streams must be from 1 to 64")?;
        check(
            (1..=MAX_BUFFER_BYTES).contains(&plan.buffer_bytes),
            "the buffer must be from 1 byte to 64 MiB",
        )?;
        check(plan.size > 0, "a transfer must have at least 1 byte")?;
        check(plan.duration_ms > 0, "a session must last at least a millisecond")?;
        check(
            u128::from(plan.source_delay_us) <= max_delay_us,
            "the source delay must be at most 10 s",
        )?;
        Ok(plan)
    }
}

fn key(token: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes())
}

fn signed(challenge: &Challenge, plan: &[u8; Plan::SIZE]) -> Vec<u8> {
    challenge.nonce.iter().chain(plan.iter().take(Plan::SIGNED)).copied().collect()
}

/// The server's reply to a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlanReply {
    /// The session's identifier.
    Accepted(SessionId),
    /// The reason.
    Refused(String),
}

impl PlanReply {
    /// Bytes before the reason.
    pub(super) const SIZE: usize = 20;

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::SIZE];
        match self {
            PlanReply::Accepted(session) => put(&mut bytes, 4, session),
            PlanReply::Refused(reason) => {
                let (reason, _) = reason.split_at(reason.floor_char_boundary(MAX_REASON_BYTES));
                put(&mut bytes, 0, &1_u16.to_be_bytes());
                put(&mut bytes, 2, &(reason.len() as u16).to_be_bytes());
                bytes.extend_from_slice(reason.as_bytes());
            }
        }
        bytes
    }

    /// Length of the reason after a head, at most [`MAX_REASON_BYTES`].
    pub(super) fn reason_bytes(head: &[u8; Self::SIZE]) -> usize {
        usize::from(get_u16(head, 2)).min(MAX_REASON_BYTES)
    }

    pub(super) fn parse(head: &[u8; Self::SIZE], reason: &[u8]) -> Self {
        match get_u16(head, 0) {
            0 => PlanReply::Accepted(get(head, 4)),
            _ => PlanReply::Refused(String::from_utf8_lossy(reason).into_owned()),
        }
    }
}

/// The client's request for one transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransferRequest {
    /// Bytes; [`UNTIL_TIME_IS_OVER`]: it ends with the connection.
    pub(super) size: u64,
    /// Number in the stream, from 0.
    pub(super) number: u32,
    /// Duration of one without a size, milliseconds.
    pub(super) duration_ms: u32,
}

impl TransferRequest {
    pub(super) const SIZE: usize = 16;

    pub(super) fn bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put(&mut bytes, 0, &self.size.to_be_bytes());
        put(&mut bytes, 8, &self.number.to_be_bytes());
        put(&mut bytes, 12, &self.duration_ms.to_be_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Self::SIZE]) -> Self {
        TransferRequest {
            size: get_u64(bytes, 0),
            number: get_u32(bytes, 8),
            duration_ms: get_u32(bytes, 12),
        }
    }
}

/// How much of an upload the server received; sent at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Confirmation {
    pub(super) received_bytes: u64,
}

impl Confirmation {
    pub(super) const SIZE: usize = 8;

    pub(super) fn bytes(self) -> [u8; Self::SIZE] {
        self.received_bytes.to_be_bytes()
    }

    pub(super) fn parse(bytes: [u8; Self::SIZE]) -> Self {
        Confirmation { received_bytes: u64::from_be_bytes(bytes) }
    }
}

/// The server's report at the end of a session.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SessionReport {
    /// Its statistics as the sender of each stream.
    pub(super) senders: Vec<TransferSender>,
    /// Why connections failed.
    #[serde(default)]
    pub(super) failures: Vec<String>,
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
            buffer_bytes: 1024,
            source_delay_us: 300,
            duration_ms: 60_000,
            congestion: "cubic".to_string(),
        }
    }

    const CHALLENGE: Challenge = Challenge { nonce: [9; 24], token: true };

    #[test]
    fn frames_are_parsed_as_they_were_sent() {
        let data = Opening::Data { session: [5; 16], stream: 2 };
        assert_eq!(Opening::parse(&data.bytes()), Ok(data));
        assert_eq!(Opening::parse(&Opening::Control.bytes()), Ok(Opening::Control));
        assert_eq!(Challenge::parse(&CHALLENGE.bytes()), Ok(CHALLENGE));
        let bytes = plan().bytes(&CHALLENGE, "secret");
        assert_eq!(Plan::parse(&bytes, &CHALLENGE, Some("secret")), Ok(plan()));
        let request = TransferRequest { size: UNTIL_TIME_IS_OVER, number: 3, duration_ms: 10 };
        assert_eq!(TransferRequest::parse(&request.bytes()), request);
        for reply in [PlanReply::Accepted([3; 16]), PlanReply::Refused("no".to_string())] {
            let bytes = reply.bytes();
            let head = get(&bytes, 0);
            assert_eq!(PlanReply::reason_bytes(&head), bytes.len() - PlanReply::SIZE);
            assert_eq!(PlanReply::parse(&head, &bytes[PlanReply::SIZE..]), reply);
        }
        let long = PlanReply::Refused("é".repeat(MAX_REASON_BYTES)).bytes();
        assert_eq!(long.len(), PlanReply::SIZE + MAX_REASON_BYTES);
    }

    #[test]
    fn a_wrong_token_another_challenge_and_a_changed_plan_are_refused() {
        let bytes = plan().bytes(&CHALLENGE, "secret");
        let error = |bytes, challenge: &Challenge, token| {
            Plan::parse(bytes, challenge, Some(token)).unwrap_err().to_string()
        };
        assert!(error(&bytes, &CHALLENGE, "Secret").contains("the token is wrong"));
        let other = Challenge { nonce: [8; 24], token: true };
        assert!(error(&bytes, &other, "secret").contains("the token is wrong"));
        let mut changed = bytes;
        changed[19] ^= 1;
        assert!(error(&changed, &CHALLENGE, "secret").contains("the token is wrong"));
        assert!(Plan::parse(&changed, &CHALLENGE, None).is_ok(), "a server without a token");
    }

    #[test]
    fn invalid_frames_are_rejected_with_a_reason() {
        let mut bytes = Opening::Control.bytes();
        bytes[9] = 2;
        let error = Opening::parse(&bytes).unwrap_err().to_string();
        assert_eq!(error, "protocol version 2 is not supported, only version 1");
        bytes[0] = b'G';
        assert_eq!(Opening::parse(&bytes), Err(FrameError::Magic));
        for (invalid, reason) in [
            (Plan { streams: 0, ..plan() }, "streams"),
            (Plan { streams: u32::MAX, ..plan() }, "streams"),
            (Plan { buffer_bytes: 0, ..plan() }, "buffer"),
            (Plan { buffer_bytes: u32::MAX, ..plan() }, "buffer"),
            (Plan { size: 0, ..plan() }, "transfer"),
            (Plan { duration_ms: 0, ..plan() }, "session"),
            (Plan { source_delay_us: u32::MAX, ..plan() }, "source delay"),
            (Plan { congestion: "a b".to_string(), ..plan() }, "congestion"),
        ] {
            let bytes = invalid.bytes(&CHALLENGE, "");
            let error = Plan::parse(&bytes, &CHALLENGE, None).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_rejected(bytes in proptest::collection::vec(any::<u8>(), 96)) {
            let _ = Opening::parse(&get(&bytes, 0));
            let _ = Challenge::parse(&get(&bytes, 0));
            let _ = Plan::parse(&get(&bytes, 0), &CHALLENGE, None);
            let head = get(&bytes, 0);
            prop_assert!(PlanReply::reason_bytes(&head) <= MAX_REASON_BYTES);
            PlanReply::parse(&head, &bytes);
            TransferRequest::parse(&get(&bytes, 0));
        }
    }
}
