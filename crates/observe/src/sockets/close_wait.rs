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
        });
    }

    fn see(&mut self, cookie: u64, seen: impl FnOnce() -> Seen) {
        let look = self.looks;
        if let Some(known) = self.sockets.get_mut(&cookie) {
            known.last_look = look;
            known.silent_ms = seen().silent_ms.or(known.silent_ms);
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
        let mut by_pid: HashMap<Option<u32>, Vec<Seen>> = HashMap::new();
        for seen in self.sockets.into_values() {
            let pid = context.holders_of(seen.inode).first().copied();
            by_pid.entry(pid).or_default().push(seen);
        }
        let mut all: Vec<_> =
            by_pid.into_iter().map(|(pid, seen)| summary(pid, &seen, self.looks)).collect();
        all.sort_by(|a, b| b.count.max.cmp(&a.count.max).then(a.pid.cmp(&b.pid)));
        all.truncate(TOLD);
        all
    }
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
        count.look(u64::try_from(now).unwrap_or(0));
    }
    let last = looks.saturating_sub(1);
    CloseWait {
        pid,
        count,
        fell,
        stayed: sockets.iter().filter(|s| s.first_look == 0 && s.last_look == last).count() as u64,
        left: sockets.iter().filter(|s| s.last_look < last).count() as u64,
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
    use super::{CloseWaits, Seen, summary};

    fn end(port: u16) -> std::net::SocketAddr {
        ([198, 18, 0, 1], port).into()
    }

    fn socket(port: u16) -> Seen {
        let (local, remote) = (end(80), end(port));
        Seen { inode: 1, local, remote, first_look: 0, last_look: 0, silent_ms: Some(100) }
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
        assert_eq!((seen.count.first, seen.count.last, seen.fell), (1, 4, false));
        assert_eq!((seen.stayed, seen.left, seen.local_port), (1, 0, Some(80)));
        assert_eq!(seen.remote, None);

        let mut looks = CloseWaits::default();
        looks.see(1, || socket(1));
        looks.end_of_look();
        looks.end_of_look();
        let sockets: Vec<_> = looks.sockets.into_values().collect();
        let seen = summary(None, &sockets, 2);
        assert!(seen.fell);
        assert_eq!((seen.stayed, seen.left, seen.count.last), (0, 1, 0));
    }
}
