//! All rules on one evidence: findings, what is ruled out, what stays undecided.

use model::{
    Capability, Evidence, Finding, MissingEvidence, NotChecked, Path, Report, RuledOut, Source,
    Undecided,
};

use crate::cause::Verdict;
use crate::{activity, causes, focus, fold, gain};

/// The cause that rests on no time.
const REFUSED_CAUSE: &str = "connection-refused";

/// Names the causes in one evidence, worst first, consequences under their causes.
pub fn diagnose(evidence: &Evidence) -> Report {
    let narrowed = focus::narrow(evidence);
    let in_focus = narrowed.as_ref();
    let mut findings = Vec::new();
    let mut ruled_out = Vec::new();
    let mut undecided = Vec::new();
    let mut not_checked = Vec::new();
    for cause in causes::TABLE.iter().filter(|cause| cause.concerns(in_focus)) {
        match cause.judge(in_focus) {
            Verdict::Found(found) => findings.extend(found),
            Verdict::RuledOut(because) => {
                ruled_out.push(RuledOut { cause: cause.id.to_string(), because });
            }
            Verdict::NotChecked(because) => {
                not_checked.push(NotChecked { cause: cause.id.to_string(), because });
            }
            Verdict::Undecided { needs, sources, how_to_observe } => {
                let cause = cause.id.to_string();
                undecided.push(Undecided { cause, needs, sources, how_to_observe });
            }
        }
    }
    ruled_out.sort_by_key(|one| rank(&one.cause));
    undecided.sort_by_key(|one| rank(&one.cause));
    let mut missing_evidence = evidence.missing_evidence.clone();
    if in_focus.packets.as_ref().is_some_and(|packets| packets.untrue_times) {
        let stays = |cause: &str| cause == REFUSED_CAUSE;
        findings.retain(|one: &Finding| stays(&one.cause));
        let (stay, rest): (Vec<RuledOut>, _) =
            ruled_out.into_iter().partition(|one| stays(&one.cause));
        ruled_out = stay;
        not_checked.extend(rest.into_iter().map(|RuledOut { cause, .. }| NotChecked {
            cause,
            because: "the times of this capture are not to be trusted".to_string(),
        }));
        missing_evidence.push(untrue_times());
    }
    if focus::is_empty(in_focus) {
        missing_evidence.push(nothing_in_focus());
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
        gains_together: gain::together(&findings),
        findings,
        ruled_out,
        undecided,
        not_checked,
        missing_evidence,
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
    report.undecided.extend(together.undecided);
    report.not_checked.extend(together.not_checked);
    let mut findings = std::mem::take(&mut report.findings);
    findings.extend(together.findings);
    report.findings = fold::fold(findings);
    report.findings.sort_by(by_harm);
    report.gains_together = gain::together(&report.findings);
    report.path = evidence.path;
}

/// The times of a capture that no clock shows.
fn untrue_times() -> MissingEvidence {
    MissingEvidence {
        source: Source::Packets,
        capability: Capability::Broken,
        what: "when packets passed".to_string(),
        why:
            "their times are whole seconds apart, or all the same, as no clock shows them: no time \
              of this capture is to be trusted"
                .to_string(),
        how_to_observe: None,
    }
}

/// A port or process without a socket.
fn nothing_in_focus() -> MissingEvidence {
    MissingEvidence {
        source: Source::Sockets,
        capability: Capability::NotApplicable,
        what: "what the report is restricted to".to_string(),
        why: "no socket matched at any sample".to_string(),
        how_to_observe: Some("ss -tanp".to_string()),
    }
}

/// The usual suspects come first.
fn rank(cause: &str) -> usize {
    let usual = &causes::USUAL_SUSPECTS;
    usual.iter().position(|one| *one == cause).unwrap_or(usual.len())
}

/// By severity, then by the share of all that is hit, then by how many.
fn by_harm(a: &Finding, b: &Finding) -> std::cmp::Ordering {
    let share = |finding: &Finding| finding.impact.share.unwrap_or(0.0);
    b.severity
        .cmp(&a.severity)
        .then(share(b).total_cmp(&share(a)))
        .then(b.impact.amount.total_cmp(&a.impact.amount))
}

#[cfg(test)]
mod tests {
    use model::{Packets, StreamEnd, TimeCategory};

    use super::*;
    use crate::fixtures::{add_stream, healthy, set_time};

    fn ruled_out(packets: Packets) -> Vec<String> {
        let evidence = Evidence { packets: Some(packets), ..Evidence::default() };
        diagnose(&evidence).ruled_out.into_iter().map(|one| one.cause).collect()
    }

    #[test]
    fn a_capture_of_nothing_rules_nothing_out() {
        assert_eq!(ruled_out(Packets::default()), [""; 0]);
        let mut evidence = healthy();
        add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        let packets = evidence.packets.unwrap();
        let of_tcp = ruled_out(packets.clone());
        assert!(of_tcp.len() > 10 && !of_tcp.iter().any(|cause| cause == "dns-slow"), "{of_tcp:?}");
        let mut without_data = packets;
        for stream in &mut without_data.worst {
            (stream.from_client.new_bytes, stream.from_server.new_bytes) = (0, 0);
        }
        assert_eq!(ruled_out(without_data), ["syn-retransmitted", "connection-refused"]);
    }

    #[test]
    fn times_that_no_clock_shows_name_nothing() {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        stream.syn_retransmissions = 1;
        set_time(&mut stream.from_client, TimeCategory::SynWait, 1_000_000);
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.3:80");
        (stream.end, stream.handshake_us) = (StreamEnd::Refused, None);
        let causes = |evidence: &Evidence| -> Vec<String> {
            diagnose(evidence).findings.into_iter().map(|one| one.cause).collect()
        };
        assert_eq!(causes(&evidence), ["syn-retransmitted", "connection-refused"]);
        evidence.packets.as_mut().unwrap().untrue_times = true;
        assert_eq!(causes(&evidence), ["connection-refused"]);
        let report = diagnose(&evidence);
        assert_eq!(
            report.missing_evidence.last().map(|one| &*one.what),
            Some("when packets passed")
        );
    }
}
