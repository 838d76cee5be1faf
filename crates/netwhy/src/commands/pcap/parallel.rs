//! Large captures on several CPUs: each thread reads all files and analyses its share of the streams.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::thread;

use streams::Collector;
use sys::Stop;

use super::options::PcapOptions;
use super::reader::{CaptureReader, open};
use crate::failure::Failure;

/// Smaller captures are read faster than threads start.
const MIN_BYTES_FOR_THREADS: u64 = 16 << 20;
/// Most threads by default: reading the same bytes once more costs more than another thread saves.
const MAX_DEFAULT_THREADS: u32 = 4;

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
    open(file).is_ok_and(|capture| capture.is_compressed())
}

/// Reads all files, on several CPUs where that is faster.
pub(super) fn read_files(reader: &mut CaptureReader, options: &PcapOptions) -> anyhow::Result<()> {
    let threads = thread_count(options);
    if threads > 1 && reader.can_be_parallel() {
        in_parallel(reader, options, threads)
    } else {
        reader.read_files(options)
    }
}

/// Reads all files with several threads. This one also shows the progress and reports what is wrong
/// with the files.
fn in_parallel(
    reader: &mut CaptureReader,
    options: &PcapOptions,
    threads: u32,
) -> anyhow::Result<()> {
    let (files, stop) = (&options.files, reader.stop.child());
    reader.collector = Collector::shard(0, threads);
    let shares: Vec<anyhow::Result<Collector>> = thread::scope(|scope| {
        let stop = &stop;
        let others: Vec<_> = (1..threads)
            .map(|number| scope.spawn(move || read_share(files, number, threads, stop)))
            .collect();
        let result = reader.read_files(options);
        if result.is_err() {
            stop.set();
        }
        reader.collector.close();
        let ended = others.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
        result.map(|()| ended.collect())
    })?;
    for share in shares {
        reader.collector.join(share?);
    }
    Ok(())
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> anyhow::Result<Collector> {
    Err(Failure::Observe("a thread that reads the capture failed (a bug of netwhy)".to_string())
        .into())
}

/// Reads one share of the streams of all files. The first thread reports what is wrong with them.
fn read_share(
    files: &[PathBuf],
    number: u32,
    threads: u32,
    stop: &Stop,
) -> anyhow::Result<Collector> {
    let mut collector = Collector::shard(number, threads);
    for file in files {
        let mut capture = open(file)?;
        let read = capture.for_each_batch(|packets| {
            collector.take_batch(packets);
            if stop.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        read.map_err(|error| Failure::Observe(error.to_string()))?;
        if stop.is_set() {
            break;
        }
    }
    collector.close();
    Ok(collector)
}
