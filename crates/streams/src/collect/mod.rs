//! A capture as evidence, in one pass and in bounded memory: all streams added up by service, and the
//! streams that lost most time.
//!
//! - `collector`: packets into streams, streams into evidence
//! - `service_totals`, `http_totals`: what is added up of a service
//! - `shared_paths`: streams that pass the same token bucket
//! - `ranked_stream`: a stream by what it lost
//! - `clock_check`: whether the times of a capture can be true
//! - [`watch`]: packets and streams for others that want more than the evidence
//! - `selection`, `watched`: a collector with a watcher
//! - `shard`, `sharded`: a collector that takes a part of the streams, for several CPUs

mod clock_check;
mod collector;
mod http_totals;
mod ranked_stream;
mod selection;
mod service_totals;
mod shard;
mod sharded;
mod shared_paths;
pub mod watch;
mod watched;

#[cfg(test)]
mod bounded_memory_tests;
#[cfg(test)]
mod capture_artefact_tests;
#[cfg(test)]
mod delayed_ack_tests;
#[cfg(test)]
mod handshake_tests;
#[cfg(test)]
mod idle_and_window_tests;
#[cfg(test)]
mod loss_tests;
#[cfg(test)]
mod shard_tests;
#[cfg(test)]
mod test_connection;
#[cfg(test)]
mod think_time_tests;

pub use collector::{Collected, CollectedSegment, Collector, MemoryLimits};
