//! A link in user space: delay, rate, queue, loss, reordering, buckets of credit.
//!
//! A [`Link`] joins two TAP devices, each in a network namespace of its own, and does to the
//! frames of each direction what its [`Profile`] says. It needs no `netem`, which many kernels
//! lack.
//!
//! - [`Profile`], [`Direction`]: what a link does
//! - [`Pipe`]: one direction as pure computation in virtual time
//! - [`Link`]: the thread that reads and writes the devices
//! - [`Counters`]: what it did
//!
//! **Frames that serve the link itself pass at once and are never lost**: ARP, IPv6 neighbour and
//! router discovery, reports of multicast groups. Else a lab would measure how neighbours are
//! found. They take no draw of the random generator either, as they come when the kernel likes.
//!
//! The random decisions depend on the seed and on how many packets came before: the same sequence
//! of packets meets the same decisions, whatever its timing. The two directions draw from
//! generators of their own.

mod bucket;
mod counters;
mod dice;
#[cfg(test)]
mod frames;
mod loss;
mod packet;
mod pipe;
mod profile;
mod run;

pub use counters::{Counters, Lateness};
pub use pipe::{Departure, Pipe};
pub use profile::{Bucket, Direction, Loss, Mode, Profile, Queue, Reorder};
pub use run::Link;

/// Nanoseconds since the link started.
type Nanos = u64;
