//! Sockets in CLOSE_WAIT by process, over the looks: the peer has closed, the process has not.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::SocketAddr;

use model::{CloseWait, Gauge};
use wire::sock_diag::Record;

use crate::Context;

/// Most sockets followed. A leak of more than this is proven long before.
const FOLLOWED: usize = 50_000;
/// Most processes told of.
const TOLD: usize = 64;

/// Sockets in CLOSE_WAIT, each with the looks at which it was seen.
#[derive(Default)]
pub(super) struct CloseWaits {
    sockets: HashMap<u64, Seen>,
    looks: u32,
}

struct Seen {
    inode: u32,
    local: SocketAddr,
    remote: SocketAddr,
    first_look: u32,
    last_look: u32,
    silent_ms: Option<u32>,
    /// Bytes sent so far, by the kernel's count.
    sent: Option<u64>,
    /// Still in use: it has something to send, or has sent since it was first seen. The peer has
    /// only said that it will send no more (a half-closed connection).
    in_use: bool,
}

impl CloseWaits {
    /// Takes one socket in CLOSE_WAIT in.
    pub(super) fn add(&mut self, record: &Record<'_>) {
        self.see(record.cookie(), || Seen {
            inode: record.inode(),
            local: record.local(),
            remote: record.remote(),
            first_look: 0,
            last_look: 0,
            silent_ms: record.last_data_recv_ms(),
            sent: record.bytes_sent(),
            in_use: record.send_queue() > 0,
        });
    }

    fn see(&mut self, cookie: u64, seen: impl FnOnce() -> Seen) {
        let look = self.looks;
        if let Some(known) = self.sockets.get_mut(&cookie) {
            let now = seen();
            known.last_look = look;
            known.silent_ms = now.silent_ms.or(known.silent_ms);
            known.in_use |= now.in_use || now.sent > known.sent;
        } else if self.sockets.len() < FOLLOWED {
            self.sockets.insert(cookie, Seen { first_look: look, last_look: look, ..seen() });
        }
    }

    /// Closes one look.
    pub(super) fn end_of_look(&mut self) {
        self.looks += 1;
    }

    /// Wants to know who holds those that stayed longest; a thousand say whose they are.
    pub(super) fn want(&self, context: &mut Context<'_>) {
        let last = self.looks.saturating_sub(1);
        let there = self.sockets.values().filter(|seen| seen.last_look == last);
        there.take(1000).for_each(|seen| context.want(seen.inode));
    }

    /// By process, most first.
    pub(super) fn finish(self, context: &Context<'_>) -> Vec<CloseWait> {
        let idle = self.sockets.into_values().filter(|seen| !seen.in_use);
        let by_pid = by_process(idle, &|inode| context.holders_of(inode).first().copied());
        let mut all: Vec<_> =
            by_pid.into_iter().map(|(pid, seen)| summary(pid, &seen, self.looks)).collect();
        all.sort_by(|a, b| b.count.max.cmp(&a.count.max).then(a.pid.cmp(&b.pid)));
        all.truncate(TOLD);
        all
    }
}

/// Sockets by the process that holds them. Of those that were closed nobody holds any more: they
/// count for the process that holds others on the same local port, or towards the same remote end.
/// Without them, a process that closes late would seem never to close.
fn by_process(
    sockets: impl Iterator<Item = Seen>,
    holder: &dyn Fn(u32) -> Option<u32>,
) -> HashMap<Option<u32>, Vec<Seen>> {
    let mut by_pid: HashMap<Option<u32>, Vec<Seen>> = HashMap::new();
    let (mut by_port, mut by_remote) = (HashMap::new(), HashMap::new());
    for seen in sockets {
        let pid = holder(seen.inode);
        if pid.is_some() {
            by_port.insert(seen.local.port(), pid);
            by_remote.insert(seen.remote, pid);
        }
        by_pid.entry(pid).or_default().push(seen);
    }
    for seen in by_pid.remove(&None).unwrap_or_default() {
        let known = by_port.get(&seen.local.port()).or_else(|| by_remote.get(&seen.remote));
        by_pid.entry(known.copied().flatten()).or_default().push(seen);
    }
    by_pid
}

fn summary(pid: Option<u32>, sockets: &[Seen], looks: u32) -> CloseWait {
    let mut steps = vec![0i64; looks as usize + 1];
    for seen in sockets {
        steps[seen.first_look as usize] += 1;
        steps[seen.last_look as usize + 1] -= 1;
    }
    let mut count = Gauge::default();
    let mut fell = false;
    let mut now = 0;
    for step in &steps[..looks as usize] {
        let before = now;
        now += step;
        fell |= now < before;
        count.sample(u64::try_from(now).unwrap_or(0));
    }
    let last = looks.saturating_sub(1);
    CloseWait {
        pid,
        count,
        decreased: fell,
        stayed: sockets.iter().filter(|s| s.first_look == 0 && s.last_look == last).count() as u64,
        left: sockets.iter().filter(|s| s.last_look < last).count() as u64,
        settled: sockets.iter().filter(|s| s.last_look == last && s.first_look + 2 <= last).count()
            as u64,
        oldest_ms: sockets.iter().filter_map(|s| s.silent_ms).max(),
        local_port: shared(sockets.iter().map(|s| s.local.port())),
        remote: shared(sockets.iter().map(|s| s.remote)),
    }
}

/// The value that more than half share.
fn shared<T: Hash + Eq + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
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
    use super::{CloseWaits, Seen, by_process, summary};

    fn end(port: u16) -> std::net::SocketAddr {
        ([198, 18, 0, 1], port).into()
    }

    fn socket(port: u16) -> Seen {
        let (local, remote) = (end(80), end(port));
        let (first_look, last_look, silent_ms) = (0, 0, Some(100));
        Seen {
            inode: 1,
            local,
            remote,
            first_look,
            last_look,
            silent_ms,
            sent: Some(7),
            in_use: false,
        }
    }

    #[test]
    fn closed_sockets_count_for_the_process_that_had_them() {
        let open = Seen { inode: 7, last_look: 3, ..socket(1) };
        let closed = Seen { inode: 8, last_look: 1, ..socket(2) };
        let elsewhere = Seen { inode: 9, local: end(99), ..socket(3) };
        let sockets = [closed, elsewhere, open].into_iter();
        let groups = by_process(sockets, &|inode| (inode == 7).then_some(70));
        assert_eq!(groups[&Some(70)].len(), 2);
        assert_eq!(groups[&None].len(), 1);
        assert_eq!(summary(Some(70), &groups[&Some(70)], 4).left, 1);
    }

    #[test]
    fn a_half_closed_connection_that_sends_is_in_use() {
        let mut looks = CloseWaits::default();
        for look in 0..3 {
            looks.see(1, || Seen { sent: Some(100 * look), ..socket(1) });
            looks.see(2, || socket(2));
            looks.see(3, || Seen { in_use: look == 1, ..socket(3) });
            looks.end_of_look();
        }
        let in_use = [1, 2, 3].map(|cookie: u64| looks.sockets[&cookie].in_use);
        assert_eq!(in_use, [true, false, true]);
    }

    #[test]
    fn a_leak_only_grows_and_a_late_close_is_seen_to_leave() {
        let mut looks = CloseWaits::default();
        for look in 0..4u16 {
            for number in 0..=look {
                looks.see(u64::from(number), || socket(1000 + number));
            }
            looks.end_of_look();
        }
        let sockets: Vec<_> = looks.sockets.into_values().collect();
        let seen = summary(Some(7), &sockets, 4);
        assert_eq!((seen.count.first, seen.count.last, seen.decreased), (1, 4, false));
        assert_eq!((seen.stayed, seen.left, seen.local_port), (1, 0, Some(80)));
        assert_eq!(seen.settled, 2, "the other two came at the last looks");
        assert_eq!(seen.remote, None);

        let mut looks = CloseWaits::default();
        looks.see(1, || socket(1));
        looks.end_of_look();
        looks.end_of_look();
        let sockets: Vec<_> = looks.sockets.into_values().collect();
        let seen = summary(None, &sockets, 2);
        assert!(seen.decreased);
        assert_eq!((seen.stayed, seen.left, seen.count.last), (0, 1, 0));
    }
}
