//! All causes with their verdicts: what reports with `--verbose` end with.

use model::Report;
use text::sanitize;
use text::{Column, Paint, Style, Table, paint};

/// A table of all causes: found, undecided, ruled out by which figure, or not checked for what reason.
pub fn verdicts(report: &Report, style: Style) -> String {
    let style = style.within_bounds();
    let mut table =
        Table::new([Column::left("cause"), Column::left("verdict"), Column::left("because")]);
    let mut row = |cause: &str, verdict: &str, because: &str| {
        let [cause, because] = [cause, because].map(|text| sanitize::line(text).into_owned());
        table.row([cause, verdict.to_string(), because]);
    };
    for one in &report.findings {
        row(&one.cause, "found", &one.title);
    }
    for one in &report.undecided {
        row(&one.cause, "undecided", &format!("needs {}", one.needs));
    }
    for one in &report.ruled_out {
        row(&one.cause, "ruled out", &one.because);
    }
    for one in &report.not_checked {
        row(&one.cause, "not checked", &one.because);
    }
    let mut lines = vec![String::new(), paint("All causes", Paint::Strong, style)];
    lines.extend(table.lines("  ", style.width));
    lines.join("\n") + "\n"
}
