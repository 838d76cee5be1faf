//! DNS over UDP and TCP: names that clients looked up, and how long each server made them wait.
//!
//! - `lookups`: the look-ups of a capture
//! - `name_server`: what is counted of one server

mod lookups;
mod name_server;

#[cfg(test)]
mod tests;

pub(crate) use lookups::{DNS_PORT, DnsLookups};
