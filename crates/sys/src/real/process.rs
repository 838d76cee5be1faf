//! This process.

use std::path::Path;

use rustix::time::ClockId;

use super::clock::time;
use super::files;
use crate::machine::{OwnCost, OwnProcess};

pub(super) struct RealProcess;

impl OwnProcess for RealProcess {
    fn cost(&self) -> OwnCost {
        let cpu = time(ClockId::ProcessCPUTime);
        let mut status = Vec::new();
        let resident_kib = match files::read(Path::new("/proc/self/status"), &mut status) {
            Ok(()) => String::from_utf8_lossy(&status)
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"))
                .and_then(|kib| kib.trim().parse::<u64>().ok())
                .unwrap_or(0),
            Err(_) => 0,
        };
        OwnCost { cpu, max_resident_bytes: resident_kib.saturating_mul(1024) }
    }

    fn user(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn page_bytes(&self) -> u64 {
        rustix::param::page_size() as u64
    }

    fn clock_ticks(&self) -> u64 {
        rustix::param::clock_ticks_per_second()
    }
}
