//! Packets to streams: which segments belong together, which end sent what, what was lost,
//! repeated or late on the way. A passive observer's view, from one place on the path.
//!
//! - [`table`]: packets to their streams; streams that ended make room
//! - [`stream`]: one connection: its ends, its handshake, how it ended
//! - [`direction`]: what one end sent: new bytes, repeated ones, holes; what its peer says of it
//! - `counts`: what segments are, and how often
//! - `histogram`: times, counted by their size
//! - `holes`: ranges that were not seen
//! - `copies`: packets that were captured twice
//! - [`budget`]: where the time of a stream went
//! - `edges`: the windows that were offered, as the end knew them that is far from here
//! - [`growth`]: slow start
//! - [`rates`]: the rate of a bulk transfer over time
//! - `echo`: time stamps and their echo
//! - [`lookups`]: names that were looked up
//! - [`path`]: two captures of the same streams, one at each end of a path
//! - [`policing`]: token-bucket policers
//! - [`facts`]: a stream as evidence
//! - [`collect`]: a capture as evidence; in it `watch`, for whoever wants to see more, and `share`, for
//!   several CPUs
//! - [`round_trip`]: times from a segment to its acknowledgement, safe of retransmissions
//! - [`spoken`]: what streams say in clear: HTTP/1, TLS
//! - [`stall`]: times in which an end could not send, and why
//! - `trouble`: what went wrong on a direction
//! - [`turn`]: requests and answers of any protocol
//! - [`depth`]: streams in depth: what passed between two packets, turns, events, one packet by packet
//! - [`silence`]: silences, and whether a stream outlived them
//! - [`sizes`]: packets that are too large for the path
//! - [`sequence`]: sequence numbers that do not wrap
//!
//! Memory is bounded for each stream and does not grow with the length of a capture.

pub mod budget;
pub mod collect;
mod copies;
mod counts;
pub mod depth;
pub mod direction;
mod echo;
mod edges;
pub mod facts;
pub mod growth;
mod histogram;
mod holes;
pub mod lookups;
mod maybe;
pub mod path;
pub mod policing;
pub mod rates;
pub mod round_trip;
pub mod sequence;
pub mod silence;
pub mod sizes;
pub mod spoken;
pub mod stall;
pub mod stream;
pub mod table;
mod trouble;
pub mod turn;

pub use collect::watch::{Passed, Watch};
pub use collect::{Collected, Collector, Seen};
pub use direction::{Direction, Kind};
pub use maybe::Maybe;
pub use policing::Policed;
pub use stall::{Reason, Stall};
pub use stream::{End, Stream};
pub use table::Table;
pub use turn::Turn;

/// Time since 1970-01-01 UTC, nanoseconds: enough for 292 years either way.
pub type Nanos = i64;
