//! Consequences under their causes: what is an effect of another finding is no finding of its own.

use model::{Consequence, Finding, Source};

/// Segments that a line loses, and their share, from which on it loses some SYNs as well.
const LOST: f64 = 20.0;
const MUCH: f64 = 0.01;
/// Handshakes that are repeated then, in shares of what is lost: each has three packets, and few of
/// them make no share.
const HANDSHAKES: f64 = 10.0;

/// One thing that leads to another.
struct Leads {
    cause: &'static str,
    to: &'static str,
    when: fn(&Finding, &Finding) -> bool,
}

/// What leads to what, and between which subjects. No circles: see the test.
const TABLE: &[Leads] = &[
    // A leak of sockets uses up the files of its process.
    Leads { cause: "close-wait-leak", to: "fd-exhausted", when: same_process },
    // Who has no file left, or no worker, does not accept.
    Leads { cause: "close-wait-leak", to: "accept-queue-overflow", when: same_process },
    Leads { cause: "fd-exhausted", to: "accept-queue-overflow", when: same_process },
    Leads { cause: "worker-pool-exhausted", to: "accept-queue-overflow", when: same_process },
    // The kernel keeps a handshake half open as long as the accept queue has no room for it.
    Leads { cause: "accept-queue-overflow", to: "syn-queue-overflow", when: same_listener },
    // Who is not answered repeats the SYN.
    Leads { cause: "accept-queue-overflow", to: "syn-retransmitted", when: to_listener },
    Leads { cause: "syn-queue-overflow", to: "syn-retransmitted", when: to_listener },
    Leads { cause: "worker-pool-exhausted", to: "syn-retransmitted", when: to_listener },
    Leads { cause: "fd-exhausted", to: "syn-retransmitted", when: to_listener },
    Leads { cause: "close-wait-leak", to: "syn-retransmitted", when: to_listener },
    Leads { cause: "conntrack-table-full", to: "syn-retransmitted", when: anywhere },
    // A full queue drops the last step of the handshake, and what the client sends then.
    Leads { cause: "accept-queue-overflow", to: "packet-loss", when: to_listener },
    // Who waits to be accepted, or for a worker, waits for an answer.
    Leads { cause: "accept-queue-overflow", to: "server-think-time", when: to_listener },
    Leads { cause: "worker-pool-exhausted", to: "server-think-time", when: to_listener },
    // What a policer drops is lost, and comes again.
    Leads { cause: "rate-policed", to: "packet-loss", when: same_server },
    // Behind a shaper packets wait in its queue, and are lost when that is full.
    Leads { cause: "rate-shaped", to: "bufferbloat", when: same_server },
    Leads { cause: "rate-shaped", to: "packet-loss", when: same_server },
    // Who fills a queue with a whole window has that full, too.
    Leads { cause: "rate-shaped", to: "receive-window-limited", when: same_server },
    Leads { cause: "bufferbloat", to: "receive-window-limited", when: same_server },
    // A line that loses one packet in a hundred loses SYNs too.
    Leads { cause: "packet-loss", to: "syn-retransmitted", when: loses_much },
    // What is swallowed seems lost.
    Leads { cause: "path-mtu-blackhole", to: "packet-loss", when: same_server },
    // Who sends on a connection that a box has forgotten is not answered.
    Leads { cause: "nat-timeout-reset", to: "packet-loss", when: same_server },
    // The ends would scale their windows.
    Leads { cause: "options-stripped", to: "window-scaling-off", when: anywhere },
    // Each new connection pays for its small first flight again.
    Leads { cause: "initial-window-small", to: "short-connections", when: same_server },
];

fn same_process(cause: &Finding, effect: &Finding) -> bool {
    let holds = |pid| cause.subject.processes.iter().any(|p| p.pid == pid);
    effect.subject.processes.iter().any(|p| holds(p.pid))
}

fn same_listener(cause: &Finding, effect: &Finding) -> bool {
    match (cause.subject.local, effect.subject.local) {
        (Some(a), Some(b)) => a == b,
        // Which listener it is could not be told apart.
        _ => true,
    }
}

/// Whether both are about the same captured service.
fn same_server(cause: &Finding, effect: &Finding) -> bool {
    cause.subject.local.is_some() && cause.subject.local == effect.subject.local
}

/// Whether the effect's destination is the cause's listener. That of captured streams is the end that
/// serves.
fn to_listener(cause: &Finding, effect: &Finding) -> bool {
    let captured = effect.evidence.iter().any(|proof| proof.source == Source::Packets);
    let to = if captured { effect.subject.local } else { effect.subject.remote };
    let (Some(local), Some(remote)) = (cause.subject.local, to) else {
        return false;
    };
    let ip = local.ip().to_canonical();
    local.port() == remote.port() && (ip.is_unspecified() || ip == remote.ip().to_canonical())
}

/// Whether so much is lost that some SYNs must be, on streams of the same service.
fn loses_much(cause: &Finding, effect: &Finding) -> bool {
    let figure = |finding: &Finding, name: &str| {
        let mut figures = finding.evidence.iter().flat_map(|proof| &proof.figures);
        figures.find(|figure| figure.name == name).map_or(0.0, |figure| figure.value)
    };
    let lost = figure(cause, "segments lost");
    let share = lost / figure(cause, "segments with data").max(1.0);
    let repeated = figure(effect, "streams") / figure(effect, "streams of the service").max(1.0);
    let much = lost >= LOST && share >= MUCH && repeated <= HANDSHAKES * share;
    same_server(cause, effect) && much
}

fn anywhere(_: &Finding, _: &Finding) -> bool {
    true
}

/// Puts consequences under their causes; what was under a consequence goes along.
pub(crate) fn fold(findings: Vec<Finding>) -> Vec<Finding> {
    let parent = |effect: &Finding| {
        TABLE.iter().filter(|leads| leads.to == effect.cause).find_map(|leads| {
            findings
                .iter()
                .position(|cause| cause.cause == leads.cause && (leads.when)(cause, effect))
        })
    };
    let parents: Vec<Option<usize>> = findings.iter().map(parent).collect();
    let root = |mut index: usize| {
        // No circles: at most one step for each entry of the table.
        for _ in 0..TABLE.len() {
            match parents.get(index).copied().flatten() {
                Some(parent) => index = parent,
                None => break,
            }
        }
        index
    };
    let roots: Vec<usize> = (0..findings.len()).map(root).collect();
    let mut effects: Vec<(usize, Vec<Consequence>)> = Vec::new();
    let mut kept: Vec<(usize, Finding)> = Vec::new();
    for (index, (finding, root)) in findings.into_iter().zip(roots).enumerate() {
        if root == index {
            kept.push((index, finding));
        } else {
            let text = first_line(&finding.impact.text).trim_end_matches(',').to_string();
            let mut moved = vec![Consequence { cause: Some(finding.cause), text }];
            moved.extend(finding.also_causes);
            effects.push((root, moved));
        }
    }
    for (index, finding) in &mut kept {
        for (root, moved) in &mut effects {
            if root == index {
                finding.also_causes.append(moved);
            }
        }
    }
    kept.into_iter().map(|(_, finding)| finding).collect()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use model::SubjectKind;

    use super::*;
    use crate::fixtures::finding;
    use crate::make::With as _;

    #[test]
    fn every_end_of_the_table_is_a_cause_and_there_are_no_circles() {
        for leads in TABLE {
            for id in [leads.cause, leads.to] {
                assert!(crate::cause(id).is_some(), "{id}");
            }
            let mut ends = vec![leads.to];
            for _ in 0..=TABLE.len() {
                ends = TABLE.iter().filter(|l| ends.contains(&l.cause)).map(|l| l.to).collect();
            }
            assert!(ends.is_empty(), "{} leads to itself", leads.cause);
        }
    }

    #[test]
    fn a_chain_folds_under_its_first_cause() {
        let folded = fold(vec![
            finding(
                "syn-retransmitted",
                SubjectKind::Destination,
                &[],
                None,
                Some("198.18.0.1:80"),
            ),
            finding("accept-queue-overflow", SubjectKind::Listener, &[7], Some("0.0.0.0:80"), None),
            finding("fd-exhausted", SubjectKind::Process, &[7], None, None),
        ]);
        assert_eq!(folded.len(), 1);
        assert_eq!(folded[0].cause, "fd-exhausted");
        let effects: Vec<_> =
            folded[0].also_causes.iter().filter_map(|e| e.cause.clone()).collect();
        assert_eq!(effects.len(), 2);
        assert!(effects.contains(&"syn-retransmitted".to_string()));
    }

    #[test]
    fn what_packets_show_of_a_listener_is_its_effect() {
        let mut captured = finding(
            "syn-retransmitted",
            SubjectKind::Connection,
            &[],
            Some("198.18.0.1:80"),
            Some("198.18.0.2:4000"),
        );
        captured.evidence = vec![crate::make::proof(Source::Packets, "proof", String::new())];
        let mut other = captured.clone();
        other.subject.local = "198.18.0.1:81".parse().ok();
        let queue =
            finding("accept-queue-overflow", SubjectKind::Listener, &[7], Some("0.0.0.0:80"), None);
        let folded = fold(vec![queue, captured, other.clone()]);
        assert_eq!((folded.len(), &folded[1]), (2, &other));
        assert_eq!(folded[0].also_causes.len(), 1);
    }

    #[test]
    fn a_line_that_loses_much_loses_syns_too() {
        let server = Some("198.18.0.1:80");
        let of = |cause: &str| finding(cause, SubjectKind::Connection, &[], server, None);
        let folded = |lost: f64, repeated: f64| {
            let (mut loss, mut syn) = (of("packet-loss"), of("syn-retransmitted"));
            let proof = crate::make::proof(Source::Packets, "proof", String::new());
            loss.evidence = vec![proof.clone().at_once("segments lost", lost, "segments").at_once(
                "segments with data",
                1000.0,
                "segments",
            )];
            syn.evidence = vec![proof.at_once("streams", repeated, "streams").at_once(
                "streams of the service",
                16.0,
                "streams",
            )];
            fold(vec![loss, syn]).len()
        };
        assert_eq!(folded(30.0, 2.0), 1);
        assert_eq!(folded(5.0, 2.0), 2, "the line loses little");
        assert_eq!(folded(30.0, 16.0), 2, "no handshake succeeds at once");
    }

    #[test]
    fn causes_of_different_subjects_stay_apart() {
        let folded = fold(vec![
            finding("accept-queue-overflow", SubjectKind::Listener, &[7], Some("0.0.0.0:80"), None),
            finding("fd-exhausted", SubjectKind::Process, &[8], None, None),
            finding(
                "syn-retransmitted",
                SubjectKind::Destination,
                &[],
                None,
                Some("198.18.0.1:81"),
            ),
        ]);
        assert_eq!(folded.len(), 3);
    }
}
