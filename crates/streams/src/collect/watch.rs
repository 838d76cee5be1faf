//! Packets and streams of a capture for others that want more than its evidence: packets with the
//! stream that they belong to, and streams as they end. They also select the streams of the evidence.
//!
//! Without a watcher this costs nothing for each packet.

use std::any::Any;
use std::fmt::Debug;
use std::net::SocketAddr;

use model::{CapturedStream, Side};
use wire::packet::Tcp;

use crate::stream::{SegmentEvent, Stream};
use crate::time::Nanos;

/// A segment, and its stream with the segment in it.
#[derive(Debug)]
pub struct WatchedSegment<'a> {
    /// Number of the packet in the capture, from 1.
    pub packet: u64,
    /// When it passed.
    pub at: Nanos,
    /// Time of the first packet of the capture.
    pub capture_began: Nanos,
    /// Its sender.
    pub source: SocketAddr,
    /// Its receiver.
    pub destination: SocketAddr,
    /// Its sender, as a side of the stream.
    pub side: Side,
    /// The segment.
    pub tcp: &'a Tcp<'a>,
    /// What it was in its stream, and what it ended.
    pub event: &'a SegmentEvent,
    /// Its stream.
    pub stream: &'a Stream,
}

/// Watches a capture.
pub trait Watch: Any + Debug + Send {
    /// Whether it wants the segments of this stream.
    fn wants(&self, stream: u64) -> bool;

    /// Takes a segment that it wants.
    fn segment(&mut self, segment: &WatchedSegment<'_>);

    /// Whether a stream belongs into the evidence, if it ends now.
    fn selects(&self, stream: &Stream, captured: &CapturedStream) -> bool;

    /// A stream ended, or the capture did. `capture_began` is the time of its first packet.
    fn end_stream(
        &mut self,
        stream: &Stream,
        captured: &CapturedStream,
        capture_began: Nanos,
        is_selected: bool,
    );
}
