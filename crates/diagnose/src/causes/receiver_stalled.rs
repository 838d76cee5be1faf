//! # receiver-stalled
//!
//! ## What happens
//!
//! A process does not read. Its receive buffer fills, the kernel closes the window
//! that it advertises, and the sender may send nothing but probes. Everything on
//! that connection waits, and what the sender writes fills its own send buffer
//! until it blocks too.
//!
//! ## Evidence
//!
//! - at the reader: unread data leaves no window worth a segment, in every sample,
//!   and nothing more arrives (`bytes_received` does not change);
//! - at the sender: data waits, the peer's window is closed, only probes go out
//!   (the persist timer runs), and nothing more is acknowledged;
//! - in packets: the window goes to zero and stays closed for longer than a round
//!   trip, until it opens by a segment. Probes of it, also those of a full segment,
//!   and data that was sent beyond it, are no losses.
//!
//! When both ends are on this host, the reader is named; its sender is an effect.
//!
//! ## Threshold
//!
//! Every sample of the window, at least two, a second apart or more, without a byte
//! in between, and 3 s or more since the last byte by the kernel's own clock
//! (`tcpi_last_data_recv`, `tcpi_last_data_sent`). A reader with a buffer of its
//! own, such as a player, pauses for a second or two and nobody waits. A reader
//! that is merely slower than its sender opens the window again and again: bytes
//! move. In packets: a round trip, and a millisecond if the sender had to probe;
//! 20 ms (several time slices of other tasks) if it was 5 % of the active time
//! (all but idle periods); otherwise 200 ms: a reader on a busy CPU is late now and
//! then. Its share of the active time says how bad it is. The kernel advertises no
//! window below 1/16 of the buffer (`__tcp_select_window`), so the buffer counts as
//! full from there.
//!
//! ## Looks like it, but is not
//!
//! - A reader that is slow: receive-window-limited, bytes move.
//! - A player that has buffered enough and pauses: it reads again within seconds.
//! - An idle connection with some unread bytes: the window is open.
//! - A lost connection: the sender retransmits, it does not probe a closed window.
//!
//! ## Check by hand
//!
//! ```sh
//! # unchanged: Recv-Q at the reader, Send-Q at the sender (timer:(persist,...))
//! ss -tnomp
//! ```
//!
//! ## Fix
//!
//! The process must read: find out what it waits for (`strace -p PID`, or its
//! stack). A larger buffer (`tcp_rmem`) only postpones the stall; no sysctl fixes
//! it.
//!
//! ## Expected gain
//!
//! Not predictable: packets and sockets do not show how fast the reader could
//! read.
//!
//! ## References
//!
//! - RFC 9293, section 3.8.6.1 (zero-window probing); RFC 1122, section 4.2.2.17
//! - Linux: `tcp_probe_timer`, `__tcp_select_window`

mod packets;

use std::collections::HashSet;
use std::net::SocketAddr;

use model::{
    Consequence, Evidence, Finding, FirstSample, Impact, ImpactUnit, Process, ProcessName, Proof,
    Severity, Socket, Source, SubjectKind, TcpState, TimerKind,
};
use text::{count, micros};

use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::connections::{by_process, canonical, common_end, owner};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::reach::{belongs_to_others, without_remedies_of};
use crate::remedies::{advice, advice_about};
use crate::words::{line, process_name, subject, title};

pub(super) const CAUSE: Cause = Cause {
    id: "receiver-stalled",
    title: "a process does not read what it receives",
    slows: Slows::Transfers,
    needs: &[&[Source::Sockets], &[Source::Packets]],
    rule,
    source: include_str!("receiver_stalled.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Samples in which it must have been stalled, and their distance.
const MIN_SAMPLES: u32 = 2;
const MIN_DISTANCE_MS: u64 = 1_000;
/// Less is a pause: readers with a buffer of their own pause all the time.
const MIN_STALL_MS: u64 = 3_000;
/// Share of the receive buffer from which on the kernel advertises no window.
const MIN_BUFFER_FILL: f64 = 15.0 / 16.0;
/// Senders on this host that are named as consequences.
const MAX_SENDERS: usize = 3;

fn rule(evidence: &Evidence) -> Verdict {
    let all = evidence.sockets.as_ref().map(|s| &s.sockets[..]).unwrap_or_default();
    let stalled: Vec<&Socket> = all.iter().filter(|socket| is_stalled(socket)).collect();
    let readers: Vec<&Socket> = stalled.iter().copied().filter(|s| is_reader(s)).collect();
    let here: HashSet<(SocketAddr, SocketAddr)> =
        readers.iter().map(|s| (s.remote, s.local)).collect();
    // A sender whose reader is here too is named with it.
    let senders: Vec<&Socket> = stalled
        .iter()
        .copied()
        .filter(|s| is_sender(s) && !here.contains(&(s.local, s.remote)))
        .collect();
    let readers = by_process(&readers, |s| s.local.port());
    let senders = by_process(&senders, |s| s.remote.port());
    let mut findings = Vec::new();
    findings.extend(readers.iter().filter_map(|group| of_readers(evidence, group, all)));
    findings.extend(senders.iter().filter_map(|group| of_senders(evidence, group)));
    if let Some(packets) = &evidence.packets {
        // Connections that the sockets show already are not reported again.
        let known = stalled.iter().flat_map(|s| [(s.local, s.remote), (s.remote, s.local)]);
        let known = known.map(|(a, b)| (canonical(a), canonical(b))).collect();
        findings.extend(packets::findings(evidence, packets, &known));
    }
    Verdict::from_findings(findings, || match (all.len(), &evidence.packets) {
        (0, Some(packets)) => packets::otherwise(packets),
        (0, None) => Verdict::not_checked("no TCP connection"),
        (connections, _) => Verdict::RuledOut(format!(
            "stalled readers (0 of {})",
            count(connections as u64, "connection")
        )),
    })
}

/// Stalled in every sample, and not a byte moved.
fn is_stalled(socket: &Socket) -> bool {
    let Some(first) = socket.first else {
        return false;
    };
    let Some(tcp) = socket.tcp.as_deref() else {
        return false;
    };
    let open = matches!(
        socket.state,
        TcpState::Established | TcpState::CloseWait | TcpState::FinWait1 | TcpState::FinWait2
    );
    let apart_ms = socket.last_at_ms.saturating_sub(first.at_ms);
    let quiet_ms = if is_reader(socket) { tcp.last_data_recv_ms } else { tcp.last_data_sent_ms };
    open && first.samples >= MIN_SAMPLES
        && first.samples_stalled == first.samples
        && apart_ms >= MIN_DISTANCE_MS
        && apart_ms.max(quiet_ms.map_or(0, u64::from)) >= MIN_STALL_MS
        && (tcp.bytes_received == Some(first.bytes_received) || socket.receive_queue_bytes == 0)
        && (tcp.bytes_acked == Some(first.bytes_acked) || socket.send_queue_bytes == 0)
        && (is_reader(socket) || is_sender(socket))
}

/// Unread data fills the buffer, as it did at first.
fn is_reader(socket: &Socket) -> bool {
    let closed = socket.tcp.as_deref().is_some_and(
        |tcp| matches!((tcp.rcv_wnd, tcp.rcv_mss), (Some(window), Some(mss)) if window < mss),
    );
    let full = socket.receive_fill().is_some_and(|fill| fill >= MIN_BUFFER_FILL);
    socket.receive_queue_bytes > 0
        && (closed || full)
        && socket.first.is_some_and(|first| first.receive_queue_bytes > 0)
}

/// Data waits for a window that is closed.
fn is_sender(socket: &Socket) -> bool {
    let tcp = socket.tcp.as_deref();
    let closed = tcp.is_some_and(|tcp| tcp.snd_wnd == Some(0));
    socket.send_queue_bytes > 0
        && (socket.timer.kind == TimerKind::Persist || closed)
        && tcp.is_none_or(|tcp| tcp.retransmits.unwrap_or(0) == 0)
}

/// `None` for an empty group.
fn of_readers(evidence: &Evidence, group: &[&Socket], all: &[Socket]) -> Option<Finding> {
    let example = *group.first()?;
    let owners: Vec<ProcessName> = owner(evidence, example).into_iter().collect();
    let process = process_name(&owners).unwrap_or_else(|| "a process".to_string());
    let unread: u64 = group.iter().map(|s| u64::from(s.receive_queue_bytes)).sum();
    let tcp = example.tcp.as_deref();
    let silent_ms = tcp.and_then(|tcp| tcp.last_data_recv_ms).unwrap_or(0);
    let window = match tcp.and_then(|tcp| tcp.rcv_wnd) {
        Some(window) => text::bytes(u64::from(window)),
        None => "closed".to_string(),
    };
    let text = format!(
        "{} -> {}: {} unread, window {window}, in {}; last data {} ago",
        example.remote,
        example.local,
        text::bytes(u64::from(example.receive_queue_bytes)),
        samples_text(example),
        micros(u64::from(silent_ms) * 1_000),
    );
    let mut proofs = vec![stall_proof(evidence, example, group.len(), text)];
    proofs.extend(activity(example.pid.and_then(|pid| evidence.process(pid))));
    let local = common_end(group, |s| s.local);
    let port = example.local.port();
    Some(Finding {
        cause: CAUSE.id.to_string(),
        title: title(
            format!("{process} does not read what it receives"),
            "A process does not read what it receives",
        ),
        severity: Severity::Critical,
        subject: subject(
            SubjectKind::Connection,
            local.map_or_else(|| format!("{process}, port {port}"), |l| l.to_string()),
            local,
            common_end(group, |s| s.remote),
            owners,
        ),
        impact: Impact {
            text: format!(
                "{} stalled, {} unread",
                count(group.len() as u64, "connection"),
                text::bytes(unread)
            ),
            unit: ImpactUnit::ConnectionsStalled,
            amount: group.len() as f64,
            share: None,
        },
        evidence: proofs,
        checks: commands([CommandLine::new("ss -tnomp")
            .arg(format!("sport = :{port}"))
            .in_netns(evidence)]),
        remedies: vec![
            advice(match example.pid {
                Some(pid) => format!("{process} must read; what it waits for: strace -p {pid}"),
                None => "the process must read; strace shows what it waits for".to_string(),
            }),
            advice("a larger receive buffer (tcp_rmem) only postpones it"),
        ],
        gain: gain::not_predictable("how fast the reader could read is not known"),
        also_causes: senders_on_this_host(evidence, group, all),
    })
}

/// Senders that wait for these readers on the same host.
fn senders_on_this_host(
    evidence: &Evidence,
    readers: &[&Socket],
    all: &[Socket],
) -> Vec<Consequence> {
    let sender = |reader: &&Socket| {
        let ends = (reader.remote, reader.local);
        all.iter().find(|s| (s.local, s.remote) == ends).filter(|s| s.send_queue_bytes > 0)
    };
    let waiting = |sender: &Socket| {
        let who = match owner(evidence, sender) {
            Some(process) => format!("{} (pid {})", line(&process.name), process.pid),
            None => "its sender".to_string(),
        };
        let bytes = text::bytes(u64::from(sender.send_queue_bytes));
        Consequence { cause: None, text: format!("{who} waits with {bytes} to send") }
    };
    readers.iter().filter_map(sender).map(waiting).take(MAX_SENDERS).collect()
}

/// `None` for an empty group.
fn of_senders(evidence: &Evidence, group: &[&Socket]) -> Option<Finding> {
    let example = *group.first()?;
    let owners: Vec<ProcessName> = owner(evidence, example).into_iter().collect();
    let process = process_name(&owners).unwrap_or_else(|| "a process".to_string());
    let unsent: u64 = group.iter().map(|s| u64::from(s.send_queue_bytes)).sum();
    let remote = common_end(group, |s| s.remote);
    let host = example.remote.ip().to_canonical().to_string();
    let reader = remote.map_or_else(|| host.clone(), |r| r.to_string());
    let probes = example.tcp.as_deref().and_then(|tcp| tcp.probes).unwrap_or(example.timer.tries);
    let text = format!(
        "{} -> {}: {} waiting, the peer's window is closed \
         in {}; {} without an answer, nothing acknowledged",
        example.local,
        example.remote,
        text::bytes(u64::from(example.send_queue_bytes)),
        samples_text(example),
        count(u64::from(probes), "probe"),
    );
    let fix = vec![advice_about(
        &host,
        format!("the process at {reader} must read: run netwhy on {host}"),
    )];
    Some(Finding {
        cause: CAUSE.id.to_string(),
        title: title(
            format!("The reader at {reader} does not read what {process} sends"),
            "A remote reader does not read",
        ),
        severity: Severity::Critical,
        subject: subject(
            SubjectKind::Connection,
            format!("the reader at {reader}"),
            common_end(group, |s| s.local),
            remote,
            owners,
        ),
        impact: Impact {
            text: format!(
                "{} stalled, {} of {process} wait to be sent",
                count(group.len() as u64, "connection"),
                text::bytes(unsent)
            ),
            unit: ImpactUnit::ConnectionsStalled,
            amount: group.len() as f64,
            share: None,
        },
        evidence: vec![stall_proof(evidence, example, group.len(), text)],
        checks: commands([CommandLine::new("ss -tnomp")
            .arg(format!("dport = :{}", example.remote.port()))
            .in_netns(evidence)]),
        remedies: if belongs_to_others(example.remote.ip(), example.local.ip()) {
            without_remedies_of(example.remote.ip(), fix)
        } else {
            fix
        },
        gain: gain::not_predictable("how fast the reader could read is not known"),
        also_causes: Vec::new(),
    })
}

fn stall_proof(evidence: &Evidence, example: &Socket, connections: usize, text: String) -> Proof {
    let first = example.first.unwrap_or_default();
    proof(Source::Sockets, "proof", text)
        .over_window(evidence, "connections stalled", connections as f64, "connections")
        .over_window(evidence, "samples stalled", f64::from(first.samples_stalled), "samples")
        .over_window(evidence, "samples", f64::from(first.samples), "samples")
        .at_moment("unread", f64::from(example.receive_queue_bytes), "bytes")
        .at_moment("waiting to be sent", f64::from(example.send_queue_bytes), "bytes")
}

fn samples_text(socket: &Socket) -> String {
    let FirstSample { samples, samples_stalled, .. } = socket.first.unwrap_or_default();
    format!("{samples_stalled} of {}", count(u64::from(samples), "sample"))
}

/// What the process did instead of reading.
fn activity(process: Option<&Process>) -> Option<Proof> {
    let process = process?;
    let (letter, _) = process.states.iter().max_by_key(|(_, samples)| **samples)?;
    let words = match letter {
        'R' => "was running: it is busy with something else",
        'S' => "slept: it waits for something else",
        'D' => "slept in the kernel (state D): it waits for a disk or a file system",
        'T' | 't' => "is stopped (state T)",
        _ => "is in another state",
    };
    let text = format!("{} (pid {}) {words}", line(&process.name), process.pid);
    Some(proof(Source::Processes, "why", text))
}

#[cfg(test)]
pub(super) mod tests {
    use model::{Stalls, TimeCategory};

    use super::*;
    use crate::fixtures::{add_process, add_socket, findings_of, healthy, remove_source};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        let mut reader = host();
        stalled_reader(&mut reader);
        stalled_sender(&mut reader);
        let mut sender = host();
        stalled_sender(&mut sender);
        vec![reader, sender, packets::tests::example()]
    }

    fn stalled_reader(evidence: &mut Evidence) -> &mut Socket {
        let reader = add_socket(evidence, "198.18.0.1:8080", "198.18.0.2:40000", Some(7));
        reader.receive_queue_bytes = 65_000;
        let tcp = reader.tcp.as_mut().unwrap();
        tcp.rcv_wnd = Some(0);
        reader.first = Some(FirstSample {
            samples: 3,
            samples_stalled: 3,
            receive_queue_bytes: 65_000,
            ..reader.first.unwrap()
        });
        reader
    }

    fn stalled_sender(evidence: &mut Evidence) -> &mut Socket {
        let sender = add_socket(evidence, "198.18.0.2:40000", "198.18.0.1:8080", Some(8));
        sender.send_queue_bytes = 900_000;
        sender.timer.kind = TimerKind::Persist;
        sender.first = Some(FirstSample { samples_stalled: 3, ..sender.first.unwrap() });
        sender
    }

    fn host() -> Evidence {
        let mut evidence = healthy();
        add_process(&mut evidence, 7, "python3");
        add_process(&mut evidence, 8, "curl");
        evidence
    }

    #[test]
    fn fires_for_the_reader_and_folds_its_sender() {
        let mut evidence = host();
        stalled_reader(&mut evidence);
        stalled_sender(&mut evidence);
        let findings = findings_of(rule(&evidence));
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(finding.subject.processes[0].name, "python3");
        assert_eq!(finding.also_causes[0].text, "curl (pid 8) waits with 879 KiB to send");
    }

    #[test]
    fn fires_for_a_remote_reader_at_its_sender() {
        let mut evidence = host();
        stalled_sender(&mut evidence);
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(finding.subject.name, "the reader at 198.18.0.1:8080");
        assert_eq!(finding.title, "The reader at 198.18.0.1:8080 does not read what curl sends");
    }

    #[test]
    fn connections_that_sockets_show_are_not_reported_again() {
        let mut evidence = host();
        stalled_reader(&mut evidence);
        for client in ["198.18.0.2:40000", "198.18.0.2:40001"] {
            let stream = crate::fixtures::add_stream(&mut evidence, client, "198.18.0.1:8080");
            crate::fixtures::set_time(
                &mut stream.from_client,
                TimeCategory::ReceiverStalled,
                2_000_000,
            );
            stream.from_client.zero_window_stalls = Stalls { count: 1, ..Stalls::default() };
            stream.from_client.zero_window_stalls.longest_us = 2_000_000;
            stream.from_server.zero_windows = 1;
        }
        let findings = findings_of(rule(&evidence));
        let [of_socket, of_packets] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(of_socket.subject.processes[0].name, "python3");
        assert!(of_packets.subject.name.contains("198.18.0.2:40001 > 198.18.0.1:8080"));
    }

    #[test]
    fn fires_once_for_many_connections_of_one_process() {
        let mut evidence = host();
        for port in 1..=5 {
            stalled_reader(&mut evidence).remote.set_port(port);
        }
        let findings = findings_of(rule(&evidence));
        assert_eq!((findings.len(), findings[0].impact.amount), (1, 5.0));
    }

    #[test]
    fn stays_quiet_when_bytes_move_or_it_was_a_moment() {
        let mut evidence = host();
        stalled_reader(&mut evidence).tcp.as_mut().unwrap().bytes_received = Some(9_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        let mut evidence = host();
        stalled_reader(&mut evidence).first.as_mut().unwrap().samples_stalled = 2;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        let mut evidence = host();
        stalled_sender(&mut evidence).tcp.as_mut().unwrap().bytes_acked = Some(9_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_for_a_pause_between_late_samples() {
        let mut evidence = host();
        for add in [stalled_reader, stalled_sender] {
            let end = add(&mut evidence);
            end.last_at_ms = end.first.unwrap().at_ms + 1_500;
        }
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        for end in &mut evidence.sockets.as_mut().unwrap().sockets {
            let tcp = end.tcp.as_mut().unwrap();
            (tcp.last_data_recv_ms, tcp.last_data_sent_ms) = (Some(3_100), Some(3_100));
        }
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }

    #[test]
    fn stays_quiet_for_some_unread_bytes_and_an_open_window() {
        let mut evidence = host();
        let idle = add_socket(&mut evidence, "198.18.0.1:8080", "198.18.0.2:4", Some(7));
        idle.receive_queue_bytes = 200;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_sockets() {
        let mut evidence = host();
        remove_source(&mut evidence, Source::Sockets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }

    #[test]
    fn extreme_values_do_not_panic() {
        let mut evidence = host();
        let odd = stalled_reader(&mut evidence);
        odd.pid = None;
        odd.memory = None;
        odd.receive_queue_bytes = u32::MAX;
        odd.last_at_ms = u64::MAX;
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }
}
