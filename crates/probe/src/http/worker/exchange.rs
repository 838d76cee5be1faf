//! What happens on a connection: it is established, requests are written, responses are read, it is
//! closed or fails.

use std::cmp::Reverse;
use std::os::fd::AsFd as _;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustls::pki_types::ServerName;

use super::super::connection::{PendingRequest, Slot, State};
use super::super::failure::Failure;
use super::super::origin::Address;
use super::super::response::Parsed;
use super::super::stats::RequestTimes;
use super::super::syn_retransmissions::SlowConnect;
use super::super::thread::nanos;
use super::super::transport::{Transport, TransportError};
use super::state::Worker;

/// First and longest back-off after a failed connection, nanoseconds.
const FIRST_BACK_OFF_NS: u64 = 10_000_000;
const MAX_BACK_OFF_NS: u64 = 1_000_000_000;
/// A server whose connections are established sooner is probably this host, nanoseconds.
const NEAR_CONNECT_NS: u64 = 200_000;
/// Most bytes of pipelined requests that are written together.
const MAX_BATCH_BYTES: usize = 64 << 10;
/// Connections that take longer are checked for SYN retransmissions, the first of which comes after a
/// second (RFC 6298, section 2.1); nanoseconds.
const SLOW_CONNECT_NS: u64 = 500_000_000;
/// The latency's moving average weighs the latest response by one part in this many.
const LATENCY_AVERAGE_WEIGHT: u64 = 64;

impl Worker {
    /// Open loop: the connection is idle. Closed loop: it starts its next requests.
    pub(super) fn release(&mut self, slot: Slot, now: u64) {
        if !self.is_open_loop() {
            return self.start_next(slot, now);
        }
        if !std::mem::replace(&mut self.connections[slot].idle, true) {
            self.idle.push_back(slot);
        }
    }

    /// Closed loop: starts requests on a connection until as many as allowed are in flight.
    fn start_next(&mut self, slot: Slot, now: u64) {
        while self.connections[slot].pending.len() < self.setup.plan.pipeline as usize {
            if self.ended || now >= self.end || !self.setup.limit.take() {
                break;
            }
            if !self.start_request(slot, None, now) {
                break;
            }
        }
    }

    /// Starts a request; `false`: its connection failed.
    pub(super) fn start_request(&mut self, slot: Slot, due: Option<u64>, now: u64) -> bool {
        self.record_in_flight(now);
        self.in_flight += 1;
        let connection = &mut self.connections[slot];
        let request = connection.next_request;
        let requests = &self.setup.origins.get(connection.origin).requests;
        connection.next_request = requests.next_index(request);
        let (first_sent, last_sent) = (0, 0);
        let pending = PendingRequest { request, due, start: now, first_sent, last_sent };
        connection.pending.push_back(pending);
        match connection.state {
            State::Closed => self.connect(slot, now),
            State::Open if connection.pending.len() == connection.written + 1 => {
                self.to_write.push(slot);
                true
            }
            _ => true,
        }
    }

    /// Starts to connect; `false`: the connection failed.
    fn connect(&mut self, slot: Slot, now: u64) -> bool {
        let connection = &mut self.connections[slot];
        let origin = self.setup.origins.get(connection.origin);
        connection.state_since = now;
        if let Some(counts) = self.stats.syn_counts(connection.origin) {
            counts.count_attempt();
        }
        // With TLS the request follows the end of the handshake.
        let nodelay = !self.setup.plan.new_connections || origin.tls.is_some();
        let timestamped = self.schedule.is_some();
        let transport =
            Transport::connect(&origin.address, nodelay, timestamped).and_then(|made| {
                let data = EventData::new_u64(slot.event_data(connection.generation));
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
                epoll::add(&self.epoll, made.as_fd(), data, flags)?;
                Ok(made)
            });
        match transport {
            Ok(transport) => {
                connection.transport = Some(transport);
                connection.state = State::Connecting;
                // On the same host the connection is probably established already.
                let try_now = self.near || matches!(origin.address, Address::Unix(_));
                if try_now && origin.tls.is_none() { self.write_at_once(slot) } else { true }
            }
            Err(errno) => {
                self.fail(slot, &Failure::Connect(errno));
                false
            }
        }
    }

    /// Writes to a connection that may be established already, without waiting for the event.
    fn write_at_once(&mut self, slot: Slot) -> bool {
        let now = self.now();
        let connection = &mut self.connections[slot];
        let (since, generation) = (connection.state_since, connection.generation);
        connection.state = State::Open;
        if !self.write(slot, now) {
            return false;
        }
        let connection = &mut self.connections[slot];
        if connection.generation == generation && connection.is_unwritten() {
            connection.state = State::Connecting;
        } else {
            connection.failures = 0;
            self.setup.first.established();
            self.stats.record_connect(since, now);
        }
        true
    }

    /// Handles an event of a connecting socket; whether the connection is of use.
    fn on_connected(&mut self, slot: Slot, flags: EventFlags) -> bool {
        let now = self.now();
        let connection = &mut self.connections[slot];
        let Some(transport) = &mut connection.transport else { return false };
        if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
            let errno = transport.connect_error().unwrap_or(Errno::CONNRESET);
            self.fail(slot, &Failure::Connect(errno));
            return false;
        }
        if !flags.contains(EventFlags::OUT) {
            return false;
        }
        let waited = now.saturating_sub(connection.state_since);
        self.near = waited < NEAR_CONNECT_NS;
        if waited >= SLOW_CONNECT_NS
            && let retransmissions @ 1.. = transport.syn_retransmissions()
            && let Some(counts) = self.stats.syn_counts(connection.origin)
        {
            counts.count_slow(SlowConnect::Opened, waited, retransmissions);
        }
        self.stats.record_connect(connection.state_since, now);
        self.setup.first.established();
        connection.failures = 0;
        match self.setup.origins.get(connection.origin).tls.clone() {
            Some(name) => self.start_tls(slot, name, now),
            None => {
                connection.state = State::Open;
                self.write(slot, now)
            }
        }
    }

    fn start_tls(&mut self, slot: Slot, name: ServerName<'static>, now: u64) -> bool {
        let connection = &mut self.connections[slot];
        let (Some(transport), Some(config)) = (&mut connection.transport, &self.setup.tls) else {
            return false;
        };
        connection.state_since = now;
        connection.state = State::Handshaking;
        if let Err(error) = transport.start_tls(config, name) {
            self.fail(slot, &Failure::of_tls(error));
            return false;
        }
        self.continue_handshake(slot)
    }

    fn continue_handshake(&mut self, slot: Slot) -> bool {
        let connection = &mut self.connections[slot];
        let Some(transport) = &mut connection.transport else { return false };
        match transport.handshake() {
            Ok(false) | Err(TransportError::NotReady) => true,
            Ok(true) => {
                let now = nanos(self.setup.start.elapsed());
                self.stats.record_handshake(connection.state_since, now);
                connection.state = State::Open;
                self.write(slot, now)
            }
            Err(error) => {
                self.fail(slot, &Failure::of_tls(error));
                false
            }
        }
    }

    /// Writes the requests that are not written yet; `false`: the connection failed.
    pub(super) fn write(&mut self, slot: Slot, mut now: u64) -> bool {
        let connection = &mut self.connections[slot];
        let requests = &self.setup.origins.get(connection.origin).requests;
        let Some(transport) = &mut connection.transport else { return false };
        while let Some(pending) = connection.pending.get_mut(connection.written) {
            // In an open loop the time before counts in the intended latency.
            if pending.due.is_some()
                && connection.written_bytes == 0
                && pending.start != connection.state_since
            {
                pending.start = now;
            }
            let start = pending.start;
            let request = &requests.get(pending.request).bytes;
            let unwritten = request.get(connection.written_bytes..).unwrap_or_default();
            let mut following = connection.pending.range(connection.written + 1..).peekable();
            let bytes = if following.peek().is_some() && request.len() < MAX_BATCH_BYTES {
                self.batch.clear();
                self.batch.extend_from_slice(unwritten);
                for next in following {
                    let next = &requests.get(next.request).bytes;
                    if self.batch.len() + next.len() > MAX_BATCH_BYTES {
                        break;
                    }
                    self.batch.extend_from_slice(next);
                }
                &self.batch
            } else {
                unwritten
            };
            let mut written = match transport.write(bytes) {
                Ok(written) => written,
                Err(TransportError::NotReady) => return true,
                Err(error) => {
                    // The first write to a new connection gets the error of its handshake.
                    let is_first = connection.is_unwritten() && start == connection.state_since;
                    let failure = match (error, is_first) {
                        (TransportError::System(errno), true) => Failure::Connect(errno),
                        (error, _) => Failure::of_write(error),
                    };
                    self.fail(slot, &failure);
                    return false;
                }
            };
            let after = nanos(self.setup.start.elapsed());
            while written > 0
                && let Some(pending) = connection.pending.get_mut(connection.written)
            {
                if connection.written_bytes == 0 {
                    pending.first_sent = now;
                }
                let request = &requests.get(pending.request).bytes;
                let left = request.len().saturating_sub(connection.written_bytes);
                if written < left {
                    connection.written_bytes += written;
                    break;
                }
                written -= left;
                pending.last_sent = after;
                connection.written_bytes = 0;
                connection.written += 1;
            }
            now = after;
        }
        // What TLS holds back is written at the next event.
        match transport.has_unsent() {
            Ok(_) => true,
            Err(error) => {
                self.fail(slot, &Failure::of_write(error));
                false
            }
        }
    }

    /// Handles an event.
    pub(super) fn on_event(&mut self, data: u64, flags: EventFlags, buffer: &mut [u8]) {
        let Some(slot) = self.connections.slot_of_event(data) else { return };
        let state = self.connections[slot].state;
        let usable = match state {
            State::Connecting => self.on_connected(slot, flags),
            State::Handshaking => self.continue_handshake(slot),
            // Writable again; a response may come with the same event.
            State::Open if flags.contains(EventFlags::OUT) && self.has_unsent(slot) => {
                let now = self.now();
                self.write(slot, now)
            }
            State::Open | State::Closing => true,
            State::Closed | State::BackingOff => false,
        };
        let closed = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if usable && flags.intersects(EventFlags::IN | closed) {
            // A close that came with the last bytes has no event of its own.
            self.read(slot, buffer, flags.intersects(closed));
        }
    }

    fn has_unsent(&mut self, slot: Slot) -> bool {
        let connection = &mut self.connections[slot];
        let transport = connection.transport.as_mut();
        let unsent = transport.is_some_and(|transport| transport.has_unsent() != Ok(false));
        unsent || connection.has_unwritten()
    }

    /// Reads on, unless the connection was closed in between.
    pub(super) fn read_more(&mut self, data: u64, until_closed: bool, buffer: &mut [u8]) {
        if let Some(slot) = self.connections.slot_of_event(data) {
            self.read(slot, buffer, until_closed);
        }
    }

    /// Reads responses until the socket is empty, or for as long as the timers can wait; `until_closed`:
    /// until its end.
    fn read(&mut self, slot: Slot, buffer: &mut [u8], until_closed: bool) {
        loop {
            let connection = &mut self.connections[slot];
            if !matches!(connection.state, State::Open | State::Closing) {
                return;
            }
            let Some(transport) = &mut connection.transport else { return };
            let read = match transport.read(buffer) {
                Ok(read) => read,
                Err(TransportError::NotReady) => return,
                Err(error) => return self.fail(slot, &Failure::of_read(error)),
            };
            let is_all = read < buffer.len() && transport.short_read_is_all() && !until_closed;
            let mut now = nanos(self.setup.start.elapsed());
            if read == 0 {
                return self.on_closed(slot, now);
            }
            let delay = transport.read_delay();
            if let (Some(delay), Some(pending)) = (delay, connection.pending.front()) {
                // If the clock was set in between, a response still comes after its request.
                let received = now.saturating_sub(nanos(delay)).max(pending.last_sent);
                self.stats.record_read_delay(received, now);
                now = received;
            }
            let generation = connection.generation;
            self.stats.record_bytes(now, read);
            self.parse(slot, buffer.get(..read).unwrap_or_default(), now);
            // A closing connection is read on, so that the server closes it first.
            let connection = &self.connections[slot];
            let same = connection.generation == generation && connection.transport.is_some();
            if !same || (is_all && connection.state == State::Open) {
                return;
            }
            if self.now() >= self.read_until {
                self.unread.push((slot.event_data(generation), until_closed));
                return;
            }
        }
    }

    /// Parses bytes of responses.
    fn parse(&mut self, slot: Slot, mut bytes: &[u8], now: u64) {
        while !bytes.is_empty() {
            let connection = &mut self.connections[slot];
            let Some(pending) = connection.pending.front().copied() else {
                if connection.state == State::Open {
                    let unrequested = Failure::Malformed("bytes after the end of a response");
                    self.stats.record_failure(now, &unrequested);
                    self.fail(slot, &unrequested);
                }
                return;
            };
            if connection.response_start == 0 {
                connection.response_start = now;
            }
            let requests = &self.setup.origins.get(connection.origin).requests;
            let no_body = requests.get(pending.request).no_body;
            match connection.parser.parse(bytes, no_body) {
                Err(why) => return self.fail(slot, &Failure::Malformed(why)),
                Ok(Parsed::Incomplete) => return,
                Ok(Parsed::Complete { used, status, keep_alive }) => {
                    bytes = bytes.get(used..).unwrap_or_default();
                    self.on_response(slot, status, now);
                    let connection = &mut self.connections[slot];
                    if connection.state != State::Open {
                        return;
                    }
                    if self.setup.plan.new_connections || !keep_alive {
                        // Pipelined requests without a response are retried on the next connection.
                        connection.state = State::Closing;
                        connection.state_since = now;
                        return;
                    }
                    if bytes.is_empty() {
                        self.release(slot, now);
                    }
                }
            }
        }
    }

    /// The oldest request of a connection has its complete response.
    fn on_response(&mut self, slot: Slot, status: u16, now: u64) {
        self.record_in_flight(now);
        let connection = &mut self.connections[slot];
        let Some(pending) = connection.pending.pop_front() else { return };
        self.in_flight = self.in_flight.saturating_sub(1);
        let last_sent = if pending.last_sent == 0 { now } else { pending.last_sent };
        let times = RequestTimes {
            due: pending.due,
            start: pending.start,
            first_sent: if pending.first_sent == 0 { last_sent } else { pending.first_sent },
            last_sent,
            first_received: connection.response_start,
            last_received: now,
        };
        connection.response_start = 0;
        connection.written = connection.written.saturating_sub(1);
        let latency = now.saturating_sub(pending.start);
        self.recent_latency = self.recent_latency - self.recent_latency / LATENCY_AVERAGE_WEIGHT
            + latency / LATENCY_AVERAGE_WEIGHT;
        self.stats.record_response(times, status);
    }

    /// The server closed the connection.
    fn on_closed(&mut self, slot: Slot, now: u64) {
        let connection = &mut self.connections[slot];
        if connection.state == State::Closing {
            return self.renew(slot, now);
        }
        let mid_response = connection.response_start != 0;
        match connection.parser.closed() {
            Some(status) => {
                self.on_response(slot, status, now);
                self.renew(slot, now);
            }
            None if connection.pending.is_empty() => connection.close(),
            None if mid_response => self.fail(slot, &Failure::ClosedMidResponse),
            None => self.fail(slot, &Failure::ClosedBeforeResponse),
        }
    }

    /// Closes a connection without a failure; its pipelined requests are retried on a new one.
    pub(super) fn renew(&mut self, slot: Slot, now: u64) {
        let connection = &mut self.connections[slot];
        connection.close();
        for pending in &mut connection.pending {
            (pending.first_sent, pending.last_sent) = (0, 0);
        }
        if connection.pending.is_empty() {
            self.release(slot, now);
        } else {
            self.connect(slot, now);
        }
    }

    /// Counts a connection that is not established, if its SYN was retransmitted.
    pub(super) fn count_slow_connect(&mut self, slot: Slot, what: SlowConnect, now: u64) {
        let connection = &self.connections[slot];
        if let (State::Connecting, Some(transport)) = (connection.state, &connection.transport)
            && let waited = now.saturating_sub(connection.state_since)
            && waited >= SLOW_CONNECT_NS
            && let retransmissions @ 1.. = transport.syn_retransmissions()
            && let Some(counts) = self.stats.syn_counts(connection.origin)
        {
            counts.count_slow(what, waited, retransmissions);
        }
    }

    /// A connection failed, and all its pending requests with it.
    pub(super) fn fail(&mut self, slot: Slot, failure: &Failure) {
        let now = self.now();
        self.record_in_flight(now);
        if let Failure::Connect(errno) = failure {
            self.setup.first.failed(*errno);
        }
        if matches!(failure, Failure::ConnectTimeout) {
            self.count_slow_connect(slot, SlowConnect::TimedOut, now);
        }
        let connection = &mut self.connections[slot];
        let failed = connection.pending.len() as u64;
        connection.pending.clear();
        // The last response was complete: a bad close is no failure of a request.
        let was_closing = connection.state == State::Closing;
        connection.close();
        self.in_flight = self.in_flight.saturating_sub(failed);
        for _ in 0..failed {
            self.stats.record_failure(now, failure);
        }
        let connection = &mut self.connections[slot];
        if connection.idle {
            return;
        }
        if failure.needs_back_off() && !was_closing {
            let back_off = FIRST_BACK_OFF_NS << connection.failures.min(7);
            connection.failures = connection.failures.saturating_add(1);
            connection.state = State::BackingOff;
            let until = now + back_off.min(MAX_BACK_OFF_NS);
            self.backing_off.push(Reverse((until, slot)));
        } else {
            self.release(slot, now);
        }
    }
}
