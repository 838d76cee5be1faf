//! `--client FILE --server FILE`: two captures of one path.
//!
//! - [`first_pass`]: reads each capture alone and diagnoses it
//! - [`second_pass`]: reads both at once and compares what left with what arrived
//! - [`merged_report`]: one report of both

mod first_pass;
mod merged_report;
mod second_pass;

use std::path::Path as FilePath;

use streams::Ends;
use sys::Stop;

use super::options::PcapOptions;
use crate::output;

/// `netwhy pcap --client FILE --server FILE`
pub(super) fn run(options: &PcapOptions, files: [&FilePath; 2], stop: &Stop) -> anyhow::Result<u8> {
    let report_file = output::Output::open(&options.report)?;
    let [client_file, server_file] = files;
    let client = first_pass::read(client_file, stop)?;
    let server = first_pass::read(server_file, stop)?;
    let path = second_pass::compare(
        [client_file, server_file],
        Ends { client: client.summary, server: server.summary },
        [client.capture, server.capture],
        stop,
    )?;
    let report = merged_report::merge(client.report, server.report, path, stop.is_set());
    let style = output::style(&options.report, false);
    let text = if options.report.json {
        report::json(&report)
    } else {
        output::with_verdicts(
            report::path(&report, options.top, style),
            &report,
            &options.report,
            style,
        )
    };
    report_file.write(&text)?;
    Ok(output::severity_code(&report, &options.report))
}
