//! The report for programs: the shape of `--json`, described by `docs/schema/report-v1.json`.

use model::Report;
use text::sanitize;

/// The report as JSON, indented, keys in the order of the schema, with a line feed at the end.
/// Characters that could act on a terminal are `\u` escapes: the same value to a JSON reader.
pub fn json(report: &Report) -> String {
    match serde_json::to_string_pretty(report) {
        Ok(text) => format!("{}\n", sanitize::json(&text)),
        // Only a map whose keys are not strings could fail, and a report has none.
        Err(error) => format!("{}\n", serde_json::json!({ "error": error.to_string() })),
    }
}
