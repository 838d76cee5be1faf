//! One connection: its two ends, how it opened and ended, and where its time went.
//!
//! - `state`: what is known of a stream
//! - `packet`: all that follows from one packet
//! - `expected`: a short way for most packets
//! - `ping_pong`: a shorter one for requests and responses of one small segment each
//! - `handshake`, `syn_retries`: SYNs, and which end is the client
//! - `attribute_time`: the category of each interval
//! - `transfer`: slow start, throughput, policers
//! - `protocol`: the application protocol
//! - `idle`: idle periods
//! - `finish`: what follows from the end

mod attribute_time;
mod expected;
mod finish;
mod handshake;
mod idle;
mod packet;
mod ping_pong;
#[cfg(test)]
pub(crate) mod ping_pong_tests;
mod protocol;
mod state;
mod syn_retries;
mod transfer;

pub(crate) use ping_pong::{PingPong, Taken};
pub use state::{End, Handshake, SegmentEvent, Stream, StreamState};
pub(crate) use state::{ServiceIndex, v4_number, v4_pair};
