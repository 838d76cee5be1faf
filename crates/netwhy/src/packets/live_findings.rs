//! Findings as they appear while packets come.

use std::time::Duration;

use model::{Evidence, Finding};

use crate::output;

/// How often findings are looked for, at most.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// Looking takes no more than this share of the time.
pub(crate) const SHARE: u32 = 20;
/// Findings that are told: beyond that they are in the report alone.
pub(crate) const TOLD: usize = 1000;

/// One finding as it appears: when the last packet passed, how bad it is, what it is.
pub(crate) fn line(finding: &Finding, evidence: &Evidence) -> String {
    let (first, span) = evidence
        .packets
        .as_ref()
        .map_or((0, 0), |packets| (packets.first_unix_us, packets.span_us));
    let seconds = (first.saturating_add(span.cast_signed()) / 1_000_000).rem_euclid(86_400);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let text = format!("{} · {} · {}", finding.title, finding.cause, finding.subject.name,);
    let since = text::duration(Duration::from_micros(span));
    let head = format!("{hours:02}:{minutes:02}:{:02} UTC ", seconds % 60);
    let text = format!("+{since} {}: {text}", finding.severity.name());
    let lines = text::wrap(&output::harmless(&text).replace('\n', " "), &head, "             ", 80);
    lines.join("\n") + "\n"
}
