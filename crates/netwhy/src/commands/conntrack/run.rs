//! Reads the table, groups or lists it, repeats that.

use std::io::Write;
use std::ops::ControlFlow;

use sys::Stop;
use sys::real::RealMachine;
use wire::conntrack::Entry;

use super::options::{ConntrackOptions, DEFAULT_TOP, Figure};
use super::rows;
use super::select::Selection;
use super::summary;
use crate::{output, window};

/// Bytes that are written at once.
const CHUNK_BYTES: usize = 1 << 16;
/// Entries beyond the wanted ones that are kept before they are sorted.
const SORT_SLACK: usize = 1024;

/// `netwhy conntrack`
pub(crate) fn run(options: &ConntrackOptions) -> anyhow::Result<u8> {
    window::enter(&options.netns)?;
    let selection = Selection::new(options)?;
    let machine = RealMachine::new();
    match options.watch {
        None => show(&machine, options, &selection, &mut output::rows())?,
        Some(interval) => output::repeat(interval, &Stop::on_signals()?, &mut |out| {
            show(&machine, options, &selection, out)
        })?,
    }
    Ok(0)
}

/// Prints the table once.
fn show(
    machine: &RealMachine,
    options: &ConntrackOptions,
    selection: &Selection,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if options.list {
        return list(machine, options, selection, out);
    }
    let size = summary::Size::read(machine);
    let max_entries = if options.exact { u64::MAX } else { observe::conntrack::MAX_ENTRIES_READ };
    let table = observe::conntrack::group(
        machine,
        max_entries,
        size.count.unwrap_or(0),
        options.top.unwrap_or(DEFAULT_TOP),
        &mut |entry| selection.has(entry),
    );
    match table {
        Ok(table) => summary::write(&size, options, &table, out),
        Err(error) => {
            // Users may read the size.
            if !options.json {
                size.write(out)?;
            }
            Err(unreadable(error))
        }
    }
}

/// Prints the entries one by one.
fn list(
    machine: &RealMachine,
    options: &ConntrackOptions,
    selection: &Selection,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let top = options.top.unwrap_or(usize::MAX);
    let mut text = Vec::with_capacity(2 * CHUNK_BYTES);
    if let Some(figure) = options.sort {
        let mut entries: Vec<(u64, Vec<u8>)> = Vec::new();
        each(machine, |entry| {
            if selection.has(entry) {
                rows::write(entry, options.json, &mut text);
                entries.push((figure.of(entry), std::mem::take(&mut text)));
            }
            if entries.len() >= top.saturating_mul(2).saturating_add(SORT_SLACK) {
                entries.sort_by_key(|(figure, _)| std::cmp::Reverse(*figure));
                entries.truncate(top);
            }
            ControlFlow::Continue(())
        })?;
        entries.sort_by_key(|(figure, _)| std::cmp::Reverse(*figure));
        for (_, row) in entries.iter().take(top) {
            out.write_all(row)?;
        }
        return Ok(out.flush()?);
    }
    let mut left = top;
    let mut written = Ok(());
    each(machine, |entry| {
        if left == 0 {
            return ControlFlow::Break(());
        }
        if selection.has(entry) {
            left -= 1;
            rows::write(entry, options.json, &mut text);
            if text.len() >= CHUNK_BYTES {
                written = out.write_all(&text);
                text.clear();
                if written.is_err() {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    written?;
    out.write_all(&text)?;
    Ok(out.flush()?)
}

impl Figure {
    fn of(self, entry: &Entry<'_>) -> u64 {
        let both = |counters: fn(&wire::conntrack::Counters) -> u64| {
            let original = entry.original_counters().map_or(0, |c| counters(&c));
            original.saturating_add(entry.reply_counters().map_or(0, |c| counters(&c)))
        };
        match self {
            Figure::Timeout => u64::from(entry.timeout_s().unwrap_or(0)),
            Figure::Bytes => both(|c| c.bytes),
            Figure::Packets => both(|c| c.packets),
        }
    }
}

/// Calls `entry` for each entry of the table until it returns `Break`.
fn each(
    machine: &RealMachine,
    mut entry: impl FnMut(&Entry<'_>) -> ControlFlow<()>,
) -> anyhow::Result<()> {
    observe::conntrack::dump(machine, &mut entry).map_err(unreadable)
}

fn unreadable(error: sys::Error) -> anyhow::Error {
    let help = match error.kind {
        sys::ErrorKind::PermissionDenied => "; run as root (sudo netwhy conntrack)",
        _ => "",
    };
    anyhow::anyhow!("cannot read the connection-tracking table: {error}{help}")
}
