//! A process that reads many files, one after the other, and prints a line for each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use super::case::{self, Outcome};
use super::kind::Kind;
use super::{change, seeds};

/// Reads the files from one number to another: prints its number when it begins with a file, then what
/// became of it and how long that took, microseconds, and the most memory so far, KiB.
pub(crate) fn run(kind: Kind, from: u64, to: u64) -> anyhow::Result<()> {
    let seeds = seeds::all(kind)?;
    for number in from..to {
        let file = change::file(kind, &seeds, number);
        println!("{number}");
        let began = Instant::now();
        // A file is a value of its own: nothing is left half done.
        let outcome = match catch_unwind(AssertUnwindSafe(|| case::run(kind, file))) {
            Ok(Outcome::Accepted) => "accepted",
            Ok(Outcome::Refused) => "refused",
            Ok(Outcome::Controls) => "controls",
            Err(_) => "panicked",
        };
        println!("{outcome} {} {}", began.elapsed().as_micros(), max_resident_kib());
    }
    Ok(())
}

/// The most memory that this process ever had (`VmHWM`).
fn max_resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
