//! A link in user space: delay, rate, queue, loss, reordering, token buckets.
//!
//! A [`Link`] joins two TAP devices, each in its own network namespace, and impairs the frames of
//! each direction according to its [`Profile`]. It needs no `netem`, which many kernels lack.
//!
//! - [`Profile`], [`Direction`]: what a link does to packets
//! - [`Pipe`]: one direction as pure computation in virtual time
//! - [`Link`]: the thread that reads and writes the devices
//! - [`Counters`]: what it did
//!
//! **Housekeeping frames pass at once and are never lost**: ARP, IPv6 neighbour and router
//! discovery, multicast group reports. Otherwise a lab would measure neighbour resolution. They
//! draw no random numbers either, because the kernel sends them whenever it likes.
//!
//! Random decisions depend on the seed and on the number of packets before: the same sequence of
//! packets meets the same decisions, whatever its timing. Each direction has its own generator.

mod counters;
#[cfg(test)]
mod frames;
mod link;
mod loss;
mod packet;
mod pipe;
mod profile;
mod random;
mod time;
mod token_bucket;

pub use counters::{Counters, Lateness};
pub use link::Link;
pub use pipe::{Departure, Pipe};
pub use profile::{Bucket, Direction, Loss, Mode, Profile, Queue, Reorder};
