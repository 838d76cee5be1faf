//! One connection and the requests on it.

use std::collections::VecDeque;

use super::answer::Answer;
use super::transport::Transport;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is none.
    Closed,
    /// There is none, and none is tried before this time: the last one failed.
    Resting,
    /// SYN sent.
    Connecting,
    /// TLS is agreed upon.
    Securing,
    /// Requests go out, answers come in.
    Open,
    /// The answer is whole; the server's end is awaited.
    Ending,
}

/// A request under way. Times are nanoseconds since the load began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Under {
    /// Its place in the site's list.
    pub(super) request: u32,
    /// When it was due, in an open loop.
    pub(super) due: Option<u64>,
    /// When it could have been sent.
    pub(super) begun: u64,
    /// First byte handed over; 0 before.
    pub(super) sending: u64,
    /// Last byte handed over; 0 before.
    pub(super) sent: u64,
}

/// A connection, or the place of one.
pub(super) struct Connection {
    pub(super) transport: Option<Transport>,
    pub(super) stage: Stage,
    /// Which server it is to.
    pub(super) site: usize,
    /// Grows with each transport: events of an older one are not its own.
    pub(super) generation: u32,
    /// Requests under way, the oldest first.
    pub(super) under: VecDeque<Under>,
    /// How many of them, at the front, are handed over to the last byte.
    pub(super) written: usize,
    /// Bytes of the next one that are handed over.
    pub(super) part: usize,
    /// Which request comes next.
    pub(super) next: u32,
    pub(super) answer: Answer,
    /// First byte of the answer that is being read; 0 before.
    pub(super) first: u64,
    /// When connecting, or securing, began.
    pub(super) since: u64,
    /// Open loop: whether it is among those that wait for a request.
    pub(super) free: bool,
    /// Connections that failed one after the other.
    pub(super) failures: u32,
}

impl Connection {
    pub(super) fn new(site: usize, next: u32) -> Self {
        Connection {
            transport: None,
            stage: Stage::Closed,
            site,
            generation: 0,
            under: VecDeque::new(),
            written: 0,
            part: 0,
            next,
            answer: Answer::default(),
            first: 0,
            since: 0,
            free: false,
            failures: 0,
        }
    }

    /// The socket is closed; requests under way are the caller's to count.
    pub(super) fn close(&mut self) {
        self.transport = None;
        self.stage = Stage::Closed;
        self.generation = self.generation.wrapping_add(1);
        self.written = 0;
        self.part = 0;
        self.first = 0;
        self.answer.reset();
    }

    /// When the oldest request that it waits for began.
    pub(super) fn waits_since(&self) -> Option<u64> {
        match self.stage {
            Stage::Ending => Some(self.since),
            _ => self.under.front().map(|under| under.begun),
        }
    }
}
