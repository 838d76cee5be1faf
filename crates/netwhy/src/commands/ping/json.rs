//! The document of `netwhy ping --json`.

use model::PingReport;

use crate::output;

/// Prints a report as JSON.
pub(super) fn print_json(report: PingReport) -> anyhow::Result<()> {
    let report = PingReport {
        schema_version: PingReport::SCHEMA_VERSION,
        netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
        ..report
    };
    output::print(&output::json(&report)?, false)
}
