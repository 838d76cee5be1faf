//! `netwhy sockets`: the TCP sockets with what the kernel knows of them.

use super::group;
use super::rows;

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use observe::sockets::dump;
use sys::real::RealMachine;
use wire::sock_diag::{Extensions, Family, Record, request};

use super::select::Selection;

use super::options::{Figure, GroupBy, SocketsOptions};
use super::owners::{Owners, owners};
use crate::{output, window};
use sys::Stop;

/// Bytes of text that are written at once.
const CHUNK: usize = 1 << 16;
/// Datagrams on their way from the reading thread to the writing one.
const AHEAD: usize = 64;

/// `netwhy sockets`
pub(crate) fn run(options: &SocketsOptions) -> anyhow::Result<u8> {
    window::enter(&options.netns)?;
    let selection = Selection::new(options)?;
    let machine = RealMachine::new();
    let Some(every) = options.watch else {
        show(&machine, options, &selection, &mut std::io::stdout().lock())?;
        return Ok(0);
    };
    let stop = Stop::on_signals()?;
    while !stop.is_set() {
        let next = Instant::now() + every;
        let mut screen = Vec::new();
        show(&machine, options, &selection, &mut screen)?;
        output::screen(&screen)?;
        while !stop.is_set() && Instant::now() < next {
            std::thread::sleep(Duration::from_millis(50).min(next - Instant::now()));
        }
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
    let wanted = options.processes || by_process || selection.needs_holders();
    let holders =
        if wanted { owners(machine, |pid| selection.has_pid(pid))? } else { Owners::new() };
    let extensions = Extensions::INFO | Extensions::MEMORY | Extensions::CONGESTION;
    // The memory is asked for only when it is shown: each attribute costs the kernel time.
    let extensions = if options.json || options.sort == Some(Figure::Memory) {
        extensions
    } else {
        Extensions::INFO | Extensions::CONGESTION
    };
    let request = request(Family::Both, selection.states, extensions);

    if let Some(by) = options.group_by {
        let mut groups = group::Groups::new(by);
        each(machine, &request, |record| {
            if selection.has(record, &holders) {
                groups.add(record, &holders);
            }
            Ok(())
        })?;
        return groups.write(options, out);
    }
    if let Some(figure) = options.sort {
        let mut sockets = Vec::new();
        each(machine, &request, |record| {
            if selection.has(record, &holders) {
                sockets.push((figure.of(record), rows::bytes(record, &holders, options)?));
            }
            // Only the first are wanted: the rest need not be held.
            if let Some(top) = options.top
                && sockets.len() >= 2 * top + 1024
            {
                sockets.sort_by_key(|(figure, _)| std::cmp::Reverse(*figure));
                sockets.truncate(top);
            }
            Ok(())
        })?;
        sockets.sort_by_key(|(figure, _)| std::cmp::Reverse(*figure));
        rows::header(options, out)?;
        for (_, row) in sockets.iter().take(options.top.unwrap_or(usize::MAX)) {
            out.write_all(row)?;
        }
        return Ok(out.flush()?);
    }

    let mut text = Vec::with_capacity(2 * CHUNK);
    rows::header(options, &mut text)?;
    let mut left = options.top.unwrap_or(usize::MAX);
    each(machine, &request, |record| {
        if left > 0 && selection.has(record, &holders) {
            left -= 1;
            rows::write(record, &holders, options, &mut text)?;
            if text.len() >= CHUNK {
                out.write_all(&text)?;
                text.clear();
            }
        }
        Ok(())
    })?;
    out.write_all(&text)?;
    Ok(out.flush()?)
}

/// Calls for each socket of a dump, on this thread, while another one reads the answers.
fn each(
    machine: &RealMachine,
    request: &[u8],
    mut record: impl FnMut(&Record<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (datagrams, arrived) = mpsc::sync_channel::<Vec<u8>>(AHEAD);
    let (used, empty) = mpsc::channel::<Vec<u8>>();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            dump::datagrams(machine, request, &mut |datagram| {
                let mut copy = empty.try_recv().unwrap_or_default();
                copy.clear();
                copy.extend_from_slice(datagram);
                match datagrams.send(copy) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()), // the writer has stopped
                }
            })
        });
        let mut result = Ok(());
        for datagram in arrived {
            result = dump::records(&datagram, &mut record);
            if result.is_err() {
                break;
            }
            // The reader may have ended: then nobody wants the buffer.
            let _ = used.send(datagram);
        }
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result?;
        read.context("cannot list the TCP sockets")
    })
}
