//! Streams in depth, for whoever watches a capture: what passed between two packets, turns with their
//! budgets, events; and one stream packet by packet.
//!
//! - [`clock`]: where the time between two packets, and that of a turn, went
//! - [`event`]: what happened with a packet, as rows
//! - [`recorder`]: one stream: phases, slowest turns, packets around the worst stalls
//! - [`curve`]: what an end sent over time, in bounded memory

pub mod clock;
pub mod curve;
pub mod event;
pub mod recorder;

pub use clock::Clock;
pub use recorder::Recorder;

use model::Side;

use crate::Nanos;
use crate::stream::Stream;

/// Who the sides of a stream are: the client is the end that asked for it; without a handshake, the
/// one with the higher port.
pub fn side(stream: &Stream, side: usize) -> Side {
    let turned = !stream.roles_known && stream.ends[0].port() < stream.ends[1].port();
    if (side == 0) == turned { Side::Server } else { Side::Client }
}

/// Microseconds from one moment to a later one.
fn micros(from: Nanos, to: Nanos) -> u64 {
    u64::try_from(to.saturating_sub(from) / 1_000).unwrap_or(0)
}
