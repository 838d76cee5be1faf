//! Watches, diagnoses, reports.

use std::ffi::OsString;

use super::options::WatchOptions;
use crate::options::plan;
use crate::output::{Output, severity_code};
use crate::window::{enter, observe_command};

/// `netwhy [-- COMMAND]`
pub(crate) fn run(options: &WatchOptions, exec: &[OsString]) -> anyhow::Result<u8> {
    enter(&options.netns)?;
    let output = Output::open(&options.report)?;
    let plan = plan(options.time, &options.focus, &options.packets, &options.netns);
    let (evidence, code) = observe_command(&plan, exec)?;
    let report = diagnose::diagnose(&evidence);
    // With a command, standard output is the command's.
    output.to_stderr(code.is_some()).report(&report, &options.report)?;
    Ok(match code {
        Some(code) if code != 0 => code,
        _ => severity_code(&report, &options.report),
    })
}
