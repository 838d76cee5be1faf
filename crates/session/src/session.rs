//! The observers and the background capture of one window.

use std::time::Duration;

use model::{Evidence, Report, Series};
use observe::{Step, Window};
use sys::Machine;

use crate::error::Error;
use crate::packets::{BackgroundCapture, open_before};
use crate::plan::Plan;

/// A window on a machine: it begins, takes a sample at each step, and ends with evidence.
///
/// The caller decides how long it lasts; in between it may ask for the numbers so far, or for a snapshot.
pub struct Session<'m> {
    window: Window<'m>,
    capture: Option<BackgroundCapture>,
    duration: Option<Duration>,
}

/// What is known while a window runs.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Time since the window began.
    pub elapsed: Duration,
    /// The numbers so far.
    pub series: Vec<Series>,
    /// The findings so far, and which causes are ruled out or undecided.
    pub report: Report,
}

impl<'m> Session<'m> {
    /// Begins a window: packets are captured, and every observer has read what it needs from the
    /// beginning, when this returns.
    ///
    /// # Errors
    ///
    /// Packets cannot be captured as planned. What cannot be observed for another reason becomes missing
    /// evidence.
    pub fn begin(machine: &'m dyn Machine, plan: &Plan) -> Result<Self, Error> {
        let capture = match &plan.packets {
            Some(packets) => {
                let known = open_before(machine);
                Some(BackgroundCapture::start(packets, &plan.focus, known)?)
            }
            None => None,
        };
        let window = Window::begin(machine, &plan.focus, plan.netns.clone());
        Ok(Session { window, capture, duration: plan.duration })
    }

    /// Time since the window began.
    pub fn elapsed(&self) -> Duration {
        self.window.elapsed()
    }

    /// Whether the planned time is over.
    pub fn is_over(&self) -> bool {
        self.duration.is_some_and(|duration| self.elapsed() >= duration)
    }

    /// Sleeps until the next sample is due, and takes it. A signal may end the sleep early.
    pub fn step(&mut self) -> Step {
        self.window.step()
    }

    /// The numbers so far.
    pub fn series(&self) -> Vec<Series> {
        self.window.series()
    }

    /// The numbers and the findings so far; the window goes on. It costs what the end of a window costs:
    /// a sample of all sockets, the logs from the beginning of the window, all streams.
    pub fn snapshot(&mut self) -> Snapshot {
        let mut evidence = self.window.evidence_so_far();
        if let Some(capture) = &self.capture {
            capture.evidence_so_far(&mut evidence);
        }
        Snapshot {
            elapsed: self.elapsed(),
            series: self.series(),
            report: diagnose::diagnose(&evidence),
        }
    }

    /// Ends the window. `interrupted`: before its time, by the user.
    pub fn end(self, interrupted: bool) -> Evidence {
        // Packets of the end of the window are not of the window.
        if let Some(capture) = &self.capture {
            capture.stop();
        }
        let mut evidence = self.window.end(interrupted);
        if let Some(capture) = self.capture {
            capture.finish(&mut evidence);
        }
        evidence
    }
}
