//! Sockets of probes: packets out with a time to live of their own, replies and ICMP errors in, with
//! the time at which the kernel received them.
//!
//! - [`ProbeSocket`]: the socket
//! - `message`: packets in, and the error queue: times, hops, errors
//! - `kernel`: the other system calls
//! - [`reverse_dns_name`]: the name of an address
//!
//! Nothing here blocks: [`wait`] polls the sockets.

mod address;
mod kernel;
mod message;
mod names;
mod socket;

pub use message::{ErrorQueueEvent, Received, SocketError};
pub use names::reverse_dns_name;
pub use socket::{ProbeSocket, Settings, SocketKind, wait};
