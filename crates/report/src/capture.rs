//! The report of a capture: findings first, then where the time went, then the streams that lost most
//! of it.

use model::{CapturedDirection, CapturedStream, Packets, Report, Service, TimeCategory};
use text::sanitize;
use text::{Column, Paint, Style, Table, bytes, count, micros, number, paint, percent, wrap};

use crate::findings;
use crate::footer::{Footer, more_streams};
use crate::time_breakdown::time_breakdown;

/// Most services whose time breakdown is shown.
const MAX_SERVICES_SHOWN: usize = 3;
/// Streams shown when the user does not choose how many.
const DEFAULT_STREAMS_SHOWN: usize = 5;
/// Most files that are named.
const MAX_FILES_NAMED: usize = 3;
/// A capture point is at an end of the path if the round trip to that end has a smaller share than this
/// of the whole round trip.
const MAX_SHARE_AT_AN_END: f64 = 0.1;
/// The capture point is known if at least so many of the streams agree.
const MIN_AGREEING_PERCENT: usize = 80;

/// The report of a capture as text: each line at most [`Style::width`] columns wide, except for
/// commands, which are never broken. `top` is the number of streams shown.
pub fn capture(report: &Report, top: Option<usize>, style: Style) -> String {
    let style = style.within_bounds();
    let mut lines = Vec::new();
    let empty = Packets::default();
    let packets = report.packets.as_ref().unwrap_or(&empty);
    lines.extend(wrap(&summary(packets, report.window.interrupted), "", "  ", style.width));
    lines.push(String::new());
    if report.findings.is_empty() {
        let line = if packets.streams == 0 && packets.resolvers.is_empty() {
            "No TCP stream and no DNS query in this capture: nothing to diagnose."
        } else if packets.streams == 0 {
            "No TCP stream in this capture, and nothing slows its DNS queries down."
        } else if packets.selected == Some(0) {
            "The filter selects no stream: nothing to diagnose."
        } else if report.ruled_out.is_empty() {
            "Nothing in this capture could show what slows these streams down."
        } else {
            "Nothing slows these streams down, as far as packets can show."
        };
        lines.extend(wrap(line, "", "", style.width).iter().map(|l| paint(l, Paint::Good, style)));
        lines.push(String::new());
    }
    findings::of_report(report, style, &mut lines);
    for service in packets.services.iter().take(MAX_SERVICES_SHOWN) {
        self::service(service, style, &mut lines);
    }
    streams(packets, top.unwrap_or(DEFAULT_STREAMS_SHOWN), style, &mut lines);
    let mut footer = Footer::new(style, &mut lines);
    footer.ruled_out(report);
    footer.undecided(report);
    footer.not_checked(report);
    footer.not_observed(report);
    let is_file = packets.interfaces().is_empty() && report.packets.is_some();
    footer.more(report, if is_file { &["--stream N", "--json"] } else { &["--json"] });
    lines.join("\n") + "\n"
}

/// What was captured, where, and what of it is diagnosed.
fn summary(packets: &Packets, interrupted: bool) -> String {
    let source = match packets.sources.len() {
        0..=MAX_FILES_NAMED => {
            packets.sources.iter().map(|name| sanitize::line(name)).collect::<Vec<_>>().join(", ")
        }
        files => count(files as u64, "file"),
    };
    let exchanges: u64 =
        packets.services.iter().map(|service| service.exchanges).fold(0, u64::saturating_add);
    let selected = packets.selected.map_or(String::new(), |n| format!("{} of ", number(n)));
    let mut text = format!(
        "{source}: {} in {}, {} on {selected}{}",
        count(packets.packets, "packet"),
        micros(packets.span_us),
        count(exchanges, "exchange"),
        count(packets.streams, "TCP stream"),
    );
    if let Some(filter) = &packets.filter {
        text.push_str(&format!(" ({})", sanitize::line(filter)));
    }
    if let Some(place) = capture_point(packets) {
        text.push_str(&format!(", captured {place}"));
    }
    if packets.duplicate_packets > 0 {
        let share = packets.duplicate_packets as f64 / packets.segments.max(1) as f64;
        text.push_str(&format!(
            "; {} of the capture ignored ({})",
            count(packets.duplicate_packets, "duplicate packet"),
            percent(share)
        ));
    }
    if interrupted {
        text.push_str("; interrupted: only what was read until then");
    }
    text
}

/// Where most of the streams were captured, by the round trips to both ends.
fn capture_point(packets: &Packets) -> Option<&'static str> {
    let client_shares: Vec<f64> = packets
        .worst
        .iter()
        .filter_map(|stream| {
            let (client, server) = (stream.to_client_us?, stream.to_server_us?);
            let both = client.saturating_add(server);
            (both > 0).then(|| client as f64 / both as f64)
        })
        .collect();
    let most = |is_there: fn(f64) -> bool| {
        let there = client_shares.iter().filter(|share| is_there(**share)).count();
        there * 100 >= client_shares.len() * MIN_AGREEING_PERCENT
    };
    if client_shares.is_empty() {
        None
    } else if most(|share| share < MAX_SHARE_AT_AN_END) {
        Some("at the client")
    } else if most(|share| share > 1.0 - MAX_SHARE_AT_AN_END) {
        Some("at the server")
    } else {
        Some("between client and server")
    }
}

fn service(service: &Service, style: Style, lines: &mut Vec<String>) {
    let times: Vec<(TimeCategory, u64)> = TimeCategory::ALL
        .into_iter()
        .filter(|category| *category != TimeCategory::ClientIdle)
        .map(|category| (category, service.time_us(category)))
        .collect();
    let mut text =
        format!("where the time went at {} ({}", service.server, count(service.streams, "stream"));
    if let (Some(p50), Some(p99)) = (service.exchange_p50_us, service.exchange_p99_us) {
        text.push_str(&format!(
            "; {}, p50 {}, p99 {}",
            count(service.exchanges, "exchange"),
            micros(p50),
            micros(p99)
        ));
    }
    text.push(')');
    lines.extend(wrap(&text, "", "  ", style.width));
    lines.extend(time_breakdown(&times, &service.network_breakdown, style));
    lines.push(String::new());
}

fn streams(packets: &Packets, top: usize, style: Style, lines: &mut Vec<String>) {
    let shown = packets.worst.iter().take(top);
    if shown.len() == 0 {
        return;
    }
    let streams = packets.selected.unwrap_or(packets.streams);
    let more = more_streams(streams, shown.len(), packets.worst.len());
    let mut table = Table::new([
        Column::right("stream"),
        Column::right("bytes"),
        Column::right("duration"),
        Column::right("time lost"),
        Column::right("retrans."),
        Column::left("client > server"),
    ]);
    for stream in shown {
        table.row(stream_row(stream));
    }
    lines.extend(table.lines("", style.width));
    lines.extend(more);
    lines.push(String::new());
}

fn stream_row(stream: &CapturedStream) -> [String; 6] {
    let sum = |value: fn(&CapturedDirection) -> u64| -> u64 {
        stream.directions().into_iter().map(value).fold(0, u64::saturating_add)
    };
    [
        stream.number.to_string(),
        bytes(sum(|direction| direction.new_bytes)),
        micros(stream.span_us),
        micros(stream.lost_us()),
        number(sum(|direction| direction.retransmitted())),
        format!("{} > {}", stream.client, stream.server),
    ]
}
