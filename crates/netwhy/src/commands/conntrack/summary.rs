//! The groups of the table, its size and the per-CPU statistics.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use model::{ConntrackTable, Top};
use sys::Machine as _;
use sys::real::RealMachine;

use super::options::{ConntrackOptions, GroupBy, TOP};

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
        writeln!(out, "{}", serde_json::to_string_pretty(&json)?)?;
        return Ok(out.flush()?);
    }
    let about = if table.read.is_some() { "about " } else { "" };
    write!(out, "{about}{} entries", text::number(table.entries))?;
    if let (Some(count), Some(max)) = (size.count, size.max) {
        let share = 100.0 * count as f64 / max.max(1) as f64;
        let (count, max) = (text::number(count), text::number(max));
        write!(out, "; the table holds {count} of {max} ({share:.1} %)")?;
    }
    if let (Some(count), Some(buckets)) = (size.count, size.buckets) {
        write!(out, ", {:.2} a bucket", count as f64 / buckets.max(1) as f64)?;
    }
    writeln!(out)?;
    if let Some(read) = table.read {
        let read_words = text::number(read);
        writeln!(
            out,
            "estimated from {read_words} of them, within {:.1} points (--exact reads all)",
            98.0 / (read as f64).sqrt()
        )?;
    }
    writeln!(
        out,
        "{} assured, {} without an answer",
        text::number(table.assured),
        text::number(table.unreplied)
    )?;

    let top = options.top.unwrap_or(TOP);
    let counted = |map: &BTreeMap<String, u64>| {
        let mut all: Vec<Top> =
            map.iter().map(|(k, n)| Top { key: k.clone(), count: *n, error: 0 }).collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then(a.key.cmp(&b.key)));
        all
    };
    let groups = [
        (GroupBy::Protocol, "protocol", counted(&table.by_protocol)),
        (GroupBy::State, "TCP state", counted(&table.by_state)),
        (GroupBy::Source, "source", table.top_sources.clone()),
        (GroupBy::Destination, "destination", table.top_destinations.clone()),
        (GroupBy::Port, "destination port", table.top_ports.clone()),
    ];
    for (by, name, values) in groups {
        if options.group_by.is_some_and(|asked| asked != by) || values.is_empty() {
            continue;
        }
        writeln!(out, "\n{:>10}  {:>7}  by {name}", "ENTRIES", "SHARE")?;
        for value in values.iter().take(top) {
            let share = 100.0 * value.count as f64 / table.entries.max(1) as f64;
            let about = if value.error > 0 {
                format!("  (at most {} too many)", text::number(value.error))
            } else {
                String::new()
            };
            let count = text::number(value.count);
            writeln!(out, "{count:>10}  {share:>5.1} %  {}{about}", value.key)?;
        }
    }
    Ok(out.flush()?)
}

/// Size of the table.
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
}
