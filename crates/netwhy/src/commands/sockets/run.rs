//! Lists the sockets, sorts or groups them, repeats that.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::mpsc;

use anyhow::Context as _;
use observe::sockets::dump;
use sys::Stop;
use sys::real::RealMachine;
use wire::sock_diag::{Extensions, Family, Record, request};

use super::group;
use super::options::{Figure, GroupBy, SocketsOptions};
use super::owners::{Owners, owners};
use super::rows;
use super::select::Selection;
use crate::{output, window};

/// Bytes that are written at once.
const CHUNK_BYTES: usize = 1 << 16;
/// Most datagrams between the reading and the writing thread.
const MAX_QUEUED_DATAGRAMS: usize = 64;
/// Sockets beyond the wanted ones that are kept before they are sorted.
const SORT_SLACK: usize = 1024;

/// `netwhy sockets`
pub(crate) fn run(options: &SocketsOptions) -> anyhow::Result<u8> {
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

/// Prints the sockets once.
fn show(
    machine: &RealMachine,
    options: &SocketsOptions,
    selection: &Selection,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let by_process = matches!(options.group_by, Some(GroupBy::Process));
    let needs_owners =
        options.processes || options.listening || by_process || selection.needs_owners();
    let owners =
        if needs_owners { owners(machine, |pid| selection.has_pid(pid))? } else { Owners::new() };
    let extensions = Extensions::INFO | Extensions::MEMORY | Extensions::CONGESTION;
    // Memory is requested only when it is shown: each attribute takes the kernel time.
    let by_memory = matches!(options.sort, Some(Figure::Memory | Figure::Drops));
    let extensions = if options.json || options.listening || by_memory {
        extensions
    } else {
        Extensions::INFO | Extensions::CONGESTION
    };
    let layout = rows::Layout::of(options, output::columns());
    let request = request(Family::Both, selection.states, extensions);

    if let Some(by) = options.group_by {
        let mut groups = group::Groups::new(by);
        each(machine, &request, |record| {
            if selection.has(record, &owners) {
                groups.add(record, &owners);
            }
            Ok(())
        })?;
        return groups.write(options, out);
    }
    if let Some(figure) = options.sort {
        let mut sockets = Vec::new();
        each(machine, &request, |record| {
            if selection.has(record, &owners) {
                sockets.push((figure.of(record), rows::bytes(record, &owners, layout)?));
            }
            // Only the first ones are printed: the others are not kept.
            if let Some(top) = options.top
                && sockets.len() >= top.saturating_mul(2).saturating_add(SORT_SLACK)
            {
                sockets.sort_by_key(|(figure, _)| std::cmp::Reverse(*figure));
                sockets.truncate(top);
            }
            Ok(())
        })?;
        sockets.sort_by_key(|(figure, _)| std::cmp::Reverse(*figure));
        rows::header(layout, out)?;
        for (_, row) in sockets.iter().take(options.top.unwrap_or(usize::MAX)) {
            out.write_all(row)?;
        }
        return Ok(out.flush()?);
    }

    let mut text = Vec::with_capacity(2 * CHUNK_BYTES);
    rows::header(layout, &mut text)?;
    let mut left = options.top.unwrap_or(usize::MAX);
    each(machine, &request, |record| {
        if left > 0 && selection.has(record, &owners) {
            left -= 1;
            rows::write(record, &owners, layout, &mut text)?;
            if text.len() >= CHUNK_BYTES {
                out.write_all(&text)?;
                text.clear();
            }
        }
        Ok(())
    })?;
    out.write_all(&text)?;
    Ok(out.flush()?)
}

/// Calls `record` for each socket of a dump, on this thread, while another one reads the dump.
fn each(
    machine: &RealMachine,
    request: &[u8],
    mut record: impl FnMut(&Record<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (datagrams, arrived) = mpsc::sync_channel::<Vec<u8>>(MAX_QUEUED_DATAGRAMS);
    let (used, empty) = mpsc::channel::<Vec<u8>>();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            dump::datagrams(machine, request, &mut |datagram| {
                let mut copy = empty.try_recv().unwrap_or_default();
                copy.clear();
                copy.extend_from_slice(datagram);
                match datagrams.send(copy) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()), // the writer has ended
                }
            })
        });
        let mut result = Ok(());
        for datagram in arrived {
            result = dump::records(&datagram, &mut record);
            if result.is_err() {
                break;
            }
            // The reader may have ended and need no more buffers.
            let _ = used.send(datagram);
        }
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result?;
        read.context("cannot list the TCP sockets")
    })
}
