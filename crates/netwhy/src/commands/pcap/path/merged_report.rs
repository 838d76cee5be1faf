//! Two reports as one: each finding once, with the captures that show it and where segments were lost.

use std::net::SocketAddr;

use model::{
    Figure, Finding, MissingEvidence, Path, PathDirection, PathService, Proof, Report, Side, Source,
};
use text::{count, number};

/// A finding, and which captures show it.
struct Merged {
    finding: Finding,
    /// The capture whose figures it has.
    figures_of: Side,
    in_both: bool,
    /// The key of a finding of the client's capture.
    client_key: Option<Key>,
}

/// Cause and local address, as the client's capture has it.
type Key = (String, Option<SocketAddr>);

/// Merges the reports of both captures and adds what they show together.
pub(super) fn merge(client: Report, server: Report, path: Path, interrupted: bool) -> Report {
    let key = |finding: &Finding, side: Side| -> Key {
        (finding.cause.clone(), local_at_client(&path, finding.subject.local, side))
    };
    let mut merged: Vec<Merged> = client
        .findings
        .iter()
        .map(|finding| Merged {
            client_key: Some(key(finding, Side::Client)),
            finding: finding.clone(),
            figures_of: Side::Client,
            in_both: false,
        })
        .collect();
    for finding in server.findings {
        let server_key = key(&finding, Side::Server);
        // A service may have a finding for each direction: each one of the server's capture belongs
        // to one of the client's.
        let same = merged
            .iter_mut()
            .find(|one| !one.in_both && one.client_key.as_ref() == Some(&server_key));
        let Some(same) = same else {
            let (figures_of, in_both, client_key) = (Side::Server, false, None);
            merged.push(Merged { finding, figures_of, in_both, client_key });
            continue;
        };
        same.in_both = true;
        // The capture that is nearer to the sender shows more of the losses.
        if finding.impact.amount > same.finding.impact.amount {
            (same.figures_of, same.finding) = (Side::Server, finding);
        }
    }
    let mut report = client;
    report.findings = merged
        .into_iter()
        .map(|one| {
            let local = key(&one.finding, one.figures_of).1;
            with_captures(one, local, &path)
        })
        .collect();
    let found: Vec<String> = report.findings.iter().map(|finding| finding.cause.clone()).collect();
    let is_found = |cause: &str| found.iter().any(|one| one == cause);
    report.ruled_out.retain(|ruled_out| {
        let in_both = server.ruled_out.iter().any(|other| other.cause == ruled_out.cause);
        in_both && !is_found(&ruled_out.cause)
    });
    report.undecided.retain(|undecided| !is_found(&undecided.cause));
    // Excluded at the client alone: what the server's capture lacks is why.
    let is_known = |report: &Report, cause: &str| {
        report.ruled_out.iter().any(|one| one.cause == cause)
            || report.undecided.iter().any(|one| one.cause == cause)
            || report.not_checked.iter().any(|one| one.cause == cause)
    };
    report.not_checked.retain(|one| !is_found(&one.cause));
    for one in server.undecided {
        if !is_found(&one.cause) && !is_known(&report, &one.cause) {
            report.undecided.push(one);
        }
    }
    for one in server.not_checked {
        if !is_found(&one.cause) && !is_known(&report, &one.cause) {
            report.not_checked.push(one);
        }
    }
    report.missing_evidence.extend(server.missing_evidence);
    report.missing_evidence.extend(missing_evidence(&path));
    report.window.interrupted = interrupted;
    diagnose::with_path(&mut report, path);
    report
}

/// The address of a server as the client's capture has it: it may be rewritten on the path.
fn local_at_client(path: &Path, local: Option<SocketAddr>, side: Side) -> Option<SocketAddr> {
    let local = local?;
    if side == Side::Client {
        return Some(local);
    }
    // The last one, as there may be several.
    let service = path.services.iter().rev().find(|service| service.servers[1] == local);
    Some(service.map_or(local, |service| service.servers[0]))
}

/// The finding with the captures that show it, and for losses where on the path they happened.
fn with_captures(one: Merged, local: Option<SocketAddr>, path: &Path) -> Finding {
    let mut finding = one.finding;
    if finding.cause == "packet-loss"
        && let Some(service) =
            path.services.iter().find(|service| Some(service.servers[0]) == local)
    {
        finding.evidence.extend(where_lost(service));
    }
    let [client, server] = &path.captures;
    let file = match one.figures_of {
        Side::Client => &client.file,
        Side::Server => &server.file,
    };
    let text = if one.in_both {
        format!("in both captures; the figures are from {file}")
    } else {
        format!("in {file} only")
    };
    finding.evidence.push(proof("observed", text, Vec::new()));
    finding
}

fn proof(label: &str, text: String, figures: Vec<Figure>) -> Proof {
    Proof { label: label.to_string(), text, figures, source: Source::Packets }
}

/// On which part of the path the segments of a service were lost.
fn where_lost(service: &PathService) -> Vec<Proof> {
    let directions = [
        (service.to_server, Side::Client, Side::Server),
        (service.to_client, Side::Server, Side::Client),
    ];
    let proofs = directions.into_iter().filter_map(|([before, between, after], from, to)| {
        let (from, to) = (from.name(), to.name());
        let total = before.saturating_add(between).saturating_add(after);
        if total == 0 {
            return None;
        }
        let mut text = format!(
            "from {from} to {to}: {} of {} lost between the two captures",
            number(between),
            number(total)
        );
        if before > 0 {
            text.push_str(&format!(",\n{} before the {from}'s capture", number(before)));
        }
        if after > 0 {
            text.push_str(&format!(",\n{} after the {to}'s", number(after)));
        }
        let figure = |name: &str, value: u64| Figure {
            name: name.to_string(),
            value: value as f64,
            unit: "segments".to_string(),
            window_ms: 0,
        };
        let figures = vec![
            figure("lost before the sender's capture", before),
            figure("lost between the captures", between),
            figure("lost after the receiver's capture", after),
        ];
        Some(proof("where", text, figures))
    });
    proofs.collect()
}

/// What the two captures do not show.
fn missing_evidence(path: &Path) -> Vec<MissingEvidence> {
    let mut all = Vec::new();
    let mut add = |what: String, why: &str| {
        all.push(MissingEvidence {
            capability: model::Capability::Available,
            source: Source::Packets,
            what,
            why: why.to_string(),
            how_to_observe: None,
        });
    };
    let [client, server] = &path.captures;
    for (direction, from, to) in
        [(&path.to_server, client, server), (&path.to_client, server, client)]
    {
        let PathDirection { not_captured_arriving, not_captured_leaving, .. } = direction;
        if *not_captured_arriving > 0 {
            let segments = count(*not_captured_arriving, "segment");
            add(
                format!("{segments} arriving in {}", to.file),
                "they were acknowledged: the capture missed them, or they took another path",
            );
        }
        if *not_captured_leaving > 0 {
            let segments = count(*not_captured_leaving, "segment");
            add(
                format!("{segments} leaving in {}", from.file),
                "they arrived: the capture missed them, or they took another path",
            );
        }
    }
    if path.clock.before_they_left > 0 {
        let segments = count(path.clock.before_they_left, "segment");
        add(
            format!("delays of {segments}"),
            "they arrive before they leave: a clock was set during the captures",
        );
    }
    if path.streams_not_followed > 0 {
        let streams = count(path.streams_not_followed, "stream");
        add(
            format!("{streams} in both captures"),
            "at most 200,000 streams, 50,000 at once, are followed",
        );
    }
    for (capture, other) in [(client, server), (server, client)] {
        let more = capture.streams.saturating_sub(path.streams_in_both);
        if more > 0 {
            let what = format!("{} of {}", count(more, "stream"), capture.file);
            add(what, &format!("they are not in {}", other.file));
        }
    }
    all
}
