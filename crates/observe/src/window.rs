//! The window: begins, takes a sample every 100 ms, ends; and what that cost.

use std::time::Duration;

use model::{Cost, Evidence, Focus, Series};
use sys::{Machine, OwnCost};

use crate::context::Context;
use crate::host;
use crate::observer::Observe;
use crate::observers::OBSERVERS;

/// Time between samples. Listen queues fill and drain within a second; ten samples a second show that,
/// and cost a fraction of a percent of one CPU.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// A window on a machine, from [`Window::begin`] to [`Window::end`].
///
/// The caller decides how long it lasts: it calls [`Window::step`] in a loop and asks
/// [`Window::elapsed`] in between. What cannot be read becomes missing evidence, never an error.
pub struct Window<'m> {
    context: Context<'m>,
    observers: Vec<Box<dyn Observe>>,
    netns: Option<String>,
    start_unix_ms: u64,
    cost_before: OwnCost,
    samples_taken: u32,
    samples_late: u32,
}

/// What [`Window::step`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It took a sample.
    Sampled,
    /// A signal ended the sleep before the next sample was due; the caller decides whether to go on.
    Woken,
}

impl<'m> Window<'m> {
    /// Begins a window: every observer reads what it needs from the beginning. `netns` is the name or
    /// process id of the network namespace, for the evidence; the calling thread is in it already.
    pub fn begin(machine: &'m dyn Machine, focus: &Focus, netns: Option<String>) -> Self {
        let cost_before = machine.own_process().cost();
        let start_unix_ms = millis(machine.clock().unix_time());
        let mut context = Context::new(machine, focus);
        let mut observers: Vec<_> = OBSERVERS.iter().map(|entry| (entry.make)()).collect();
        for observer in &mut observers {
            observer.begin(&mut context);
        }
        Window {
            context,
            observers,
            netns,
            start_unix_ms,
            cost_before,
            samples_taken: 0,
            samples_late: 0,
        }
    }

    /// Time since the window began.
    pub fn elapsed(&self) -> Duration {
        self.context.elapsed()
    }

    /// When the next sample is due, as time since the window began.
    pub fn next_sample_due(&self) -> Duration {
        SAMPLE_INTERVAL * self.context.sample.saturating_add(1)
    }

    /// Sleeps until the next sample is due and takes it. If it comes late, it is taken once, not once
    /// for each sample that was missed.
    pub fn step(&mut self) -> Step {
        let due = self.next_sample_due();
        self.context.machine.clock().sleep_until(self.context.began + due);
        let now = self.elapsed();
        if now < due {
            return Step::Woken;
        }
        self.context.sample = samples_due(now);
        self.context.at_ms = millis(now);
        self.samples_taken += 1;
        if now > due + SAMPLE_INTERVAL / 2 {
            self.samples_late += 1;
        }
        for observer in &mut self.observers {
            observer.sample(&mut self.context);
        }
        Step::Sampled
    }

    /// What is known by now as numbers.
    pub fn series(&self) -> Vec<Series> {
        let mut series = Vec::new();
        for observer in &self.observers {
            observer.series(&mut series);
        }
        series
    }

    /// The evidence so far, as if the window ended now; the window goes on. It costs what the end of a
    /// window costs: a sample of all sockets, and reading the logs from the beginning of the window.
    pub fn evidence_so_far(&mut self) -> Evidence {
        let missing_before = self.context.missing_evidence.clone();
        let evidence = self.evidence(false);
        // What could not be read now may be readable at the end.
        self.context.missing_evidence = missing_before;
        evidence
    }

    /// Ends the window. `interrupted`: before its time, by the user.
    pub fn end(mut self, interrupted: bool) -> Evidence {
        self.evidence(interrupted)
    }

    fn evidence(&mut self, interrupted: bool) -> Evidence {
        let context = &mut self.context;
        let duration = context.elapsed();
        context.at_ms = millis(duration);
        let mut evidence = Evidence {
            schema_version: Evidence::SCHEMA_VERSION,
            netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
            host: host::read(context.machine, self.netns.clone()),
            window: model::Window {
                start_unix_ms: self.start_unix_ms,
                duration_ms: context.at_ms,
                interrupted,
            },
            focus: context.focus.clone(),
            ..Evidence::default()
        };
        for observer in &mut self.observers {
            observer.evidence(context, &mut evidence);
        }
        // The observers after that of processes add to them.
        evidence.processes = context.processes.clone();
        if let Some(processes) = &mut evidence.processes {
            processes.sort_by_key(|process| process.pid);
        }
        evidence.missing_evidence = context.missing_evidence.clone();
        evidence.cost = self.cost(duration);
        evidence
    }

    fn cost(&self, duration: Duration) -> Cost {
        let cost = self.context.machine.own_process().cost();
        let cpu = cost.cpu.saturating_sub(self.cost_before.cpu);
        Cost {
            cpu_ms: cpu.as_secs_f64() * 1e3,
            cpu_percent_of_one: 100.0 * cpu.as_secs_f64() / duration.as_secs_f64().max(1e-3),
            max_resident_bytes: cost.max_resident_bytes,
            samples_planned: samples_due(duration),
            samples_taken: self.samples_taken,
            samples_late: self.samples_late,
        }
    }
}

/// Samples that are due in a time.
fn samples_due(time: Duration) -> u32 {
    (time.as_millis() / SAMPLE_INTERVAL.as_millis()) as u32
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_may_move_to_another_thread() {
        fn is_send<T: Send>() {}
        is_send::<Window<'static>>();
    }

    #[test]
    fn a_machine_without_a_clock_still_gives_evidence() {
        let mut window = Window::begin(&sys::Absent, &Focus::default(), None);
        assert_eq!(window.step(), Step::Woken, "its clock stands still");
        let evidence = window.end(false);
        assert_eq!(evidence.cost.samples_taken, 0);
        assert!(evidence.missing_evidence.iter().all(|missing| !missing.why.is_empty()));
    }
}
