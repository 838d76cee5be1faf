//! Consequences under their causes: what is an effect of another finding is no finding of its own.

use model::{Effect, Finding};

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

/// Whether the effect's destination is the cause's listener.
fn to_listener(cause: &Finding, effect: &Finding) -> bool {
    let (Some(local), Some(remote)) = (cause.subject.local, effect.subject.remote) else {
        return false;
    };
    let ip = local.ip().to_canonical();
    local.port() == remote.port() && (ip.is_unspecified() || ip == remote.ip().to_canonical())
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
    let mut effects: Vec<(usize, Vec<Effect>)> = Vec::new();
    let mut kept: Vec<(usize, Finding)> = Vec::new();
    for (index, (finding, root)) in findings.into_iter().zip(roots).enumerate() {
        if root == index {
            kept.push((index, finding));
        } else {
            let text = first_line(&finding.impact.text).to_string();
            let mut moved = vec![Effect { cause: Some(finding.cause), text }];
            moved.extend(finding.effects);
            effects.push((root, moved));
        }
    }
    for (index, finding) in &mut kept {
        for (root, moved) in &mut effects {
            if root == index {
                finding.effects.append(moved);
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
        let effects: Vec<_> = folded[0].effects.iter().filter_map(|e| e.cause.clone()).collect();
        assert_eq!(effects.len(), 2);
        assert!(effects.contains(&"syn-retransmitted".to_string()));
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
