//! Round-trip times of single packets: ICMP, TCP SYN, UDP.
//!
//! - [`settings`]: targets, intervals, sockets
//! - [`run`]: sends to several targets at once and waits for replies
//! - [`event`]: what is reported while it runs
//! - [`method`]: what all kinds of probe packets have in common; `icmp_echo`, `tcp_syn`, `udp`, and
//!   `tcp_connect`, the substitute for SYNs without CAP_NET_RAW
//! - [`tracker`]: outstanding packets and counts
//! - [`download`]: downloads that load a link meanwhile

pub mod download;
mod event;
mod icmp_echo;
mod method;
mod run;
mod settings;
mod tcp_connect;
mod tcp_syn;
mod tracker;
mod udp;

pub use event::{Event, EventKind};
pub use run::run;
pub use settings::{MAX_PAYLOAD_BYTES, MAX_TARGETS, PingTarget, Protocol, Settings};
