//! The causes found in the connections of the transfers.
//!
//! The rules judge this host, its sockets and its packets. What only the sender's kernel knows comes from
//! the sender: when that is the peer, its sockets are judged as evidence of their own.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use model::{
    Evidence, Finding, MissingEvidence, SenderTimeCategory, Socket, SocketTable, Source, Subject,
    Transfer, TransferDirection, TransferSender, Undecided,
};

/// Causes that the connections of a transfer can show. Others are found too, but only these are reported
/// as undecided when evidence is missing.
const TRANSFER_CAUSES: [&str; 6] = [
    "slow-start-after-idle",
    "initial-window-small",
    "short-connections",
    "send-buffer-limited",
    "receive-window-limited",
    "application-limited",
];
/// The one that only the sender's kernel can show.
const BY_SENDER: &str = "send-buffer-limited";

/// What the rules find.
pub(super) struct Judged {
    /// In the connections of the transfers.
    pub(super) findings: Vec<Finding>,
    /// Elsewhere on this host.
    pub(super) other_findings: Vec<Finding>,
    pub(super) undecided: Vec<Undecided>,
    pub(super) missing_evidence: Vec<MissingEvidence>,
}

/// Judges the transfers and this host during them.
pub(super) fn judge(evidence: &Evidence, transfer: &Transfer) -> Judged {
    let report = diagnose::diagnose(evidence);
    let at_sender = diagnose::diagnose(&sender_evidence(evidence, transfer));
    let is_by_sender = |finding: &Finding| finding.cause == BY_SENDER;
    let mut all: Vec<Finding> = report.findings;
    all.retain(|finding| !is_by_sender(finding));
    let located = |finding| match transfer.direction {
        TransferDirection::Down => at_the_peer(finding, transfer),
        TransferDirection::Up => finding,
    };
    all.extend(at_sender.findings.into_iter().filter(is_by_sender).map(located));
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let (findings, other_findings) =
        all.into_iter().partition(|finding| concerns(&finding.subject, transfer));
    let mut undecided = report.undecided;
    undecided.retain(|one| TRANSFER_CAUSES.contains(&one.cause.as_str()) && one.cause != BY_SENDER);
    if transfer.senders.is_empty() {
        undecided.push(Undecided {
            cause: BY_SENDER.to_string(),
            needs: "the sender's side of the transfers".to_string(),
            sources: vec![Source::Transfer],
            how_to_observe: Some("netwhy transfer serve at the other end".to_string()),
        });
    }
    let mut missing_evidence = report.missing_evidence;
    missing_evidence.retain(|missing| missing.source == Source::Packets);
    Judged { findings, other_findings, undecided, missing_evidence }
}

/// The sender's sockets as evidence.
fn sender_evidence(evidence: &Evidence, transfer: &Transfer) -> Evidence {
    let sockets = transfer.senders.iter().filter_map(socket);
    let wmem = transfer.senders.iter().find_map(|sender| sender.tcp_wmem.clone());
    let wmem = wmem.map(|value| ("net.ipv4.tcp_wmem".to_string(), value));
    Evidence {
        schema_version: evidence.schema_version,
        window: evidence.window,
        sockets: Some(SocketTable { sockets: sockets.collect(), ..SocketTable::default() }),
        sysctls: Some(wmem.into_iter().collect::<BTreeMap<_, _>>()),
        ..Evidence::default()
    }
}

/// The socket of a sender. The kernel's time of a full send buffer begins only when data is sent while the
/// writer waits; the writer of a transfer knows better how long it waited.
fn socket(sender: &TransferSender) -> Option<Socket> {
    let mut socket = sender.socket.as_deref()?.clone();
    let full =
        sender.time_breakdown.iter().find(|share| share.category == SenderTimeCategory::SendBuffer);
    if let (Some(full), Some(tcp), 1) = (full, &mut socket.tcp, sender.connections) {
        let before = socket.first.map_or(0, |first| first.sndbuf_limited_us);
        let measured = before.saturating_add(full.time_us);
        tcp.sndbuf_limited_us = tcp.sndbuf_limited_us.map(|kernel| kernel.max(measured));
    }
    Some(socket)
}

/// A finding of the peer's host: its commands are for there.
fn at_the_peer(mut finding: Finding, transfer: &Transfer) -> Finding {
    let peer = transfer.address.map_or_else(|| "the sender".to_string(), |at| at.ip().to_string());
    let remedies = finding.remedies.iter_mut();
    let commands = remedies.flat_map(|remedy| {
        remedy.text = format!("on {peer}: {}", remedy.text);
        remedy.host = Some(peer.clone());
        [remedy.command.as_mut(), remedy.undo.as_mut()].into_iter().flatten()
    });
    for command in commands.chain(&mut finding.checks) {
        command.host = Some(peer.clone());
    }
    finding
}

/// Whether one of the ends is the peer of the transfers.
fn concerns(subject: &Subject, transfer: &Transfer) -> bool {
    let Some(peer) = transfer.address else { return false };
    let same = |end: SocketAddr| {
        end.ip().to_canonical() == peer.ip().to_canonical() && end.port() == peer.port()
    };
    [subject.local, subject.remote].into_iter().flatten().any(same)
}

#[cfg(test)]
mod tests {
    use model::{SubjectKind, TransferSender};

    use super::*;

    #[test]
    fn a_finding_belongs_to_the_transfer_if_one_end_is_the_peer() {
        let peer: SocketAddr = "198.18.0.2:7717".parse().unwrap();
        let transfer = Transfer { address: Some(peer), ..Transfer::default() };
        let subject = |local: &str, remote: Option<&str>| Subject {
            kind: SubjectKind::Connection,
            name: String::new(),
            local: Some(local.parse().unwrap()),
            remote: remote.map(|end| end.parse().unwrap()),
            processes: Vec::new(),
        };
        assert!(concerns(&subject("198.18.0.2:7717", None), &transfer));
        assert!(concerns(&subject("198.18.0.1:4", Some("198.18.0.2:7717")), &transfer));
        assert!(concerns(&subject("[::ffff:198.18.0.2]:7717", None), &transfer));
        assert!(!concerns(&subject("198.18.0.2:80", None), &transfer));
        assert!(!concerns(&subject("198.18.0.1:7717", None), &transfer));
    }

    #[test]
    fn a_full_send_buffer_is_found_by_the_time_that_the_writer_waited() {
        use model::{FirstSample, SenderTimeShare, TcpInfo, TcpState, Timer};
        let socket = Socket {
            local: "198.18.0.2:7717".parse().unwrap(),
            remote: "198.18.0.1:4000".parse().unwrap(),
            state: TcpState::Established,
            inode: 0,
            cookie: 1,
            uid: 0,
            interface: 0,
            pid: None,
            receive_queue_bytes: 0,
            send_queue_bytes: 0,
            timer: Timer::default(),
            memory: None,
            tcp: Some(Box::new(TcpInfo {
                busy_time_us: Some(4_000_000),
                sndbuf_limited_us: Some(100_000),
                rtt_us: Some(40_000),
                ..TcpInfo::default()
            })),
            congestion: None,
            last_at_ms: 4_000,
            first: Some(FirstSample::default()),
        };
        let sender = |time_us| TransferSender {
            connections: 1,
            socket: Some(Box::new(socket.clone())),
            time_breakdown: vec![SenderTimeShare {
                category: SenderTimeCategory::SendBuffer,
                time_us,
            }],
            ..TransferSender::default()
        };
        let judged = |us, direction| {
            let transfer = Transfer {
                address: Some(socket.local),
                senders: vec![sender(us)],
                direction,
                ..Transfer::default()
            };
            judge(&Evidence::default(), &transfer).findings
        };
        let found = judged(3_500_000, TransferDirection::Down);
        assert_eq!(found[0].cause, BY_SENDER);
        let peer = Some("198.18.0.2".to_string());
        let remedy = &found[0].remedies[0];
        assert!(remedy.text.starts_with("on 198.18.0.2: "), "{found:?}");
        assert_eq!((&remedy.host, &found[0].checks[0].host), (&peer, &peer), "{found:?}");
        assert!(judged(100_000, TransferDirection::Down).is_empty());
    }

    #[test]
    fn without_the_senders_statistics_nothing_is_found() {
        let transfer = Transfer { senders: vec![TransferSender::default()], ..Transfer::default() };
        let judged = judge(&Evidence::default(), &transfer);
        assert!(judged.findings.is_empty() && judged.other_findings.is_empty());
    }
}
