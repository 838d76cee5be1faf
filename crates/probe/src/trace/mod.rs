//! The hops of a route: packets to all distances at once, all of one flow.
//!
//! - [`tracer`]: sends rounds of packets and collects the replies
//! - [`run`]: one trace from start to end
//! - [`mtu`]: finds the largest packet that gets through
//! - [`hop`]: what is known of each hop
//! - [`method`]: how packets with a limited TTL are sent; [`one_flow`]: by raw sockets, with [`flow`],
//!   what their replies quote; [`unprivileged`]: without rights
//! - [`names`]: reverse look-ups in the background
//! - [`settings`]: the target, packets, sockets

mod flow;
mod hop;
mod method;
mod mtu;
mod names;
mod one_flow;
mod run;
mod settings;
mod tracer;
mod unprivileged;

pub use run::run;
pub use settings::Settings;
pub use tracer::Tracer;
