//! DNS over UDP and TCP: names that clients looked up, and how long each server made them wait.
//!
//! - `queries`: the queries of a capture, and the look-ups that they belong to
//! - `name_server`: what is counted of one server

mod name_server;
mod queries;

#[cfg(test)]
mod tests;

pub(crate) use queries::{DNS_PORT, DnsQueries};
