//! Large captures on several CPUs: each reads the files and takes its share of the streams in.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::thread;

use streams::Collector;
use sys::Stop;

use super::options::PcapOptions;
use super::read::{Read, open};
use crate::failure::Failure;

/// Smaller captures are read before a thread has begun.
const LARGE: u64 = 16 << 20;
/// More read the same bytes more often than they save.
const MOST: u32 = 4;

/// How many CPUs are to read.
fn count(options: &PcapOptions) -> u32 {
    // Who decompresses does that alone; others can be read once.
    if !options.can_read_twice() || options.files.iter().any(|file| is_compressed(file)) {
        return 1;
    }
    let sizes = options.files.iter().filter_map(|file| file.metadata().ok());
    if let Some(threads) = options.threads {
        return threads;
    }
    let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    if sizes.map(|meta| meta.len()).sum::<u64>() < LARGE { 1 } else { cpus.min(MOST) }
}

fn is_compressed(file: &std::path::Path) -> bool {
    open(file).is_ok_and(|capture| capture.is_compressed())
}

/// Reads all files into `read`, on several CPUs where that pays.
pub(super) fn files(read: &mut Read, options: &PcapOptions) -> anyhow::Result<()> {
    let of = count(options);
    if of > 1 && read.can_be_shared() { read.shared(options, of) } else { read.one_by_one(options) }
}

impl Read {
    /// All files, on several CPUs. This one counts, shows how far it is, and tells what is wrong.
    fn shared(&mut self, options: &PcapOptions, of: u32) -> anyhow::Result<()> {
        let (files, stop) = (&options.files, self.stop.child());
        let others = |number| read(files, number, of, &stop);
        self.collector = Collector::share(0, of);
        let shares: Vec<anyhow::Result<Collector>> = thread::scope(|scope| {
            let others = &others;
            let threads: Vec<_> =
                (1..of).map(|number| scope.spawn(move || others(number))).collect();
            let result = self.one_by_one(options);
            if result.is_err() {
                stop.set();
            }
            self.collector.close();
            let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
            result.map(|()| ended.collect())
        })?;
        for share in shares {
            self.collector.join(share?);
        }
        Ok(())
    }
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> anyhow::Result<Collector> {
    Err(Failure::Observe("a thread that read the capture ended too soon".to_string()).into())
}

/// One share of all files. What is wrong with them is told by the first.
fn read(files: &[PathBuf], number: u32, of: u32, stop: &Stop) -> anyhow::Result<Collector> {
    let mut collector = Collector::share(number, of);
    for file in files {
        let mut capture = open(file)?;
        let read = capture.for_each_batch(|packets| {
            collector.batch(packets);
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
