//! Runs `netwhy trace`.

use std::time::{Duration, Instant};

use model::{Route, TraceLine, TraceReport};
use probe::trace::{Settings, Tracer};
use sys::Stop;

use super::options::TraceOptions;
use super::{show, table};
use crate::probe_job::{failure, unix_us};
use crate::{output, window};

/// `netwhy trace`
pub(crate) fn run(options: &TraceOptions) -> anyhow::Result<u8> {
    window::enter(&options.netns)?;
    let settings = options.settings()?;
    // Not before: Ctrl-C has to end a name look-up that takes long.
    let stop = Stop::on_signals()?;
    let mut rounds = Rounds { options, count: 0 };
    let route = match options.watch {
        None => {
            let route = probe::trace::run(settings, &stop).map_err(failure)?;
            rounds.print(&route)?;
            route
        }
        Some(interval) => watch(&mut rounds, settings, interval, &stop)?,
    };
    let code = u8::from(!route.reached);
    if options.json || options.json_lines {
        let report = TraceReport {
            schema_version: TraceReport::SCHEMA_VERSION,
            netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
            route,
        };
        let text = match options.json_lines {
            true => output::json_line(&TraceLine::Summary { time_unix_us: unix_us(), report })?,
            false => output::json(&report)?,
        };
        output::print(&text, false)?;
    } else if options.watch.is_none() {
        output::print(&show::text(&route), false)?;
    } else if !rounds.are_shown() {
        output::print(&table::text(&route), false)?;
    }
    Ok(code)
}

/// What is printed of each round.
struct Rounds<'a> {
    options: &'a TraceOptions,
    /// How many there were.
    count: u64,
}

impl Rounds<'_> {
    /// Whether there is a table for each round: on a terminal, where it replaces the last one, and
    /// elsewhere if the rounds have no end.
    fn are_shown(&self) -> bool {
        let endless = self.options.watch.is_some() && self.options.count.is_none();
        !self.options.json
            && !self.options.json_lines
            && self.options.watch.is_some()
            && (endless || output::stdout_is_terminal())
    }

    /// Prints the next round; fails when nobody reads it any more.
    fn print(&mut self, route: &Route) -> anyhow::Result<()> {
        self.count += 1;
        if self.options.json_lines {
            let (time_unix_us, round, route) = (unix_us(), self.count, route.clone());
            let line = TraceLine::Round { time_unix_us, round, route };
            output::print(&output::json_line(&line)?, false)?;
        } else if self.are_shown() {
            let text = table::text(route);
            output::screen(text::sanitize::output(&text).as_bytes())?;
        }
        Ok(())
    }
}

/// Sends a round in each interval, until the last one or Ctrl-C.
fn watch(
    rounds: &mut Rounds<'_>,
    settings: Settings,
    interval: Duration,
    stop: &Stop,
) -> anyhow::Result<Route> {
    let queries = settings.queries;
    let mut tracer = Tracer::open(settings).map_err(failure)?;
    while !stop.is_set() && rounds.options.count.is_none_or(|count| rounds.count < count) {
        let next_round = Instant::now() + interval;
        tracer.send_round(queries, stop).map_err(failure)?;
        tracer.collect(next_round, stop).map_err(failure)?;
        rounds.print(&tracer.route())?;
    }
    if !stop.is_set() {
        tracer.finish(stop).map_err(failure)?;
    }
    Ok(tracer.route())
}
