//! Prints findings while packets come.

use model::{Evidence, Finding};
use text::sanitize;

/// Prints a finding.
pub(crate) fn print(finding: &Finding, evidence: &Evidence, to_stderr: bool) -> anyhow::Result<()> {
    print_text(&paragraph(finding, evidence), to_stderr)
}

/// Separates the findings from the report that follows.
pub(crate) fn print_end(to_stderr: bool) -> anyhow::Result<()> {
    print_text("\n", to_stderr)
}

fn print_text(text: &str, to_stderr: bool) -> anyhow::Result<()> {
    let printed = crate::output::print(text, to_stderr);
    // Nobody may read standard error.
    if to_stderr { Ok(()) } else { printed }
}

/// A finding in one paragraph: time of the last packet, severity, title, cause, subject.
fn paragraph(finding: &Finding, evidence: &Evidence) -> String {
    const SECONDS_PER_DAY: i64 = 86_400;
    let (first_us, span_us) = evidence
        .packets
        .as_ref()
        .map_or((0, 0), |packets| (packets.first_unix_us, packets.span_us));
    let last_s = first_us.saturating_add(span_us.cast_signed()) / 1_000_000;
    let seconds = last_s.rem_euclid(SECONDS_PER_DAY);
    let time = format!("{:02}:{:02}:{:02} UTC ", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let text = format!(
        "+{} {}: {} · {} · {}",
        text::micros(span_us),
        finding.severity.name(),
        sanitize::line(&finding.title),
        finding.cause,
        sanitize::line(&finding.subject.name),
    );
    let hang = " ".repeat(time.len());
    let lines = text::wrap(&text, &time, &hang, crate::output::columns());
    lines.join("\n") + "\n"
}
