//! Consequences under their causes: the effect of another finding is no finding of its own.

use model::{Consequence, ExpectedGain, Finding, Source};

/// Segments lost, and their share, from which on a path loses some SYNs as well.
const MIN_SEGMENTS_LOST: f64 = 20.0;
const MIN_LOSS_SHARE: f64 = 0.01;
/// The share of handshakes that loss explains, as a multiple of the share of segments lost: a
/// handshake has three packets, and the share of few handshakes is inexact.
const MAX_SYN_TO_LOSS_RATIO: f64 = 10.0;

/// A cause that leads to another one.
struct CauseAndEffect {
    cause: &'static str,
    effect: &'static str,
    applies: fn(&Finding, &Finding) -> bool,
}

/// What leads to what, and between which subjects. A test shows that there are no circles.
const CAUSES_AND_EFFECTS: &[CauseAndEffect] = &[
    // Leaked sockets use up the file descriptors of their process.
    CauseAndEffect { cause: "close-wait-leak", effect: "fd-exhausted", applies: same_process },
    // A process without a free file descriptor or worker does not accept.
    CauseAndEffect {
        cause: "close-wait-leak",
        effect: "accept-queue-overflow",
        applies: same_process,
    },
    CauseAndEffect {
        cause: "fd-exhausted",
        effect: "accept-queue-overflow",
        applies: same_process,
    },
    CauseAndEffect {
        cause: "worker-pool-exhausted",
        effect: "accept-queue-overflow",
        applies: same_process,
    },
    // The kernel keeps a handshake half open as long as the accept queue has no room for it.
    CauseAndEffect {
        cause: "accept-queue-overflow",
        effect: "syn-queue-overflow",
        applies: same_listener,
    },
    // A client that gets no answer retransmits its SYN.
    CauseAndEffect {
        cause: "accept-queue-overflow",
        effect: "syn-retransmitted",
        applies: to_listener,
    },
    CauseAndEffect {
        cause: "syn-queue-overflow",
        effect: "syn-retransmitted",
        applies: to_listener,
    },
    CauseAndEffect {
        cause: "worker-pool-exhausted",
        effect: "syn-retransmitted",
        applies: to_listener,
    },
    CauseAndEffect { cause: "fd-exhausted", effect: "syn-retransmitted", applies: to_listener },
    CauseAndEffect { cause: "close-wait-leak", effect: "syn-retransmitted", applies: to_listener },
    CauseAndEffect {
        cause: "conntrack-table-full",
        effect: "syn-retransmitted",
        applies: anywhere,
    },
    // A full queue drops the last step of the handshake, and what the client sends then.
    CauseAndEffect { cause: "accept-queue-overflow", effect: "packet-loss", applies: to_listener },
    // A request that waits to be accepted, or for a worker, waits for its response.
    CauseAndEffect {
        cause: "accept-queue-overflow",
        effect: "server-think-time",
        applies: to_listener,
    },
    CauseAndEffect {
        cause: "worker-pool-exhausted",
        effect: "server-think-time",
        applies: to_listener,
    },
    // What a policer drops is lost and retransmitted.
    CauseAndEffect { cause: "rate-policed", effect: "packet-loss", applies: same_server },
    // Packets wait in the queue of a shaper, and are lost when it is full.
    CauseAndEffect { cause: "rate-shaped", effect: "bufferbloat", applies: same_server },
    CauseAndEffect { cause: "rate-shaped", effect: "packet-loss", applies: same_server },
    // A sender that fills a queue with a whole window has filled the window, too.
    CauseAndEffect { cause: "rate-shaped", effect: "receive-window-limited", applies: same_server },
    CauseAndEffect { cause: "bufferbloat", effect: "receive-window-limited", applies: same_server },
    // A path that loses one packet in a hundred loses SYNs too.
    CauseAndEffect { cause: "packet-loss", effect: "syn-retransmitted", applies: loses_syns_too },
    // What a black hole swallows seems lost.
    CauseAndEffect { cause: "path-mtu-blackhole", effect: "packet-loss", applies: same_server },
    // A sender gets no answer on a connection that a middlebox has forgotten.
    CauseAndEffect { cause: "nat-timeout-reset", effect: "packet-loss", applies: same_server },
    // Both ends would scale their windows.
    CauseAndEffect { cause: "options-stripped", effect: "window-scaling-off", applies: anywhere },
    // Each new connection pays for its small initial window again.
    CauseAndEffect {
        cause: "initial-window-small",
        effect: "short-connections",
        applies: same_server,
    },
];

fn same_process(cause: &Finding, effect: &Finding) -> bool {
    let has = |pid| cause.subject.processes.iter().any(|p| p.pid == pid);
    effect.subject.processes.iter().any(|p| has(p.pid))
}

fn same_listener(cause: &Finding, effect: &Finding) -> bool {
    match (cause.subject.local, effect.subject.local) {
        (Some(a), Some(b)) => a == b,
        // Which listener it is, is not known.
        _ => true,
    }
}

/// Whether both are about the same captured service.
fn same_server(cause: &Finding, effect: &Finding) -> bool {
    cause.subject.local.is_some() && cause.subject.local == effect.subject.local
}

/// Whether the effect's destination is the cause's listener; of captured streams that is the server.
fn to_listener(cause: &Finding, effect: &Finding) -> bool {
    let captured = effect.evidence.iter().any(|proof| proof.source == Source::Packets);
    let to = if captured { effect.subject.local } else { effect.subject.remote };
    let (Some(local), Some(remote)) = (cause.subject.local, to) else {
        return false;
    };
    let ip = local.ip().to_canonical();
    local.port() == remote.port() && (ip.is_unspecified() || ip == remote.ip().to_canonical())
}

/// Whether so much is lost on streams of the same service that some SYNs must be.
fn loses_syns_too(cause: &Finding, effect: &Finding) -> bool {
    let figure = |finding: &Finding, name: &str| {
        let mut figures = finding.evidence.iter().flat_map(|proof| &proof.figures);
        figures.find(|figure| figure.name == name).map_or(0.0, |figure| figure.value)
    };
    let lost = figure(cause, "segments lost");
    let share = lost / figure(cause, "segments with data").max(1.0);
    let retransmitting =
        figure(effect, "streams") / figure(effect, "streams of the service").max(1.0);
    let explained = lost >= MIN_SEGMENTS_LOST
        && share >= MIN_LOSS_SHARE
        && retransmitting <= MAX_SYN_TO_LOSS_RATIO * share;
    same_server(cause, effect) && explained
}

fn anywhere(_: &Finding, _: &Finding) -> bool {
    true
}

/// Puts consequences under their causes, with what was under them.
pub(crate) fn fold(findings: Vec<Finding>) -> Vec<Finding> {
    let parent = |effect: &Finding| {
        CAUSES_AND_EFFECTS.iter().filter(|leads| leads.effect == effect.cause).find_map(|leads| {
            findings
                .iter()
                .position(|cause| cause.cause == leads.cause && (leads.applies)(cause, effect))
        })
    };
    let parents: Vec<Option<usize>> = findings.iter().map(parent).collect();
    let root = |mut index: usize| {
        // No circles: at most one step for each entry of the table.
        for _ in 0..CAUSES_AND_EFFECTS.len() {
            match parents.get(index).copied().flatten() {
                Some(parent) => index = parent,
                None => break,
            }
        }
        index
    };
    let roots: Vec<usize> = (0..findings.len()).map(root).collect();
    let mut effects: Vec<(usize, Vec<Consequence>, ExpectedGain)> = Vec::new();
    let mut kept: Vec<(usize, Finding)> = Vec::new();
    for (index, (finding, root)) in findings.into_iter().zip(roots).enumerate() {
        if root == index {
            kept.push((index, finding));
        } else {
            let text = first_line(&finding.impact.text).trim_end_matches(',').to_string();
            let mut moved = vec![Consequence { cause: Some(finding.cause), text }];
            moved.extend(finding.also_causes);
            effects.push((root, moved, finding.gain));
        }
    }
    for (index, finding) in &mut kept {
        for (_, moved, gain) in effects.iter_mut().filter(|(root, ..)| root == index) {
            finding.also_causes.append(moved);
            // What its effect costs is what fixing it gives.
            if finding.gain.predicted().is_none() && gain.predicted().is_some() {
                finding.gain = std::mem::take(gain);
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
    use crate::proofs::WithFigures as _;

    #[test]
    fn all_causes_and_effects_exist_and_there_are_no_circles() {
        for leads in CAUSES_AND_EFFECTS {
            for id in [leads.cause, leads.effect] {
                assert!(crate::cause(id).is_some(), "{id}");
            }
            let mut ends = vec![leads.effect];
            for _ in 0..=CAUSES_AND_EFFECTS.len() {
                ends = CAUSES_AND_EFFECTS
                    .iter()
                    .filter(|l| ends.contains(&l.cause))
                    .map(|l| l.effect)
                    .collect();
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
    fn fixing_a_cause_gives_what_its_effect_costs() {
        let cause = finding("fd-exhausted", SubjectKind::Process, &[7], None, None);
        let mut effect =
            finding("accept-queue-overflow", SubjectKind::Listener, &[7], Some("0.0.0.0:80"), None);
        effect.gain = crate::gain::of_dropped_syns(1.0, 9.0);
        let folded = fold(vec![cause, effect.clone()]);
        assert_eq!((folded.len(), &folded[0].gain), (1, &effect.gain));
    }

    #[test]
    fn a_listener_explains_what_packets_show_of_it() {
        let mut captured = finding(
            "syn-retransmitted",
            SubjectKind::Connection,
            &[],
            Some("198.18.0.1:80"),
            Some("198.18.0.2:4000"),
        );
        captured.evidence = vec![crate::proofs::proof(Source::Packets, "proof", String::new())];
        let mut other = captured.clone();
        other.subject.local = "198.18.0.1:81".parse().ok();
        let queue =
            finding("accept-queue-overflow", SubjectKind::Listener, &[7], Some("0.0.0.0:80"), None);
        let folded = fold(vec![queue, captured, other.clone()]);
        assert_eq!((folded.len(), &folded[1]), (2, &other));
        assert_eq!(folded[0].also_causes.len(), 1);
    }

    #[test]
    fn a_lossy_path_loses_syns_too() {
        let server = Some("198.18.0.1:80");
        let of = |cause: &str| finding(cause, SubjectKind::Connection, &[], server, None);
        let folded = |lost: f64, retransmitting: f64| {
            let (mut loss, mut syn) = (of("packet-loss"), of("syn-retransmitted"));
            let proof = crate::proofs::proof(Source::Packets, "proof", String::new());
            loss.evidence =
                vec![proof.clone().at_moment("segments lost", lost, "segments").at_moment(
                    "segments with data",
                    1000.0,
                    "segments",
                )];
            syn.evidence = vec![proof.at_moment("streams", retransmitting, "streams").at_moment(
                "streams of the service",
                16.0,
                "streams",
            )];
            fold(vec![loss, syn]).len()
        };
        assert_eq!(folded(30.0, 2.0), 1);
        assert_eq!(folded(5.0, 2.0), 2, "little is lost");
        assert_eq!(folded(30.0, 16.0), 2, "every handshake is retransmitted");
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
