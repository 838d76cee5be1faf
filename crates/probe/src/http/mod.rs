//! HTTP load tests: closed loop as wrk and ab do it, open loop with scheduled send times as wrk2 does.
//!
//! - [`plan`]: URLs, connections, rate, limits
//! - [`load`]: a load from start to end
//! - [`origin`]: a server and the requests to it, ready to send
//! - [`response`]: finds the end of responses
//! - [`transport`]: the bytes of a connection, with or without TLS; [`tls`]: trusted certificates
//! - [`connection`]: one connection and the requests on it
//! - [`worker`]: one thread with HTTP/1.1 connections; [`http2`]: one with HTTP/2 connections, whose
//!   sockets are [`paced`]
//! - [`first_connections`]: whether anything accepts connections at all
//! - [`thread`]: what both kinds of threads start from
//! - [`schedule`]: when a request is due
//! - [`stats`]: histograms and counts; [`intervals`]: over time; [`syn_retransmissions`];
//!   [`failure`]: why a request failed; [`client_limits`]: what limits this client
//! - [`open_files`]: the limit of open files
//! - [`non_empty`]: lists of origins and of requests
//!
//! Each request is counted once: with a response, failed by kind, or unfinished. Nothing is kept of a
//! request after its end.

mod client_limits;
mod connection;
mod failure;
mod first_connections;
mod http2;
mod intervals;
mod load;
mod non_empty;
mod open_files;
mod origin;
mod paced;
mod plan;
pub mod response;
mod schedule;
mod stats;
mod syn_retransmissions;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_tls;
mod thread;
mod tls;
mod transport;
mod worker;

pub use load::{PreparedLoad, prepare};
pub use plan::{Plan, RequestSpec, Trust, parse_url_file};
pub use stats::{Histograms, LoadResult};
pub use thread::LiveCounts;
