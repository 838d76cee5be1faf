//! All rules on one evidence: findings, what is ruled out, what stays undecided.

use model::{
    Capability, CapturedStream, Evidence, Finding, MissingEvidence, Path, Report, RuledOut, Source,
    Undecided,
};

use crate::cause::Verdict;
use crate::{activity, causes, focus, fold, gain};

/// The cause that does not look at TCP, and the one that rests on no time.
const DNS_CAUSE: &str = "dns-slow";
const REFUSED_CAUSE: &str = "connection-refused";
const SYN_CAUSE: &str = "syn-retransmitted";

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
    ruled_out.retain(|one| was_looked_at(in_focus, &one.cause));
    let mut missing_evidence = evidence.missing_evidence.clone();
    if in_focus.packets.as_ref().is_some_and(|packets| packets.untrue_times) {
        let stays = |cause: &str| cause == REFUSED_CAUSE;
        findings.retain(|one: &Finding| stays(&one.cause));
        ruled_out.retain(|one| stays(&one.cause));
        missing_evidence.push(untrue_times());
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

/// Whether there was something to look at: a capture without SYNs excludes no lost SYN, one without data
/// no loss, one without DNS nothing of names.
fn was_looked_at(evidence: &Evidence, cause: &str) -> bool {
    let Some(packets) = evidence.packets.as_ref().filter(|_| evidence.counters.is_none()) else {
        return true;
    };
    let any = |is: fn(&CapturedStream) -> bool| packets.worst.iter().any(is);
    match cause {
        DNS_CAUSE => !packets.resolvers.is_empty(),
        REFUSED_CAUSE | SYN_CAUSE => any(|stream| stream.roles_known),
        _ => any(|stream| stream.directions().iter().any(|one| one.new_bytes > 0)),
    }
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
        assert!(of_tcp.len() > 10 && !of_tcp.iter().any(|cause| cause == DNS_CAUSE), "{of_tcp:?}");
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
