//! Watches, diagnoses, reports.

use std::ffi::OsString;

use super::options::WatchOptions;
use crate::json_lines::JsonLines;
use crate::options::plan;
use crate::output::{Output, severity_code};
use crate::window::{enter, observe_command};

/// `netwhy [-- COMMAND]`
pub(crate) fn run(options: &WatchOptions, exec: &[OsString]) -> anyhow::Result<u8> {
    let plan = plan(options.time, &options.focus, &options.packets, &options.netns)?;
    enter(&options.netns)?;
    let output = Output::open(&options.report)?;
    // With a command, standard output is the command's.
    let to_stderr = !exec.is_empty();
    let mut lines = options.json_lines.then(|| JsonLines::new(to_stderr));
    let (evidence, code) = observe_command(&plan, exec, lines.as_mut())?;
    let report = diagnose::diagnose(&evidence);
    match lines {
        Some(lines) => lines.end(report.clone())?,
        None => output.on_stderr(to_stderr).report(&report, &options.report)?,
    }
    Ok(match code {
        Some(code) if code != 0 => code,
        _ => severity_code(&report, &options.report),
    })
}
