//! Large captures on several CPUs: each thread reads all files and analyses its share of the streams.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{RwLock, mpsc};
use std::thread;

use streams::{Collector, MemoryLimits};
use sys::Stop;
use sys::capture::Capture;

use super::options::PcapOptions;
use super::reader::{CaptureReader, open};
use crate::failure::Failure;

/// Smaller captures are read faster than threads start.
const MIN_BYTES_FOR_THREADS: u64 = 16 << 20;
/// Most threads by default: reading the same bytes once more costs more than another thread saves.
const MAX_DEFAULT_THREADS: u32 = 4;
/// Stack of a thread.
const STACK: usize = 2 << 20;
/// What a thread needs to begin, besides its stack. The C library ends the process where it gets none.
const ROOM_TO_BEGIN: usize = 1 << 20;

/// How many threads read.
fn thread_count(options: &PcapOptions) -> u32 {
    // Decompressing is not shared, and standard input can be read only once.
    if !options.can_read_twice() || options.files.iter().any(|file| is_compressed(file)) {
        return 1;
    }
    let sizes = options.files.iter().filter_map(|file| file.metadata().ok());
    if let Some(threads) = options.threads {
        return threads;
    }
    let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    if sizes.map(|meta| meta.len()).sum::<u64>() < MIN_BYTES_FOR_THREADS {
        1
    } else {
        cpus.min(MAX_DEFAULT_THREADS)
    }
}

fn is_compressed(file: &std::path::Path) -> bool {
    Capture::open(file).is_ok_and(|capture| capture.is_compressed())
}

/// Reads all files, on several CPUs where that is faster.
pub(super) fn read_files(reader: &mut CaptureReader, options: &PcapOptions) -> anyhow::Result<()> {
    let threads = thread_count(options);
    if threads > 1 && reader.can_be_parallel() && in_parallel(reader, options, threads)? {
        return Ok(());
    }
    reader.read_files(options)
}

/// Reads all files with several threads. This one also shows the progress and reports what is wrong
/// with the files. Returns whether that succeeded: the system may refuse the threads, and there may be too
/// many streams.
fn in_parallel(
    reader: &mut CaptureReader,
    options: &PcapOptions,
    threads: u32,
) -> anyhow::Result<bool> {
    let (files, stop) = (&options.files, reader.stop.child());
    let has_too_many = AtomicBool::new(false);
    let gate = RwLock::new(());
    let shares = thread::scope(|scope| {
        let (stop, has_too_many, gate) = (&stop, &has_too_many, &gate);
        // One by one, and none reads before all have begun: until then nothing else takes the memory.
        let closed = gate.write();
        let (begun, has_begun) = mpsc::channel();
        let mut others = Vec::new();
        for number in 1..threads {
            let begun = begun.clone();
            let thread = thread::Builder::new().name(format!("share {number}")).stack_size(STACK);
            let read = move || {
                let _ = begun.send(());
                drop(gate.read());
                read_share(files, share(number, threads, options.limits()), stop, has_too_many)
            };
            let has_room = sys::allocator::has_room_for(STACK + ROOM_TO_BEGIN);
            let Some(thread) = has_room.then(|| thread.spawn_scoped(scope, read).ok()).flatten()
            else {
                stop.set();
                return Ok(None);
            };
            let _ = has_begun.recv();
            others.push(thread);
        }
        drop(closed);
        let stop_of_all = std::mem::replace(&mut reader.stop, stop.clone());
        reader.collector = share(0, threads, options.limits());
        let result = reader.read_files(options);
        reader.stop = stop_of_all;
        if reader.collector.has_too_many_streams() {
            has_too_many.store(true, Ordering::Relaxed);
        }
        if result.is_err() || has_too_many.load(Ordering::Relaxed) {
            stop.set();
        }
        reader.collector.close();
        let ended = others.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
        result.map(|()| Some(ended.collect::<Vec<_>>()))
    })?;
    let shares = shares.filter(|_| !has_too_many.into_inner());
    let Some(shares) = shares else {
        reader.begin_again();
        return Ok(false);
    };
    for share in shares {
        reader.collector.join(share?);
    }
    Ok(true)
}

/// The collector of one of several threads.
fn share(number: u32, threads: u32, limits: MemoryLimits) -> Collector {
    Collector::shard(number, threads).limited(limits.shared_by(threads))
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> anyhow::Result<Collector> {
    Err(Failure::Observe("a thread that reads the capture failed (a bug of netwhy)".to_string())
        .into())
}

/// Reads one share of the streams of all files. The first thread reports what is wrong with them.
fn read_share(
    files: &[PathBuf],
    mut collector: Collector,
    stop: &Stop,
    has_too_many: &AtomicBool,
) -> anyhow::Result<Collector> {
    for file in files {
        if stop.is_set() {
            break;
        }
        let mut capture = open(file, stop)?;
        let read = capture.for_each_batch(|packets| {
            collector.take_batch(packets);
            if collector.has_too_many_streams() {
                has_too_many.store(true, Ordering::Relaxed);
                stop.set();
            }
            if stop.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        read.map_err(|error| Failure::Observe(error.to_string()))?;
    }
    collector.close();
    Ok(collector)
}
