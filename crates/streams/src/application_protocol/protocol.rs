//! The application protocol of one stream.

use super::http::{Http, HttpExchange, RequestHash, SlowRequest};
use super::http_repeats::HttpRepeats;
use super::payload::Payload;
use super::tls::TlsHandshake;
use crate::time::{Nanos, OptionalTime};

/// First byte of a TLS record with handshake messages (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 22;
/// First byte of a status line, `HTTP/1.1 200 OK`.
const STATUS_LINE: u8 = b'H';

/// What a stream shows of its application protocol.
#[derive(Debug, Clone, Default)]
pub struct ApplicationProtocol {
    http: Http,
    tls: Option<TlsHandshake>,
}

impl ApplicationProtocol {
    /// Whether TLS may begin with these bytes.
    #[inline(always)]
    pub(crate) fn may_begin_tls(bytes: &[u8]) -> bool {
        bytes.first() == Some(&TLS_HANDSHAKE)
    }

    /// Whether HTTP or TLS may begin with this byte.
    #[inline(always)]
    pub(crate) fn may_begin(first: u8, begins_request: bool) -> bool {
        first == STATUS_LINE
            || begins_request && (first.is_ascii_uppercase() || first == TLS_HANDSHAKE)
    }

    /// Whether a TLS handshake goes on, or session tickets may follow it: then every segment is needed.
    pub(crate) fn is_in_handshake(&self) -> bool {
        self.tls.as_ref().is_some_and(TlsHandshake::is_followed)
    }

    /// Takes a request or a response that begins as one before. Returns whether it does.
    #[inline(always)]
    pub(crate) fn repeats(&mut self, bytes: &[u8], exchange: u32, begins_request: bool) -> bool {
        match begins_request {
            true => self.http.repeats_request(bytes, exchange),
            false => self.http.repeats_status(bytes, exchange),
        }
    }

    /// Repeats of the latest request and response.
    pub(crate) fn repeats_of_latest(&self) -> HttpRepeats {
        HttpRepeats::of(&self.http)
    }

    /// Adds up repeats; the latest is of this exchange. None is left.
    pub(crate) fn add_repeats(&mut self, repeats: &mut HttpRepeats, exchange: u32) {
        if !repeats.is_empty() {
            self.http.add_repeats(repeats, exchange);
        }
    }

    /// Takes new data. Returns whether any of it was understood.
    pub(crate) fn take(&mut self, payload: &Payload<'_>) -> bool {
        let is_tls = match &mut self.tls {
            Some(tls) if tls.is_followed() => {
                tls.take(payload);
                true
            }
            Some(_) => false,
            None if payload.bytes.first() == Some(&TLS_HANDSHAKE) => {
                self.tls = TlsHandshake::begin(payload);
                self.tls.is_some()
            }
            None => false,
        };
        is_tls | self.http.take(payload)
    }

    /// An exchange ended in which the server took so long to answer, until then.
    #[inline]
    pub(crate) fn end_exchange(
        &mut self,
        exchange: u32,
        think_time: Nanos,
        answered_at: OptionalTime,
    ) {
        self.http.end_exchange(exchange, think_time, answered_at);
    }

    /// Request and status of an exchange: the current one, or the one before.
    pub fn http_exchange(&self, exchange: u32) -> Option<HttpExchange<'_>> {
        self.http.exchange(exchange)
    }

    /// Statuses of HTTP, and how often each came.
    pub fn statuses(&self) -> &[(u16, u32)] {
        self.http.statuses()
    }

    /// Requests with slow responses.
    pub fn slow_requests(&self) -> &[SlowRequest] {
        self.http.slow_requests()
    }

    /// Quick responses by request. A request may come more than once.
    pub(crate) fn quick_requests(&self) -> impl Iterator<Item = (RequestHash, u32)> + '_ {
        self.http.quick_requests()
    }

    /// The TLS handshake, if there is one.
    pub fn tls(&self) -> Option<&TlsHandshake> {
        self.tls.as_ref()
    }

    /// The client turns out to be the server.
    pub(crate) fn swap_roles(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.swap_roles();
        }
    }
}
