//! Connections whose SYN was retransmitted, counted for each origin.

use model::SynRetransmissions;

use super::origin::{Address, Origin};

/// The last counter is for this many retransmissions and more.
const MAX_RETRANSMISSIONS: usize = 7;

/// Connections to one origin.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SynCounts {
    attempted: u64,
    /// By the number of retransmissions: one, two, … seven and more.
    opened: [u64; MAX_RETRANSMISSIONS],
    timed_out: u64,
    still_connecting: u64,
    waited_ns: u64,
}

/// What became of a connection whose SYN was retransmitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlowConnect {
    Opened,
    TimedOut,
    /// Not established when the load ended.
    StillConnecting,
}

impl SynCounts {
    /// Counts a connection attempt.
    pub(super) fn count_attempt(&mut self) {
        self.attempted += 1;
    }

    /// Counts a connection whose SYN was retransmitted this often.
    pub(super) fn count_slow(&mut self, what: SlowConnect, waited_ns: u64, retransmissions: u8) {
        match what {
            SlowConnect::Opened => {
                let index = usize::from(retransmissions).clamp(1, MAX_RETRANSMISSIONS) - 1;
                if let Some(count) = self.opened.get_mut(index) {
                    *count += 1;
                }
            }
            SlowConnect::TimedOut => self.timed_out += 1,
            SlowConnect::StillConnecting => self.still_connecting += 1,
        }
        self.waited_ns = self.waited_ns.saturating_add(waited_ns);
    }

    /// Adds those of another thread.
    pub(super) fn add(&mut self, other: &SynCounts) {
        self.attempted += other.attempted;
        self.timed_out += other.timed_out;
        self.still_connecting += other.still_connecting;
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
        for (count, other) in self.opened.iter_mut().zip(other.opened) {
            *count += other;
        }
    }

    /// The result; `None`: no SYN was retransmitted, or the origin is a Unix socket.
    pub(super) fn result(&self, origin: &Origin) -> Option<SynRetransmissions> {
        let Address::Tcp(server) = origin.address else { return None };
        let slow = self.timed_out + self.still_connecting + self.opened.iter().sum::<u64>();
        let used = self.opened.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        (slow > 0).then(|| SynRetransmissions {
            server,
            attempted: self.attempted,
            opened: self.opened.iter().copied().take(used).collect(),
            timed_out: self.timed_out,
            still_connecting: self.still_connecting,
            waited_us: self.waited_ns / 1_000,
        })
    }
}
