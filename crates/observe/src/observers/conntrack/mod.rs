//! Connection tracking: size, limit, statistics, and the table grouped while it is read.
//!
//! - `table`: reading the table
//! - [`Grouping`]: its groups
//!
//! The kernel takes 1.5 microseconds to list an entry. The table is therefore read only when it is
//! small, nearly full, or has dropped something; of a large one only a part is read
//! ([`MAX_ENTRIES_READ`]), which the kernel's keyed hash makes a random sample.

use std::collections::BTreeMap;
use std::path::Path;

use model::{Change, Conntrack, Evidence, Gauge, Series, Source};

use crate::context::Context;
use crate::observer::Observe;

mod grouping;
mod table;

pub use grouping::Grouping;
pub use table::{dump, group};

/// A table of at most this many entries is always read.
const SMALL_TABLE_ENTRIES: u64 = 20_000;
/// A larger one is read if it is filled to this share of its limit.
const MIN_FILL_OF_LARGE_TABLE: f64 = 0.75;
/// Entries of a large table that are read: shares are then exact to 0.3 points in 19 of 20 cases.
pub const MAX_ENTRIES_READ: u64 = 100_000;
/// Values kept of each group.
const TOP_VALUES: usize = 20;
/// Samples (of 100 ms) between two readings of the number of entries.
const SAMPLES_PER_COUNT: u32 = 2;
/// Statistics that count what the table refused.
const REFUSALS: [&str; 3] = ["drop", "early_drop", "insert_failed"];

/// Makes the observer.
pub fn observer() -> Box<dyn Observe> {
    Box::<ConntrackObserver>::default()
}

#[derive(Default)]
struct ConntrackObserver {
    loaded: bool,
    count: Gauge,
    max: Option<u64>,
    before: Option<BTreeMap<String, u64>>,
}

impl Observe for ConntrackObserver {
    fn begin(&mut self, context: &mut Context<'_>) {
        self.loaded = number(context, "count").is_some();
        if self.loaded {
            self.before = statistics(context);
            self.max = number(context, "max");
            self.sample_count(context);
        }
    }

    fn sample(&mut self, context: &mut Context<'_>) {
        if self.loaded && context.sample.is_multiple_of(SAMPLES_PER_COUNT) {
            self.sample_count(context);
        }
    }

    fn series(&self, into: &mut Vec<Series>) {
        if self.loaded {
            into.push(Series::count("conntrack_entries", self.count.last));
            into.extend(self.max.map(|max| Series::count("conntrack_max_entries", max)));
        }
    }

    fn evidence(&mut self, context: &mut Context<'_>, evidence: &mut Evidence) {
        if !self.loaded {
            evidence.conntrack = Some(Conntrack::default());
            return;
        }
        self.sample_count(context);
        let max = number(context, "max").unwrap_or(0);
        let buckets = number(context, "buckets").unwrap_or(0);
        let after = self.before.is_some().then(|| statistics(context)).flatten();
        let statistics = self.before.as_ref().zip(after).map(|(before, after)| {
            let change = |(name, after): (String, u64)| {
                let before = before.get(&name).copied().unwrap_or(0);
                (name, Change { before, after })
            };
            after.into_iter().map(change).collect::<BTreeMap<_, _>>()
        });
        let refused = statistics.as_ref().is_some_and(|all| {
            REFUSALS.iter().any(|name| all.get(*name).is_some_and(|c| c.increase() > 0))
        });
        let worth_reading = refused
            || self.count.last <= SMALL_TABLE_ENTRIES
            || self.count.max as f64 >= MIN_FILL_OF_LARGE_TABLE * max as f64;
        // Walking the hash of an empty table costs as much as that of a full one.
        let table = (worth_reading && self.count.max > 0).then(|| read_table(context)).flatten();
        let count = self.count;
        evidence.conntrack =
            Some(Conntrack { loaded: true, count, max, buckets, statistics, table });
    }
}

impl ConntrackObserver {
    fn sample_count(&mut self, context: &mut Context<'_>) {
        if let Some(count) = number(context, "count") {
            self.count.sample(count);
        }
    }
}

/// The number in `nf_conntrack_NAME`; `None` where connection tracking is not in use.
fn number(context: &mut Context<'_>, name: &str) -> Option<u64> {
    let path = format!("/proc/sys/net/netfilter/nf_conntrack_{name}");
    context.machine.files().read(Path::new(&path), &mut context.buffer).ok()?;
    std::str::from_utf8(&context.buffer).ok()?.trim().parse().ok()
}

fn read_table(context: &mut Context<'_>) -> Option<model::ConntrackTable> {
    let all = number(context, "count").unwrap_or(0);
    match group(context.machine, MAX_ENTRIES_READ, all, TOP_VALUES, &mut |_| true) {
        Ok(table) => Some(table),
        Err(error) => {
            context.missing(Source::Conntrack, "the entries of connection tracking", &error);
            None
        }
    }
}

/// Statistics, summed over the CPUs.
fn statistics(context: &mut Context<'_>) -> Option<BTreeMap<String, u64>> {
    match table::statistics(context.machine) {
        Ok(all) => Some(all),
        Err(error) => {
            context.missing(Source::Conntrack, "the statistics of connection tracking", &error);
            None
        }
    }
}
