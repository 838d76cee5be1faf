//! What one end of a connection sends: new data, retransmissions, gaps; and what its peer
//! acknowledges of it.
//!
//! - `state`: what is known of a direction
//! - [`classify`]: what a segment is
//! - `data`: what follows from that
//! - `acknowledge`: acknowledgements and windows
//! - `packet`: all of it for one packet
//! - `expected`: a short way for most packets
//! - `ping_pong`: messages of one small segment each

mod acknowledge;
mod classify;
mod data;
mod expected;
mod packet;
mod ping_pong;
mod state;

pub(crate) use packet::MIN_TRANSFER_SEGMENTS;
pub(crate) use ping_pong::MessageDirection;
pub use state::Direction;
pub(crate) use state::IpFields;
