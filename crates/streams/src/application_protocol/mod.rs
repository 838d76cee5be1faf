//! What a stream shows of its application protocol: HTTP/1 requests and their statuses, the server
//! name of TLS and how long its handshake took.
//!
//! Only the beginnings of requests and responses are parsed, and all segments of a TLS handshake; the
//! rest of a transfer costs a comparison of its first byte.
//!
//! - `greeting`: what servers say first
//! - `payload`: new data, as the protocols take it
//! - `http`: requests and responses of HTTP/1
//! - `http_repeats`: those that repeat the ones before
//! - `tls`: the handshake
//! - `moments`: when late responses came
//! - `protocol`: both

mod greeting;
mod http;
mod http_repeats;
mod moments;
mod payload;
mod protocol;
mod tls;

#[cfg(test)]
mod tests;

pub(crate) use greeting::Greeting;
pub(crate) use http::RequestHash;
pub use http::{HttpExchange, SlowRequest};
pub(crate) use http_repeats::HttpRepeats;
pub use moments::Moments;
pub(crate) use payload::Payload;
pub use protocol::ApplicationProtocol;
pub(crate) use tls::TlsPart;
pub use tls::{TlsAlert, TlsHandshake};
