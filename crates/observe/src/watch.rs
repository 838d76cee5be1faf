//! The window: begins, looks every 100 ms, ends; and what that cost.

use std::ops::ControlFlow;
use std::time::Duration;

use model::{Cost, Evidence, Focus, Host, Source, Window};
use sys::Machine;

use crate::context::Context;
use crate::table::OBSERVERS;

/// Time between looks. Listen queues fill and drain within a second; ten looks a second see that
/// and cost a fraction of a percent of one CPU.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// What the caller is told at every look.
pub struct Progress<'a> {
    /// Time since the window began.
    pub elapsed: Duration,
    /// What is already seen, a few words each.
    pub seen: &'a mut dyn FnMut() -> Vec<String>,
}

/// Watches until `proceed` breaks, which is asked at every look and says with its value whether
/// the window ended early. What cannot be read becomes missing evidence.
pub fn watch(
    machine: &dyn Machine,
    focus: &Focus,
    netns: Option<String>,
    proceed: &mut dyn FnMut(Progress<'_>) -> ControlFlow<Interrupted>,
) -> Evidence {
    let cost_before = machine.own_cost();
    let start_unix_ms = millis(machine.unix_time());
    let mut context = Context::new(machine, focus);
    let mut observers: Vec<_> = OBSERVERS.iter().map(|entry| (entry.make)()).collect();
    for observer in &mut observers {
        observer.begin(&mut context);
    }

    let mut looks_made = 0;
    let mut looks_late = 0;
    let interrupted = loop {
        let elapsed = machine.now().saturating_sub(context.began);
        let mut seen = || observers.iter().filter_map(|o| o.seen()).collect();
        if let ControlFlow::Break(end) = proceed(Progress { elapsed, seen: &mut seen }) {
            break end;
        }
        let due = INTERVAL * (context.look + 1);
        machine.sleep_until(context.began + due);
        let now = machine.now().saturating_sub(context.began);
        if now < due {
            continue; // a signal: ask whether to go on
        }
        // A look that comes late is made once, not once for each that was missed.
        context.look = (now.as_millis() / INTERVAL.as_millis()) as u32;
        context.at_ms = millis(now);
        looks_made += 1;
        if now > due + INTERVAL / 2 {
            looks_late += 1;
        }
        for observer in &mut observers {
            observer.look(&mut context);
        }
    };

    let duration = machine.now().saturating_sub(context.began);
    context.at_ms = millis(duration);
    let mut evidence = Evidence {
        schema_version: Evidence::SCHEMA_VERSION,
        netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
        host: host(&mut context, netns),
        window: Window {
            start_unix_ms,
            duration_ms: context.at_ms,
            interrupted: interrupted == Interrupted::Yes,
        },
        focus: focus.clone(),
        ..Evidence::default()
    };
    for mut observer in observers {
        observer.end(&mut context, &mut evidence);
    }
    context.processes.sort_by_key(|p| p.pid);
    if context
        .missing_evidence
        .iter()
        .all(|g| g.source != Source::Processes || g.what != "processes")
    {
        evidence.processes = Some(std::mem::take(&mut context.processes));
    }
    evidence.missing_evidence = std::mem::take(&mut context.missing_evidence);

    let cost = machine.own_cost();
    let cpu = cost.cpu.saturating_sub(cost_before.cpu);
    evidence.cost = Cost {
        cpu_ms: cpu.as_secs_f64() * 1e3,
        cpu_percent_of_one: 100.0 * cpu.as_secs_f64() / duration.as_secs_f64().max(1e-3),
        max_resident_bytes: cost.max_resident_bytes,
        samples_planned: (duration.as_millis() / INTERVAL.as_millis()) as u32,
        samples_taken: looks_made,
        samples_late: looks_late,
    };
    evidence
}

/// Whether a window ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupted {
    /// It lasted as long as was asked.
    No,
    /// The user ended it.
    Yes,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn host(context: &mut Context<'_>, netns: Option<String>) -> Host {
    let text = |path: &str| {
        let mut buffer = Vec::new();
        match context.machine.read(std::path::Path::new(path), &mut buffer) {
            Ok(()) => String::from_utf8_lossy(&buffer).trim().to_string(),
            Err(_) => String::new(),
        }
    };
    let memory_kib = text("/proc/meminfo")
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok()
        })
        .unwrap_or(0u64);
    Host {
        name: text("/proc/sys/kernel/hostname"),
        kernel: text("/proc/sys/kernel/osrelease"),
        cpus: cpus(&text("/sys/devices/system/cpu/online")),
        memory_bytes: memory_kib.saturating_mul(1024),
        page_bytes: context.machine.page_bytes(),
        netns,
        root: context.machine.user() == 0,
    }
}

/// Number of CPUs in a list such as `0-3,8`.
fn cpus(list: &str) -> u32 {
    list.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            last.checked_sub(first).map(|n| n.saturating_add(1))
        })
        .fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::cpus;

    #[test]
    fn cpus_are_counted_from_a_list() {
        assert_eq!(cpus("0-1"), 2);
        assert_eq!(cpus("0"), 1);
        assert_eq!(cpus("0-3,8,10-11\n"), 7);
        assert_eq!(cpus(""), 0);
        assert_eq!(cpus("5-1,x"), 0);
    }
}
