//! `netwhy trace`: the hops on the way to a host.

use super::show;

use std::time::Instant;

use super::options::TraceOptions;
use model::{Route, TraceReport};
use probe::trace::{Settings, Tracer};

use crate::probing::failure;
use crate::{output, window};
use sys::Stop;

/// `netwhy trace`
pub(crate) fn run(options: &TraceOptions) -> anyhow::Result<u8> {
    window::enter(&options.netns)?;
    let settings = options.settings()?;
    // Not before: a name may take long to look up, and Ctrl-C must end that.
    let stop = Stop::on_signals()?;
    let route = match options.watch {
        None => probe::trace::run(settings, &stop).map_err(failure)?,
        Some(every) => again(options, settings, every, &stop)?,
    };
    if options.json {
        let code = u8::from(!route.reached);
        let report = TraceReport {
            schema_version: TraceReport::SCHEMA_VERSION,
            netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
            route,
        };
        output::print(&format!("{}\n", serde_json::to_string_pretty(&report)?), None, false)?;
        return Ok(code);
    }
    if options.watch.is_none() {
        output::print(&output::harmless(&show::route(&route)), None, false)?;
    } else if !std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        output::print(&output::harmless(&show::table(&route)), None, false)?;
    }
    Ok(u8::from(!route.reached))
}

/// A round every so often, until the last or Ctrl-C; on a terminal with what is known so far.
fn again(
    options: &TraceOptions,
    settings: Settings,
    every: std::time::Duration,
    stop: &Stop,
) -> anyhow::Result<Route> {
    let queries = settings.queries;
    let mut trace = Tracer::open(settings).map_err(failure)?;
    let shown = !options.json && std::io::IsTerminal::is_terminal(&std::io::stdout());
    let mut rounds = 0;
    while !stop.is_set() && options.count.is_none_or(|count| rounds < count) {
        let next = Instant::now() + every;
        trace.send_round(queries, stop).map_err(failure)?;
        trace.collect(next, stop).map_err(failure)?;
        rounds += 1;
        if shown {
            let text = show::table(&trace.route());
            output::screen(output::harmless(&text).as_bytes())?;
        }
    }
    if !stop.is_set() {
        trace.finish(stop).map_err(failure)?;
    }
    Ok(trace.route())
}
