//! Bytes to facts: parsers of what a machine gives. No input or output.
//!
//! - [`netlink`]: messages and attributes
//! - [`sock_diag`], [`unix_diag`]: sockets
//! - [`conntrack`]: the connection-tracking table
//! - [`proc_pid`], [`proc_net`]: text of `/proc`
//! - [`capture`], [`packet`]: capture files, and the packets in them
//! - [`payload`]: application protocols in clear: HTTP/1, TLS, DNS
//! - [`kmsg`]: the kernel log
//! - [`ports`]: sets of ports
//! - [`applog`], [`appconfig`]: logs and configuration of applications
//!
//! All bytes are hostile: a parser reports what it could not parse, and neither panics nor loops.

pub mod appconfig;
pub mod applog;
pub mod capture;
pub mod conntrack;
pub mod kmsg;
pub mod netlink;
pub mod packet;
pub mod payload;
pub mod ports;
pub mod proc_net;
pub mod proc_pid;
pub mod sock_diag;
pub mod unix_diag;
