//! The causes: one explicit ordered table, one file each.
//!
//! The order is that of the catalogue; the command line, the docs and the tests iterate it.

use model::Source;

use crate::Cause;

mod accept_queue_overflow;
mod close_wait_leak;
mod conntrack_table_full;
mod ephemeral_ports_exhausted;
mod fd_exhausted;
mod receiver_stalled;
mod syn_queue_overflow;
mod syn_retransmitted;
mod time_wait_overflow;
mod worker_pool_exhausted;

/// All causes.
pub const TABLE: &[Cause] = &[
    Cause {
        id: "accept-queue-overflow",
        title: "a process accepts too slowly for its listen queue",
        needs: &[Source::Counters, Source::Listeners],
        rule: accept_queue_overflow::rule,
        source: include_str!("accept_queue_overflow.rs"),
    },
    Cause {
        id: "syn-queue-overflow",
        title: "more handshakes are half open than a listener may have",
        needs: &[Source::Counters],
        rule: syn_queue_overflow::rule,
        source: include_str!("syn_queue_overflow.rs"),
    },
    Cause {
        id: "conntrack-table-full",
        title: "the connection-tracking table is full, packets are dropped",
        needs: &[Source::Conntrack],
        rule: conntrack_table_full::rule,
        source: include_str!("conntrack_table_full.rs"),
    },
    Cause {
        id: "ephemeral-ports-exhausted",
        title: "no local port is left towards a destination",
        needs: &[Source::Sockets],
        rule: ephemeral_ports_exhausted::rule,
        source: include_str!("ephemeral_ports_exhausted.rs"),
    },
    Cause {
        id: "time-wait-overflow",
        title: "more sockets are in TIME_WAIT than the host may have",
        needs: &[Source::Counters],
        rule: time_wait_overflow::rule,
        source: include_str!("time_wait_overflow.rs"),
    },
    Cause {
        id: "close-wait-leak",
        title: "a process never closes what its peers have closed",
        needs: &[Source::Sockets],
        rule: close_wait_leak::rule,
        source: include_str!("close_wait_leak.rs"),
    },
    Cause {
        id: "fd-exhausted",
        title: "a process, or the host, has no file descriptor left",
        needs: &[Source::Processes],
        rule: fd_exhausted::rule,
        source: include_str!("fd_exhausted.rs"),
    },
    Cause {
        id: "syn-retransmitted",
        title: "connections open late or never: a SYN is not answered",
        needs: &[Source::Sockets],
        rule: syn_retransmitted::rule,
        source: include_str!("syn_retransmitted.rs"),
    },
    Cause {
        id: "worker-pool-exhausted",
        title: "an application has no free worker, requests wait",
        needs: &[Source::Processes, Source::Logs],
        rule: worker_pool_exhausted::rule,
        source: include_str!("worker_pool_exhausted.rs"),
    },
    Cause {
        id: "receiver-stalled",
        title: "a process does not read what it receives",
        needs: &[Source::Sockets],
        rule: receiver_stalled::rule,
        source: include_str!("receiver_stalled.rs"),
    },
];

#[cfg(test)]
mod tests {
    use super::TABLE;
    use crate::fixtures::healthy;
    use crate::{Verdict, page};

    /// The sections of a page, in this order.
    const SECTIONS: [&str; 7] = [
        "## What happens",
        "## Evidence",
        "## Threshold",
        "## Looks like it, but is not",
        "## Check by hand",
        "## Mend",
        "## References",
    ];

    #[test]
    fn every_page_has_its_sections() {
        for cause in TABLE {
            let page = page(cause.id).unwrap();
            assert!(page.starts_with(&format!("# {}\n", cause.id)), "{}: its title", cause.id);
            let mut rest = page.as_str();
            for section in SECTIONS {
                let at = rest.find(&format!("\n{section}\n"));
                let at = at.unwrap_or_else(|| panic!("{}: no {section}, or not here", cause.id));
                rest = &rest[at + 1..];
                let body = rest[section.len()..].split("\n## ").next().unwrap_or_default();
                assert!(body.trim().len() > 40, "{}: {section} says too little", cause.id);
                if section == "## Check by hand" {
                    assert!(body.contains("```"), "{}: no command to paste", cause.id);
                }
            }
            for line in page.lines() {
                assert!(line.chars().count() <= 80, "{}: wider than 80: {line}", cause.id);
            }
        }
    }

    #[test]
    fn names_are_unique_and_those_of_the_files() {
        for (index, cause) in TABLE.iter().enumerate() {
            let kebab = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(cause.id.chars().all(kebab), "{}", cause.id);
            assert!(TABLE[..index].iter().all(|other| other.id != cause.id), "{} twice", cause.id);
            let file = format!(
                "{}/src/causes/{}.rs",
                env!("CARGO_MANIFEST_DIR"),
                cause.id.replace('-', "_")
            );
            assert_eq!(std::fs::read_to_string(file).unwrap(), cause.source, "{}", cause.id);
            assert!(!cause.needs.is_empty(), "{} needs nothing", cause.id);
            assert!(cause.title.chars().count() <= 60, "{}: title too long", cause.id);
        }
    }

    #[test]
    fn every_cause_has_its_three_tests() {
        for cause in TABLE {
            for test in ["fn fires", "fn stays_quiet", "fn undecided"] {
                assert!(cause.source.contains(test), "{}: no test {test}…", cause.id);
            }
        }
    }

    #[test]
    fn a_healthy_host_has_none_and_all_are_ruled_out() {
        let report = crate::diagnose(&healthy());
        assert_eq!(report.findings, []);
        assert_eq!(report.undecided, []);
        assert_eq!(report.ruled_out.len(), TABLE.len());
        for out in &report.ruled_out {
            assert!(!out.because.is_empty() && out.because.chars().count() <= 60, "{out:?}");
        }
    }

    #[test]
    fn empty_evidence_decides_nothing_and_harms_nobody() {
        let report = crate::diagnose(&model::Evidence::default());
        assert_eq!(report.findings, []);
        assert_eq!(report.undecided.len(), TABLE.len());
    }

    #[test]
    fn without_what_it_needs_a_cause_is_not_ruled_out() {
        for cause in TABLE {
            for source in cause.needs {
                let mut evidence = healthy();
                crate::fixtures::lose(&mut evidence, *source);
                let verdict = cause.judge(&evidence);
                let Verdict::Undecided { needs, closes_with } = verdict else {
                    panic!("{}: {verdict:?} without {}", cause.id, source.name());
                };
                assert!(!needs.is_empty() && closes_with.is_some(), "{}", cause.id);
            }
        }
    }
}
