//! # application-limited
//!
//! ## What happens
//!
//! The sender's process gets its data in small pieces, and each piece takes a
//! moment: a read of 1 KiB from a store, a row of a query. Between two pieces the
//! connection has nothing to send. The window is open, the buffers are empty, the
//! link is idle, and the transfer takes as long as the pieces do.
//!
//! ## Evidence
//!
//! A transfer of netwhy itself (`netwhy transfer`), of which both ends are known:
//! the sender has more to send until the last byte is written. Every few
//! milliseconds netwhy asks the sender's kernel (`tcp_info`): everything written is
//! in flight or has arrived (`tcpi_notsent_bytes` is 0), fewer segments are in
//! flight than the congestion window (`tcpi_unacked`, `tcpi_snd_cwnd`) and the
//! receiver's window allow, and the process is getting its next piece.
//!
//! ## Threshold
//!
//! A quarter of the time in which the sender had something to send, of 200 ms or
//! more. Time in `write()` itself does not count: that is a busy CPU.
//!
//! ## Looks like it, but is not
//!
//! - A live feed, or a video that is sent as it is watched: the sender has no more
//!   to send. Packets alone do not distinguish the two; from them, neither is
//!   named.
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
//! ## Fix
//!
//! In the application: read and write more at once (`--buffer 1MiB` shows what it
//! gains), read ahead while the last piece is sent, `sendfile`.
//!
//! ## Expected gain
//!
//! The time of a transfer, less what lies above its theoretical time at the
//! measured bandwidth (model «difference»). Not predictable where that bandwidth
//! is not known.
//!
//! ## References
//!
//! - Linux: `tcp_rate_check_app_limited`, `TCP_CHRONO_BUSY`
//! - Zhang, Breslau, Paxson, Shenker: On the characteristics and origins of
//!   Internet flow rates (SIGCOMM 2002)

use model::{
    Command, Evidence, Finding, GainFigure, Impact, ImpactUnit, SenderTimeCategory, Source,
    SubjectKind, Transfer, TransferDirection,
};
use text::{bytes, count, micros, percent, share};

use crate::cause::{Cause, Slows, Verdict};
use crate::commands::{CommandLine, commands};
use crate::gain;
use crate::proofs::{WithFigures as _, proof};
use crate::remedies::{advice, advice_about};
use crate::severity;
use crate::words::subject;

pub(super) const CAUSE: Cause = Cause {
    id: "application-limited",
    title: "a sender's process gets its data too slowly",
    slows: Slows::Transfers,
    needs: &[&[Source::Transfer]],
    rule,
    source: include_str!("application_limited.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Share of the sending time.
const MIN_TIME_SHARE: f64 = 0.25;
/// Sending time, microseconds.
const MIN_SENDING_US: u64 = 200_000;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let transfer = evidence.probes.as_ref().and_then(|probes| probes.transfer.as_ref());
    let Some(transfer) = transfer else {
        return Verdict::not_checked("no transfer was measured");
    };
    if transfer.senders.is_empty() {
        return Verdict::Undecided {
            needs: "the sender's side of the transfers".to_string(),
            sources: vec![Source::Transfer],
            how_to_observe: Some("netwhy transfer serve at the other end".to_string()),
        };
    }
    let (waited, all) = times(transfer);
    let part = share(waited as f64, all as f64);
    if all < MIN_SENDING_US {
        return Verdict::not_checked("no transfer of 200 ms");
    }
    if part >= MIN_TIME_SHARE {
        return Verdict::Found(vec![finding(evidence, transfer, waited, all)]);
    }
    Verdict::RuledOut(format!("the sender (no data {} of the time)", percent(part)))
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
        "for {} of {}, {sender} had more to send but nothing to write, with room in both windows \
         and nothing unsent; {} of {} each",
        micros(waited),
        micros(all),
        count(writes, "write"),
        bytes(each),
    );
    let durations =
        transfer.transfers.iter().filter_map(|one| Some((one.duration_us, one.theory?.total_us)));
    let durations: Vec<(u64, u64)> = durations.collect();
    if let Some((duration, theory)) = durations.iter().max() {
        text.push_str(&format!(
            "; a transfer took {}, in theory {}",
            micros(*duration),
            micros(*theory)
        ));
    }
    let up = transfer.direction == TransferDirection::Up;
    let fix = format!("{sender}: read and write more at once, read ahead");
    let proof = proof(Source::Probes, "proof", text)
        .over_window(evidence, "nothing to write", waited as f64 / 1e3, "ms")
        .over_window(evidence, "sending", all as f64 / 1e3, "ms")
        .over_window(evidence, "writes", writes as f64, "writes")
        .at_moment("bytes of a write", each as f64, "bytes");
    Finding {
        cause: CAUSE.id.to_string(),
        title: format!("The sender gets its data too slowly, {} at a time", bytes(each)),
        severity: severity::of_lost_time(waited, part),
        subject: subject(
            SubjectKind::Connection,
            format!("{sender} (sender) > {receiver}"),
            transfer.address,
            None,
            Vec::new(),
        ),
        impact: Impact {
            text: format!(
                "{}: {} of the sending time without data to send, {}",
                count(transfer.started, "transfer"),
                percent(part),
                micros(waited)
            ),
            unit: ImpactUnit::SecondsLost,
            amount: waited as f64 / 1e6,
            share: Some(part),
        },
        evidence: vec![proof],
        checks: commands([check(evidence, transfer)]),
        remedies: vec![match transfer.address.filter(|_| !up) {
            Some(peer) => advice_about(&peer.ip().to_string(), fix),
            None => advice(fix),
        }],
        gain: match &durations[..] {
            [] => gain::not_predictable("the theoretical time of its transfers is not known"),
            _ => {
                let mean_ms = |of: fn(&(u64, u64)) -> u64| {
                    let sum: f64 = durations.iter().map(|one| of(one) as f64 / 1e3).sum();
                    sum / durations.len() as f64
                };
                let (now, theory) = (mean_ms(|one| one.0), mean_ms(|one| one.1));
                gain::of_time(GainFigure::ExchangeTime, now, now - theory, theory)
            }
        },
        also_causes: Vec::new(),
    }
}

/// The same with larger pieces.
fn check(evidence: &Evidence, transfer: &Transfer) -> Option<Command> {
    let again = CommandLine::new("netwhy transfer").arg(transfer.address?).args("--direction");
    let again = match transfer.direction {
        TransferDirection::Up => again.args("up"),
        TransferDirection::Down => again.args("down"),
    };
    again.args("--buffer 1MiB").in_netns(evidence)
}

#[cfg(test)]
pub(super) mod tests {
    use model::{OneTransfer, Probes, SenderTimeShare, TheoreticalTime, TransferSender};

    use super::*;
    use crate::fixtures::{findings_of, healthy};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![measured(5_600_000, 1_400_000)]
    }

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
        assert_eq!(finding.title, "The sender gets its data too slowly, 1,024 B at a time");
        assert_eq!(finding.severity, model::Severity::Critical);
        let text = &finding.evidence[0].text;
        assert!(text.contains("4,000 writes of 1,024 B each"), "{text}");
        assert!(text.contains("took 1.7 s, in theory 433 ms"), "{text}");
        assert!(finding.subject.name.starts_with("198.18.0.2:7717 (sender) > this host"));
    }

    #[test]
    fn stays_quiet_when_the_path_or_the_cpu_limits_or_it_was_short() {
        for (application, network) in [(1_000_000, 9_000_000), (0, 9_000_000)] {
            let verdict = rule(&measured(application, network));
            assert!(matches!(verdict, Verdict::RuledOut(_)), "{application} {network}");
        }
        assert!(matches!(rule(&measured(90_000, 10_000)), Verdict::NotChecked(_)));
    }

    #[test]
    fn undecided_without_the_side_of_the_sender() {
        // Watching a host says nothing about it.
        let report = crate::diagnose(&healthy());
        assert!(report.undecided.is_empty());
        assert!(report.ruled_out.iter().all(|out| out.cause != "application-limited"));
        // A transfer whose sender is another program does not decide it.
        let mut evidence = measured(1, 1);
        let probes = evidence.probes.as_mut().unwrap();
        probes.transfer.as_mut().unwrap().senders.clear();
        let Verdict::Undecided { needs, .. } = rule(&evidence) else { panic!("undecided") };
        assert_eq!(needs, "the sender's side of the transfers");
    }
}
