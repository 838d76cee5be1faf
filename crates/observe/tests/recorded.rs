//! The observers on a machine recorded by `tools/record-fixture`: what is expected here is what
//! that script set up. A window on it takes no time.

#![allow(clippy::expect_used)]

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Evidence, Focus, Source, TcpState};
use observe::watch::{Interrupted, watch};
use sys::replay::RecordedMachine;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/host")
}

fn observe(folder: &Path) -> Evidence {
    let machine = RecordedMachine::open(folder).expect("the fixture");
    watch(&machine, &Focus::default(), None, &mut |progress| {
        if progress.elapsed >= Duration::from_millis(600) {
            ControlFlow::Break(Interrupted::No)
        } else {
            ControlFlow::Continue(())
        }
    })
}

/// A copy of the fixture that a test may spoil.
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
fn listeners_have_queue_limit_drops_and_holder() {
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
    let last = table.samples.last().expect("a look");
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
    let first = v6.first.expect("an earlier look");
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
fn a_machine_without_rights_has_gaps_and_keeps_the_rest() {
    let machine = copy();
    let deny = |path: &str| {
        fs::write(machine.path().join(path), "!permission permission denied").expect("to write");
    };
    deny("files/dev/kmsg~1");
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
        let gap = evidence.missing(source).expect("a gap");
        assert!(gap.why.contains("permission denied"), "{gap:?}");
        assert!(gap.how_to_observe.as_deref().is_some_and(|c| c.contains("root")), "{gap:?}");
    }
    let conntrack = evidence.conntrack.as_ref().expect("its size is for all to see");
    assert!(conntrack.count.max > 0 && conntrack.statistics.is_none());
}

#[test]
fn a_machine_that_says_nothing_is_all_gaps() {
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
fn damage_harms_nobody() {
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
            let victim = &all[random(all.len())];
            let victim = machine.path().join(victim.strip_prefix(&whole).expect("inside"));
            if victim.ends_with("machine") {
                continue;
            }
            let mut bytes = fs::read(&victim).expect("a file");
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
            fs::write(&victim, bytes).expect("to write");
        }
        let evidence = observe(machine.path());
        assert_eq!(evidence.schema_version, model::Evidence::SCHEMA_VERSION);
    }
}
