//! The transfers as text: what held them first, then each beside theory, then the sender's side.

use model::{
    BandwidthSource, OneTransfer, SenderTimeCategory, Source, Transfer, TransferDirection,
    TransferPeer, TransferReport, Undecided,
};
use text::figures::bytes_as_given;
use text::{Style, bit_rate, bytes, count, micros, number, percent, wrap};

use super::chart;
use super::figures::exact;
use crate::output::harmless;

/// Transfers that are shown one by one.
const ROWS: usize = 16;
/// Characters of the longest bar.
const BAR: u64 = 24;

/// All of it, 80 columns wide.
pub(super) fn text(report: &TransferReport, style: Style) -> String {
    let transfer = &report.transfer;
    let mut out = Out { text: String::new(), style };
    out.wrapped(&headline(transfer), "  ");
    out.line("");
    verdict(&mut out, report);
    errors(&mut out, transfer);
    table(&mut out, transfer);
    against_theory(&mut out, transfer);
    shares(&mut out, transfer);
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

struct Out {
    text: String,
    style: Style,
}

impl Out {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn wrapped(&mut self, words: &str, hang: &str) {
        for line in wrap(words, "", hang, self.style.width) {
            self.line(&line);
        }
    }
}

fn headline(transfer: &Transfer) -> String {
    let mut text = match transfer.direction {
        TransferDirection::Down => format!("Down from {}", harmless(&transfer.peer)),
        TransferDirection::Up => format!("Up to {}", harmless(&transfer.peer)),
    };
    if let Some(address) = transfer.address
        && !transfer.peer.contains(&address.ip().to_string())
    {
        text.push_str(&format!(" ({address})"));
    }
    let done = if transfer.completed == transfer.started {
        count(transfer.completed, "transfer")
    } else {
        format!("{} of {} done", number(transfer.completed), count(transfer.started, "transfer"))
    };
    text.push_str(&format!(": {done}"));
    if let Some(size) = transfer.size_bytes {
        text.push_str(&format!(" of {}", bytes_as_given(size)));
    } else {
        text.push_str(&format!(", {}", bytes(transfer.bytes)));
    }
    if let Some(interval) = transfer.interval_ms {
        text.push_str(&format!(", one every {}", micros(interval * 1000)));
    }
    if transfer.duration_us > 0 && transfer.interval_ms.is_none() {
        let speed = transfer.bytes as f64 * 8e6 / transfer.duration_us as f64;
        text.push_str(&format!(" in {}, {}", micros(transfer.duration_us), bit_rate(speed)));
    }
    let opened = transfer.transfers.iter().filter(|one| one.connect_us.is_some()).count();
    if transfer.transfers.len() > 1 && transfer.streams == 1 {
        text.push_str(match opened {
            1 => "; on one connection",
            opened if opened == transfer.transfers.len() => "; each on a connection of its own",
            _ => "",
        });
    }
    if transfer.streams > 1 {
        text.push_str(&format!("; {} streams", transfer.streams));
    }
    let mut with = Vec::new();
    if let Some(name) = transfer.senders.iter().find_map(|sender| sender.congestion.as_deref()) {
        with.push(harmless(name));
    }
    if let Some(buffer) = transfer.buffer_bytes {
        with.push(format!("writes of {}", bytes_as_given(buffer)));
    }
    if let Some(delay) = transfer.source_delay_us {
        with.push(format!("each after {}", micros(delay)));
    }
    if !with.is_empty() {
        text.push_str(&format!(" ({})", with.join(", ")));
    }
    if transfer.interrupted {
        text.push_str("; interrupted");
    }
    text
}

fn verdict(out: &mut Out, report: &TransferReport) {
    let findings = report::findings(&report.findings, out.style);
    out.text.push_str(&findings);
    if !report.findings.is_empty() {
        return;
    }
    let transfer = &report.transfer;
    if transfer.completed == 0 {
        return;
    }
    let undecided = !report.undecided.is_empty();
    let words = if undecided {
        "No cause found in what could be seen; where the time went stands below."
    } else {
        "No cause found: where the time went stands below."
    };
    out.wrapped(words, "  ");
    out.line("");
}

fn errors(out: &mut Out, transfer: &Transfer) {
    if transfer.errors.is_empty() {
        return;
    }
    for error in &transfer.errors {
        let times =
            if error.count > 1 { format!(" ({} times)", error.count) } else { String::new() };
        out.wrapped(&format!("failed: {}{times}", harmless(&error.message)), "  ");
    }
    out.line("");
}

fn table(out: &mut Out, transfer: &Transfer) {
    if transfer.transfers.is_empty() {
        return;
    }
    let many = transfer.streams > 1;
    out.line(&format!(
        "{:>8} {:>8} {:>9} {:>9} {:>9} {:>7} {:>7} {:>9}",
        if many { "stream" } else { "transfer" },
        "at",
        "bytes",
        "took",
        "theory",
        "rounds",
        "window",
        "handshake"
    ));
    for one in transfer.transfers.iter().take(ROWS) {
        out.line(&row(one, many));
    }
    let all = transfer.transfers.len();
    if all > ROWS {
        out.line(&format!("  {} more: --json has them all", number((all - ROWS) as u64)));
    }
    out.line("");
}

fn row(one: &OneTransfer, many: bool) -> String {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_string());
    let name = if many {
        format!("{}.{}", one.stream + 1, one.number + 1)
    } else {
        (one.number + 1).to_string()
    };
    let took = if one.completed { exact(one.duration_us) } else { "not done".to_string() };
    let window = one.window_segments.map(|window| number(window.into()));
    let line = format!(
        "{name:>8} {:>8} {:>9} {took:>9} {:>9} {:>7} {:>7} {:>9}",
        exact(one.at_us),
        bytes_as_given(one.bytes),
        known(one.theory.map(|theory| exact(theory.total_us))),
        known(one.theory.map(|theory| theory.rounds.to_string())),
        known(window),
        known(one.connect_us.map(exact)),
    );
    line.trim_end().to_string()
}

/// What theory explains of the time, and what it does not.
fn against_theory(out: &mut Out, transfer: &Transfer) {
    let path = path(transfer);
    if !path.is_empty() {
        out.wrapped(&path, "  ");
    }
    let explained = transfer.transfers.iter().filter_map(|one| Some((one, one.theory?)));
    let (mut took, mut parts) = (0, [0_u64; 4]);
    for (one, theory) in explained {
        took += one.duration_us;
        let add =
            [theory.transmission_us, theory.slow_start_us, theory.request_us, theory.connect_us];
        parts.iter_mut().zip(add).for_each(|(sum, us)| *sum = sum.saturating_add(us));
    }
    let all: u64 = parts.iter().copied().fold(0, u64::saturating_add);
    if took == 0 || all == 0 {
        return;
    }
    let names = ["size / bandwidth", "slow start", "requests", "handshakes"];
    let parts: Vec<String> = names
        .iter()
        .zip(parts)
        .filter(|(_, us)| *us > 0)
        .map(|(name, us)| format!("{name} {} ({})", micros(us), percent(us as f64 / took as f64)))
        .collect();
    let mut text =
        format!("Theory explains {} of {}: {}", micros(all), micros(took), parts.join(", "));
    if took > all {
        let more = took - all;
        let share = percent(more as f64 / took as f64);
        text.push_str(&format!("; beyond it {} ({share})", micros(more)));
    }
    text.push('.');
    out.wrapped(&text, "  ");
}

fn path(transfer: &Transfer) -> String {
    let mut text = Vec::new();
    if let (Some(bps), Some(from)) = (transfer.bandwidth_bps, transfer.bandwidth_source) {
        text.push(format!(
            "bandwidth {} ({})",
            bit_rate(bps),
            match from {
                BandwidthSource::Given => "given",
                BandwidthSource::DeliveryRate => "estimated: the sender's best delivery rate",
                BandwidthSource::Arrival => "estimated: the best rate of arrival",
                BandwidthSource::AtLeast =>
                    "at least: nothing filled the path; --bandwidth tells it",
            }
        ));
    }
    if let Some(trip) = transfer.round_trip_us {
        text.push(format!("round trip {}", micros(trip)));
    }
    if transfer.peer_kind == TransferPeer::Http {
        text.push("the sender's window is not known".to_string());
    }
    if let Some(restarts) = transfer.senders.iter().find_map(|one| one.slow_start_after_idle) {
        let (is, does) = if restarts { (1, "") } else { (0, "not ") };
        let more = if transfer.completed > 1 && !transfer.reconnect {
            format!(": after a pause it {does}starts slowly")
        } else {
            String::new()
        };
        text.push(format!("sender: tcp_slow_start_after_idle={is}{more}"));
    }
    if text.is_empty() { String::new() } else { format!("Path: {}.", text.join("; ")) }
}

/// Where the sender's time went, as bars.
fn shares(out: &mut Out, transfer: &Transfer) {
    let shares = transfer.time_breakdown();
    let all: u64 = shares.iter().map(|share| share.time_us).sum();
    if all == 0 {
        return;
    }
    out.line("");
    let writes: u64 = transfer.senders.iter().map(|sender| sender.writes).sum();
    let written: u64 = transfer.senders.iter().map(|sender| sender.written_bytes).sum();
    let again: u64 = transfer.senders.iter().map(|sender| sender.retransmits).sum();
    out.wrapped(
        &format!(
            "What the sender waited for in {} ({}, {} sent again):",
            micros(all),
            count(writes, "write"),
            count(again, "segment"),
        ),
        "  ",
    );
    let longest = shares.first().map_or(1, |share| share.time_us).max(1);
    for share in &shares {
        let part = share.time_us as f64 / all as f64;
        if part < 0.005 {
            continue;
        }
        let eighths =
            (u128::from(share.time_us) * u128::from(BAR) * 8 / u128::from(longest)) as u64;
        let mut bar = "█".repeat((eighths / 8) as usize);
        let rest = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'][(eighths % 8) as usize];
        if rest != ' ' || bar.is_empty() {
            bar.push(if rest == ' ' { '▏' } else { rest });
        }
        let mut words = share.category.words().to_string();
        if share.category == SenderTimeCategory::Application
            || share.category == SenderTimeCategory::Writing
        {
            words = format!("{words} ({} a write)", bytes(written / writes.max(1)));
        }
        let line = format!("  {bar} {} {words}", percent(part));
        for line in wrap(&line, "", "    ", out.style.width) {
            out.line(&line);
        }
    }
}

/// The stream of the transfer that took longest at its sender.
fn slowest(transfer: &Transfer) -> Option<&model::TransferSender> {
    transfer
        .senders
        .iter()
        .max_by_key(|sender| sender.samples.last().map_or(0, |sample| sample.at_us))
}

fn footer(out: &mut Out, report: &TransferReport) {
    out.line("");
    let mut groups: Vec<(&Undecided, Vec<&str>)> = Vec::new();
    for one in &report.undecided {
        match groups.iter_mut().find(|(known, _)| known.needs == one.needs) {
            Some((_, causes)) => causes.push(&one.cause),
            None => groups.push((one, vec![&one.cause])),
        }
    }
    for (one, causes) in groups {
        // What a capture lacked is known better than that there is none.
        let packets = one.sources == [Source::Packets];
        let gap = report.missing_evidence.first().filter(|_| packets);
        let (why, closes) = match gap {
            Some(gap) => (gap.why.as_str(), gap.how_to_observe.as_deref()),
            None if packets => ("--no-capture", None),
            None => (one.needs.as_str(), one.how_to_observe.as_deref()),
        };
        let closes = closes.map(|closes| format!(": {closes}")).unwrap_or_default();
        let words = format!("Undecided: {} (needs {why}{closes}).", causes.join(", "));
        let words = if packets { words.replacen("(needs ", "(no packets: ", 1) } else { words };
        out.wrapped(&harmless(&words), "  ");
    }
    if !report.other_findings.is_empty() {
        let names: Vec<&str> = report.other_findings.iter().map(|one| one.cause.as_str()).collect();
        let words = format!("Of other connections of this host: {}; see netwhy.", names.join(", "));
        out.wrapped(&words, "  ");
    }
    let mut more: Vec<String> = Vec::new();
    for finding in report.findings.iter().take(2) {
        let command = format!("netwhy explain {}", finding.cause);
        if !more.contains(&command) {
            more.push(command);
        }
    }
    more.push("--json".to_string());
    out.wrapped(&format!("More: {}", more.join(" · ")), "  ");
}

#[cfg(test)]
mod tests {
    use model::{
        MissingEvidence, SendSample, SenderTimeShare, Source, TheoreticalTime, TransferError,
        TransferSender, Undecided,
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
    fn all_of_it_fits_80_columns_and_harms_no_terminal() {
        let text = text(&measured(), Style::default());
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
            assert!(!line.contains(['\u{1b}', '\u{7}']) && line.trim_end() == line, "{line:?}");
        }
        for part in [
            "29 of 30 transfers done of 4 MB, one every 2.0 s",
            "failed: it \\x07 broke (2 times)",
            "       1      0 s    4 MB  1,180 ms  1,100 ms       9      10    100 ms",
            "14 more: --json has them all",
            "estimated: the sender's best delivery rate",
            "tcp_slow_start_after_idle=1",
            "slow start 17.4 s (49 %)",
            "70 % slow start: the congestion window grew",
            "(32 KiB a write)",
            "Undecided: short-connections (no packets: --capture needs CAP_NET_RAW: run as root)",
        ] {
            // Lines break where they have to.
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words(&text).contains(&words(part)), "{part}\n{text}");
        }
    }

    #[test]
    fn nothing_measured_is_said_without_figures() {
        let text = text(&TransferReport::default(), Style::default());
        assert!(text.contains("0 transfers") && !text.contains("NaN"), "{text}");
    }
}
