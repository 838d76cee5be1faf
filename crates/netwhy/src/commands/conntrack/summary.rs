//! The groups of the table and its size.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use model::{ConntrackTable, Top};
use sys::Machine as _;
use sys::real::RealMachine;
use text::figures::significant;
use text::{Column, Table};

use super::options::{ConntrackOptions, DEFAULT_TOP, GroupBy};

/// Largest error of a share that is estimated from a sample, in percentage points times the square root of
/// the sample: 1.96 standard deviations (95 %) of a share of one half.
const MAX_ERROR_OF_ONE: f64 = 98.0;

/// Prints the groups.
pub(super) fn write(
    size: &Size,
    options: &ConntrackOptions,
    table: &ConntrackTable,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if options.json {
        let json = serde_json::json!({
            "count": size.count, "max": size.max, "buckets": size.buckets, "table": table,
        });
        out.write_all(crate::output::json(&json)?.as_bytes())?;
        return Ok(out.flush()?);
    }
    put(&totals(size, table), out)?;
    if let Some(read) = table.read {
        let error = significant(MAX_ERROR_OF_ONE / (read.max(1) as f64).sqrt());
        let sample = text::count(read, "entry");
        let text = format!("estimated from a sample of {sample}, within {error} percentage points");
        put(&format!("{text} (--exact reads all)"), out)?;
    }
    let (assured, unreplied) = (text::number(table.assured), text::number(table.unreplied));
    put(&format!("{assured} assured, {unreplied} unreplied"), out)?;
    let top = options.top.unwrap_or(DEFAULT_TOP);
    for (by, name, values) in groups(table) {
        if options.group_by.is_none_or(|only| only == by) && !values.is_empty() {
            out.write_all(group(table, name, values.iter().take(top)).as_bytes())?;
        }
    }
    Ok(out.flush()?)
}

/// Prints a sentence.
fn put(sentence: &str, out: &mut dyn Write) -> std::io::Result<()> {
    for line in text::wrap(sentence, "", "  ", crate::output::columns()) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The size of the table and how full it is.
fn totals(size: &Size, table: &ConntrackTable) -> String {
    let about = if table.read.is_some() { "about " } else { "" };
    let mut text = format!("{about}{}", text::count(table.entries, "entry"));
    if let Some(use_of_limit) = size.use_of_limit() {
        text.push_str(&format!("; {use_of_limit}"));
    }
    if let (Some(count), Some(buckets)) = (size.count, size.buckets) {
        let per_bucket = significant(count as f64 / buckets.max(1) as f64);
        text.push_str(&format!(", {per_bucket} per bucket"));
    }
    text
}

/// The groups in the order of the output.
fn groups(table: &ConntrackTable) -> [(GroupBy, &'static str, Vec<Top>); 5] {
    let sorted = |counts: &BTreeMap<String, u64>| {
        let mut all: Vec<Top> = counts
            .iter()
            .map(|(key, count)| Top { key: key.clone(), count: *count, error: 0 })
            .collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then(a.key.cmp(&b.key)));
        all
    };
    [
        (GroupBy::Protocol, "protocol", sorted(&table.by_protocol)),
        (GroupBy::State, "TCP state", sorted(&table.by_state)),
        (GroupBy::Source, "source", table.top_sources.clone()),
        (GroupBy::Destination, "destination", table.top_destinations.clone()),
        (GroupBy::Port, "destination port", table.top_ports.clone()),
    ]
}

/// One group as a table.
fn group<'a>(table: &ConntrackTable, name: &str, values: impl Iterator<Item = &'a Top>) -> String {
    let mut rows = Table::new([
        Column::right("ENTRIES"),
        Column::right("SHARE"),
        Column::left(format!("by {name}")),
    ]);
    for value in values {
        let share = text::share(value.count as f64, table.entries as f64);
        let error = match value.error {
            0 => String::new(),
            error => format!("  (at most {} too many)", text::number(error)),
        };
        rows.row([
            text::number(value.count),
            text::percent(share),
            format!("{}{error}", value.key),
        ]);
    }
    format!("\n{}", rows.text("", crate::output::table_width()))
}

/// The size of the table, as the kernel reports it.
pub(super) struct Size {
    pub(super) count: Option<u64>,
    max: Option<u64>,
    buckets: Option<u64>,
}

impl Size {
    pub(super) fn read(machine: &RealMachine) -> Self {
        let number = |name: &str| {
            let mut text = Vec::new();
            let path = format!("/proc/sys/net/netfilter/nf_conntrack_{name}");
            machine.files().read(Path::new(&path), &mut text).ok()?;
            String::from_utf8_lossy(&text).trim().parse().ok()
        };
        Size { count: number("count"), max: number("max"), buckets: number("buckets") }
    }

    /// Prints the size alone, where it is known.
    pub(super) fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(use_of_limit) = self.use_of_limit() {
            put(&use_of_limit, out)?;
        }
        Ok(out.flush()?)
    }

    fn use_of_limit(&self) -> Option<String> {
        let (count, max) = (self.count?, self.max?);
        let share = text::percent(text::share(count as f64, max as f64));
        Some(format!("the table holds {} of {} ({share})", text::number(count), text::number(max)))
    }
}
