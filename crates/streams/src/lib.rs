//! Packets to streams: which segments belong together, what each end sent, what was lost,
//! retransmitted or late on the path, as a passive observer sees it from one place on the path.
//!
//! From packets to evidence:
//!
//! - [`table`]: packets to their streams; streams that ended make room
//! - [`stream`]: one connection: its ends, its handshake, how it ended, where its time went
//! - [`direction`]: what one end sent, and what its peer acknowledges; what each segment is
//! - [`captured_stream`]: a stream as evidence
//! - [`collect`]: a capture as evidence; [`collect::watch`] for others that want more than that
//! - [`depth`]: streams in depth: exchanges, events, one stream packet by packet
//! - [`path`]: two captures of the same streams, one at each end of a path
//!
//! What is recorded of a stream:
//!
//! - [`segment`]: what a segment is, and how many of each kind were sent
//! - `duplicates`: duplicate packets of the capture
//! - `sequence_gaps`: data that was not captured
//! - `loss_recovery`: retransmissions, refused data, damage
//! - [`round_trip`], `timestamp_echo`: times from a segment to its acknowledgement or echo
//! - `right_edge`: the windows that were advertised, as a distant end knew them
//! - [`time_breakdown`]: the category of each interval
//! - [`network_time`]: what round trips and transmission consist of
//! - [`exchange`]: requests and responses of any protocol
//! - [`stall`]: times in which an end could not send, and why
//! - [`idle_period`]: idle periods, and whether a stream survived them
//! - [`slow_start`], [`throughput`], `flight_rate`, [`flight_plateau`], [`even_pace`], [`policing`],
//!   [`path_mtu`]: what limits a transfer
//! - [`application_protocol`], `dns`: HTTP/1, TLS and DNS
//!
//! Below all of them: [`sequence`], `time`, [`ends`], `histogram`.
//!
//! Memory is bounded for each stream and does not grow with the length of a capture; a collector with
//! [`MemoryLimits`] bounds that of all streams.

pub mod application_protocol;
pub mod captured_stream;
pub mod collect;
pub mod depth;
pub mod direction;
mod dns;
mod duplicates;
pub mod ends;
pub mod even_pace;
pub mod exchange;
pub mod flight_plateau;
mod flight_rate;
mod histogram;
pub mod idle_period;
mod known_socket;
mod loss_recovery;
pub mod network_time;
pub mod path;
pub mod path_mtu;
pub mod policing;
mod right_edge;
pub mod round_trip;
pub mod segment;
pub mod sequence;
mod sequence_gaps;
pub mod slow_start;
pub mod stall;
pub mod stream;
pub mod table;
pub mod throughput;
mod time;
pub mod time_breakdown;
mod timestamp_echo;

pub use collect::watch::{Watch, WatchedSegment};
pub use collect::{Collected, CollectedSegment, Collector, MemoryLimits};
pub use direction::Direction;
pub use ends::Ends;
pub use exchange::Exchange;
pub use known_socket::KnownSocket;
pub use loss_recovery::{ChecksumCounts, SegmentTimeouts};
pub use segment::{SegmentCounts, SegmentKind};
pub use stall::{Stall, StallReason};
pub use stream::{SegmentEvent, Stream, StreamState};
pub use table::{KnownSockets, Table};
pub use time::{Nanos, OptionalTime};
