//! The report of a capture: findings first, then where the time went, then the streams that lost
//! most of it.

use model::{CapturedStream, Packets, Report, Service, TimeCategory};
use std::collections::BTreeSet;

use crate::findings;
use text::Style;
use text::chart::bar;
use text::sanitize;
use text::wrap;
use text::{Paint, paint};
use text::{bytes, micros, number, percent};

/// Services of which the budget is shown.
const SERVICES: usize = 3;
/// Streams that are shown when the user does not say how many.
const STREAMS: usize = 5;
/// Columns of the longest bar.
const BAR: usize = 34;

/// The report of a capture as text, each line at most [`Style::width`] columns wide but for commands
/// to be pasted. `top` is how many streams are shown.
pub fn capture(report: &Report, top: Option<usize>, style: Style) -> String {
    let mut lines = Vec::new();
    let empty = Packets::default();
    let packets = report.packets.as_ref().unwrap_or(&empty);
    lines.extend(wrap(&head(packets, report.window.interrupted), "", "  ", style.width));
    lines.push(String::new());
    if report.findings.is_empty() {
        let line = if packets.streams == 0 {
            "No TCP stream is in it: nothing to diagnose."
        } else if packets.selected == Some(0) {
            "The filter selects no stream: nothing to diagnose."
        } else {
            "Nothing slows these streams down, as far as packets show it."
        };
        lines.push(paint(line, Paint::Good, style));
        lines.push(String::new());
    }
    for (at, finding) in report.findings.iter().enumerate() {
        findings::lines(finding, at + 1, style, &mut lines);
    }
    for service in packets.services.iter().take(SERVICES) {
        self::service(service, style, &mut lines);
    }
    streams(packets, top.unwrap_or(STREAMS), style, &mut lines);
    footer(report, style, &mut lines);
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn head(packets: &Packets, interrupted: bool) -> String {
    let from = packets.sources.iter().map(|name| sanitize::line(name));
    let from = match packets.sources.len() {
        0..=3 => from.collect::<Vec<_>>().join(", "),
        files => format!("{} files", number(files as u64)),
    };
    let turns: u64 = packets.services.iter().map(|service| service.exchanges).sum();
    let of = packets.selected.map_or(String::new(), |selected| format!("{} of ", number(selected)));
    let mut text = format!(
        "{from}: {} packets in {}, {} turn{} on {of}{} TCP stream{}",
        number(packets.packets),
        micros(packets.span_us),
        number(turns),
        plural(turns),
        number(packets.streams),
        plural(packets.streams),
    );
    if let Some(filter) = &packets.filter {
        text.push_str(&format!(" ({})", sanitize::line(filter)));
    }
    if let Some(place) = place(packets) {
        text.push_str(&format!(", {place}"));
    }
    if packets.duplicate_packets > 0 {
        let share = packets.duplicate_packets as f64 / packets.segments.max(1) as f64;
        text.push_str(&format!(
            "; {} packets were captured twice ({}) and count once",
            number(packets.duplicate_packets),
            percent(share)
        ));
    }
    if interrupted {
        text.push_str("; interrupted: what was read so far");
    }
    text
}

/// Where most of the streams were captured.
fn place(packets: &Packets) -> Option<&'static str> {
    let shares: Vec<f64> = packets
        .worst
        .iter()
        .filter_map(|stream| {
            let (client, server) = (stream.to_client_us?, stream.to_server_us?);
            (client + server > 0).then(|| client as f64 / (client + server) as f64)
        })
        .collect();
    let most = |of: fn(f64) -> bool| {
        let hits = shares.iter().filter(|share| of(**share)).count();
        hits * 10 >= shares.len() * 8
    };
    if shares.is_empty() {
        None
    } else if most(|share| share < 0.1) {
        Some("seen at the client")
    } else if most(|share| share > 0.9) {
        Some("seen at the server")
    } else {
        Some("seen on the way")
    }
}

fn service(service: &Service, style: Style, lines: &mut Vec<String>) {
    let parts: Vec<(TimeCategory, u64)> = TimeCategory::ALL
        .into_iter()
        .filter(|part| *part != TimeCategory::ClientIdle)
        .map(|part| (part, service.time_us(part)))
        .collect();
    let mut text = format!(
        "where the time went at {} ({} stream{}",
        service.server,
        number(service.streams),
        plural(service.streams)
    );
    if let (Some(middle), Some(late)) = (service.exchange_p50_us, service.exchange_p99_us) {
        text.push_str(&format!(
            ", {} turn{}, p50 {}, p99 {}",
            number(service.exchanges),
            plural(service.exchanges),
            micros(middle),
            micros(late)
        ));
    }
    text.push(')');
    lines.extend(wrap(&text, "", "  ", style.width));
    lines.extend(budget(&parts, style.width).lines().map(str::to_string));
    lines.push(String::new());
}

/// Parts of a time as bars, the longest first; parts under half a percent are put together.
pub fn budget(parts: &[(TimeCategory, u64)], width: usize) -> String {
    let all: u64 = parts.iter().map(|(_, us)| us).sum();
    let mut sorted: Vec<(TimeCategory, u64)> =
        parts.iter().copied().filter(|(_, us)| *us > 0).collect();
    sorted.sort_by_key(|(_, us)| std::cmp::Reverse(*us));
    let longest = sorted.first().map_or(1, |(_, us)| *us).max(1);
    let mut out = String::new();
    let mut rest = 0;
    for (part, us) in sorted {
        let share = us as f64 / all.max(1) as f64;
        if share < 0.005 {
            rest += us;
            continue;
        }
        let words = format!("{} {}, {}", percent(share), part.words(), micros(us));
        // A bar is cut rather than its words.
        let room = width.saturating_sub(3 + words.chars().count());
        let least = 1.0 / (8 * BAR) as f64;
        let bar = bar((us as f64 / longest as f64).max(least), BAR.min(room));
        out.push_str(&format!("  {bar} {words}\n"));
    }
    if rest > 0 {
        out.push_str(&format!("  all else {}\n", micros(rest)));
    }
    out
}

fn streams(packets: &Packets, top: usize, style: Style, lines: &mut Vec<String>) {
    let shown = top.min(packets.worst.len());
    if shown == 0 {
        return;
    }
    lines.push(format!(
        "{:>6} {:>9} {:>8} {:>8} {:>6}  ends",
        "stream", "bytes", "time", "lost", "again"
    ));
    for stream in &packets.worst[..shown] {
        let line = row(stream);
        lines.extend(wrap(&line, "", &" ".repeat(43), style.width.max(60)));
    }
    let streams = packets.selected.unwrap_or(packets.streams);
    let more = streams.saturating_sub(shown as u64);
    if more > 0 {
        lines.push(format!("{} more: --top {}", number(more), number(streams)));
    }
    lines.push(String::new());
}

fn row(stream: &CapturedStream) -> String {
    let sum = |of: fn(&model::CapturedDirection) -> u64| -> u64 {
        stream.directions().iter().map(|direction| of(direction)).sum()
    };
    // Blanks that line columns up are not those where a line may break.
    let columns = format!(
        "{:>6} {:>9} {:>8} {:>8} {:>6} ",
        number(stream.number),
        bytes(sum(|direction| direction.new_bytes)),
        micros(stream.span_us),
        micros(stream.lost_us()),
        number(sum(|direction| direction.retransmitted())),
    );
    format!("{columns} {} > {}", stream.client, stream.server)
}

pub(crate) fn footer(report: &Report, style: Style, lines: &mut Vec<String>) {
    let mut add = |head: &str, text: String| {
        let text = format!("{}: {text}", paint(head, Paint::Strong, style));
        lines.extend(wrap(&text, "", "  ", style.width));
    };
    if !report.ruled_out.is_empty() {
        let causes: Vec<_> = report
            .ruled_out
            .iter()
            .map(|ruled| sanitize::line(&ruled.because).into_owned())
            .collect();
        add("Ruled out", format!("{}.", causes.join(", ")));
    }
    crate::terminal::gaps(&report.missing_evidence)
        .into_iter()
        .for_each(|text| add("Not seen", text));
    let mut more: BTreeSet<_> = report
        .findings
        .iter()
        .map(|finding| format!("netwhy explain {}", sanitize::line(&finding.cause)))
        .take(3)
        .collect();
    if report.packets.as_ref().is_some_and(|packets| packets.interfaces().is_empty()) {
        more.insert("--stream N".to_string());
    }
    more.insert("--json".to_string());
    add("More", more.into_iter().collect::<Vec<_>>().join(" · "));
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}
