//! Findings while packets come, each reported once.

use std::time::Duration;

use model::{Evidence, Finding};
use text::sanitize;

/// Shortest time between two diagnoses.
pub(crate) const DIAGNOSE_INTERVAL: Duration = Duration::from_secs(1);
/// Between two diagnoses at least so many times as long passes as the first one took: diagnosing takes at
/// most 5 % of the time.
pub(crate) const MIN_DIAGNOSE_PAUSE_FACTOR: u32 = 20;
/// Most findings that are reported while packets come; more are in the final report only.
pub(crate) const MAX_LIVE_FINDINGS: usize = 1000;

/// What tells one finding from another while packets come. The name of a subject changes with the number
/// of its streams; the address of its server does not.
pub(crate) fn live_finding_key(finding: &Finding) -> (String, String) {
    let subject = &finding.subject;
    let name = subject.local.map_or_else(|| subject.name.clone(), |server| server.to_string());
    (finding.cause.clone(), name)
}

/// A finding in one paragraph: time of the last packet, severity, title, cause, subject.
pub(crate) fn live_finding_line(finding: &Finding, evidence: &Evidence) -> String {
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
    let lines = text::wrap(&text, &time, &hang, text::Style::DEFAULT_WIDTH);
    lines.join("\n") + "\n"
}
