//! The live line on standard error: what runs, and what is already seen.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// The live line on standard error: the countdown and what is already seen.
pub(crate) struct Line {
    bar: ProgressBar,
    time: Option<Duration>,
}

impl Line {
    pub(crate) fn new(time: Option<Duration>) -> Self {
        let shown = std::io::stderr().is_terminal();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        // A fixed template: it cannot fail.
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Line { bar, time }
    }

    pub(crate) fn watching(&self, elapsed: &Duration, seen: &mut dyn FnMut() -> Vec<String>) {
        if self.bar.is_hidden() {
            return;
        }
        let seen = output::harmless(&seen().join("; "));
        let left = self.time.map(|time| time.saturating_sub(*elapsed));
        self.show(match left {
            Some(left) => format!("watching, {:.1} s left: {seen}", left.as_secs_f64()),
            None => format!("watching for {:.1} s: {seen}", elapsed.as_secs_f64()),
        });
    }

    pub(crate) fn show(&self, words: String) {
        self.bar.set_message(words);
        self.bar.tick();
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
