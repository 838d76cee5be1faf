//! Listeners, looked at every 100 ms: queue, limit and their own drops.

use std::collections::HashMap;
use std::net::SocketAddr;

use model::{Change, Gauge, Listener};
use wire::sock_diag::Record;

use crate::Context;

/// Listeners by cookie.
#[derive(Default)]
pub(super) struct Listeners {
    by_cookie: HashMap<u64, Listener>,
    by_port: HashMap<u16, Vec<u64>>,
    looks: u32,
}

impl Listeners {
    /// Takes one listener of one look in. For a listener sock_diag gives the length of the accept
    /// queue as receive queue and its limit as send queue (`inet_diag_msg_common_fill`'s callers,
    /// `tcp_diag_get_info`).
    pub(super) fn add(&mut self, record: &Record<'_>) {
        let drops = record.memory().map(|memory| u64::from(memory.drops));
        let queue = record.receive_queue();
        let limit = record.send_queue();
        let new = self.looks > 0;
        let by_port = &mut self.by_port;
        let listener = self.by_cookie.entry(record.cookie()).or_insert_with(|| {
            by_port.entry(record.local().port()).or_default().push(record.cookie());
            Listener {
                local: record.local(),
                inode: record.inode(),
                cookie: record.cookie(),
                uid: record.uid(),
                pids: Vec::new(),
                limit,
                queue: Gauge::default(),
                samples_full: 0,
                samples_waiting: 0,
                half_open: None,
                drops: drops.map(
                    |now| {
                        if new { Change::new(0, now) } else { Change::new(now, now) }
                    },
                ),
                new,
            }
        });
        listener.limit = limit;
        listener.queue.sample(u64::from(queue));
        // sk_acceptq_is_full: above the limit, so the queue holds one more than its limit.
        listener.samples_full += u32::from(queue > limit);
        listener.samples_waiting += u32::from(queue > 0);
        if let (Some(change), Some(now)) = (&mut listener.drops, drops) {
            // sk_drops is an int: it wraps after 2^32 drops, which one window cannot reach.
            change.after = now;
        }
    }

    /// Closes one look.
    pub(super) fn end_of_look(&mut self, context: &mut Context<'_>) {
        self.looks += 1;
        context.listening.clear();
        context.listening.extend(self.by_cookie.values().map(|l| l.inode));
        self.by_cookie.values().for_each(|l| context.want(l.inode));
    }

    /// Whether a listener has this local port.
    pub(super) fn has_port(&self, port: u16) -> bool {
        self.by_port.contains_key(&port)
    }

    /// The process that accepts on this local port, when it is one alone.
    pub(super) fn sole_holder(&self, context: &Context<'_>, port: u16) -> Option<u32> {
        let mut pids = self
            .by_port
            .get(&port)?
            .iter()
            .filter_map(|cookie| self.by_cookie.get(cookie))
            .flat_map(|listener| context.holders_of(listener.inode));
        let first = *pids.next()?;
        pids.all(|pid| *pid == first).then_some(first)
    }

    /// Half-open connections of one look, by the local end that they came to.
    pub(super) fn half_open(&mut self, counts: &HashMap<SocketAddr, u64>) {
        let mut by_cookie: HashMap<u64, u64> = HashMap::new();
        for (local, count) in counts {
            let cookies = self.by_port.get(&local.port()).map_or(&[][..], Vec::as_slice);
            let matching: Vec<u64> = cookies
                .iter()
                .copied()
                .filter(|cookie| {
                    self.by_cookie.get(cookie).map(|l| l.local.ip()).is_some_and(|ip| {
                        ip.is_unspecified() || ip.to_canonical() == local.ip().to_canonical()
                    })
                })
                .collect();
            // With SO_REUSEPORT several share a port; the kernel does not say whose request it is.
            for cookie in &matching {
                *by_cookie.entry(*cookie).or_default() += count / matching.len() as u64;
            }
        }
        for listener in self.by_cookie.values_mut() {
            let count = by_cookie.get(&listener.cookie).copied().unwrap_or(0);
            listener.half_open.get_or_insert_default().sample(count);
        }
    }

    /// A few words on the worst queue so far.
    pub(super) fn seen(&self) -> Option<String> {
        let dropped: u64 =
            self.by_cookie.values().filter_map(|l| l.drops).map(Change::increase).sum();
        let worst = self.by_cookie.values().max_by_key(|l| (l.samples_full, l.queue.last))?;
        if dropped > 0 {
            let most =
                self.by_cookie.values().max_by_key(|l| l.drops.map_or(0, Change::increase))?;
            Some(format!(
                "{dropped} handshakes dropped, queue of {} {}/{}",
                most.local, most.queue.last, most.limit
            ))
        } else if worst.samples_full > 0 {
            Some(format!("queue of {} full, {}/{}", worst.local, worst.queue.last, worst.limit))
        } else {
            None
        }
    }

    /// The listeners, by port and address.
    pub(super) fn finish(self, context: &Context<'_>) -> Vec<Listener> {
        let mut all: Vec<Listener> = self.by_cookie.into_values().collect();
        for listener in &mut all {
            listener.pids = context.holders_of(listener.inode).to_vec();
        }
        all.sort_by_key(|l| (l.local.port(), l.local.ip(), l.cookie));
        all
    }
}
