//! The machine under netwhy: files, netlink, streams of events, clocks, sockets, namespaces.
//!
//! - [`Machine`]: what observers may ask a machine for, as doors by kind: [`Files`], [`Netlink`],
//!   [`Events`], [`Clock`], [`OwnProcess`]
//! - [`real`]: this machine
//! - [`replay`]: a machine recorded in a folder, and the recorder that makes such folders
//! - [`Stop`]: the token that ends work early
//! - [`capture`]: capture files, compressed or not; [`live_input`]: those still being written
//! - [`packet_ring`]: packets of an interface, from the kernel's ring; [`filter`]: capture filters in
//!   tcpdump's language
//! - [`probe_socket`]: probes out, replies and ICMP errors in, with the kernel's time stamps
//! - [`tcp_socket`]: `TCP_INFO` and `SO_MEMINFO` of a socket of this process; [`timestamps`]: when
//!   the bytes of a stream arrived
//! - [`tap`]: a network interface whose other end is this process
//! - [`namespace`]: entering and making network namespaces; [`privileges`]: giving up root
//! - [`memory`]: hints to the processor; [`allocator`]: how much memory each thread holds
//!
//! Reading happens here, parsing in `wire`. Nothing here writes to the machine: the crate `change`
//! does. Nothing retries or guesses: an [`Error`] names what was tried, on what, and why it failed.

mod error;
mod machine;
mod stop;

pub mod allocator;
pub mod capture;
pub mod filter;
pub mod live_input;
pub mod memory;
pub mod namespace;
pub mod packet_ring;
pub mod privileges;
pub mod probe_socket;
pub mod real;
pub mod replay;
pub mod tap;
pub mod tcp_socket;
pub mod timestamps;

pub use error::{Error, ErrorKind, Result};
pub use machine::{
    Absent, Clock, EventSource, EventStream, Events, FileKind, FileName, Files, MAX_FILE_BYTES,
    Machine, Netlink, NetlinkProtocol, OpenFile, Opened, OwnCost, OwnProcess, ProcessFiles, Stat,
    descriptor_of,
};
pub use stop::Stop;
