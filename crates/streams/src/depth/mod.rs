//! Streams in depth, for a watcher of a capture: where the time between two packets went, exchanges
//! with their time breakdown, events; and one stream packet by packet.
//!
//! - [`time_tracker`]: where the time between two packets, and that of an exchange, went
//! - [`events`]: what happened with a packet, as rows
//! - [`recorder`]: one stream: phases, slowest exchanges, packets around the worst stalls
//! - `recording`: what was recorded of it
//! - `relative_numbers`: its sequence numbers counted from its first packet
//! - `worst_stalls`: packets around stalls
//! - `curve`: what an end sent over time, in bounded memory

mod curve;
pub mod events;
pub mod recorder;
mod recording;
mod relative_numbers;
pub mod time_tracker;
mod worst_stalls;

pub use recorder::Recorder;
pub use recording::{RecordedPacket, StreamRecording};
pub use time_tracker::TimeTracker;
