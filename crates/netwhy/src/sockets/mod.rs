//! `netwhy sockets`: the TCP sockets with what the kernel knows of them.
//!
//! - [`select`]: which sockets are wanted
//! - [`figure`]: what they are sorted by
//! - [`rows`]: one socket as two lines of text
//! - [`group`]: sockets added up
//!
//! Without an order or groups the sockets are printed while the kernel still lists them, one
//! thread reading and one writing, and none is held.

use std::collections::HashMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use observe::sockets::dump;
use sys::Machine as _;
use sys::real::Real;
use wire::sock_diag::{Extensions, Family, Record, request};

mod figure;
mod group;
mod rows;
mod select;

pub(crate) use figure::Figure;
pub(crate) use group::GroupBy;
use select::Selection;

use crate::cli::SocketsOptions;
use crate::{output, watch};
use sys::Stop;

/// Bytes of text that are written at once.
const CHUNK: usize = 1 << 16;
/// Datagrams on their way from the reading thread to the writing one.
const AHEAD: usize = 64;

/// Names of processes by inode of a socket.
type Holders = HashMap<u32, String>;

/// `netwhy sockets`
pub(crate) fn run(options: &SocketsOptions) -> anyhow::Result<u8> {
    watch::enter(&options.netns)?;
    let selection = Selection::new(options)?;
    let machine = Real::new();
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
    machine: &Real,
    options: &SocketsOptions,
    selection: &Selection,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let by_process = matches!(options.group_by, Some(GroupBy::Process));
    let wanted = options.processes || by_process || selection.needs_holders();
    let holders = if wanted { holders(machine, selection)? } else { Holders::new() };
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
    machine: &Real,
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

/// Who holds which socket: `name(pid)`, of several processes the first and how many more.
fn holders(machine: &Real, selection: &Selection) -> anyhow::Result<Holders> {
    let mut pids = Vec::new();
    machine.list(std::path::Path::new("/proc"), &mut |name| {
        if let Ok(pid) = name.parse::<u32>() {
            pids.push(pid);
        }
    })?;
    pids.sort_unstable();
    let mut by_inode: HashMap<u32, (u32, u32)> = HashMap::new();
    let mut names: HashMap<u32, String> = HashMap::new();
    let mut denied = 0;
    for pid in pids {
        if !selection.has_pid(pid) {
            continue;
        }
        let mut any = false;
        let read = machine.sockets_of(pid, &mut |inode| {
            any = true;
            by_inode.entry(inode).and_modify(|(_, more)| *more += 1).or_insert((pid, 0));
            ControlFlow::Continue(())
        });
        match read {
            Err(error) if error.kind == sys::Kind::Permission => denied += 1,
            _ if any => {
                let mut name = Vec::new();
                let path = format!("/proc/{pid}/comm");
                // It may have ended since: then it is known by its id alone.
                let _ = machine.read(std::path::Path::new(&path), &mut name);
                names.insert(pid, output::harmless(String::from_utf8_lossy(&name).trim_end()));
            }
            _ => {}
        }
    }
    if denied > 0 {
        eprintln!(
            "netwhy: the open files of {denied} processes cannot be read: their sockets stay \
             without a name; run as root"
        );
    }
    let name = |(pid, more): (u32, u32)| {
        let name = names.get(&pid).map_or("?", String::as_str);
        if more == 0 { format!("{name}({pid})") } else { format!("{name}({pid})+{more}") }
    };
    Ok(by_inode.into_iter().map(|(inode, holder)| (inode, name(holder))).collect())
}
