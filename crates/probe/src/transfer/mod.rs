//! Bulk and request-response transfers, compared with theory.
//!
//! - `options`: what is transferred, and the progress
//! - `client`: runs the transfers, one thread for each stream; `control`: its control connection
//! - `server`: listens and accepts plans within its limits; `session`: serves one client;
//!   `event`: what it reports
//! - `unidentified`: connections before their plan; `refusals`: which refusals are reported
//! - `http`: transfers from a plain HTTP server instead
//! - `protocol`: the frames between client and server, and the authentication
//! - `sender`: sends one transfer; `recorder`: samples its TCP state; `category`: what it waited for
//! - `theory`: how long a transfer should take; `compare`: the measured ones against it
//! - `connection`: a connection whose waits all end; `sysctl`: sysctls that matter
//!
//! What limits a transfer is known at its sender: when that is the server, its statistics are sent to the
//! client over the control connection at the end.

mod category;
mod client;
mod compare;
mod connection;
mod control;
mod event;
mod http;
mod options;
mod protocol;
mod recorder;
mod refusals;
mod sender;
mod server;
mod session;
mod sysctl;
#[cfg(test)]
mod tests;
mod theory;
mod unidentified;

pub use client::run;
pub use event::Event;
pub use http::Url;
pub use options::{
    DEFAULT_PORT, MAX_BUFFER_BYTES, MAX_SOURCE_DELAY, MAX_STREAMS, Options, Progress,
};
pub use server::{Limits, Server};
