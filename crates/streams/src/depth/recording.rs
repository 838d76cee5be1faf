//! What was recorded of a stream.

use std::net::SocketAddr;

use model::{CapturedExchange, Curve, Phase, TimeCategory};
use wire::packet::tcp::Flags;

use crate::segment::SegmentKind;
use crate::stall::Stall;
use crate::time::Nanos;

/// What was recorded of a stream.
#[derive(Debug)]
pub struct StreamRecording {
    /// Its phases.
    pub phases: Vec<Phase>,
    /// The exchanges that took longest, the slowest first.
    pub slowest_exchanges: Vec<CapturedExchange>,
    /// Time of its first packet.
    pub first: Nanos,
    /// Number of its packets.
    pub packets: u64,
    /// Some of them, in order.
    pub recorded: Vec<RecordedPacket>,
    /// What the end sent that sent more.
    pub curve: Curve,
}

/// A packet of the stream.
#[derive(Debug, Clone, Copy)]
pub struct RecordedPacket {
    /// Number in the capture, from 1.
    pub packet: u64,
    /// Number in the stream, from 0.
    pub index: u64,
    /// When it passed.
    pub at: Nanos,
    /// Time since the packet before it in the stream.
    pub since_previous: Option<Nanos>,
    /// Its sender.
    pub source: SocketAddr,
    /// Flags.
    pub flags: Flags,
    /// Relative sequence number: the SYN is 0; without a SYN the first packet is 1.
    pub sequence: i64,
    /// Bytes of data.
    pub length: u32,
    /// Relative acknowledgement number.
    pub acknowledgement: Option<i64>,
    /// Window that it advertises, bytes.
    pub window: u32,
    /// What it was.
    pub kind: SegmentKind,
    /// The stall that it ended.
    pub stall: Option<Stall>,
    /// What was waited for since the packet before it, and for how long.
    pub waited: Option<(TimeCategory, Nanos)>,
    /// Number of the exchange that it began.
    pub began_exchange: Option<u64>,
    /// Whether its sender's window was closed before.
    pub window_was_closed: bool,
    /// How many duplicate acknowledgements its sender has sent, this one included; 0: it is none.
    pub duplicate_acks: u32,
}
