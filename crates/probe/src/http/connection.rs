//! One connection and the requests on it.

use std::collections::VecDeque;

use super::response::ResponseParser;
use super::transport::Transport;

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Not connected.
    Closed,
    /// Not connected, and waiting before the next attempt, since the last one failed.
    BackingOff,
    /// SYN sent.
    Connecting,
    /// In the TLS handshake.
    Handshaking,
    /// Requests and responses are exchanged.
    Open,
    /// The last response is complete; waits for the server to close the connection.
    Closing,
}

/// A request that was started. Times are nanoseconds since the start of the load.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingRequest {
    /// Its index in the origin's list.
    pub(super) request: usize,
    /// When it was due, in an open loop.
    pub(super) due: Option<u64>,
    /// When it could have been sent.
    pub(super) start: u64,
    /// When its first byte was written; 0: not yet.
    pub(super) first_sent: u64,
    /// When its last byte was written; 0: not yet.
    pub(super) last_sent: u64,
}

/// A connection, or the place of one that is not established.
pub(super) struct Connection {
    pub(super) transport: Option<Transport>,
    pub(super) state: State,
    /// Index of its origin.
    pub(super) origin: usize,
    /// Counts its transports: an event of an earlier one is ignored.
    pub(super) generation: u32,
    /// Pending requests, the oldest first.
    pub(super) pending: VecDeque<PendingRequest>,
    /// How many of them, from the front, are completely written.
    pub(super) written: usize,
    /// Bytes of the next one that are written.
    pub(super) written_bytes: usize,
    /// Index of the next request to start.
    pub(super) next_request: usize,
    pub(super) parser: ResponseParser,
    /// When the first byte of the current response was received; 0: not yet.
    pub(super) response_start: u64,
    /// When the current state began, if it is one of connecting, handshaking or closing.
    pub(super) state_since: u64,
    /// Open loop: whether it is in the queue of idle connections.
    pub(super) idle: bool,
    /// Consecutive failures.
    pub(super) failures: u32,
}

impl Connection {
    /// A connection to this origin, which starts with this request.
    pub(super) fn new(origin: usize, next_request: usize) -> Self {
        Connection {
            transport: None,
            state: State::Closed,
            origin,
            generation: 0,
            pending: VecDeque::new(),
            written: 0,
            written_bytes: 0,
            next_request,
            parser: ResponseParser::default(),
            response_start: 0,
            state_since: 0,
            idle: false,
            failures: 0,
        }
    }

    /// Closes the socket; the pending requests are left to the caller.
    pub(super) fn close(&mut self) {
        self.transport = None;
        self.state = State::Closed;
        self.generation = self.generation.wrapping_add(1);
        self.written = 0;
        self.written_bytes = 0;
        self.response_start = 0;
        self.parser.reset();
    }

    /// Whether nothing of its requests is written yet.
    pub(super) fn is_unwritten(&self) -> bool {
        self.written == 0 && self.written_bytes == 0
    }

    /// Whether requests are left to write.
    pub(super) fn has_unwritten(&self) -> bool {
        self.pending.len() > self.written
    }

    /// Since when it has been waiting: for the oldest request, or for the server to close it.
    pub(super) fn waiting_since(&self) -> Option<u64> {
        match self.state {
            State::Closing => Some(self.state_since),
            _ => self.pending.front().map(|pending| pending.start),
        }
    }
}

/// Number of a connection in [`Connections`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot(u32);

impl Slot {
    /// As the data of an event, with the generation of the connection.
    pub(super) fn event_data(self, generation: u32) -> u64 {
        u64::from(self.0) | u64::from(generation) << 32
    }
}

/// The connections of a thread. Their number is fixed, so that each [`Slot`] has a connection.
pub(super) struct Connections(Vec<Connection>);

impl Connections {
    pub(super) fn new(connections: impl Iterator<Item = Connection>) -> Self {
        Connections(connections.collect())
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.0.len() as u32).map(Slot)
    }

    /// The connection that an event belongs to; `None`: its transport was closed in between.
    pub(super) fn slot_of_event(&self, data: u64) -> Option<Slot> {
        let (slot, generation) = (data as u32, (data >> 32) as u32);
        let connection = self.0.get(slot as usize)?;
        (connection.generation == generation).then_some(Slot(slot))
    }
}

#[expect(clippy::indexing_slicing, reason = "slots come from `Connections`, whose length is fixed")]
impl std::ops::Index<Slot> for Connections {
    type Output = Connection;

    fn index(&self, slot: Slot) -> &Connection {
        &self.0[slot.0 as usize]
    }
}

#[expect(clippy::indexing_slicing, reason = "slots come from `Connections`, whose length is fixed")]
impl std::ops::IndexMut<Slot> for Connections {
    fn index_mut(&mut self, slot: Slot) -> &mut Connection {
        &mut self.0[slot.0 as usize]
    }
}
