//! All rules on one evidence: findings, what is ruled out, what stays undecided.

use model::{Evidence, Finding, Path, Report, RuledOut, Undecided};

use crate::cause::Verdict;
use crate::{activity, causes, focus, fold};

/// Names the causes in one evidence, worst first, consequences under their causes.
pub fn diagnose(evidence: &Evidence) -> Report {
    let narrowed = focus::narrow(evidence);
    let in_focus = narrowed.as_ref();
    let mut findings = Vec::new();
    let mut ruled_out = Vec::new();
    let mut undecided = Vec::new();
    for cause in causes::TABLE.iter().filter(|cause| cause.concerns(in_focus)) {
        match cause.judge(in_focus) {
            Verdict::Found(found) => findings.extend(found),
            Verdict::RuledOut(because) => {
                ruled_out.push(RuledOut { cause: cause.id.to_string(), because });
            }
            Verdict::Undecided { needs, sources, how_to_observe } => {
                let cause = cause.id.to_string();
                undecided.push(Undecided { cause, needs, sources, how_to_observe });
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
            Some(sockets.samples.last()?.total().saturating_add(listeners))
        }),
        findings,
        ruled_out,
        undecided,
        missing_evidence: evidence.missing_evidence.clone(),
        cost: evidence.cost,
        activity: activity::activity(in_focus),
        packets: evidence.packets.clone(),
        path: None,
    }
}

/// Adds what two captures of one path show together to what each showed by itself.
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

/// By severity, then by the share of all that is hit, then by how many.
fn by_harm(a: &Finding, b: &Finding) -> std::cmp::Ordering {
    let share = |finding: &Finding| finding.impact.share.unwrap_or(0.0);
    b.severity
        .cmp(&a.severity)
        .then(share(b).total_cmp(&share(a)))
        .then(b.impact.amount.total_cmp(&a.impact.amount))
}
