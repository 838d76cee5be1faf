//! Watches, diagnoses, reports.

use std::ffi::OsString;

use super::options::WatchOptions;
use crate::output::{print_report, severity_code};
use crate::window::{What, enter, observe_command};

/// `netwhy [-- COMMAND]`
pub(crate) fn run(options: &WatchOptions, exec: &[OsString]) -> anyhow::Result<u8> {
    enter(&options.netns)?;
    let what = What {
        time: options.time,
        focus: options.focus.focus(),
        packets: &options.packets,
        most_packets: None,
        netns: options.netns.netns.clone(),
    };
    let (evidence, code) = observe_command(&what, exec)?;
    let report = diagnose::diagnose(&evidence);
    // With a command, standard output is the command's.
    print_report(&report, &options.report, code.is_some())?;
    Ok(match code {
        Some(code) if code != 0 => code,
        _ => severity_code(&report, &options.report),
    })
}
