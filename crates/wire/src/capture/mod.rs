//! Capture files: pcap (µs, ns, "modified", both byte orders) and pcapng (all blocks, several sections
//! and interfaces), parsed from a stream of bytes in pieces of any size.
//!
//! - [`Reader`]: the front of a buffer to a [`Step`]; borrowed bytes, no allocation for a packet, no file
//!   is opened here
//! - `pcap`, `pcapng`: the two formats
//! - [`link`]: link types
//! - [`mod@write`]: the other way: pcapng blocks to bytes
//!
//! A file that is truncated or damaged gives what can be read, then a [`Damage`] with its offset.

mod bytes;
mod file;
pub mod link;
mod pcap;
mod pcapng;
mod reader;
mod types;
pub mod write;

pub use link::LinkType;
pub use reader::Reader;
pub use types::{Damage, Interface, MAX_RECORD_BYTES, Packet, Step};

#[cfg(test)]
mod tests;
