//! `netwhy ping`: round trips, and under load.

use super::load;
use super::show;

use std::io::Write as _;

use super::json::print_json;
use super::options::PingOptions;
use model::PingReport;
use probe::ping::Event;

use crate::probing::failure;
use crate::{output, window};
use sys::Stop;

/// `netwhy ping`
pub(crate) fn run(options: &PingOptions) -> anyhow::Result<u8> {
    window::enter(&options.netns)?;
    if let Some(url) = &options.load.download {
        return load::load(options, url, &Stop::on_signals()?);
    }
    if options.load.under_load.is_some() {
        return load::run(options, &Stop::on_signals()?);
    }
    let settings = options.settings()?;
    let targets = options.asked()?;
    // Not before: a name may take long to look up, and Ctrl-C must end that.
    let stop = Stop::on_signals()?;
    let lines = show::Lines::new(&targets);
    let silent = options.quiet || options.json;
    let mut written = Ok(());
    let pings = probe::ping::run(&targets, &settings, &stop, &mut |event: Event| {
        if !silent && written.is_ok() {
            let line = lines.line(&event);
            written = writeln!(std::io::stdout(), "{}", output::harmless(&line));
        }
    });
    let pings = pings.map_err(failure)?;
    written?;
    let answered = pings.iter().any(|ping| ping.received > 0);
    if options.json {
        print_json(PingReport { pings, ..PingReport::default() })?;
    } else {
        let text = pings.iter().map(show::summary).collect::<Vec<_>>().join("\n");
        let before = if silent { "" } else { "\n" };
        output::print(&output::harmless(&format!("{before}{text}")), None, false)?;
    }
    Ok(u8::from(!answered))
}
