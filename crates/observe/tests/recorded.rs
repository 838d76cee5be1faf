//! The observers on a machine recorded by `tools/record-fixture`: the expectations are what that script
//! sets up. A window on it takes no time.

#![allow(clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Capability, Evidence, Focus, Series, Source, TcpState};
use observe::{Step, Window};
use sys::replay::RecordedMachine;

const DURATION: Duration = Duration::from_millis(600);

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/host")
}

fn observe(folder: &Path) -> Evidence {
    let machine = RecordedMachine::open(folder).expect("the fixture");
    let mut window = Window::begin(&machine, &Focus::default(), None);
    while window.elapsed() < DURATION {
        window.step();
    }
    window.end(false)
}

/// A copy of the fixture that a test may change.
fn copy() -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("a folder");
    copy_into(&fixture(), to.path());
    to
}

fn copy_into(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_into(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() {
            files(&entry.path(), all);
        } else {
            all.push(entry.path());
        }
    }
}

#[test]
fn listeners_have_queue_limit_drops_and_owner() {
    let evidence = observe(&fixture());
    let listeners = evidence.listeners.expect("listeners");
    let full = listeners.iter().find(|l| l.local.port() == 8080).expect("port 8080");
    assert_eq!(full.local, "127.0.0.1:8080".parse().unwrap());
    assert_eq!((full.limit, full.queue.max), (2, 3));
    assert!(full.samples_full > 0 && full.samples_waiting >= full.samples_full);
    assert!(full.drops.expect("drops").increase() > 0);
    assert_eq!(full.pids.len(), 1);
    let v6 = listeners.iter().find(|l| l.local.port() == 8081).expect("port 8081");
    assert!(v6.local.is_ipv6());
    assert_eq!((v6.limit, v6.queue.max, v6.samples_full), (16, 0, 0));
    assert_eq!(v6.drops.expect("drops").increase(), 0);
    let unix = evidence.unix_listeners.expect("Unix listeners");
    let unix = unix.iter().find(|l| l.path.ends_with("netwhy-fixture.sock")).expect("the socket");
    assert_eq!((unix.limit, unix.queue.max), (5, 1));
    assert_eq!(unix.pids, full.pids);
}

#[test]
fn sockets_have_their_states_and_figures() {
    let evidence = observe(&fixture());
    let table = evidence.sockets.expect("sockets");
    let last = table.samples.last().expect("a sample");
    assert_eq!(last.count(TcpState::CloseWait), 3);
    assert!(last.count(TcpState::SynSent) > 0);
    assert!(table.samples.len() >= 2);
    let v6 = table
        .sockets
        .iter()
        .find(|s| s.local.port() == 8081 && s.local.is_ipv6() && s.state == TcpState::Established);
    let v6 = v6.expect("a connection over IPv6");
    assert_eq!(v6.receive_queue_bytes, 100);
    assert!(v6.memory.expect("memory").receive_buffer_bytes > 0);
    assert!(v6.congestion.is_some() && v6.pid.is_some());
    let tcp = v6.tcp.as_deref().expect("tcp_info");
    assert_eq!(tcp.bytes_received, Some(100));
    assert!(tcp.rcv_wnd.is_some(), "this kernel's struct has it");
    let first = v6.first.expect("an earlier sample");
    assert!(first.samples >= 2 && first.samples_stalled == 0);

    assert_eq!(table.close_wait.len(), 1);
    let leak = &table.close_wait[0];
    assert_eq!((leak.stayed, leak.left, leak.decreased), (3, 0, false));
    assert_eq!(leak.local_port, Some(8081));
    assert!(leak.pid.is_some());
    let towards = table.port_use.iter().find(|u| u.remote.port() == 8080).expect("port use");
    assert_eq!(towards.available, 100);
    assert!(towards.in_use.max >= 3 && towards.new_sockets > 0);
    let syn = table.syn_sent.iter();
    assert!(syn.map(|s| s.connections).sum::<u64>() < 9);
}

#[test]
fn counters_numbers_and_sysctls_are_read() {
    let evidence = observe(&fixture());
    assert!(evidence.increase("TcpExtListenOverflows").expect("counter") > 0);
    assert!(evidence.increase("TcpActiveOpens").expect("counter") > 0);
    assert!(evidence.increase("Ip6InReceives").is_some());
    let sockstat = evidence.sockstat.expect("sockstat");
    assert!(sockstat.tcp_inuse.after > 0 && sockstat.tcp6_inuse.is_some());
    assert!(!evidence.softnet.as_ref().expect("softnet").is_empty());
    assert_eq!(evidence.sysctl_number("net.core.somaxconn"), Some(4096));
    assert_eq!(evidence.sysctl("net.ipv4.ip_local_port_range"), Some("40000\t40099"));
    assert_eq!(evidence.host.name, "fixture");
    assert!(evidence.host.kernel.starts_with("6."));
    assert!(evidence.host.cpus > 0 && evidence.host.memory_bytes > 0);
}

#[test]
fn processes_conntrack_and_kernel_log_are_read() {
    let evidence = observe(&fixture());
    let processes = evidence.processes.as_deref().expect("processes");
    let python = processes.iter().find(|p| p.name.starts_with("python3")).expect("python3");
    assert!(python.open_files.expect("files").max > 10);
    assert!(python.open_files_limit.is_some() && python.run_delay_ms.is_some());
    assert!(python.command.starts_with("python3"));
    let conntrack = evidence.conntrack.as_ref().expect("conntrack");
    assert!(conntrack.loaded && conntrack.count.max > 0 && conntrack.max > 0);
    assert!(conntrack.statistics.as_ref().expect("statistics").contains_key("early_drop"));
    let table = conntrack.table.as_ref().expect("the table");
    assert!(table.entries > 0 && table.by_protocol.contains_key("tcp"));
    assert!(table.top_ports.iter().any(|top| top.key == "tcp/8080"), "{table:?}");
    let log = evidence.kernel_log.as_ref().expect("the kernel's log");
    assert_eq!((log.lines, log.network.len()), (2, 1));
    assert!(log.network[0].text.contains("table full"));
}

#[test]
fn without_rights_the_rest_is_still_observed() {
    let machine = copy();
    let deny = |path: &str| {
        fs::write(machine.path().join(path), "!permission permission denied").expect("to write");
    };
    deny("events/kernel-log~1");
    let mut all = Vec::new();
    files(&machine.path().join("netlink"), &mut all);
    for path in all {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name.starts_with("netfilter") {
            deny(&format!("netlink/{name}"));
        }
    }
    let facts = fs::read_to_string(machine.path().join("machine")).expect("machine");
    fs::write(machine.path().join("machine"), facts.replace("user 0", "user 1000")).expect("facts");
    let evidence = observe(machine.path());
    assert!(evidence.kernel_log.is_none());
    assert!(evidence.listeners.is_some() && evidence.counters.is_some());
    for source in [Source::KernelLog, Source::Conntrack] {
        let missing = evidence.missing(source).expect("a note");
        assert!(missing.why.contains("permission denied"), "{missing:?}");
        assert_eq!(missing.capability, Capability::NotPermitted);
        let how = missing.how_to_observe.as_deref();
        assert!(how.is_some_and(|how| how.contains("root")), "{missing:?}");
    }
    let conntrack = evidence.conntrack.as_ref().expect("everybody may read its size");
    assert!(conntrack.count.max > 0 && conntrack.statistics.is_none());
}

#[test]
fn evidence_before_the_end_leaves_the_window_as_it_was() {
    let machine = RecordedMachine::open(fixture()).expect("the fixture");
    let mut window = Window::begin(&machine, &Focus::default(), None);
    assert_eq!(window.next_sample_due(), observe::SAMPLE_INTERVAL);
    assert_eq!(window.step(), Step::Sampled);
    let early = window.evidence_so_far();
    while window.elapsed() < DURATION {
        assert_eq!(window.step(), Step::Sampled);
    }
    let late = window.evidence_so_far();
    let end = window.end(true);
    assert!(end.window.interrupted && !late.window.interrupted);
    assert_eq!((early.window.duration_ms, late.window.duration_ms), (100, 600));
    assert_eq!((early.cost.samples_taken, end.cost.samples_taken), (1, 6));
    for source in Source::ALL {
        assert_eq!(early.has(*source), end.has(*source), "{}", source.name());
    }
    let of_port = |evidence: &Evidence, port: u16| {
        let listeners = evidence.listeners.clone().expect("listeners");
        listeners.into_iter().find(|l| l.local.port() == port).expect("the port")
    };
    let (before, after) = (of_port(&early, 8080), of_port(&end, 8080));
    assert!(before.queue.samples < after.queue.samples);
    assert_eq!(before.pids, after.pids);
    let drops = |evidence: &Evidence| evidence.increase("TcpExtListenOverflows").expect("counter");
    assert!(drops(&early) <= drops(&end) && drops(&end) > 0);
    let python = |evidence: &Evidence| {
        let mut processes = evidence.processes.clone().expect("processes").into_iter();
        processes.find(|p| p.name.starts_with("python3")).expect("python3")
    };
    assert!(python(&early).states.values().sum::<u32>() < python(&end).states.values().sum());
    assert_eq!(end.kernel_log.expect("the kernel's log").lines, 2);
    assert_eq!(end.sockets.expect("sockets").close_wait.len(), 1);
}

#[test]
fn series_are_few_and_have_the_worst() {
    let machine = RecordedMachine::open(fixture()).expect("the fixture");
    let mut window = Window::begin(&machine, &Focus::default(), None);
    let value = |series: &[Series], name: &str, label: Option<(&str, &str)>| {
        let same = |s: &&Series| {
            s.name == name && label.is_none_or(|(label, value)| s.label(label) == Some(value))
        };
        series.iter().find(same).map(|series| series.value)
    };
    assert!(value(&window.series(), "tcp_listeners", None).is_some(), "at the beginning too");
    while window.elapsed() < DURATION {
        window.step();
    }
    let series = window.series();
    assert!(series.len() < 100, "{} series", series.len());
    let mut names: Vec<_> = series.iter().map(|s| (&s.name, &s.labels)).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), series.len(), "each once");
    let listener = Some(("listener", "127.0.0.1:8080"));
    assert_eq!(value(&series, "tcp_listen_queue", listener), Some(3.0));
    assert_eq!(value(&series, "tcp_listen_queue_limit", listener), Some(2.0));
    assert!(value(&series, "tcp_listen_queue_full_samples", listener) > Some(0.0));
    let drops = value(&series, "tcp_listen_drops", listener);
    assert!(drops > Some(0.0) && value(&series, "tcp_handshakes_dropped", None) == drops);
    let close_wait = Some(("state", "CLOSE-WAIT"));
    assert_eq!(value(&series, "tcp_sockets", close_wait), Some(3.0));
    for name in ["tcp_syn_retransmitting", "conntrack_entries", "conntrack_max_entries"] {
        assert!(value(&series, name, None).is_some(), "{name}");
    }
    assert_eq!(value(&series, "kernel_log_lines", None), Some(2.0));
}

#[test]
fn on_a_machine_without_answers_everything_is_missing() {
    let machine = tempfile::tempdir().expect("a folder");
    fs::write(machine.path().join("machine"), "start_ms 0\n").expect("facts");
    let evidence = observe(machine.path());
    assert!(evidence.sockets.is_none() && evidence.counters.is_none());
    assert!(evidence.processes.is_none() && evidence.listeners.is_none());
    for source in [Source::Sockets, Source::Listeners, Source::Counters, Source::Processes] {
        assert!(evidence.missing(source).is_some(), "{source:?}");
    }
}

#[test]
fn any_damage_is_survived() {
    let mut all = Vec::new();
    files(&fixture(), &mut all);
    all.sort();
    let whole = fixture();
    // A fixed seed: the same damage on every run.
    let mut seed = 0x5eed_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below.max(1)
    };
    for round in 0..60 {
        let machine = copy();
        for _ in 0..=round % 5 {
            let file = &all[random(all.len())];
            let file = machine.path().join(file.strip_prefix(&whole).expect("inside"));
            if file.ends_with("machine") {
                continue;
            }
            let mut bytes = fs::read(&file).expect("a file");
            match random(3) {
                0 => bytes.truncate(random(bytes.len())),
                1 => {
                    for _ in 0..8 {
                        let at = random(bytes.len());
                        if let Some(byte) = bytes.get_mut(at) {
                            *byte = b"0123456789abcdef\xff\0 "[random(19)];
                        }
                    }
                }
                _ => bytes.extend_from_slice(&[0xff; 64]),
            }
            fs::write(&file, bytes).expect("to write");
        }
        let evidence = observe(machine.path());
        assert_eq!(evidence.schema_version, model::Evidence::SCHEMA_VERSION);
    }
}
