//! Runs `netwhy trace`.

use std::time::{Duration, Instant};

use model::{Route, TraceReport};
use probe::trace::{Settings, Tracer};
use sys::Stop;

use super::options::TraceOptions;
use super::{show, table};
use crate::probe_job::failure;
use crate::{output, window};

/// `netwhy trace`
pub(crate) fn run(options: &TraceOptions) -> anyhow::Result<u8> {
    window::enter(&options.netns)?;
    let settings = options.settings()?;
    // Not before: Ctrl-C has to end a name look-up that takes long.
    let stop = Stop::on_signals()?;
    let route = match options.watch {
        None => probe::trace::run(settings, &stop).map_err(failure)?,
        Some(interval) => watch(options, settings, interval, &stop)?,
    };
    let code = u8::from(!route.reached);
    if options.json {
        let report = TraceReport {
            schema_version: TraceReport::SCHEMA_VERSION,
            netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
            route,
        };
        output::print(&output::json(&report)?, false)?;
    } else if options.watch.is_none() {
        output::print(&show::text(&route), false)?;
    } else if !output::stdout_is_terminal() {
        output::print(&table::text(&route), false)?;
    }
    Ok(code)
}

/// Sends a round in each interval, until the last one or Ctrl-C; redraws the table on a terminal.
fn watch(
    options: &TraceOptions,
    settings: Settings,
    interval: Duration,
    stop: &Stop,
) -> anyhow::Result<Route> {
    let queries = settings.queries;
    let mut tracer = Tracer::open(settings).map_err(failure)?;
    let redraw = !options.json && output::stdout_is_terminal();
    let mut rounds = 0;
    while !stop.is_set() && options.count.is_none_or(|count| rounds < count) {
        let next_round = Instant::now() + interval;
        tracer.send_round(queries, stop).map_err(failure)?;
        tracer.collect(next_round, stop).map_err(failure)?;
        rounds += 1;
        if redraw {
            let text = table::text(&tracer.route());
            output::screen(text::sanitize::output(&text).as_bytes())?;
        }
    }
    if !stop.is_set() {
        tracer.finish(stop).map_err(failure)?;
    }
    Ok(tracer.route())
}
