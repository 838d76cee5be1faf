//! The transfers as text: what limited them, each compared with theory, what their sender waited for.

use model::{
    SenderTimeCategory, Source, Transfer, TransferDirection, TransferReport, TransferSender,
    Undecided,
};
use text::chart::bar;
use text::figures::bytes_as_given;
use text::{
    Column, Style, Table, bit_rate, bytes, count, micros, number, percent, sanitize, share, wrap,
};

use super::{chart, table};

/// Columns of the longest bar.
const MAX_BAR_WIDTH: usize = 20;
/// Categories with a smaller share of the sender's time are not shown.
const MIN_TIME_SHARE: f64 = 0.005;
/// Most findings whose pages are mentioned at the end.
const MAX_PAGES: usize = 2;

/// The report as text.
pub(super) fn text(report: &TransferReport, style: Style) -> String {
    let transfer = &report.transfer;
    let mut out = Output { text: String::new(), style };
    out.wrapped(&headline(transfer));
    out.line("");
    verdict(&mut out, report);
    errors(&mut out, transfer);
    for line in table::lines(transfer, style.width) {
        out.line(&line);
    }
    if !transfer.transfers.is_empty() {
        out.line("");
    }
    for sentence in [table::path(transfer), table::theory(transfer)] {
        if !sentence.is_empty() {
            out.wrapped(&sentence);
        }
    }
    time_breakdown(&mut out, transfer);
    if let Some(sender) = slowest(transfer) {
        let lines = chart::lines(sender);
        if !lines.is_empty() {
            out.line("");
            lines.iter().for_each(|line| out.line(line));
        }
    }
    footer(&mut out, report);
    out.text
}

/// Text of a limited width.
struct Output {
    text: String,
    style: Style,
}

impl Output {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A paragraph.
    fn wrapped(&mut self, text: &str) {
        for line in wrap(text, "", "  ", self.style.width) {
            self.line(&line);
        }
    }
}

/// What was transferred, and how.
fn headline(transfer: &Transfer) -> String {
    let peer = sanitize::line(&transfer.peer);
    let mut text = match transfer.direction {
        TransferDirection::Down => format!("Down from {peer}"),
        TransferDirection::Up => format!("Up to {peer}"),
    };
    if let Some(address) = transfer.address
        && !transfer.peer.contains(&address.ip().to_string())
    {
        text.push_str(&format!(" ({address})"));
    }
    let size = transfer.size_bytes.map(|size| format!(" of {}", bytes_as_given(size)));
    let size = size.unwrap_or_default();
    text.push_str(&match transfer.completed == transfer.started {
        true => format!(": {}{size}", count(transfer.completed, "transfer")),
        false => format!(
            ": {} of {}{size} completed",
            number(transfer.completed),
            count(transfer.started, "transfer")
        ),
    });
    if transfer.size_bytes.is_none() {
        text.push_str(&format!(", {}", bytes(transfer.bytes)));
    }
    if let Some(interval) = transfer.interval_ms {
        text.push_str(&format!(", one every {}", micros(interval.saturating_mul(1000))));
    } else if transfer.duration_us > 0 {
        let bits_per_s = share(transfer.bytes as f64 * 8e6, transfer.duration_us as f64);
        text.push_str(&format!(" in {}, {}", micros(transfer.duration_us), bit_rate(bits_per_s)));
    }
    text.push_str(&connections(transfer));
    let sender = sender_settings(transfer);
    if !sender.is_empty() {
        text.push_str(&format!(" ({sender})"));
    }
    if transfer.interrupted {
        text.push_str("; interrupted");
    }
    text
}

fn connections(transfer: &Transfer) -> String {
    if transfer.streams > 1 {
        return format!("; {}", count(transfer.streams.into(), "stream"));
    }
    let opened = transfer.transfers.iter().filter(|one| one.connect_us.is_some()).count();
    match transfer.transfers.len() {
        0 | 1 => String::new(),
        _ if opened == 1 => "; on one connection".to_string(),
        all if opened == all => "; each on a new connection".to_string(),
        _ => String::new(),
    }
}

/// Congestion control and writes of the sender.
fn sender_settings(transfer: &Transfer) -> String {
    let mut settings = Vec::new();
    let congestion = transfer.senders.iter().find_map(|sender| sender.congestion.as_deref());
    settings.extend(congestion.map(|name| sanitize::line(name).into_owned()));
    let buffer = transfer.buffer_bytes.map(bytes_as_given);
    settings.extend(buffer.map(|buffer| format!("writes of {buffer}")));
    let delay = transfer.source_delay_us.map(micros);
    settings.extend(delay.map(|delay| format!("each after {delay}")));
    settings.join(", ")
}

/// The findings.
fn verdict(out: &mut Output, report: &TransferReport) {
    out.text.push_str(&report::findings(&report.findings, out.style));
    if !report.findings.is_empty() || report.transfer.completed == 0 {
        return;
    }
    let observed = if report.undecided.is_empty() { "" } else { " in what could be observed" };
    let breakdown = match report.transfer.time_breakdown().is_empty() {
        true => "",
        false => "; what the sender waited for is below",
    };
    out.wrapped(&format!("No cause found{observed}{breakdown}."));
    out.line("");
}

fn errors(out: &mut Output, transfer: &Transfer) {
    for error in &transfer.errors {
        let times = match error.count {
            0 | 1 => String::new(),
            times => format!(" ({} times)", number(times)),
        };
        out.wrapped(&format!("failed: {}{times}", sanitize::line(&error.message)));
    }
    if !transfer.errors.is_empty() {
        out.line("");
    }
}

/// What the sender waited for, as bars.
fn time_breakdown(out: &mut Output, transfer: &Transfer) {
    let shares = transfer.time_breakdown();
    let total_us = shares.iter().map(|share| share.time_us).fold(0, u64::saturating_add);
    if total_us == 0 {
        return;
    }
    let sum = |of: fn(&TransferSender) -> u64| {
        transfer.senders.iter().map(of).fold(0, u64::saturating_add)
    };
    let writes = sum(|sender| sender.writes);
    let bytes_per_write = bytes(sum(|sender| sender.written_bytes) / writes.max(1));
    let retransmitted = sum(|sender| sender.retransmits);
    out.line("");
    out.wrapped(&format!(
        "What the sender waited for in {} ({}, {} retransmitted):",
        micros(total_us),
        count(writes, "write"),
        count(retransmitted, "segment"),
    ));
    let largest_us = shares.first().map_or(0, |share| share.time_us);
    let mut table = Table::new([Column::right(""), Column::left(""), Column::left("")]);
    for one in &shares {
        let time_share = share(one.time_us as f64, total_us as f64);
        if time_share < MIN_TIME_SHARE {
            continue;
        }
        let description = one.category.description();
        let description = match one.category {
            SenderTimeCategory::Application | SenderTimeCategory::Writing => {
                format!("{description} ({bytes_per_write} a write)")
            }
            _ => description.to_string(),
        };
        let bar = bar(share(one.time_us as f64, largest_us as f64), MAX_BAR_WIDTH);
        table.row([percent(time_share), bar, description]);
    }
    for line in table.lines("  ", out.style.width) {
        out.line(&line);
    }
}

/// The sender of the slowest transfer.
fn slowest(transfer: &Transfer) -> Option<&TransferSender> {
    let span = |sender: &&TransferSender| sender.samples.last().map_or(0, |sample| sample.at_us);
    transfer.senders.iter().max_by_key(span)
}

/// Undecided causes, findings elsewhere, and where there is more.
fn footer(out: &mut Output, report: &TransferReport) {
    out.line("");
    let mut groups: Vec<(&Undecided, Vec<&str>)> = Vec::new();
    for one in &report.undecided {
        match groups.iter_mut().find(|(known, _)| known.needs == one.needs) {
            Some((_, causes)) => causes.push(&one.cause),
            None => groups.push((one, vec![&one.cause])),
        }
    }
    for (one, causes) in groups {
        let packets = one.sources == [Source::Packets];
        // Why the capture failed says more than that there is none.
        let missing = report.missing_evidence.first().filter(|_| packets);
        let (why, how) = match missing {
            Some(missing) => (missing.why.as_str(), missing.how_to_observe.as_deref()),
            None if packets => ("--no-capture", None),
            None => (one.needs.as_str(), one.how_to_observe.as_deref()),
        };
        let reason = if packets { "no packets: " } else { "needs " };
        let how = how.map(|how| format!(": {how}")).unwrap_or_default();
        let text = format!("Undecided: {} ({reason}{why}{how}).", causes.join(", "));
        out.wrapped(&sanitize::line(&text));
    }
    if !report.other_findings.is_empty() {
        let causes: Vec<&str> =
            report.other_findings.iter().map(|finding| finding.cause.as_str()).collect();
        out.wrapped(&format!("Elsewhere on this host: {}; see netwhy.", causes.join(", ")));
    }
    let mut more: Vec<String> = Vec::new();
    for finding in report.findings.iter().take(MAX_PAGES) {
        let command = format!("netwhy explain {}", finding.cause);
        if !more.contains(&command) {
            more.push(command);
        }
    }
    more.push("--json".to_string());
    out.wrapped(&format!("More: {}", more.join(" · ")));
}

#[cfg(test)]
mod tests {
    use model::{
        BandwidthSource, MissingEvidence, OneTransfer, SendSample, SenderTimeShare, Source,
        TheoreticalTime, TransferError, TransferSender, Undecided,
    };

    use super::*;

    fn measured() -> TransferReport {
        let theory = TheoreticalTime {
            total_us: 1_100_000,
            connect_us: 100_000,
            request_us: 100_000,
            slow_start_us: 580_000,
            transmission_us: 320_000,
            rounds: 9,
            window_segments: 10,
        };
        let one = |number: u32| OneTransfer {
            number,
            at_us: u64::from(number) * 2_000_000,
            connect_us: (number == 0).then_some(100_000),
            duration_us: 1_180_000,
            bytes: 4_000_000,
            completed: true,
            window_segments: Some(10),
            theory: Some(theory),
            ..OneTransfer::default()
        };
        let sample = |number: u64| SendSample {
            at_us: number * 10_000,
            cwnd: 10,
            unacked: 10,
            segment_bytes: 1448,
            ..SendSample::default()
        };
        TransferReport {
            transfer: Transfer {
                peer: "far\u{1b}.example".to_string(),
                address: Some("198.18.0.2:7717".parse().unwrap()),
                size_bytes: Some(4_000_000),
                interval_ms: Some(2_000),
                streams: 1,
                buffer_bytes: Some(32 << 10),
                bandwidth_bps: Some(1e8),
                bandwidth_source: Some(BandwidthSource::DeliveryRate),
                round_trip_us: Some(100_000),
                started: 30,
                completed: 29,
                bytes: 116_000_000,
                duration_us: 60_000_000,
                transfers: (0..30).map(one).collect(),
                errors: vec![TransferError { message: "it \u{7} broke".to_string(), count: 2 }],
                senders: vec![TransferSender {
                    congestion: Some("cubic".to_string()),
                    slow_start_after_idle: Some(true),
                    time_breakdown: vec![
                        SenderTimeShare { category: SenderTimeCategory::SlowStart, time_us: 700 },
                        SenderTimeShare { category: SenderTimeCategory::Application, time_us: 300 },
                    ],
                    writes: 123,
                    written_bytes: 123 << 15,
                    samples: (0..50).map(sample).collect(),
                    ..TransferSender::default()
                }],
                ..Transfer::default()
            },
            undecided: vec![Undecided {
                cause: "short-connections".to_string(),
                needs: Source::Packets.name().to_string(),
                sources: vec![Source::Packets],
                how_to_observe: None,
            }],
            missing_evidence: vec![MissingEvidence {
                capability: model::Capability::NotPermitted,
                source: Source::Packets,
                what: "packets".to_string(),
                why: "--capture needs CAP_NET_RAW".to_string(),
                how_to_observe: Some("run as root".to_string()),
            }],
            ..TransferReport::default()
        }
    }

    #[test]
    fn text_fits_eighty_columns_and_cannot_act_on_a_terminal() {
        let text = text(&measured(), Style::default());
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
            assert!(!line.contains(['\u{1b}', '\u{7}']) && line.trim_end() == line, "{line:?}");
        }
        for part in [
            "29 of 30 transfers of 4 MB completed, one every 2.0 s",
            "failed: it \\x07 broke (2 times)",
            "1 0 s 4 MB 1,180 ms 1,100 ms 9 10 100 ms",
            "14 more: --json has them all",
            "estimated: the sender's best delivery rate",
            "tcp_slow_start_after_idle=1, restarts slow start after idle periods",
            "slow start 17.4 s (49 %)",
            "; not explained: 2.4 s (6.8 %)",
            "70 % ████████████████████ slow start: congestion window growing",
            "30 % ████████▋ application had no data to write (32 KiB a write)",
            "Undecided: short-connections (no packets: --capture needs CAP_NET_RAW: run as root)",
        ] {
            // Wherever lines break.
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words(&text).contains(&words(part)), "{part}\n{text}");
        }
    }

    #[test]
    fn without_transfers_there_are_no_figures() {
        let text = text(&TransferReport::default(), Style::default());
        assert!(text.contains("0 transfers") && !text.contains("NaN"), "{text}");
    }
}
