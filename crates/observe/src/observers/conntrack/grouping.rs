//! The table, grouped while it is read: entries are never kept, and the groups are bounded.
//!
//! Addresses and ports are counted by Space-Saving (Metwally et al. 2005): with [`COUNTERS`] counters,
//! every value of more than 1 in [`COUNTERS`] entries is found, and no count is too high by more than
//! that share; a table with fewer values is counted exactly.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;

use model::{ConntrackTable, Top};
use wire::conntrack::{Entry, protocol_name};

/// Counters of each group.
const COUNTERS: usize = 4096;

/// Entries of connection tracking, added up.
#[derive(Default)]
pub struct Grouping {
    entries: u64,
    protocols: BTreeMap<u8, u64>,
    states: BTreeMap<&'static str, u64>,
    unreplied: u64,
    assured: u64,
    sources: Frequent<IpAddr>,
    destinations: Frequent<IpAddr>,
    ports: Frequent<(u8, u16)>,
}

impl Grouping {
    /// Adds one entry.
    pub fn add(&mut self, entry: &Entry<'_>) {
        let original = entry.original();
        self.entries += 1;
        *self.protocols.entry(original.protocol).or_default() += 1;
        if let Some(state) = entry.tcp_state_name() {
            *self.states.entry(state).or_default() += 1;
        }
        self.unreplied += u64::from(!entry.seen_reply());
        self.assured += u64::from(entry.assured());
        if let Some(source) = original.source {
            self.sources.add(source);
        }
        if let Some(destination) = original.destination {
            self.destinations.add(destination);
        }
        if let Some(port) = original.destination_port {
            self.ports.add((original.protocol, port));
        }
    }

    /// Entries that were added.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The groups, each with at most `top` values. When only `read` of `all` entries were read, the
    /// numbers are scaled to all.
    pub fn finish(self, top: usize, read: u64, all: u64) -> ConntrackTable {
        let part = read > 0 && read < all;
        let scale = |count: u64| {
            if part { (count as f64 * all as f64 / read as f64).round() as u64 } else { count }
        };
        let scaled = |tops: Vec<Top>| {
            let scaled = |top: Top| Top { count: scale(top.count), error: scale(top.error), ..top };
            tops.into_iter().map(scaled).collect()
        };
        let name =
            |number: u8| protocol_name(number).map_or_else(|| number.to_string(), str::to_string);
        ConntrackTable {
            entries: scale(self.entries),
            read: part.then_some(read),
            by_protocol: self.protocols.into_iter().map(|(p, n)| (name(p), scale(n))).collect(),
            by_state: self.states.into_iter().map(|(s, n)| (s.to_string(), scale(n))).collect(),
            unreplied: scale(self.unreplied),
            assured: scale(self.assured),
            top_sources: scaled(self.sources.finish(top, |ip| ip.to_string())),
            top_destinations: scaled(self.destinations.finish(top, |ip| ip.to_string())),
            top_ports: scaled(
                self.ports.finish(top, |(protocol, port)| format!("{}/{port}", name(protocol))),
            ),
        }
    }
}

/// Space-Saving in generations: when all counters are in use, the lower half of them is dropped at once,
/// and the highest count among those becomes the error of values that come later. One pass over the
/// counters then makes room for many new values, where one at a time would need a heap.
struct Frequent<K> {
    /// Count and error by value.
    counts: HashMap<K, (u64, u64)>,
    floor: u64,
}

impl<K> Default for Frequent<K> {
    fn default() -> Self {
        Frequent { counts: HashMap::new(), floor: 0 }
    }
}

impl<K: Hash + Eq + Copy + Ord> Frequent<K> {
    fn add(&mut self, key: K) {
        if let Some((count, _)) = self.counts.get_mut(&key) {
            *count += 1;
            return;
        }
        if self.counts.len() >= 2 * COUNTERS {
            self.drop_lower_half();
        }
        self.counts.insert(key, (self.floor + 1, self.floor));
    }

    fn drop_lower_half(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().map(|(count, _)| *count).collect();
        // There are 2 * COUNTERS of them.
        let (_, middle, _) = counts.select_nth_unstable_by(COUNTERS, |a, b| b.cmp(a));
        let middle = *middle;
        self.floor = self.floor.max(middle);
        self.counts.retain(|_, (count, _)| *count > middle);
    }

    fn finish(self, top: usize, name: impl Fn(K) -> String) -> Vec<Top> {
        let mut all: Vec<_> = self.counts.into_iter().collect();
        all.sort_by(|a, b| b.1.0.cmp(&a.1.0).then(a.0.cmp(&b.0)));
        all.truncate(top);
        all.into_iter().map(|(key, (count, error))| Top { key: name(key), count, error }).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_of_a_part_are_scaled_to_the_table() {
        let mut grouping = Grouping { entries: 40, unreplied: 10, ..Grouping::default() };
        grouping.protocols.insert(17, 40);
        let table = grouping.finish(5, 100, 1_000);
        assert_eq!((table.entries, table.unreplied, table.read), (400, 100, Some(100)));
        assert_eq!(table.by_protocol["udp"], 400);
        let all = Grouping { entries: 40, ..Grouping::default() }.finish(5, 100, 100);
        assert_eq!((all.entries, all.read), (40, None));
    }

    #[test]
    fn few_values_are_counted_exactly() {
        let mut frequent = Frequent::default();
        for value in 0..1000u64 {
            for _ in 0..=value % 10 {
                frequent.add(value);
            }
        }
        let top = frequent.finish(5, |value| value.to_string());
        assert_eq!(top[0], Top { key: "9".into(), count: 10, error: 0 });
        assert_eq!(top.len(), 5);
    }

    #[test]
    fn a_flood_of_single_values_stays_bounded_and_hides_no_frequent_one() {
        let mut frequent = Frequent::default();
        for value in 0..500_000u64 {
            frequent.add(1_000_000 + value);
            if value % 100 == 0 {
                frequent.add(7);
            }
            assert!(frequent.counts.len() <= 2 * COUNTERS);
        }
        let top = &frequent.finish(1, |value| value.to_string())[0];
        assert_eq!(top.key, "7");
        assert!(top.count >= 5000 && top.count - top.error <= 5000, "{top:?}");
    }

    proptest! {
        #[test]
        fn counts_are_never_too_low_and_too_high_by_the_error_at_most(
            values in proptest::collection::vec(0u16..20_000, 0..30_000)
        ) {
            let mut exact: HashMap<u16, u64> = HashMap::new();
            let mut frequent = Frequent::default();
            for value in values {
                *exact.entry(value).or_default() += 1;
                frequent.add(value);
            }
            for (key, (count, error)) in &frequent.counts {
                prop_assert!(*count >= exact[key] && count - error <= exact[key]);
            }
        }
    }
}
