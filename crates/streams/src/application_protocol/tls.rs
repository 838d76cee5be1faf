//! The handshake of TLS, as far as it is in the clear.

use model::Side;
use wire::payload::tls::{self, ContentType};

use super::payload::Payload;
use crate::ends::Ends;
use crate::time::{Nanos, OptionalTime};

/// Bytes of a ClientHello that are kept until it is complete; today's have 0.5 to 2 kB.
const MAX_HELLO_BYTES: usize = 4096;
/// Length of an alert in the clear (RFC 8446, 6).
const ALERT_BYTES: u16 = 2;

/// The TLS handshake of a stream.
#[derive(Debug, Clone)]
pub struct TlsHandshake {
    /// The host name that the client sent (SNI).
    pub server_name: Option<Box<str>>,
    /// First byte of the ClientHello.
    pub began: Nanos,
    /// When both ends encrypt.
    pub completed: OptionalTime,
    /// The alert that ended it.
    pub alert: Option<TlsAlert>,
    /// The end that sent the ClientHello.
    client: Side,
    /// Whether the server has responded: what a client encrypts before is early data.
    has_response: bool,
    ends: Ends<TlsEnd>,
    /// An incomplete ClientHello.
    hello: Vec<u8>,
}

/// An alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsAlert {
    /// The end that sent it.
    pub sender: Side,
    /// Its number (RFC 8446, 6.2).
    pub number: u8,
}

/// One end of a handshake.
#[derive(Debug, Clone, Copy, Default)]
struct TlsEnd {
    has_changed_cipher: bool,
    /// Bytes of its last record that are still to come.
    record_left: u32,
}

impl TlsHandshake {
    /// The handshake that this data begins: a ClientHello.
    pub(super) fn begin(payload: &Payload<'_>) -> Option<Self> {
        if !payload.begins_request {
            return None;
        }
        let hello = tls::client_hello(payload.bytes)?;
        let mut handshake = TlsHandshake {
            server_name: None,
            began: payload.at,
            completed: OptionalTime::default(),
            alert: None,
            client: payload.sender,
            has_response: false,
            ends: Ends::default(),
            hello: Vec::new(),
        };
        handshake.take_hello(payload.bytes, &hello);
        handshake.take_records(payload);
        Some(handshake)
    }

    /// Takes more data.
    pub(super) fn take(&mut self, payload: &Payload<'_>) {
        self.complete_hello(payload);
        self.take_records(payload);
    }

    /// From the ClientHello until both ends encrypt.
    pub fn duration(&self) -> Option<Nanos> {
        self.completed.get().map(|completed| completed.saturating_sub(self.began))
    }

    pub(super) fn is_over(&self) -> bool {
        self.completed.is_known() || self.alert.is_some()
    }

    fn take_hello(&mut self, bytes: &[u8], hello: &tls::ClientHello<'_>) {
        self.server_name = hello.server_name.map(Into::into);
        self.hello.clear();
        if !hello.whole && self.server_name.is_none() {
            self.hello.extend_from_slice(bytes.get(..MAX_HELLO_BYTES).unwrap_or(bytes));
        }
    }

    /// More of a ClientHello that was incomplete.
    fn complete_hello(&mut self, payload: &Payload<'_>) {
        if self.hello.is_empty() {
            return;
        }
        let mut bytes = std::mem::take(&mut self.hello);
        let fits = bytes.len().saturating_add(payload.bytes.len()) <= MAX_HELLO_BYTES;
        if payload.sender == self.client && fits {
            bytes.extend_from_slice(payload.bytes);
            if let Some(hello) = tls::client_hello(&bytes) {
                self.take_hello(&bytes, &hello);
            }
        }
    }

    /// Takes the records of some data. With TLS 1.3 both ends announce that they encrypt from now on
    /// for the sake of middleboxes (RFC 8446, appendix D.4); where they do not, the first record that
    /// the client encrypts ends the handshake.
    fn take_records(&mut self, payload: &Payload<'_>) {
        let is_client = payload.sender == self.client;
        let own = self.ends.get_mut(payload.sender);
        let skipped = own.record_left.min(payload.length);
        own.record_left = own.record_left.saturating_sub(skipped);
        let mut rest = payload.bytes.get(skipped as usize..).unwrap_or_default();
        let mut length = payload.length.saturating_sub(skipped);
        while let Some((content, record_length)) = tls::record(rest) {
            let own = self.ends.get_mut(payload.sender);
            match content {
                ContentType::ChangeCipherSpec => own.has_changed_cipher = true,
                ContentType::Alert if !own.has_changed_cipher && record_length == ALERT_BYTES => {
                    let number = rest.get(tls::HEADER_BYTES + 1).copied();
                    let sender = payload.sender;
                    self.alert = number.map(|number| TlsAlert { sender, number });
                }
                _ => {}
            }
            let whole = (tls::HEADER_BYTES as u32).saturating_add(record_length.into());
            own.record_left = whole.saturating_sub(length);
            length = length.saturating_sub(whole);
            rest = rest.get(whole as usize..).unwrap_or_default();
            self.has_response |= !is_client;
            let is_encrypted =
                content == ContentType::ApplicationData && is_client && self.has_response;
            if is_encrypted || self.ends.iter().all(|end| end.has_changed_cipher) {
                self.completed.get_or_set(payload.at);
            }
        }
        if self.is_over() {
            self.hello = Vec::new();
        }
    }

    pub(super) fn swap_roles(&mut self) {
        self.client = self.client.other();
        self.ends.swap();
        if let Some(alert) = &mut self.alert {
            alert.sender = alert.sender.other();
        }
    }
}
