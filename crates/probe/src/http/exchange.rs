//! What happens on a connection: it is made, requests go out, answers come in, it ends or fails.

use std::os::fd::AsFd as _;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::answer::Fed;
use super::connection::Stage;
use super::failure::Failure;
use super::figures::{Late, Times};
use super::site::Address;
use super::transport::{Stuck, Transport};
use super::worker::{Worker, nanos};

/// First and longest rest after a connection that failed, nanoseconds.
const REST: u64 = 10_000_000;
const LONGEST_REST: u64 = 1_000_000_000;
/// A connection that was there sooner is to this host: the next may be there at once. Nanoseconds.
const NEAR: u64 = 200_000;

/// Bytes of requests that go out together.
const TOGETHER: usize = 64 << 10;
/// Slower connections are asked why: a SYN is repeated after a second (RFC 6298). Nanoseconds.
const SLOW: u64 = 500_000_000;

impl Worker {
    pub(super) fn connect(&mut self, slot: usize, now: u64) -> bool {
        // The request follows the end of the TLS handshake.
        let many = !self.plan.new_connections || self.tls_of(slot).is_some();
        let connection = &mut self.connections[slot];
        let address = &self.sites[connection.site].address;
        connection.since = now;
        self.figures.repeats[connection.site].tried += 1;
        let opened =
            Transport::open(address, many, self.schedule.is_some()).and_then(|transport| {
                let data = EventData::new_u64(slot as u64 | u64::from(connection.generation) << 32);
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
                epoll::add(&self.epoll, transport.as_fd(), data, flags)?;
                Ok(transport)
            });
        match opened {
            Ok(transport) => {
                connection.transport = Some(transport);
                connection.stage = Stage::Connecting;
                // On the same host a connection is there at once: no event needs to tell.
                let at_once = self.near || matches!(address, Address::Unix(_));
                if at_once && self.tls_of(slot).is_none() { self.at_once(slot) } else { true }
            }
            Err(errno) => {
                self.failed(slot, Failure::Connect(errno));
                false
            }
        }
    }

    /// Writes to a connection that may be there already.
    fn at_once(&mut self, slot: usize) -> bool {
        let now = self.now();
        let connection = &mut self.connections[slot];
        let (since, generation) = (connection.since, connection.generation);
        connection.stage = Stage::Open;
        if !self.write(slot, now) {
            return false;
        }
        let connection = &mut self.connections[slot];
        if connection.generation == generation && connection.written + connection.part == 0 {
            connection.stage = Stage::Connecting;
        } else {
            connection.failures = 0;
            self.figures.connected(since, now);
        }
        true
    }

    fn tls_of(&self, slot: usize) -> Option<&rustls::pki_types::ServerName<'static>> {
        self.sites[self.connections[slot].site].tls.as_ref()
    }

    /// The kernel is done with connecting.
    fn connected(&mut self, slot: usize, flags: EventFlags) -> bool {
        let now = self.now();
        let connection = &mut self.connections[slot];
        let Some(transport) = &mut connection.transport else { return false };
        if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
            let errno = transport.refused().unwrap_or(Errno::CONNRESET);
            self.failed(slot, Failure::Connect(errno));
            return false;
        }
        if !flags.contains(EventFlags::OUT) {
            return false;
        }
        let waited = now - connection.since;
        self.near = waited < NEAR;
        if waited >= SLOW
            && let repeated @ 1.. = transport.syns_repeated()
        {
            self.figures.repeats[connection.site].add(Late::Opened, waited, repeated);
        }
        self.figures.connected(connection.since, now);
        connection.failures = 0;
        match (&self.sites[connection.site].tls, &self.tls) {
            (Some(name), Some(config)) => {
                connection.since = now;
                connection.stage = Stage::Securing;
                if let Err(stuck) = transport.secure(config, name) {
                    self.failed(slot, Failure::of_tls(stuck));
                    return false;
                }
                self.secure(slot)
            }
            _ => {
                connection.stage = Stage::Open;
                self.write(slot, now)
            }
        }
    }

    fn secure(&mut self, slot: usize) -> bool {
        let connection = &mut self.connections[slot];
        let Some(transport) = &mut connection.transport else { return false };
        match transport.handshake() {
            Ok(false) | Err(Stuck::Later) => true,
            Ok(true) => {
                let now = nanos(self.begun.elapsed());
                self.figures.secured(connection.since, now);
                connection.stage = Stage::Open;
                self.write(slot, now)
            }
            Err(stuck) => {
                self.failed(slot, Failure::of_tls(stuck));
                false
            }
        }
    }

    /// Hands over what there is to send; false if the connection failed over it.
    pub(super) fn write(&mut self, slot: usize, mut now: u64) -> bool {
        let connection = &mut self.connections[slot];
        let requests = &self.sites[connection.site].requests;
        let Some(transport) = &mut connection.transport else { return false };
        while let Some(under) = connection.under.get_mut(connection.written) {
            // An open loop tells what waited before apart: it was due earlier.
            if under.due.is_some() && connection.part == 0 && under.begun != connection.since {
                under.begun = now;
            }
            let (begun, one) = (under.begun, &requests[under.request as usize].bytes);
            // Requests that are sent ahead go out together.
            let mut ahead = connection.under.range(connection.written + 1..).peekable();
            let bytes = if ahead.peek().is_some() && one.len() < TOGETHER {
                self.together.clear();
                self.together.extend_from_slice(&one[connection.part..]);
                for next in ahead {
                    let next = &requests[next.request as usize].bytes;
                    if self.together.len() + next.len() > TOGETHER {
                        break;
                    }
                    self.together.extend_from_slice(next);
                }
                &self.together[..]
            } else {
                &one[connection.part..]
            };
            let mut written = match transport.write(bytes) {
                Ok(written) => written,
                Err(Stuck::Later) => return true,
                Err(stuck) => {
                    let new =
                        connection.written + connection.part == 0 && begun == connection.since;
                    let failure = match (stuck, new) {
                        (Stuck::System(errno), true) => Failure::Connect(errno),
                        (stuck, _) => Failure::of_write(stuck),
                    };
                    self.failed(slot, failure);
                    return false;
                }
            };
            let then = nanos(self.begun.elapsed());
            while written > 0
                && let Some(under) = connection.under.get_mut(connection.written)
            {
                if connection.part == 0 {
                    under.sending = now;
                }
                let left = requests[under.request as usize].bytes.len() - connection.part;
                if written < left {
                    connection.part += written;
                    break;
                }
                written -= left;
                under.sent = then;
                connection.part = 0;
                connection.written += 1;
            }
            now = then;
        }
        // What TLS holds back goes out at the next event.
        match transport.owes() {
            Ok(_) => true,
            Err(stuck) => {
                self.failed(slot, Failure::of_write(stuck));
                false
            }
        }
    }

    pub(super) fn event(&mut self, data: u64, flags: EventFlags, buffer: &mut [u8]) {
        let (slot, generation) = ((data & u64::from(u32::MAX)) as usize, (data >> 32) as u32);
        if self.connections.get(slot).is_none_or(|c| c.generation != generation) {
            return;
        }
        let stage = self.connections[slot].stage;
        let opened = match stage {
            Stage::Connecting => self.connected(slot, flags),
            Stage::Securing => self.secure(slot),
            // Room to write again; answers come with the same event.
            Stage::Open if flags.contains(EventFlags::OUT) && self.unwritten(slot) => {
                let now = self.now();
                self.write(slot, now)
            }
            Stage::Open | Stage::Ending => true,
            Stage::Closed | Stage::Resting => false,
        };
        let readable = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if opened && flags.intersects(readable) {
            // An end that came with the bytes has no event of its own.
            let ends = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
            self.read(slot, buffer, flags.intersects(ends));
        }
    }

    fn unwritten(&mut self, slot: usize) -> bool {
        let connection = &mut self.connections[slot];
        let owes = connection.transport.as_mut().is_some_and(|t| t.owes() != Ok(false));
        owes || connection.under.len() > connection.written
    }

    fn read(&mut self, slot: usize, buffer: &mut [u8], to_the_end: bool) {
        loop {
            let connection = &mut self.connections[slot];
            if !matches!(connection.stage, Stage::Open | Stage::Ending) {
                return;
            }
            let Some(transport) = &mut connection.transport else { return };
            let read = match transport.read(buffer) {
                Ok(read) => read,
                Err(Stuck::Later) => return,
                Err(stuck) => return self.failed(slot, Failure::of_read(stuck)),
            };
            let short = read < buffer.len() && transport.short_is_all() && !to_the_end;
            let mut now = nanos(self.begun.elapsed());
            if read == 0 {
                return self.closed(slot, now);
            }
            if let (Some(waited), Some(under)) = (transport.waited(), connection.under.front()) {
                // A clock that is set meanwhile must not turn the order round.
                let arrived = now.saturating_sub(nanos(waited)).max(under.sent);
                self.figures.read_late(arrived, now);
                now = arrived;
            }
            let generation = connection.generation;
            self.figures.received(now, read);
            self.take(slot, &buffer[..read], now);
            // Answers with a farewell are read on, to be closed by the server first.
            let connection = &self.connections[slot];
            let same = connection.generation == generation && connection.transport.is_some();
            if !same || (short && connection.stage == Stage::Open) {
                return;
            }
        }
    }

    /// Bytes of answers.
    fn take(&mut self, slot: usize, bytes: &[u8], now: u64) {
        let mut at = 0;
        while at < bytes.len() {
            let connection = &mut self.connections[slot];
            let Some(under) = connection.under.front().copied() else {
                // Nobody asked for it.
                if connection.stage == Stage::Open {
                    let stray = Failure::Malformed("bytes after the end of an answer");
                    self.figures.failed(now);
                    stray.count(&mut self.figures.errors);
                    self.failed(slot, stray);
                }
                return;
            };
            if connection.first == 0 {
                connection.first = now;
            }
            let no_body = self.sites[connection.site].requests[under.request as usize].no_body;
            match connection.answer.feed(&bytes[at..], no_body) {
                Err(malformed) => return self.failed(slot, Failure::Malformed(malformed)),
                Ok(Fed::All) => return,
                Ok(Fed::End { used, status, keep_alive }) => {
                    at += used;
                    self.answered(slot, status, now);
                    let connection = &mut self.connections[slot];
                    if connection.stage != Stage::Open {
                        return;
                    }
                    if self.plan.new_connections || !keep_alive {
                        // Requests that were sent ahead have no answer: they are asked anew.
                        connection.stage = Stage::Ending;
                        connection.since = now;
                        return;
                    }
                    if at >= bytes.len() {
                        self.free_or_again(slot, now);
                    }
                }
            }
        }
    }

    pub(super) fn free_or_again(&mut self, slot: usize, now: u64) {
        if self.schedule.is_none() {
            return self.again(slot, now);
        }
        if !std::mem::replace(&mut self.connections[slot].free, true) {
            self.free.push_back(slot as u32);
        }
    }

    /// The oldest request of a connection has its answer.
    fn answered(&mut self, slot: usize, status: u16, now: u64) {
        self.account(now);
        let connection = &mut self.connections[slot];
        let Some(under) = connection.under.pop_front() else { return };
        self.in_flight = self.in_flight.saturating_sub(1);
        let sent = if under.sent == 0 { now } else { under.sent };
        let times = Times {
            due: under.due,
            begun: under.begun,
            sending: if under.sending == 0 { sent } else { under.sending },
            sent,
            first: connection.first,
            last: now,
        };
        connection.first = 0;
        connection.written = connection.written.saturating_sub(1);
        let lasted = now.saturating_sub(under.begun);
        self.recent = self.recent - self.recent / 64 + lasted / 64;
        self.figures.answered(times, status);
    }

    /// The server closed its end.
    fn closed(&mut self, slot: usize, now: u64) {
        let connection = &mut self.connections[slot];
        if connection.stage == Stage::Ending {
            return self.renew(slot, now);
        }
        let begun = connection.first != 0;
        match connection.answer.closed() {
            Some(status) => {
                self.answered(slot, status, now);
                self.renew(slot, now);
            }
            None if connection.under.is_empty() => connection.close(),
            None if begun => self.failed(slot, Failure::ClosedInAnswer),
            None => self.failed(slot, Failure::ClosedBefore),
        }
    }

    /// A connection has done its duty; what was sent ahead on it is asked on the next one.
    pub(super) fn renew(&mut self, slot: usize, now: u64) {
        let connection = &mut self.connections[slot];
        connection.close();
        for under in &mut connection.under {
            (under.sending, under.sent) = (0, 0);
        }
        match connection.under.is_empty() {
            true => self.free_or_again(slot, now),
            false => {
                self.connect(slot, now);
            }
        }
    }

    /// Counts a connection that does not open, if its SYN was repeated.
    pub(super) fn late(&mut self, slot: usize, what: Late, now: u64) {
        let connection = &self.connections[slot];
        if let (Stage::Connecting, Some(transport)) = (connection.stage, &connection.transport)
            && let waited = now.saturating_sub(connection.since)
            && waited >= SLOW
            && let repeated @ 1.. = transport.syns_repeated()
        {
            self.figures.repeats[connection.site].add(what, waited, repeated);
        }
    }

    /// A connection failed, and all requests on it.
    pub(super) fn failed(&mut self, slot: usize, failure: Failure) {
        let now = self.now();
        self.account(now);
        if matches!(failure, Failure::TimeoutConnect) {
            self.late(slot, Late::GivenUp, now);
        }
        let connection = &mut self.connections[slot];
        let lost = connection.under.len();
        connection.under.clear();
        // Ending: the answer was whole, its connection did not end well; nobody lost anything.
        let ending = connection.stage == Stage::Ending;
        connection.close();
        self.in_flight = self.in_flight.saturating_sub(lost as u64);
        for _ in 0..lost {
            self.figures.failed(now);
            failure.count(&mut self.figures.errors);
        }
        let connection = &mut self.connections[slot];
        if connection.free {
            // It waits for a request already.
            return;
        }
        if failure.rests() && !ending {
            let rest = REST << connection.failures.min(7);
            connection.failures = connection.failures.saturating_add(1);
            connection.stage = Stage::Resting;
            let until = now + rest.min(LONGEST_REST);
            self.resting.push(std::cmp::Reverse((until, slot as u32)));
        } else {
            self.free_or_again(slot, now);
        }
    }
}
