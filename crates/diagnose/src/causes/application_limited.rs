//! # application-limited
//!
//! ## What happens
//!
//! The sender's process gets what it sends in small pieces, and each piece takes a
//! moment: a read of 1 KiB from a store, a row of a query. Between two pieces the
//! connection has nothing to send. The window is open, the buffers are empty, the
//! line is idle, and the transfer takes as long as the pieces do.
//!
//! ## Evidence
//!
//! A transfer of netwhy itself (`netwhy transfer`), of which both ends are known:
//! the sender has more to say until the last byte is written. Every few
//! milliseconds its kernel is asked (`tcp_info`): all that was written is on its
//! way or has arrived (`tcpi_notsent_bytes` is 0), fewer segments are out than the
//! congestion window (`tcpi_unacked`, `tcpi_snd_cwnd`) and the receiver's window
//! allow, and the process is getting its next piece meanwhile.
//!
//! ## Threshold
//!
//! A quarter of the time in which the sender had something to say, of 200 ms and
//! more. The time in `write()` itself does not count: that is a busy CPU.
//!
//! ## Looks like it, but is not
//!
//! - A live feed, a video that is sent as it is watched: who sends has no more to
//!   say. Packets alone do not tell the two apart, and name neither.
//! - send-buffer-limited: the process waits in `write()`, or for room.
//! - receive-window-limited, slow start: a window is full.
//!
//! ## Check by hand
//!
//! ```sh
//! # at the sender: app_limited; busy is less than the time that passed
//! ss -tin dst ADDRESS
//! # sizes of reads and writes, and the time between them
//! strace -f -r -e trace=read,pread64,write,sendto,sendfile -p PID
//! ```
//!
//! ## Mend
//!
//! In the application: read and write more at once (`--buffer 1MiB` shows what it
//! brings), read ahead while the last piece is sent, `sendfile`.
//!
//! ## References
//!
//! - Linux: `tcp_rate_check_app_limited`, `TCP_CHRONO_BUSY`
//! - Zhang, Breslau, Paxson, Shenker: On the characteristics and origins of
//!   Internet flow rates (SIGCOMM 2002)

use model::{
    Evidence, Finding, Impact, ImpactUnit, SenderTimeCategory, Severity, Source, SubjectKind,
    Transfer, TransferDirection,
};
use text::{bytes, count, micros, percent, share};

use crate::Verdict;

use crate::make::{WithFigures as _, advice, proof, subject};
use crate::words::command;

/// Share of the sender's time.
const LEAST: f64 = 0.25;
/// The same, from which on it is most of what is wrong.
const CRITICAL: f64 = 0.5;
/// So much time there must have been, microseconds.
const SENDING_US: u64 = 200_000;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let transfer = evidence.probes.as_ref().and_then(|probes| probes.transfer.as_ref());
    let Some(transfer) = transfer else {
        return Verdict::RuledOut("no transfer was made".to_string());
    };
    if transfer.senders.is_empty() {
        return Verdict::Undecided {
            needs: "the sender's side of the transfers".to_string(),
            closes_with: Some("netwhy transfer serve at the other end".to_string()),
        };
    }
    let (waited, all) = times(transfer);
    let part = share(waited as f64, all as f64);
    let findings = if all >= SENDING_US && part >= LEAST {
        vec![finding(evidence, transfer, waited, all)]
    } else {
        Vec::new()
    };
    Verdict::from_findings(findings, || {
        format!("the application ({} of the sending time)", percent(part))
    })
}

/// How long the sender had nothing to write, and how long it sent, microseconds.
fn times(transfer: &Transfer) -> (u64, u64) {
    let shares = transfer.time_breakdown();
    let all = shares.iter().map(|share| share.time_us).fold(0, u64::saturating_add);
    let waited = shares.iter().find(|share| share.category == SenderTimeCategory::Application);
    (waited.map_or(0, |share| share.time_us), all)
}

fn finding(evidence: &Evidence, transfer: &Transfer, waited: u64, all: u64) -> Finding {
    let part = share(waited as f64, all as f64);
    let sum = |of: fn(&model::TransferSender) -> u64| {
        transfer.senders.iter().map(of).fold(0, u64::saturating_add)
    };
    let writes = sum(|sender| sender.writes);
    let each = sum(|sender| sender.written_bytes) / writes.max(1);
    let (sender, receiver) = match (transfer.direction, transfer.address) {
        (TransferDirection::Down, Some(peer)) => (peer.to_string(), "this host".to_string()),
        (TransferDirection::Up, Some(peer)) => ("this host".to_string(), peer.to_string()),
        (_, None) => ("the sender".to_string(), "the receiver".to_string()),
    };
    let mut text = format!(
        "{} of {} {sender} had more to send and nothing to\nwrite, with room in both windows \
         and nothing unsent; {} of\n{} each",
        micros(waited),
        micros(all),
        count(writes, "write"),
        bytes(each),
    );
    let took =
        transfer.transfers.iter().filter_map(|one| Some((one.duration_us, one.theory?.total_us)));
    if let Some((took, theory)) = took.max() {
        text.push_str(&format!(
            "; a transfer took {}, theory says {}",
            micros(took),
            micros(theory)
        ));
    }
    let proof = proof(Source::Probes, "proof", text)
        .over_window(evidence, "nothing to write", waited as f64 / 1e3, "ms")
        .over_window(evidence, "sending", all as f64 / 1e3, "ms")
        .over_window(evidence, "writes", writes as f64, "writes")
        .at_moment("bytes of a write", each as f64, "bytes");
    Finding {
        cause: "application-limited".to_string(),
        title: format!("The sender has its data too late, {} a time", bytes(each)),
        severity: if part >= CRITICAL { Severity::Critical } else { Severity::Warning },
        subject: subject(
            SubjectKind::Connection,
            format!("{sender} (sender) > {receiver}"),
            transfer.address,
            None,
            Vec::new(),
        ),
        impact: Impact {
            text: format!(
                "{}: {} of the sending time for want of data, {}",
                count(transfer.started, "transfer"),
                percent(part),
                micros(waited)
            ),
            unit: ImpactUnit::SecondsLost,
            amount: waited as f64 / 1e6,
            share: Some(part),
        },
        evidence: vec![proof],
        checks: vec![check(evidence, transfer)],
        remedies: vec![advice(format!("{sender}: read and write more at once, read ahead"))],
        also_causes: Vec::new(),
    }
}

/// The same with larger pieces.
fn check(evidence: &Evidence, transfer: &Transfer) -> String {
    let peer = transfer.address.map_or_else(|| "HOST".to_string(), |peer| peer.to_string());
    let direction = if transfer.direction == TransferDirection::Up { "up" } else { "down" };
    command(evidence, &format!("netwhy transfer {peer} --direction {direction} --buffer 1MiB"))
}

#[cfg(test)]
mod tests {
    use model::{OneTransfer, Probes, SenderTimeShare, TheoreticalTime, TransferSender};

    use super::*;
    use crate::fixtures::{findings_of, healthy};

    fn measured(application: u64, network: u64) -> Evidence {
        let mut evidence = healthy();
        let share = |part, us| SenderTimeShare { category: part, time_us: us };
        let theory = TheoreticalTime { total_us: 433_000, ..TheoreticalTime::default() };
        evidence.probes = Some(Probes {
            transfer: Some(Transfer {
                address: Some("198.18.0.2:7717".parse().unwrap()),
                started: 4,
                senders: vec![TransferSender {
                    time_breakdown: vec![
                        share(SenderTimeCategory::Application, application),
                        share(SenderTimeCategory::Writing, network / 2),
                        share(SenderTimeCategory::Network, network / 2),
                    ],
                    writes: 4000,
                    written_bytes: 4_096_000,
                    ..TransferSender::default()
                }],
                transfers: vec![OneTransfer {
                    duration_us: 1_700_000,
                    theory: Some(theory),
                    ..OneTransfer::default()
                }],
                ..Transfer::default()
            }),
            ..Probes::default()
        });
        evidence
    }

    #[test]
    fn fires_when_the_sender_gets_its_data_late() {
        let finding = &findings_of(rule(&measured(5_600_000, 1_400_000)))[0];
        assert_eq!(finding.title, "The sender has its data too late, 1,024 B a time");
        assert_eq!(finding.severity, Severity::Critical);
        let text = &finding.evidence[0].text;
        assert!(text.contains("4,000 writes of\n1,024 B each"), "{text}");
        assert!(text.contains("took 1.7 s, theory says 433 ms"), "{text}");
        assert!(finding.subject.name.starts_with("198.18.0.2:7717 (sender) > this host"));
    }

    #[test]
    fn stays_quiet_when_the_path_or_the_cpu_holds_it_or_it_was_short() {
        for (application, network) in [(1_000_000, 9_000_000), (0, 9_000_000), (90_000, 10_000)] {
            let verdict = rule(&measured(application, network));
            assert!(matches!(verdict, Verdict::RuledOut(_)), "{application} {network}");
        }
    }

    #[test]
    fn undecided_is_for_those_who_did_not_transfer() {
        // Who only watches a host is not told of it at all.
        let report = crate::diagnose(&healthy());
        assert!(report.undecided.is_empty());
        assert!(report.ruled_out.iter().all(|out| out.cause != "application-limited"));
        // A transfer whose sender is another program does not tell.
        let mut evidence = measured(1, 1);
        let probes = evidence.probes.as_mut().unwrap();
        probes.transfer.as_mut().unwrap().senders.clear();
        let Verdict::Undecided { needs, .. } = rule(&evidence) else { panic!("undecided") };
        assert_eq!(needs, "the sender's side of the transfers");
    }
}
