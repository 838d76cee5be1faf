//! What is known while a window runs, as JSON, one object per line (`--json-lines`).

use std::collections::BTreeSet;
use std::time::Duration;

use model::{Report, WatchLine};
use session::Session;
use sys::real::RealMachine;
use sys::{Machine as _, Stop};

use crate::output;

/// Time between two lines with the series.
const SERIES_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest time between two searches for findings.
const FINDINGS_INTERVAL: Duration = Duration::from_secs(1);
/// A search costs what the end of a window costs: at most this part of the time is spent on it.
const SEARCH_SHARE: u32 = 20;

/// Lines of JSON that are printed while a window runs.
pub(crate) struct JsonLines {
    to_stderr: bool,
    next_series: Duration,
    next_findings: Duration,
    /// Cause and subject of the findings that were printed.
    printed: BTreeSet<(String, String)>,
    /// A line could not be printed: its reader went away.
    failed: Option<anyhow::Error>,
}

impl JsonLines {
    pub(crate) fn new(to_stderr: bool) -> Self {
        JsonLines {
            to_stderr,
            next_series: SERIES_INTERVAL,
            next_findings: FINDINGS_INTERVAL,
            printed: BTreeSet::new(),
            failed: None,
        }
    }

    /// Prints what is due. Ends the window if nobody reads the lines any more.
    pub(crate) fn step(&mut self, session: &mut Session<'_>, stop: &Stop) {
        let elapsed = session.elapsed();
        if elapsed >= self.next_series {
            self.next_series = elapsed + SERIES_INTERVAL;
            let series = session.series();
            self.print(WatchLine::Series { time_unix_us: now(), series });
        }
        if elapsed >= self.next_findings {
            let findings = session.snapshot().report.findings;
            let end = session.elapsed();
            let pause = end.saturating_sub(elapsed).saturating_mul(SEARCH_SHARE);
            self.next_findings = end + pause.max(FINDINGS_INTERVAL);
            for finding in findings {
                if self.printed.insert((finding.cause.clone(), finding.subject.name.clone())) {
                    let finding = Box::new(finding);
                    self.print(WatchLine::Finding { time_unix_us: now(), finding });
                }
            }
        }
        if self.failed.is_some() || (!self.to_stderr && output::stdout_is_closed()) {
            stop.set();
        }
    }

    /// Prints the report.
    pub(crate) fn end(mut self, report: Report) -> anyhow::Result<()> {
        self.print(WatchLine::Report { time_unix_us: now(), report: Box::new(report) });
        self.failed.map_or(Ok(()), Err)
    }

    fn print(&mut self, line: WatchLine) {
        if self.failed.is_none() {
            let printed =
                output::json_line(&line).and_then(|text| output::print(&text, self.to_stderr));
            self.failed = printed.err();
        }
    }
}

/// Microseconds since 1970-01-01 UTC.
fn now() -> i64 {
    let time = RealMachine::new().clock().unix_time().as_micros();
    i64::try_from(time).unwrap_or(i64::MAX)
}
