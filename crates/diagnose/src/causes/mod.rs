//! The causes: one explicit ordered table, one file each.
//!
//! The order is that of the catalogue; the command line, the docs and the tests iterate it.

use model::Source;

use crate::Cause;

mod accept_queue_overflow;
mod application_limited;
mod bufferbloat;
mod close_wait_leak;
mod connection_refused;
mod conntrack_table_full;
mod corruption;
mod delayed_ack_nagle;
mod dns_slow;
mod ephemeral_ports_exhausted;
mod fd_exhausted;
mod initial_window_small;
pub mod middle_link_limited;
mod nat_timeout_reset;
mod options_stripped;
mod packet_loss;
mod path_mtu_blackhole;
mod rate_policed;
mod rate_shaped;
mod receive_window_limited;
mod receiver_stalled;
mod reordering;
mod send_buffer_limited;
mod server_think_time;
mod short_connections;
mod slow_start_after_idle;
mod syn_queue_overflow;
mod syn_retransmitted;
mod time_wait_overflow;
mod window_scaling_off;
mod worker_pool_exhausted;

/// All causes.
pub const TABLE: &[Cause] = &[
    Cause {
        id: "accept-queue-overflow",
        title: "a process accepts too slowly for its listen queue",
        needs: &[Source::Counters, Source::Listeners],
        or_packets: false,
        rule: accept_queue_overflow::rule,
        source: include_str!("accept_queue_overflow.rs"),
    },
    Cause {
        id: "syn-queue-overflow",
        title: "more handshakes are half open than a listener may have",
        needs: &[Source::Counters],
        or_packets: false,
        rule: syn_queue_overflow::rule,
        source: include_str!("syn_queue_overflow.rs"),
    },
    Cause {
        id: "conntrack-table-full",
        title: "the connection-tracking table is full, packets are dropped",
        needs: &[Source::Conntrack],
        or_packets: false,
        rule: conntrack_table_full::rule,
        source: include_str!("conntrack_table_full.rs"),
    },
    Cause {
        id: "ephemeral-ports-exhausted",
        title: "no local port is left towards a destination",
        needs: &[Source::Sockets],
        or_packets: false,
        rule: ephemeral_ports_exhausted::rule,
        source: include_str!("ephemeral_ports_exhausted.rs"),
    },
    Cause {
        id: "time-wait-overflow",
        title: "more sockets are in TIME_WAIT than the host may have",
        needs: &[Source::Counters],
        or_packets: false,
        rule: time_wait_overflow::rule,
        source: include_str!("time_wait_overflow.rs"),
    },
    Cause {
        id: "close-wait-leak",
        title: "a process never closes what its peers have closed",
        needs: &[Source::Sockets],
        or_packets: false,
        rule: close_wait_leak::rule,
        source: include_str!("close_wait_leak.rs"),
    },
    Cause {
        id: "fd-exhausted",
        title: "a process, or the host, has no file descriptor left",
        needs: &[Source::Processes],
        or_packets: false,
        rule: fd_exhausted::rule,
        source: include_str!("fd_exhausted.rs"),
    },
    Cause {
        id: "syn-retransmitted",
        title: "connections open late or never: a SYN is not answered",
        needs: &[Source::Sockets],
        or_packets: true,
        rule: syn_retransmitted::rule,
        source: include_str!("syn_retransmitted.rs"),
    },
    Cause {
        id: "worker-pool-exhausted",
        title: "an application has no free worker, requests wait",
        needs: &[Source::Processes, Source::Logs],
        or_packets: false,
        rule: worker_pool_exhausted::rule,
        source: include_str!("worker_pool_exhausted.rs"),
    },
    Cause {
        id: "receiver-stalled",
        title: "a process does not read what it receives",
        needs: &[Source::Sockets],
        or_packets: true,
        rule: receiver_stalled::rule,
        source: include_str!("receiver_stalled.rs"),
    },
    Cause {
        id: "delayed-ack-nagle",
        title: "small writes wait for delayed acknowledgements",
        needs: &[Source::Packets],
        or_packets: true,
        rule: delayed_ack_nagle::rule,
        source: include_str!("delayed_ack_nagle.rs"),
    },
    Cause {
        id: "server-think-time",
        title: "the server takes its time to answer",
        needs: &[Source::Packets],
        or_packets: true,
        rule: server_think_time::rule,
        source: include_str!("server_think_time.rs"),
    },
    Cause {
        id: "dns-slow",
        title: "a name server does not answer, or late",
        needs: &[Source::Packets],
        or_packets: true,
        rule: dns_slow::rule,
        source: include_str!("dns_slow.rs"),
    },
    Cause {
        id: "short-connections",
        title: "each request opens a connection of its own",
        needs: &[Source::Packets],
        or_packets: true,
        rule: short_connections::rule,
        source: include_str!("short_connections.rs"),
    },
    Cause {
        id: "slow-start-after-idle",
        title: "idle connections start slowly again",
        needs: &[Source::Packets],
        or_packets: true,
        rule: slow_start_after_idle::rule,
        source: include_str!("slow_start_after_idle.rs"),
    },
    Cause {
        id: "initial-window-small",
        title: "connections begin with few segments",
        needs: &[Source::Packets],
        or_packets: true,
        rule: initial_window_small::rule,
        source: include_str!("initial_window_small.rs"),
    },
    Cause {
        id: "send-buffer-limited",
        title: "a sender's buffer is too small for the path",
        needs: &[Source::Sockets],
        or_packets: false,
        rule: send_buffer_limited::rule,
        source: include_str!("send_buffer_limited.rs"),
    },
    Cause {
        id: "application-limited",
        title: "a sender's process has its data too late",
        needs: &[Source::Transfer],
        or_packets: false,
        rule: application_limited::rule,
        source: include_str!("application_limited.rs"),
    },
    Cause {
        id: "receive-window-limited",
        title: "the receiver's window is too small for the path",
        needs: &[Source::Packets],
        or_packets: true,
        rule: receive_window_limited::rule,
        source: include_str!("receive_window_limited.rs"),
    },
    Cause {
        id: "window-scaling-off",
        title: "no window is larger than 64 KiB",
        needs: &[Source::Packets],
        or_packets: true,
        rule: window_scaling_off::rule,
        source: include_str!("window_scaling_off.rs"),
    },
    Cause {
        id: "packet-loss",
        title: "segments are lost and sent again",
        needs: &[Source::Packets],
        or_packets: true,
        rule: packet_loss::rule,
        source: include_str!("packet_loss.rs"),
    },
    Cause {
        id: "corruption",
        title: "packets arrive damaged, the kernel drops them",
        needs: &[Source::Counters],
        or_packets: true,
        rule: corruption::rule,
        source: include_str!("corruption.rs"),
    },
    Cause {
        id: "reordering",
        title: "segments overtake each other",
        needs: &[Source::Packets],
        or_packets: true,
        rule: reordering::rule,
        source: include_str!("reordering.rs"),
    },
    Cause {
        id: "bufferbloat",
        title: "a queue on the way fills and delays everything",
        needs: &[Source::Packets],
        or_packets: true,
        rule: bufferbloat::rule,
        source: include_str!("bufferbloat.rs"),
    },
    Cause {
        id: "middle-link-limited",
        title: "a link that others share is full of their transfers",
        needs: &[Source::UnderLoad],
        or_packets: false,
        rule: middle_link_limited::rule,
        source: include_str!("middle_link_limited.rs"),
    },
    Cause {
        id: "nat-timeout-reset",
        title: "a box on the way forgets silent connections",
        needs: &[Source::Packets],
        or_packets: true,
        rule: nat_timeout_reset::rule,
        source: include_str!("nat_timeout_reset.rs"),
    },
    Cause {
        id: "connection-refused",
        title: "connections are refused by a reset",
        needs: &[Source::Packets],
        or_packets: true,
        rule: connection_refused::rule,
        source: include_str!("connection_refused.rs"),
    },
    Cause {
        id: "rate-policed",
        title: "a policer drops what is sent above its rate",
        needs: &[Source::Packets],
        or_packets: true,
        rule: rate_policed::rule,
        source: include_str!("rate_policed.rs"),
    },
    Cause {
        id: "rate-shaped",
        title: "a token bucket with a queue holds transfers to its rate",
        needs: &[Source::Packets],
        or_packets: true,
        rule: rate_shaped::rule,
        source: include_str!("rate_shaped.rs"),
    },
    Cause {
        id: "path-mtu-blackhole",
        title: "packets of full size vanish, and nobody says so",
        needs: &[Source::Packets],
        or_packets: true,
        rule: path_mtu_blackhole::rule,
        source: include_str!("path_mtu_blackhole.rs"),
    },
    Cause {
        id: "options-stripped",
        title: "a device on the way takes options out of SYNs",
        needs: &[Source::Path],
        or_packets: false,
        rule: options_stripped::rule,
        source: include_str!("options_stripped.rs"),
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

    /// Causes that one place can tell of, without sending anything itself.
    fn of_one_place() -> usize {
        let others = [model::Source::Path, model::Source::UnderLoad, model::Source::Transfer];
        TABLE.iter().filter(|cause| !cause.needs.iter().all(|need| others.contains(need))).count()
    }

    #[test]
    fn a_healthy_host_has_none_and_all_are_ruled_out() {
        let report = crate::diagnose(&healthy());
        assert_eq!(report.findings, []);
        assert_eq!(report.undecided, []);
        assert_eq!(report.ruled_out.len(), of_one_place());
        for out in &report.ruled_out {
            assert!(!out.because.is_empty() && out.because.chars().count() <= 60, "{out:?}");
        }
    }

    #[test]
    fn empty_evidence_decides_nothing_and_harms_nobody() {
        let report = crate::diagnose(&model::Evidence::default());
        assert_eq!(report.findings, []);
        assert_eq!(report.undecided.len(), of_one_place());
    }

    #[test]
    fn without_what_it_needs_a_cause_is_not_ruled_out() {
        for cause in TABLE {
            for source in cause.needs {
                let mut evidence = healthy();
                crate::fixtures::remove_source(&mut evidence, *source);
                let verdict = cause.judge(&evidence);
                let Verdict::Undecided { needs, closes_with } = verdict else {
                    panic!("{}: {verdict:?} without {}", cause.id, source.name());
                };
                assert!(!needs.is_empty() && closes_with.is_some(), "{}", cause.id);
            }
        }
    }
}
