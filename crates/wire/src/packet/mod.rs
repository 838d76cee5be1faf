//! Packets: from the bytes of a link to the innermost IP packet and the TCP segment in it.
//!
//! - [`decode`]: through link headers, tags and tunnels
//! - [`ip`]: IPv4 and IPv6 with its extension headers
//! - [`tcp`]: segments and their options
//! - [`udp`]: datagrams of UDP
//! - [`icmp`]: echoes, errors and the packets that they quote
//! - `plain`: segments whose headers are as those of almost all
//! - [`build`]: packets of probes, as bytes
//! - [`checksum`]: checksums of TCP and UDP
//!
//! Borrowed bytes, no allocation, no copy. Lengths come from IP headers, never from what was captured; a
//! truncated packet is reported as such.

pub mod build;
mod checksum;
mod decode;
mod encapsulation;
mod error;
pub mod icmp;
pub mod ip;
mod link;
mod plain;
pub mod tcp;
mod tunnel;
pub mod udp;

pub use checksum::{Checksum, checksum};
pub use decode::{Decoded, decode, plain_segment};
pub use encapsulation::Encapsulation;
pub use error::DecodeError;
pub use ip::{Fragment, Ip};
pub use plain::{PlainEnds, PlainSegment, identity};
pub use tcp::Tcp;
pub use udp::Udp;

#[cfg(test)]
mod tests;
