//! The handshake of TLS, as far as it is in the clear, and the session tickets after it.
//!
//! With TLS 1.3 many servers send tickets as soon as the client has ended the handshake (RFC 8446, 4.6.1): before
//! the response to a request that came with that end, though the server may still think about it. They
//! are encrypted as the response is; but where there are several, they are records of one length.

use std::ops::RangeInclusive;

use model::Side;
use wire::payload::tls::{self, ContentType};

use super::payload::Payload;
use crate::ends::Ends;
use crate::time::{Nanos, OptionalTime};

/// Bytes of a ClientHello that are kept until it is complete; today's have 0.5 to 2 kB.
const MAX_HELLO_BYTES: usize = 4096;
/// Length of an alert in the clear (RFC 8446, 6).
const ALERT_BYTES: u16 = 2;

/// Bytes of a record with a session ticket: a key to what the server keeps, or all of that, encrypted.
const TICKET_BYTES: RangeInclusive<u16> = 70..=600;
/// Longest time between two of them (an end that uses Nagle's algorithm waits for a delayed acknowledgement
/// of the first), and before the first, round trips aside.
const MAX_TICKET_PAUSE: Nanos = 250_000_000;
/// Tickets of one handshake: OpenSSL sends two, others up to four.
const TICKETS: RangeInclusive<u32> = 2..=4;

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
    /// Whether it is TLS 1.3: the server encrypts before the client has ended the handshake, and the client
    /// encrypts what it replies.
    is_1_3: bool,
    /// Whether the client has replied to the server in the clear.
    has_clear_reply: bool,
    tickets: Tickets,
    latest: TlsPart,
}

/// What data is to TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsPart {
    /// Nothing but messages of the handshake.
    Handshake,
    /// Session tickets, with those before it.
    Tickets,
    /// Data of the application, or unknown.
    Data,
}

/// Records of the server after the handshake that may be session tickets.
#[derive(Debug, Clone, Copy)]
enum Tickets {
    /// None came yet.
    Expected,
    /// So many of this length, the last one at that time.
    Some(u16, u32, Nanos),
    /// Whatever follows is none.
    Over,
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
            is_1_3: false,
            has_clear_reply: false,
            tickets: Tickets::Expected,
            latest: TlsPart::Handshake,
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

    /// Whether more of it, or its session tickets, may come.
    pub(super) fn is_followed(&self) -> bool {
        let may_have_tickets = self.is_1_3 && !matches!(self.tickets, Tickets::Over);
        !self.is_over() || (may_have_tickets && self.alert.is_none())
    }

    /// What the latest data is.
    pub(crate) fn latest(&self) -> TlsPart {
        self.latest
    }

    fn is_over(&self) -> bool {
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
        let own = self.ends.get_mut(payload.sender);
        let skipped = own.record_left.min(payload.length);
        own.record_left = own.record_left.saturating_sub(skipped);
        let mut rest = payload.bytes.get(skipped as usize..).unwrap_or_default();
        let mut length = payload.length.saturating_sub(skipped);
        // The rest of a record is what its beginning was.
        self.latest = match (skipped > 0, self.is_over()) {
            (true, false) => TlsPart::Handshake,
            (true, true) => self.part_of_tickets(payload.sender),
            (false, _) => TlsPart::Data,
        };
        while let Some((content, record_length)) = tls::record(rest) {
            self.latest = self.take_record(payload, content, (record_length, rest));
            let whole = (tls::HEADER_BYTES as u32).saturating_add(record_length.into());
            self.ends.get_mut(payload.sender).record_left = whole.saturating_sub(length);
            length = length.saturating_sub(whole);
            rest = rest.get(whole as usize..).unwrap_or_default();
        }
        if rest.is_empty() {
            self.take_not_captured(payload, length);
        }
        if self.is_over() {
            self.hello = Vec::new();
        }
    }

    /// Takes a record of so many bytes, its header aside. Returns what it is.
    fn take_record(
        &mut self,
        payload: &Payload<'_>,
        content: ContentType,
        (length, bytes): (u16, &[u8]),
    ) -> TlsPart {
        let is_client = payload.sender == self.client;
        if self.is_over() {
            return self.take_ticket(payload, content, length);
        }
        let own = self.ends.get_mut(payload.sender);
        let is_encrypted = content == ContentType::ApplicationData;
        match content {
            ContentType::ChangeCipherSpec => own.has_changed_cipher = true,
            ContentType::Alert if !own.has_changed_cipher && length == ALERT_BYTES => {
                let number = bytes.get(tls::HEADER_BYTES + 1).copied();
                let sender = payload.sender;
                self.alert = number.map(|number| TlsAlert { sender, number });
            }
            _ => {}
        }
        self.has_response |= !is_client;
        let is_reply = is_client && self.has_response;
        self.has_clear_reply |= is_reply && content == ContentType::Handshake;
        self.is_1_3 |= is_encrypted && !self.has_clear_reply && (is_reply || !is_client);
        // After a reply in the clear, an end that encrypts data has ended the handshake, if only the other one's
        // end of it was not captured.
        let ends = is_encrypted && (is_reply || self.has_clear_reply);
        if ends || (self.ends.iter().all(|end| end.has_changed_cipher) && !self.is_1_3) {
            self.completed.get_or_set(payload.at);
        }
        if is_encrypted && !self.is_1_3 { TlsPart::Data } else { TlsPart::Handshake }
    }

    /// Takes a record after the handshake; the last one of TLS 1.2 belongs to it.
    fn take_ticket(&mut self, payload: &Payload<'_>, content: ContentType, length: u16) -> TlsPart {
        if content == ContentType::Handshake && !self.is_1_3 {
            return TlsPart::Handshake;
        }
        let (is_client, at) = (payload.sender == self.client, payload.at);
        let fits = content == ContentType::ApplicationData && TICKET_BYTES.contains(&length);
        let is_ticket = !is_client && fits;
        let after_handshake = at.saturating_sub(self.completed.get().unwrap_or(at));
        let round_trips = self.duration().unwrap_or(0).saturating_mul(2);
        self.tickets = match self.tickets {
            // The client asks.
            Tickets::Expected if is_client => Tickets::Expected,
            Tickets::Expected
                if is_ticket && after_handshake.saturating_sub(round_trips) < MAX_TICKET_PAUSE =>
            {
                Tickets::Some(length, 1, at)
            }
            Tickets::Some(known, count, last)
                if is_ticket
                    && length == known
                    && count < *TICKETS.end()
                    && at.saturating_sub(last) < MAX_TICKET_PAUSE =>
            {
                Tickets::Some(known, count + 1, at)
            }
            _ => Tickets::Over,
        };
        self.part_of_tickets(payload.sender)
    }

    /// The rest of some data was not captured: after a ticket, it is more of them if its length is.
    fn take_not_captured(&mut self, payload: &Payload<'_>, length: u32) {
        let Tickets::Some(known, ..) = self.tickets else { return };
        let whole = tls::HEADER_BYTES as u32 + u32::from(known);
        let is_more = length.is_multiple_of(whole);
        for _ in 0..length.div_ceil(whole).min(TICKETS.end() + 1) {
            let record = if is_more { known } else { 0 };
            self.latest = self.take_ticket(payload, ContentType::ApplicationData, record);
        }
    }

    fn part_of_tickets(&self, sender: Side) -> TlsPart {
        match self.tickets {
            Tickets::Some(_, count, _) if sender != self.client && TICKETS.contains(&count) => {
                TlsPart::Tickets
            }
            _ => TlsPart::Data,
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
