//! Application protocols in clear, at the beginning of a segment.
//!
//! - [`dns`]: queries and responses
//! - [`http`]: request and status lines of HTTP/1
//! - [`tls`]: records, and the server name in a ClientHello
//!
//! Only the beginning of a segment is parsed; a stream that is mistaken for another protocol has a wrong
//! label, never a wrong time.

pub mod dns;
pub mod http;
pub mod tls;
