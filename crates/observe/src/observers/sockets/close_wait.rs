//! Sockets in CLOSE_WAIT by process, over the samples: the peer has closed, the process has not.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::SocketAddr;

use model::{CloseWait, Gauge};
use wire::sock_diag::Record;

use crate::context::Context;

/// Most sockets followed. A leak is proven long before.
const MAX_FOLLOWED: usize = 50_000;
/// Most processes in the evidence.
const MAX_PROCESSES: usize = 64;
/// Most sockets whose owner is requested: that many show whose they are.
const MAX_OWNERS_REQUESTED: usize = 1000;
/// A socket that has been in CLOSE_WAIT for this many samples after its first is not about to be closed.
const SAMPLES_UNTIL_SETTLED: u32 = 2;

/// Sockets in CLOSE_WAIT, each with the samples at which it was there.
#[derive(Default)]
pub(super) struct CloseWaits {
    /// By cookie.
    sockets: HashMap<u64, WaitingSocket>,
    samples: u32,
}

struct WaitingSocket {
    inode: u32,
    local: SocketAddr,
    remote: SocketAddr,
    first_sample: u32,
    last_sample: u32,
    /// Time since data was last received.
    silent_ms: Option<u32>,
    /// Bytes sent so far, by the kernel's count.
    bytes_sent: Option<u64>,
    /// Still in use: it has something to send, or has sent since its first sample. The peer has only
    /// announced that it will send no more (a half-closed connection).
    in_use: bool,
}

impl CloseWaits {
    /// Adds one socket in CLOSE_WAIT of the current sample.
    pub(super) fn add(&mut self, record: &Record<'_>) {
        self.add_socket(record.cookie(), || WaitingSocket {
            inode: record.inode(),
            local: record.local(),
            remote: record.remote(),
            first_sample: 0,
            last_sample: 0,
            silent_ms: record.last_data_recv_ms(),
            bytes_sent: record.bytes_sent(),
            in_use: record.send_queue() > 0,
        });
    }

    fn add_socket(&mut self, cookie: u64, socket: impl FnOnce() -> WaitingSocket) {
        let sample = self.samples;
        if let Some(known) = self.sockets.get_mut(&cookie) {
            let now = socket();
            known.last_sample = sample;
            known.silent_ms = now.silent_ms.or(known.silent_ms);
            known.in_use |= now.in_use || now.bytes_sent > known.bytes_sent;
        } else if self.sockets.len() < MAX_FOLLOWED {
            let new = WaitingSocket { first_sample: sample, last_sample: sample, ..socket() };
            self.sockets.insert(cookie, new);
        }
    }

    /// Ends the current sample.
    pub(super) fn end_of_sample(&mut self) {
        self.samples += 1;
    }

    /// Requests the owners of sockets that were there at the last sample.
    pub(super) fn request_owners(&self, context: &mut Context<'_>) {
        let last = self.samples.saturating_sub(1);
        let there = self.sockets.values().filter(|socket| socket.last_sample == last);
        there.take(MAX_OWNERS_REQUESTED).for_each(|socket| context.owners.request(socket.inode));
    }

    /// By process, most first.
    pub(super) fn evidence(&self, context: &Context<'_>) -> Vec<CloseWait> {
        let idle = self.sockets.values().filter(|socket| !socket.in_use);
        let by_pid = by_process(idle, &|inode| context.owners.of(inode).first().copied());
        let mut all: Vec<_> =
            by_pid.into_iter().map(|(pid, sockets)| summary(pid, &sockets, self.samples)).collect();
        all.sort_by(|a, b| b.count.max.cmp(&a.count.max).then(a.pid.cmp(&b.pid)));
        all.truncate(MAX_PROCESSES);
        all
    }
}

/// Sockets by the process that owns them. Those that were closed have no owner any more: they count for
/// the process that owns others on the same local port, or to the same remote address. Without them, a
/// process that closes late would look as if it never closed.
fn by_process<'a>(
    sockets: impl Iterator<Item = &'a WaitingSocket>,
    owner: &dyn Fn(u32) -> Option<u32>,
) -> HashMap<Option<u32>, Vec<&'a WaitingSocket>> {
    let mut by_pid: HashMap<Option<u32>, Vec<&WaitingSocket>> = HashMap::new();
    let (mut by_port, mut by_remote) = (HashMap::new(), HashMap::new());
    for socket in sockets {
        let pid = owner(socket.inode);
        if pid.is_some() {
            by_port.insert(socket.local.port(), pid);
            by_remote.insert(socket.remote, pid);
        }
        by_pid.entry(pid).or_default().push(socket);
    }
    for socket in by_pid.remove(&None).unwrap_or_default() {
        let known = by_port.get(&socket.local.port()).or_else(|| by_remote.get(&socket.remote));
        by_pid.entry(known.copied().flatten()).or_default().push(socket);
    }
    by_pid
}

fn summary(pid: Option<u32>, sockets: &[&WaitingSocket], samples: u32) -> CloseWait {
    // How many sockets came at each sample, less those that left.
    let mut changes = vec![0i64; samples as usize + 1];
    for socket in sockets {
        if let Some(change) = changes.get_mut(socket.first_sample as usize) {
            *change += 1;
        }
        if let Some(change) = changes.get_mut(socket.last_sample as usize + 1) {
            *change -= 1;
        }
    }
    let mut count = Gauge::default();
    let mut decreased = false;
    let mut now = 0;
    for change in changes.iter().take(samples as usize) {
        let before = now;
        now += change;
        decreased |= now < before;
        count.sample(u64::try_from(now).unwrap_or(0));
    }
    let last = samples.saturating_sub(1);
    let number = |is: &dyn Fn(&WaitingSocket) -> bool| {
        sockets.iter().filter(|socket| is(socket)).count() as u64
    };
    CloseWait {
        pid,
        count,
        decreased,
        stayed: number(&|s| s.first_sample == 0 && s.last_sample == last),
        left: number(&|s| s.last_sample < last),
        settled: number(&|s| {
            s.last_sample == last && s.first_sample + SAMPLES_UNTIL_SETTLED <= last
        }),
        oldest_ms: sockets.iter().filter_map(|socket| socket.silent_ms).max(),
        local_port: majority(sockets.iter().map(|socket| socket.local.port())),
        remote: majority(sockets.iter().map(|socket| socket.remote)),
    }
}

/// The value of more than half.
fn majority<T: Hash + Eq + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: HashMap<T, usize> = HashMap::new();
    let mut all = 0;
    for value in values {
        all += 1;
        *counts.entry(value).or_default() += 1;
    }
    counts.into_iter().find(|(_, n)| n * 2 > all).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::{CloseWaits, WaitingSocket, by_process, summary};

    fn address(port: u16) -> std::net::SocketAddr {
        ([198, 18, 0, 1], port).into()
    }

    fn socket(port: u16) -> WaitingSocket {
        WaitingSocket {
            inode: 1,
            local: address(80),
            remote: address(port),
            first_sample: 0,
            last_sample: 0,
            silent_ms: Some(100),
            bytes_sent: Some(7),
            in_use: false,
        }
    }

    #[test]
    fn closed_sockets_count_for_the_process_that_owned_them() {
        let open = WaitingSocket { inode: 7, last_sample: 3, ..socket(1) };
        let closed = WaitingSocket { inode: 8, last_sample: 1, ..socket(2) };
        let elsewhere = WaitingSocket { inode: 9, local: address(99), ..socket(3) };
        let sockets = [&closed, &elsewhere, &open].into_iter();
        let groups = by_process(sockets, &|inode| (inode == 7).then_some(70));
        assert_eq!(groups[&Some(70)].len(), 2);
        assert_eq!(groups[&None].len(), 1);
        assert_eq!(summary(Some(70), &groups[&Some(70)], 4).left, 1);
    }

    #[test]
    fn a_half_closed_connection_that_sends_is_in_use() {
        let mut waits = CloseWaits::default();
        for sample in 0..3 {
            waits.add_socket(1, || WaitingSocket { bytes_sent: Some(100 * sample), ..socket(1) });
            waits.add_socket(2, || socket(2));
            waits.add_socket(3, || WaitingSocket { in_use: sample == 1, ..socket(3) });
            waits.end_of_sample();
        }
        let in_use = [1, 2, 3].map(|cookie: u64| waits.sockets[&cookie].in_use);
        assert_eq!(in_use, [true, false, true]);
    }

    #[test]
    fn a_leak_only_increases_and_a_late_close_leaves() {
        let mut waits = CloseWaits::default();
        for sample in 0..4u16 {
            for number in 0..=sample {
                waits.add_socket(u64::from(number), || socket(1000 + number));
            }
            waits.end_of_sample();
        }
        let sockets: Vec<_> = waits.sockets.values().collect();
        let leak = summary(Some(7), &sockets, 4);
        assert_eq!((leak.count.first, leak.count.last, leak.decreased), (1, 4, false));
        assert_eq!((leak.stayed, leak.left, leak.local_port), (1, 0, Some(80)));
        assert_eq!(leak.settled, 2, "the other two came at the last samples");
        assert_eq!(leak.remote, None);

        let mut waits = CloseWaits::default();
        waits.add_socket(1, || socket(1));
        waits.end_of_sample();
        waits.end_of_sample();
        let sockets: Vec<_> = waits.sockets.values().collect();
        let late = summary(None, &sockets, 2);
        assert!(late.decreased);
        assert_eq!((late.stayed, late.left, late.count.last), (0, 1, 0));
    }
}
