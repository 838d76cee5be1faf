//! Runs `netwhy ping`.

use probe::ping::Event;
use sys::Stop;

use super::json::{print_event, print_json, print_summary, report};
use super::options::PingOptions;
use super::{show, under_load};
use crate::probe_job::failure;
use crate::{output, window};

/// `netwhy ping`
pub(crate) fn run(options: &PingOptions) -> anyhow::Result<u8> {
    window::enter(&options.netns)?;
    if let Some(url) = &options.load.download {
        return under_load::download(options, url);
    }
    if options.load.under_load.is_some() {
        return under_load::run(options, &Stop::on_signals()?);
    }
    let settings = options.settings()?;
    let targets = options.resolved_targets()?;
    // Not before: Ctrl-C has to end a name look-up that takes long.
    let stop = Stop::on_signals()?;
    let lines = show::EventLines::new(&targets);
    let silent = options.quiet || options.json;
    let mut printed = Ok(());
    let pings = probe::ping::run(&targets, &settings, &stop, &mut |event: Event| {
        if printed.is_ok() {
            printed = match (options.json_lines, silent) {
                (true, _) => print_event(&event, &targets),
                (_, true) => Ok(()),
                (..) => output::print(&format!("{}\n", lines.line(&event)), false),
            };
        }
        // The reader went away: there is nobody to ping for.
        if printed.is_err() {
            stop.set();
        }
    });
    printed?;
    let pings = pings.map_err(failure)?;
    let replied = pings.iter().any(|ping| ping.received > 0);
    if options.json_lines {
        print_summary(report(pings))?;
    } else if options.json {
        print_json(&report(pings))?;
    } else {
        let flood = settings.flood.is_some();
        let summaries: Vec<String> = pings.iter().map(|ping| show::summary(ping, flood)).collect();
        let separator = if silent { "" } else { "\n" };
        output::print(&format!("{separator}{}", summaries.join("\n")), false)?;
    }
    Ok(u8::from(!replied))
}
