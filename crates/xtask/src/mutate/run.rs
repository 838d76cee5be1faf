//! Starts the workers and adds up what they report.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::Context as _;

use super::kind::{Kind, limited};
use super::{change, program, seeds};
use crate::repository;

/// Files that are mutated by default.
const CAPTURES: u64 = 100_000;
const EVIDENCE: u64 = 20_000;
/// Of so many files, one goes through the program, too.
const FILES_PER_RUN: u64 = 50;
/// Files that one worker takes at a time.
const FILES_PER_WORKER: u64 = 500;

/// What became of the files of a kind.
#[derive(Debug, Default)]
struct Sums {
    files: u64,
    accepted: u64,
    refused: u64,
    panicked: u64,
    /// A character that controls a terminal was in a report.
    controlled: u64,
    aborted: u64,
    max_resident_kib: u64,
    max_us: u64,
    runs: u64,
    runs_failed: u64,
}

/// `cargo xtask mutate [CAPTURES [EVIDENCE]]`. Returns whether all went well.
pub(crate) fn run(counts: &[u64]) -> anyhow::Result<bool> {
    let program = built()?;
    let folder = repository::root()?.join("target/mutate");
    std::fs::create_dir_all(&folder)?;
    println!(
        "{:<9} {:>8} {:>8} {:>8} {:>7} {:>8} {:>7} {:>8} {:>11} {:>7} {:>7}",
        "",
        "files",
        "accepted",
        "refused",
        "panics",
        "controls",
        "aborts",
        "MiB max",
        "longest ms",
        "runs",
        "failed"
    );
    let mut is_good = true;
    for (place, kind) in Kind::ALL.into_iter().enumerate() {
        let default = if kind == Kind::Capture { CAPTURES } else { EVIDENCE };
        let files = counts.get(place).copied().unwrap_or(default);
        let sums = all(kind, files, &program, &folder)?;
        println!(
            "{:<9} {:>8} {:>8} {:>8} {:>7} {:>8} {:>7} {:>8} {:>11} {:>7} {:>7}",
            kind.name(),
            sums.files,
            sums.accepted,
            sums.refused,
            sums.panicked,
            sums.controlled,
            sums.aborted,
            sums.max_resident_kib >> 10,
            sums.max_us / 1000,
            sums.runs,
            sums.runs_failed,
        );
        is_good &= sums.panicked + sums.controlled + sums.aborted + sums.runs_failed == 0
            && sums.files == files;
    }
    if !is_good {
        println!("the files that failed are in {}", folder.display());
    }
    Ok(is_good)
}

/// Builds the program.
fn built() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = repository::root()?;
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--quiet", "-p", "netwhy"])
        .status()?;
    anyhow::ensure!(status.success(), "netwhy does not build");
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(folder.join("debug/netwhy"))
}

/// Mutates so many files on all CPUs.
fn all(kind: Kind, files: u64, program: &Path, folder: &Path) -> anyhow::Result<Sums> {
    let seeds = seeds::all(kind)?;
    let (next, seeds) = (AtomicU64::new(0), &seeds);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let parts: Vec<anyhow::Result<Sums>> = thread::scope(|scope| {
        let take = || -> anyhow::Result<Sums> {
            let mut sums = Sums::default();
            loop {
                let from = next.fetch_add(FILES_PER_WORKER, Ordering::Relaxed);
                let to = files.min(from + FILES_PER_WORKER);
                if from >= to {
                    return Ok(sums);
                }
                work(kind, from..to, seeds, folder, &mut sums)?;
                for number in (from..to).filter(|number| number % FILES_PER_RUN == 0) {
                    let path = folder.join(format!("{}-{number}", kind.name()));
                    std::fs::write(&path, change::file(kind, seeds, number))?;
                    sums.runs += 1;
                    match program::run(program, kind, &path) {
                        Ok(_) => std::fs::remove_file(&path)?,
                        Err(error) => {
                            sums.runs_failed += 1;
                            println!("{}: {error:#}", path.display());
                        }
                    }
                }
            }
        };
        let threads: Vec<_> = (0..cpus).map(|_| scope.spawn(take)).collect();
        let failed = |_| Err(anyhow::anyhow!("a thread failed"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
    });
    let mut sums = Sums::default();
    for part in parts {
        sums.add(&part?);
    }
    Ok(sums)
}

/// Has a range of files read by workers: after one that died, another takes the rest.
fn work(
    kind: Kind,
    files: std::ops::Range<u64>,
    seeds: &[Vec<u8>],
    folder: &Path,
    sums: &mut Sums,
) -> anyhow::Result<()> {
    let mut from = files.start;
    while from < files.end {
        let mut worker = start(kind, from, files.end)?;
        let output = worker.stdout.take().context("no output")?;
        let mut open = None;
        for line in BufReader::new(output).lines() {
            let line = line?;
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                [number] => open = number.parse::<u64>().ok(),
                [outcome, us, resident] => {
                    let number = open.take().context("an outcome without a file")?;
                    from = number + 1;
                    sums.count(outcome, us.parse()?, resident.parse()?);
                    if !["accepted", "refused"].contains(&outcome) {
                        keep(kind, number, seeds, folder)?;
                    }
                }
                _ => anyhow::bail!("a worker printed: {line}"),
            }
        }
        let status = worker.wait()?;
        if let Some(number) = open {
            println!("{} {number}: {status}", kind.name());
            (sums.files, sums.aborted) = (sums.files + 1, sums.aborted + 1);
            keep(kind, number, seeds, folder)?;
            from = number + 1;
        } else if from < files.end {
            anyhow::bail!("a worker ended early: {status}");
        }
    }
    Ok(())
}

fn start(kind: Kind, from: u64, to: u64) -> anyhow::Result<Child> {
    let own = std::env::current_exe()?;
    let mut worker = limited();
    worker.arg(own).args(["mutate-worker", kind.name(), &from.to_string(), &to.to_string()]);
    worker.stdout(Stdio::piped()).spawn().context("cannot start a worker")
}

/// Keeps a file that failed.
fn keep(kind: Kind, number: u64, seeds: &[Vec<u8>], folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(format!("{}-{number}", kind.name()));
    Ok(std::fs::write(path, change::file(kind, seeds, number))?)
}

impl Sums {
    fn count(&mut self, outcome: &str, us: u64, resident_kib: u64) {
        self.files += 1;
        match outcome {
            "accepted" => self.accepted += 1,
            "refused" => self.refused += 1,
            "controls" => self.controlled += 1,
            _ => self.panicked += 1,
        }
        self.max_us = self.max_us.max(us);
        self.max_resident_kib = self.max_resident_kib.max(resident_kib);
    }

    fn add(&mut self, other: &Sums) {
        self.files += other.files;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.panicked += other.panicked;
        self.controlled += other.controlled;
        self.aborted += other.aborted;
        self.max_resident_kib = self.max_resident_kib.max(other.max_resident_kib);
        self.max_us = self.max_us.max(other.max_us);
        self.runs += other.runs;
        self.runs_failed += other.runs_failed;
    }
}
