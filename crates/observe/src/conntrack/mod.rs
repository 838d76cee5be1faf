//! Connection tracking: size, limit, statistics, and the table grouped while it is read.
//!
//! - [`grouping`]: the groups
//!
//! The kernel takes 1.5 microseconds to list an entry, so the table is read only when it is small
//! or when something is wrong with it, nearly full, or it has dropped something; and of a large
//! one only a part ([`SAMPLE`]), which the kernel's keyed hash makes a random sample.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use model::{Change, Conntrack, Evidence, Gauge, Source};
use sys::{Error, ErrorKind, Machine, Netlink};
use wire::conntrack::{self, Entry};
use wire::netlink::messages;

use crate::{Context, Observe};

mod grouping;

pub use grouping::Grouping;

/// A table of at most so many entries is always read.
const SMALL: u64 = 20_000;
/// A larger one from this share of its limit on.
const NEARLY_FULL: f64 = 0.75;
/// Entries of a large table that are read: shares are then exact to 0.3 points in 19 of 20 cases.
pub const SAMPLE: u64 = 100_000;
/// Values kept of each group.
const TOP: usize = 20;
/// Looks (of 100 ms) between two readings of the count.
const EVERY: u32 = 2;
/// Statistics that say that the table refused something.
const REFUSALS: [&str; 3] = ["drop", "early_drop", "insert_failed"];

/// Makes the observer.
pub fn observer() -> Box<dyn Observe> {
    Box::<Tracking>::default()
}

#[derive(Default)]
struct Tracking {
    loaded: bool,
    count: Gauge,
    before: Option<BTreeMap<String, u64>>,
}

impl Observe for Tracking {
    fn begin(&mut self, context: &mut Context<'_>) {
        self.loaded = number(context, "count").is_some();
        if self.loaded {
            self.before = statistics(context);
            self.look_at_count(context);
        }
    }

    fn look(&mut self, context: &mut Context<'_>) {
        if self.loaded && context.look.is_multiple_of(EVERY) {
            self.look_at_count(context);
        }
    }

    fn end(&mut self, context: &mut Context<'_>, evidence: &mut Evidence) {
        if !self.loaded {
            evidence.conntrack = Some(Conntrack::default());
            return;
        }
        self.look_at_count(context);
        let max = number(context, "max").unwrap_or(0);
        let buckets = number(context, "buckets").unwrap_or(0);
        let after = self.before.is_some().then(|| statistics(context)).flatten();
        let statistics = self.before.take().zip(after).map(|(before, after)| {
            after
                .into_iter()
                .map(|(name, after)| {
                    let before = before.get(&name).copied().unwrap_or(0);
                    (name, Change { before, after })
                })
                .collect::<BTreeMap<_, _>>()
        });
        let refused = statistics.as_ref().is_some_and(|all| {
            REFUSALS.iter().any(|name| all.get(*name).is_some_and(|c| c.increase() > 0))
        });
        let wanted = refused
            || self.count.last <= SMALL
            || self.count.max as f64 >= NEARLY_FULL * max as f64;
        // Walking the hash of an empty table costs as much as that of a full one.
        let table = (wanted && self.count.max > 0).then(|| table(context)).flatten();
        evidence.conntrack =
            Some(Conntrack { loaded: true, count: self.count, max, buckets, statistics, table });
    }

    fn seen(&self) -> Option<String> {
        (self.count.last > 0).then(|| format!("{} tracked", self.count.last))
    }
}

impl Tracking {
    fn look_at_count(&mut self, context: &mut Context<'_>) {
        if let Some(count) = number(context, "count") {
            self.count.sample(count);
        }
    }
}

fn number(context: &mut Context<'_>, name: &str) -> Option<u64> {
    let path = format!("/proc/sys/net/netfilter/nf_conntrack_{name}");
    context.machine.read(Path::new(&path), &mut context.buffer).ok()?;
    std::str::from_utf8(&context.buffer).ok()?.trim().parse().ok()
}

fn table(context: &mut Context<'_>) -> Option<model::ConntrackTable> {
    let all = number(context, "count").unwrap_or(0);
    match group(context.machine, SAMPLE, all, TOP, &mut |_| true) {
        Ok(table) => Some(table),
        Err(error) => {
            context.missing(Source::Conntrack, "the entries of connection tracking", &error);
            None
        }
    }
}

/// Groups the entries of the table that are wanted, of which there are `all`, reading at most
/// `most`.
///
/// # Errors
///
/// As [`dump`].
pub fn group(
    machine: &dyn Machine,
    most: u64,
    all: u64,
    top: usize,
    wanted: &mut dyn FnMut(&Entry<'_>) -> bool,
) -> sys::Result<model::ConntrackTable> {
    let mut grouping = Grouping::default();
    let mut read = 0;
    dump(machine, &mut |entry| {
        read += 1;
        if wanted(entry) {
            grouping.add(entry);
        }
        if read < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    // A dump that came to its end has read all there was, whatever the count said.
    let all = if read < most { read } else { all.max(read) };
    Ok(grouping.finish(top, read, all))
}

/// Statistics summed over the CPUs.
fn statistics(context: &mut Context<'_>) -> Option<BTreeMap<String, u64>> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    let read = payloads(context.machine, &conntrack::request_statistics(), &mut |payload| {
        conntrack::statistics(payload, |name, value| {
            *all.entry(name.to_string()).or_default() += value;
        });
        ControlFlow::Continue(())
    });
    match read {
        Ok(()) => Some(all),
        Err(error) => {
            context.missing(Source::Conntrack, "the statistics of connection tracking", &error);
            None
        }
    }
}

/// Calls for each entry of the table until told to stop.
///
/// # Errors
///
/// What the machine or the kernel says; connection tracking needs CAP_NET_ADMIN.
pub fn dump(
    machine: &dyn Machine,
    entry: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
) -> sys::Result<()> {
    payloads(machine, &conntrack::request_table(), &mut |payload| match Entry::parse(payload) {
        Ok(parsed) => entry(&parsed),
        Err(_) => ControlFlow::Continue(()), // a kind that this netwhy does not know
    })
}

/// Calls for each message of an answer.
fn payloads(
    machine: &dyn Machine,
    request: &[u8],
    payload: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> sys::Result<()> {
    let (tried, on) = ("ask netlink for", "connection tracking");
    let mut failed = None;
    machine.netlink(Netlink::Netfilter, request, &mut |datagram| {
        for message in messages(datagram) {
            match message {
                Err(malformed) => {
                    failed = Some(Error::new(tried, on, malformed.to_string(), ErrorKind::Other));
                    return ControlFlow::Break(());
                }
                Ok(message) => {
                    if let Some(errno) = message.error() {
                        failed = Some(Error::from_kernel(tried, on, errno));
                    }
                    if message.is_end() || failed.is_some() || payload(message.payload).is_break() {
                        return ControlFlow::Break(());
                    }
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(()), Err)
}
