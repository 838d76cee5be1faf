//! Evidence to findings: one file per cause, pure functions of the evidence.
//!
//! - [`causes`]: the table of causes, one file each
//! - [`cause`](mod@cause): what a cause is: page, needed evidence, rule
//! - [`fold`]: consequences under their causes
//! - [`focus`]: the evidence narrowed to what the user asked for
//! - [`activity`]: what a healthy host did
//! - [`answers`]: what access logs say
//! - [`apps`]: what is known of the applications
//! - [`captured`]: captured streams, grouped
//! - [`connections`]: connections of this host, grouped
//! - [`words`], [`make`]: how findings are worded and made
//!
//! Nothing is read here and no clock is asked: the same evidence gives the same findings on every
//! machine.

use model::{Evidence, Finding, Path, Report, RuledOut, Undecided};

mod access_logs;
mod activity;
mod applications;
mod captured;
mod cause;
pub mod causes;
mod connections;
#[cfg(test)]
mod fixtures;
mod focus;
mod fold;
mod make;
mod page;
mod words;

pub use cause::{Cause, Verdict};
pub use page::{nearest, page};

/// The cause with this id.
pub fn cause(id: &str) -> Option<&'static Cause> {
    causes::TABLE.iter().find(|cause| cause.id == id)
}

/// Names the causes in one evidence, worst first, consequences under their causes.
pub fn diagnose(evidence: &Evidence) -> Report {
    let narrowed = focus::narrow(evidence);
    let seen = narrowed.as_ref();
    let mut findings = Vec::new();
    let mut ruled_out = Vec::new();
    let mut undecided = Vec::new();
    for cause in causes::TABLE.iter().filter(|cause| cause.concerns(seen)) {
        match cause.judge(seen) {
            Verdict::Found(found) => findings.extend(found),
            Verdict::RuledOut(because) => {
                ruled_out.push(RuledOut { cause: cause.id.to_string(), because });
            }
            Verdict::Undecided { needs, closes_with } => {
                undecided.push(Undecided {
                    cause: cause.id.to_string(),
                    needs,
                    how_to_observe: closes_with,
                });
            }
        }
    }
    let mut findings = fold::fold(findings);
    findings.sort_by(by_harm);
    Report {
        schema_version: Report::SCHEMA_VERSION,
        netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
        host: evidence.host.clone(),
        window: evidence.window,
        focus: evidence.focus.clone(),
        tcp_sockets: evidence.sockets.as_ref().and_then(|sockets| {
            let listeners = evidence.listeners.as_ref().map_or(0, Vec::len) as u64;
            Some(sockets.samples.last()?.total() + listeners)
        }),
        findings,
        ruled_out,
        undecided,
        missing_evidence: evidence.missing_evidence.clone(),
        cost: evidence.cost,
        activity: activity::activity(seen),
        packets: evidence.packets.clone(),
        path: None,
    }
}

/// Adds what two captures of one path tell together to what each told alone.
pub fn with_path(report: &mut Report, path: Path) {
    let evidence = Evidence { path: Some(path), ..Evidence::default() };
    let together = diagnose(&evidence);
    report.ruled_out.extend(together.ruled_out);
    let mut findings = std::mem::take(&mut report.findings);
    findings.extend(together.findings);
    report.findings = fold::fold(findings);
    report.findings.sort_by(by_harm);
    report.path = evidence.path;
}

/// By severity, then the share of all that is hit, then how many.
fn by_harm(a: &Finding, b: &Finding) -> std::cmp::Ordering {
    let share = |finding: &Finding| finding.impact.share.unwrap_or(0.0);
    b.severity
        .cmp(&a.severity)
        .then(share(b).total_cmp(&share(a)))
        .then(b.impact.amount.total_cmp(&a.impact.amount))
}
