//! How much CPU the machine lacked: a verdict on a run that had none is worth less.

use std::time::{Duration, Instant};

use serde::Serialize;

/// How much CPU the machine lacked during a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuShortage {
    /// Share of the time in which at least one runnable task of the machine waited for a CPU;
    /// `None` without pressure stall information (`/proc/pressure/cpu`).
    pub waiting: Option<f64>,
    /// Share of the CPU time that the hypervisor took (steal, `/proc/stat`).
    pub stolen: Option<f64>,
    /// Share of the CPU time in which the CPUs were busy, with everything on this machine.
    pub busy: Option<f64>,
}

/// The state from which a shortage is measured.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    started: Instant,
    waited: Option<Duration>,
    cpu: Option<CpuTime>,
}

/// CPU time of the machine since boot, clock ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CpuTime {
    total: u64,
    steal: u64,
    /// Idle, or idle while a disk is waited for.
    idle: u64,
}

impl CpuMeter {
    pub(crate) fn start() -> Self {
        CpuMeter { started: Instant::now(), waited: read_waited(), cpu: read_cpu_time() }
    }

    /// The shortage since the start.
    pub(crate) fn read(&self) -> CpuShortage {
        let waited = read_waited().zip(self.waited).map(|(now, before)| now.saturating_sub(before));
        let elapsed = self.started.elapsed().as_secs_f64();
        let waiting = waited.filter(|_| elapsed > 0.0).map(|time| time.as_secs_f64() / elapsed);
        let now = read_cpu_time();
        let share = |part: fn(&CpuTime) -> u64| {
            let (now, before) = now.as_ref().zip(self.cpu.as_ref())?;
            let total = now.total.checked_sub(before.total).filter(|total| *total > 0)?;
            Some(part(now).checked_sub(part(before))? as f64 / total as f64)
        };
        let stolen = share(|time| time.steal);
        let busy = share(|time| time.total - time.idle);
        CpuShortage { waiting: waiting.map(|share| share.min(1.0)), stolen, busy }
    }
}

fn read_waited() -> Option<Duration> {
    parse_waited(&std::fs::read_to_string("/proc/pressure/cpu").ok()?)
}

/// The total of the line `some`, which counts microseconds (Documentation/accounting/psi.rst).
fn parse_waited(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

fn read_cpu_time() -> Option<CpuTime> {
    parse_cpu_time(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The line `cpu`: user, nice, system, idle, iowait, irq, softirq, steal; the guest times behind
/// them are part of user and nice (proc_stat(5)).
fn parse_cpu_time(text: &str) -> Option<CpuTime> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Option<Vec<u64>> =
        line.split_ascii_whitespace().take(8).map(|field| field.parse().ok()).collect();
    let fields = fields?;
    let idle = fields.get(3)? + fields.get(4)?;
    Some(CpuTime { total: fields.iter().sum(), steal: *fields.get(7)?, idle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_and_steal_are_parsed() {
        let pressure = "some avg10=96.96 avg60=92.72 avg300=50.04 total=383244439\n\
                        full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(parse_waited(pressure), Some(Duration::from_micros(383_244_439)));
        assert_eq!(parse_waited(""), None);
        let stat = "cpu  239636 0 71660 583542 5328 0 8025 4393 7 0\ncpu0 1 2 3\n";
        let total = 239_636 + 71_660 + 583_542 + 5_328 + 8_025 + 4_393;
        assert_eq!(
            parse_cpu_time(stat),
            Some(CpuTime { total, steal: 4_393, idle: 583_542 + 5_328 })
        );
        assert_eq!(parse_cpu_time("cpu  1 2 3\n"), None);
    }
}
