//! What causes are ruled out by, and where they are not checked: all of them, one by one.

use model::{
    CapturedDirection, Conntrack, Evidence, Packets, Path, Probes, Resolver, SenderTimeCategory,
    Source, TableSample, TcpState,
};

use super::super::TABLE;
use super::is_of_one_place;
use crate::cause::Verdict;
use crate::fixtures::{
    add_access_log, add_listener, add_port_use, add_process, add_socket, add_stream,
    add_up_services, gauge, healthy, increase_counter,
};
use crate::limited_link;

/// A host and its packets, with transfers, requests and all else that could have shown a cause.
fn with_all() -> Evidence {
    let mut evidence = healthy();
    increase_counter(&mut evidence, "TcpInSegs", 12_000);
    increase_counter(&mut evidence, "TcpActiveOpens", 40);
    add_process(&mut evidence, 7, "nginx");
    add_listener(&mut evidence, "0.0.0.0:80", 511, &[7]);
    add_port_use(&mut evidence, "198.18.0.2:80", 40, 28_232, &[7]);
    add_access_log(&mut evidence, &[7], &[(200, 90)]);
    evidence.conntrack =
        Some(Conntrack { loaded: true, max: 262_144, count: gauge(5, 9), ..Conntrack::default() });
    let busy = add_socket(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80", Some(7));
    let tcp = busy.tcp.as_mut().unwrap();
    (tcp.busy_time_us, tcp.sndbuf_limited_us) = (Some(3_000_000), Some(0));
    let samples = &mut evidence.sockets.as_mut().unwrap().samples;
    *samples = vec![TableSample::default(); 3];
    samples[2].by_state.insert(TcpState::Established, 41);
    for port in 4000..4003 {
        let stream = add_stream(&mut evidence, &format!("198.18.0.1:{port}"), "198.18.0.2:80");
        stream.longest_survived_idle_us = 360_000_000;
        let sent = &mut stream.from_server;
        (sent.slow_starts.transfers, sent.slow_starts.first_segments) = (3, 10);
        (sent.full_size_arrived, sent.new_bytes) = (Some(true), 5_000_000);
    }
    add_up_services(&mut evidence, 30_000);
    evidence.packets.as_mut().unwrap().resolvers = vec![resolver(90)];
    let mut transfer = probes_of("application-limited").transfer.unwrap();
    for share in &mut transfer.senders[0].time_breakdown {
        if share.category == SenderTimeCategory::Application {
            share.time_us = 1_000;
        }
    }
    let idle = (None, 0, [10.0, 10.0, 1.0]);
    let under_load = limited_link::fixture(&[idle, (Some(0), 4, [10.0, 10.0, 1.0])]);
    evidence.probes = Some(Probes {
        transfer: Some(transfer),
        under_load: Some(under_load),
        ..Probes::default()
    });
    evidence.path = Some(Path { streams_in_both: 3, ..path() });
    evidence
}

fn probes_of(cause: &str) -> Probes {
    example(cause).probes.unwrap()
}

fn path() -> Path {
    let mut path = example("options-stripped").path.unwrap();
    path.changes.clear();
    path
}

fn example(cause: &str) -> Evidence {
    let cause = crate::cause(cause).unwrap();
    (cause.examples)().swap_remove(0)
}

fn resolver(queries: u64) -> Resolver {
    Resolver {
        server: "198.18.0.53:53".parse().unwrap(),
        queries,
        answers: queries,
        failures: 0,
        unanswered: 0,
        slow: 0,
        answer_p50_us: Some(2_000),
        answer_p99_us: Some(3_000),
        late: 0,
        late_again: 0,
        lost_us: 0,
        lost_late_us: 0,
        worst: None,
    }
}

/// The same sources, of which each was read, with nothing in them.
fn with_nothing() -> Evidence {
    let mut evidence = healthy();
    evidence.packets = Some(Packets::default());
    evidence.path = Some(Path { streams_in_both: 0, ..path() });
    let mut transfer = probes_of("application-limited").transfer.unwrap();
    for sender in &mut transfer.senders {
        sender.time_breakdown.clear();
    }
    evidence.probes = Some(Probes { transfer: Some(transfer), ..Probes::default() });
    evidence
}

#[test]
fn each_cause_is_ruled_out_by_a_figure() {
    let evidence = with_all();
    for cause in TABLE {
        let Verdict::RuledOut(because) = cause.judge(&evidence) else {
            panic!("{}: {:?}", cause.id, cause.judge(&evidence));
        };
        assert!(because.contains(|c: char| c.is_ascii_digit()), "{}: {because}", cause.id);
        assert!(because.chars().count() <= 60, "{}: {because}", cause.id);
        for odd in ["0 of 0", "of 0 ", "none of 0", "in 0 ", "(none"] {
            assert!(!because.contains(odd), "{}: {because}", cause.id);
        }
    }
}

#[test]
fn where_there_is_nothing_no_cause_is_ruled_out() {
    let evidence = with_nothing();
    for cause in TABLE {
        match (cause.id, cause.judge(&evidence)) {
            // The kernel counts them; a counter that did not increase is a figure.
            (id, Verdict::RuledOut(because)) if cause.is_decided_by(&[Source::Counters]) => {
                assert!(because.contains('0'), "{id}: {because}");
            }
            // No pings under load: a probe has to send them.
            ("middle-link-limited", verdict) => {
                assert!(matches!(verdict, Verdict::Undecided { .. }), "{verdict:?}");
            }
            (id, Verdict::NotChecked(because)) => {
                assert!(!because.is_empty() && because.len() <= 60, "{id}: {because}");
            }
            (id, verdict) => panic!("{id}: {verdict:?}"),
        }
    }
}

#[test]
fn one_direction_rules_out_nothing_about_data() {
    let mut evidence = with_all();
    evidence.counters = None;
    let packets = evidence.packets.as_mut().unwrap();
    for stream in &mut packets.worst {
        stream.from_server = CapturedDirection::default();
    }
    for id in ["packet-loss", "reordering", "delayed-ack-nagle", "receive-window-limited"] {
        let verdict = crate::cause(id).unwrap().judge(&evidence);
        let because = "only one direction was captured".to_string();
        assert_eq!(verdict, Verdict::NotChecked(because), "{id}");
    }
}

/// Windows of an unknown scale, a few losses, and losses whose packets were truncated.
#[test]
fn what_does_not_suffice_is_undecided_with_a_command() {
    let mut evidence = with_all();
    increase_counter(&mut evidence, "TcpInSegs", 0);
    let packets = evidence.packets.as_mut().unwrap();
    for stream in &mut packets.worst {
        for sent in [&mut stream.from_client, &mut stream.from_server] {
            (sent.mss, sent.window_scale, sent.max_window) = (None, None, 500);
            sent.fast_retransmissions = 3;
            sent.full_size_arrived = Some(false);
        }
    }
    let command = "netwhy capture -i any --analyse --for 1m host 198.18.0.2 and port 80";
    let truncated = command.replace("--analyse", "--analyse -s 0");
    for (id, expected) in [
        ("receive-window-limited", command),
        ("window-scaling-off", command),
        ("rate-policed", command),
        ("corruption", &truncated),
        ("path-mtu-blackhole", "tracepath -n 198.18.0.2"),
    ] {
        let verdict = crate::cause(id).unwrap().judge(&evidence);
        let Verdict::Undecided { how_to_observe, .. } = verdict else {
            panic!("{id}: {verdict:?}")
        };
        assert_eq!(how_to_observe.as_deref(), Some(expected), "{id}");
    }
}

#[test]
fn a_report_has_each_cause_once_and_usual_suspects_first() {
    let mut evidence = with_all();
    (evidence.probes, evidence.path) = (None, None);
    let report = crate::diagnose(&evidence);
    assert_eq!(report.findings, []);
    assert_eq!((report.undecided, report.not_checked), (Vec::new(), Vec::new()));
    assert_eq!(report.ruled_out.len(), TABLE.iter().filter(is_of_one_place).count());
    let first: Vec<&str> = report.ruled_out.iter().take(3).map(|one| &*one.cause).collect();
    assert_eq!(first, ["packet-loss", "syn-retransmitted", "accept-queue-overflow"]);

    let report = crate::diagnose(&healthy());
    assert_eq!((report.findings, report.undecided), (Vec::new(), Vec::new()));
    let causes = report.ruled_out.len() + report.not_checked.len();
    assert_eq!(causes, TABLE.iter().filter(is_of_one_place).count());
}
