//! The document of `netwhy ping --json`, and the lines of `--json-lines`.

use model::{Ping, PingLine, PingReport};
use probe::ping::{Event, EventKind, PingTarget};

use crate::output;
use crate::probe_job::unix_us;

/// The document of these results.
pub(super) fn report(pings: Vec<Ping>) -> PingReport {
    PingReport {
        schema_version: PingReport::SCHEMA_VERSION,
        netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
        pings,
        ..PingReport::default()
    }
}

/// Prints a report as JSON.
pub(super) fn print_json(report: &PingReport) -> anyhow::Result<()> {
    output::print(&output::json(report)?, false)
}

/// Prints a line for an event.
pub(super) fn print_event(event: &Event, targets: &[PingTarget]) -> anyhow::Result<()> {
    let target = targets.get(event.target).map(|target| target.name.clone()).unwrap_or_default();
    let (time_unix_us, sequence) = (unix_us(), event.sequence);
    let line = match event.kind.clone() {
        EventKind::Reply { kind, from, ttl, bytes, mtu, round_trip, late, duplicate } => {
            let round_trip_ms = round_trip.map(|time| time.as_secs_f64() * 1e3);
            PingLine::Reply {
                time_unix_us,
                target,
                sequence,
                kind,
                from,
                ttl,
                bytes,
                round_trip_ms,
                mtu,
                late,
                duplicate,
            }
        }
        EventKind::Timeout => PingLine::NoReply { time_unix_us, target, sequence },
        EventKind::SendError(error) => PingLine::NotSent { time_unix_us, target, sequence, error },
    };
    output::print(&output::json_line(&line)?, false)
}

/// Prints the last line.
pub(super) fn print_summary(report: PingReport) -> anyhow::Result<()> {
    let line = PingLine::Summary { time_unix_us: unix_us(), report };
    output::print(&output::json_line(&line)?, false)
}
