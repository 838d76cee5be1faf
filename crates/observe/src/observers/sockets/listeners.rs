//! Listeners, sampled every 100 ms: queue, limit and their own drops.

use std::collections::HashMap;
use std::net::SocketAddr;

use model::{Change, Gauge, Listener, Series};
use wire::sock_diag::Record;

use crate::context::Context;

/// Most listeners that are given as series.
const MAX_IN_SERIES: usize = 8;

/// Samples that were taken 0.8 s to 1.1 s before: the first retransmission of a SYN comes after a second
/// (RFC 6298).
const A_SECOND_AGO: u16 = 0b1111 << 8;

/// The samples before which a listener dropped something, the last one in bit 0.
#[derive(Default)]
struct Dropping(u16);

impl Dropping {
    /// Adds a sample; whether it dropped something a second after it had dropped something.
    fn sample(&mut self, dropped: bool) -> bool {
        self.0 = self.0 << 1 | u16::from(dropped);
        dropped && self.0 & A_SECOND_AGO != 0
    }
}

/// Listeners by cookie.
#[derive(Default)]
pub(super) struct Listeners {
    by_cookie: HashMap<u64, Listener>,
    by_port: HashMap<u16, Vec<u64>>,
    dropping: HashMap<u64, Dropping>,
    samples: u32,
}

impl Listeners {
    /// Adds one listener of the current sample. For a listener sock_diag gives the length of the accept
    /// queue as receive queue and its limit as send queue (`tcp_diag_get_info`).
    pub(super) fn add(&mut self, record: &Record<'_>) {
        let drops = record.memory().map(|memory| u64::from(memory.drops));
        let queue = record.receive_queue();
        let limit = record.send_queue();
        let new = self.samples > 0;
        let by_port = &mut self.by_port;
        let listener = self.by_cookie.entry(record.cookie()).or_insert_with(|| {
            by_port.entry(record.local().port()).or_default().push(record.cookie());
            let drops_before = |now| if new { 0 } else { now };
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
                drops: drops.map(|now| Change::new(drops_before(now), now)),
                samples_dropping_again: drops.map(|_| 0),
                new,
            }
        });
        listener.limit = limit;
        listener.queue.sample(u64::from(queue));
        // sk_acceptq_is_full: above the limit, so that the queue holds one more than its limit.
        listener.samples_full += u32::from(queue > limit);
        listener.samples_waiting += u32::from(queue > 0);
        if let (Some(change), Some(now)) = (&mut listener.drops, drops) {
            // sk_drops is an int: it wraps after 2^32 drops, which one window cannot reach.
            let dropped = now > change.after;
            change.after = now;
            if dropped || self.dropping.contains_key(&record.cookie()) {
                let again = self.dropping.entry(record.cookie()).or_default().sample(dropped);
                if let Some(samples) = &mut listener.samples_dropping_again {
                    *samples += u32::from(again);
                }
            }
        }
    }

    /// Ends the current sample.
    pub(super) fn end_of_sample(&mut self, context: &mut Context<'_>) {
        self.samples += 1;
        context.listening.clear();
        context.listening.extend(self.by_cookie.values().map(|listener| listener.inode));
        self.by_cookie.values().for_each(|listener| context.owners.request(listener.inode));
    }

    /// Whether a listener has this local port.
    pub(super) fn has_port(&self, port: u16) -> bool {
        self.by_port.contains_key(&port)
    }

    /// The process that accepts on this local port, if only one does.
    pub(super) fn sole_owner(&self, context: &Context<'_>, port: u16) -> Option<u32> {
        let mut pids = self
            .by_port
            .get(&port)?
            .iter()
            .filter_map(|cookie| self.by_cookie.get(cookie))
            .flat_map(|listener| context.owners.of(listener.inode));
        let first = *pids.next()?;
        pids.all(|pid| *pid == first).then_some(first)
    }

    /// Adds the half-open connections of one sample, by the local address that they came to.
    pub(super) fn add_half_open(&mut self, counts: &HashMap<SocketAddr, u64>) {
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
            // With SO_REUSEPORT several share a port; the kernel does not report which of them a request
            // belongs to.
            for cookie in &matching {
                *by_cookie.entry(*cookie).or_default() += count / matching.len() as u64;
            }
        }
        for listener in self.by_cookie.values_mut() {
            let count = by_cookie.get(&listener.cookie).copied().unwrap_or(0);
            listener.half_open.get_or_insert_default().sample(count);
        }
    }

    /// Totals, and the listeners with most drops or the fullest queue.
    pub(super) fn series(&self, into: &mut Vec<Series>) {
        let drops = |listener: &Listener| listener.drops.map_or(0, Change::increase);
        let all_drops: u64 = self.by_cookie.values().map(drops).sum();
        into.push(Series::count("tcp_listeners", self.by_cookie.len() as u64));
        into.push(Series::count("tcp_handshakes_dropped", all_drops));
        let mut worst: Vec<&Listener> =
            self.by_cookie.values().filter(|l| drops(l) > 0 || l.samples_waiting > 0).collect();
        worst.sort_by_key(|l| {
            let worse = (drops(l), l.samples_full, l.queue.last, l.samples_waiting);
            (std::cmp::Reverse(worse), l.local, l.cookie)
        });
        for listener in worst.into_iter().take(MAX_IN_SERIES) {
            let figures = [
                ("tcp_listen_queue", listener.queue.last),
                ("tcp_listen_queue_limit", u64::from(listener.limit)),
                ("tcp_listen_queue_full_samples", u64::from(listener.samples_full)),
                ("tcp_listen_drops", drops(listener)),
            ];
            for (name, value) in figures {
                let series = Series::count(name, value);
                into.push(series.with_label("listener", listener.local.to_string()));
            }
        }
    }

    /// The listeners, by port and address.
    pub(super) fn evidence(&self, context: &Context<'_>) -> Vec<Listener> {
        let mut all: Vec<Listener> = self.by_cookie.values().cloned().collect();
        for listener in &mut all {
            listener.pids = context.owners.of(listener.inode).to_vec();
        }
        all.sort_by_key(|l| (l.local.port(), l.local.ip(), l.cookie));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::Dropping;

    /// How many of these samples drop again.
    fn again(samples: impl IntoIterator<Item = bool>) -> usize {
        let mut dropping = Dropping::default();
        samples.into_iter().filter(|dropped| dropping.sample(*dropped)).count()
    }

    #[test]
    fn drops_a_second_after_others_are_counted() {
        let from_to = |from: u32, to: u32| (0..30).map(move |at| (from..to).contains(&at));
        assert_eq!(again(from_to(0, 3)), 0, "one burst");
        assert_eq!(again(from_to(5, 13)), 0, "less than a second");
        assert_eq!(again(from_to(0, 30)), 22, "all the time");
        assert_eq!(again((0..30).map(|at| at % 10 == 0)), 2, "once a second");
        assert_eq!(again((0..30).map(|at| at % 20 == 0)), 0, "two seconds apart");
    }
}
