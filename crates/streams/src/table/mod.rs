//! Packets to their streams.
//!
//! A stream is found by the addresses and ports of its two ends. Ports that are used again begin a
//! new stream; the one before is handed over, as are those for which there is no more room.
//!
//! - `key`: the two ends as a key
//! - `first_packets`: the packets that began a stream
//! - `known`: connections that were open before the capture
//! - `ping_pongs`: the streams in ping-pong
//! - `recent`: where the streams of the latest packets are
//! - `streams`: the table

mod first_packets;
mod key;
mod known;
mod ping_pongs;
mod recent;
mod streams;

pub(crate) use first_packets::FirstPackets;
pub use known::KnownSockets;
pub(crate) use streams::Located;
pub use streams::{StreamSegment, Table};
