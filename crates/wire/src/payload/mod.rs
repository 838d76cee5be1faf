//! What the bytes of a stream say in clear: which application asked for what.
//!
//! - [`dns`]: questions for names and their answers
//! - [`http`]: request and status lines of HTTP/1
//! - [`tls`]: records, and the name in a ClientHello
//!
//! Only what stands at the beginning of a segment is looked at; who is mistaken for another
//! protocol has a wrong label, never a wrong time.

pub mod dns;
pub mod http;
pub mod tls;
