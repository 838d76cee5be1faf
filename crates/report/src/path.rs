//! The report of two captures of one path: findings first, then the path (clocks, delays, where segments
//! were lost, what was changed), then the streams that lost most.

use model::{
    ChangedField, Path, PathChange, PathDelay, PathDirection, PathLoss, PathStream, Report, Side,
};
use text::figures::{precise_micros, significant};
use text::sanitize;
use text::{Column, Paint, Style, Table, bytes, count, micros, number, paint, percent, wrap};

use crate::findings;
use crate::footer::{Footer, more_streams};

/// Streams shown when the user does not choose how many.
const DEFAULT_STREAMS_SHOWN: usize = 5;
/// Most changes shown.
const MAX_CHANGES_SHOWN: usize = 8;

/// The report of two captures as text: each line at most [`Style::width`] columns wide, except for
/// commands, which are never broken. `top` is the number of streams shown.
pub fn path(report: &Report, top: Option<usize>, style: Style) -> String {
    let style = style.within_bounds();
    let mut lines = Vec::new();
    if let Some(path) = &report.path {
        lines.extend(wrap(&summary(path, report.window.interrupted), "", "  ", style.width));
        lines.push(String::new());
        if report.findings.is_empty() {
            let line = if path.streams_in_both == 0 {
                "No stream is in both captures: nothing to compare."
            } else {
                "Nothing slows these streams down, as far as packets can show."
            };
            let line = wrap(line, "", "", style.width);
            lines.extend(line.iter().map(|line| paint(line, Paint::Good, style)));
            lines.push(String::new());
        }
        findings::of_report(report, style, &mut lines);
        between_captures(path, style, &mut lines);
        streams(path, top.unwrap_or(DEFAULT_STREAMS_SHOWN), style, &mut lines);
    }
    let mut footer = Footer::new(style, &mut lines);
    footer.ruled_out(report);
    footer.undecided(report);
    footer.not_checked(report);
    footer.not_observed(report);
    footer.more(report, &["--json"]);
    lines.join("\n") + "\n"
}

fn summary(path: &Path, interrupted: bool) -> String {
    let [client, server] = &path.captures;
    let mut text = format!(
        "{} (client) and {} (server): {} and {} in {} and {}; {} in both",
        sanitize::line(&client.file),
        sanitize::line(&server.file),
        number(client.packets),
        count(server.packets, "packet"),
        micros(client.span_us),
        micros(server.span_us),
        count(path.streams_in_both, "stream"),
    );
    if path.streams_rewritten > 0 {
        text.push_str(&format!(
            ", {} with other addresses or ports at the server's end",
            number(path.streams_rewritten)
        ));
    }
    if path.streams_opened_at_server * 2 > path.streams_in_both {
        text.push_str(&format!(
            "; {} of them opened from the server's end: are --client and --server swapped?",
            number(path.streams_opened_at_server)
        ));
    }
    if interrupted {
        text.push_str("; interrupted: only what was read until then");
    }
    text
}

/// Clocks, delays, losses and changes between the two captures.
fn between_captures(path: &Path, style: Style, lines: &mut Vec<String>) {
    lines.push(paint("the path between the two captures", Paint::Strong, style));
    let add = |text: &str, lines: &mut Vec<String>| {
        lines.extend(wrap(text, "  ", "    ", style.width));
    };
    clocks(path).iter().for_each(|text| add(text, lines));
    lines.push(String::new());
    lines.extend(both_directions(path).lines("  ", style.width));
    lines.push(String::new());
    let losses = losses(path);
    if losses.is_empty() && path.changes.is_empty() {
        return;
    }
    losses.iter().for_each(|text| add(text, lines));
    for change in path.changes.iter().take(MAX_CHANGES_SHOWN) {
        add(&changed(change), lines);
    }
    let more = path.changes.len().saturating_sub(MAX_CHANGES_SHOWN);
    if more > 0 {
        add(&format!("{} more changes: --json", number(more as u64)), lines);
    }
    lines.push(String::new());
}

/// How the two clocks differ, and the minimum round trip.
fn clocks(path: &Path) -> Vec<String> {
    let clock = &path.clock;
    let (Some(offset), Some(uncertainty), Some(min_round_trip)) =
        (clock.offset_us, clock.uncertainty_us, clock.min_round_trip_us)
    else {
        return vec![
            "clocks: only packets of one direction are in both captures, so neither the offset of the \
             clocks nor the minimum delay is known"
                .to_string(),
        ];
    };
    if min_round_trip < 0.0 {
        return vec![format!(
            "clocks: the minimum round trip comes out as {}: a clock was set during the captures, or \
             drifts unevenly; delays are wrong by as much",
            precise_micros(min_round_trip)
        )];
    }
    let direction = if offset < 0.0 { "behind" } else { "ahead of" };
    let mut texts = vec![format!(
        "clocks: the server's is {} {direction} the client's if both directions take equally long, \
         otherwise within ±{} of that",
        precise_micros(offset.abs()),
        precise_micros(uncertainty)
    )];
    match (clock.drift_ppm, clock.drift_uncertainty_ppm) {
        (Some(drift), uncertainty) => texts.push(format!(
            "drift: the server's clock {} {} µs per second (±{}); the delays here are corrected for it",
            if drift < 0.0 { "loses" } else { "gains" },
            significant(drift.abs()),
            significant(uncertainty.unwrap_or(0.0))
        )),
        (None, Some(uncertainty)) => texts.push(format!(
            "drift: none measurable; both directions agree within {} µs per second",
            significant(uncertainty)
        )),
        (None, None) => {}
    }
    texts.push(format!(
        "minimum round trip between the captures: {} (independent of the clocks)",
        precise_micros(min_round_trip)
    ));
    texts
}

/// Delays and losses of both directions, side by side.
fn both_directions(path: &Path) -> Table {
    let directions = [&path.to_server, &path.to_client];
    let mut table = Table::new([
        Column::left(""),
        Column::right("client to server"),
        Column::right("server to client"),
    ]);
    let mut row = |name: &str, cell: &dyn Fn(&PathDirection) -> Option<String>| {
        let [to_server, to_client] =
            directions.map(|direction| cell(direction).unwrap_or_else(|| "-".to_string()));
        table.row([name, &to_server, &to_client]);
    };
    let delay = |of: fn(&PathDelay) -> Option<f64>| {
        move |direction: &PathDirection| direction.delay.as_ref().and_then(of).map(delay)
    };
    row("one-way delay, minimum (RTT / 2)", &delay(|delay| delay.min_us));
    row("  median above it", &delay(|delay| Some(delay.p50_us)));
    row("  99th percentile above it", &delay(|delay| Some(delay.p99_us)));
    row("  maximum above it", &delay(|delay| Some(delay.max_us)));
    row("segments captured leaving", &|direction| Some(number(direction.segments)));
    let lost = |direction: &PathDirection, lost: u64| {
        let share = percent(lost as f64 / direction.segments.max(1) as f64);
        Some(if lost == 0 { "0".to_string() } else { format!("{} ({share})", number(lost)) })
    };
    row("lost before the sender's capture", &|direction| {
        lost(direction, direction.lost_before.segments)
    });
    row("lost between the two captures", &|direction| {
        lost(direction, direction.lost_between.segments)
    });
    row("lost after the receiver's capture", &|direction| {
        lost(direction, direction.lost_after.segments)
    });
    type Count = fn(&PathDirection) -> u64;
    let counts: [(&str, Count); 4] = [
        ("packets reordered between them", |direction| direction.reordered),
        ("duplicated (or by the capture)", |direction| direction.duplicated),
        ("spurious retransmissions", |direction| direction.spurious),
        ("pure ACKs lost between them", |direction| direction.pure_acks_lost),
    ];
    for (name, of) in counts {
        if directions.iter().any(|direction| of(direction) > 0) {
            row(name, &|direction| Some(number(of(direction))));
        }
    }
    table
}

/// Where to look for the losses: by capture and packet number.
fn losses(path: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    let [client, server] = path.captures.each_ref().map(|capture| sanitize::line(&capture.file));
    let [client_syns, server_syns] = path.syns_never_arrived;
    for (syns, from, to) in [(client_syns, &client, &server), (server_syns, &server, &client)] {
        if syns > 0 {
            texts.push(format!(
                "connections that never opened: the SYNs of {} in {from} do not arrive in {to}",
                count(syns, "stream")
            ));
        }
    }
    for (direction, sender, from, to) in [
        (&path.to_server, "client", &client, &server),
        (&path.to_client, "server", &server, &client),
    ] {
        let between = &direction.lost_between;
        if between.segments > 0 {
            texts.push(format!(
                "lost between, sent by the {sender}: {}, {} of {from}{}",
                bytes(between.bytes),
                packets(between),
                bursts(direction)
            ));
        }
        for (place, loss, capture) in
            [("before", &direction.lost_before, from), ("after", &direction.lost_after, to)]
        {
            if loss.segments > 0 {
                texts.push(format!(
                    "lost {place}, sent by the {sender}: {}, retransmitted in {} of {capture}",
                    bytes(loss.bytes),
                    packets(loss),
                ));
            }
        }
    }
    texts
}

/// How many of the segments lost between were lost alone, and how many in bursts.
fn bursts(direction: &PathDirection) -> String {
    let single = direction.lost_between.segments.saturating_sub(direction.lost_in_bursts);
    let mut parts = Vec::new();
    if single > 0 {
        parts.push(count(single, "single segment"));
    }
    if direction.bursts > 0 {
        parts.push(format!(
            "{} in {} of up to {}",
            number(direction.lost_in_bursts),
            count(direction.bursts, "burst"),
            number(direction.longest_burst)
        ));
    }
    if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) }
}

fn packets(loss: &PathLoss) -> String {
    if loss.first_packet == loss.last_packet {
        return format!("packet {}", loss.first_packet);
    }
    format!("packets {} to {}", loss.first_packet, loss.last_packet)
}

fn changed(change: &PathChange) -> String {
    let (sender, receiver) = match change.left_at {
        Side::Client => ("client", "server"),
        Side::Server => ("server", "client"),
    };
    let value = |value: Option<u64>| match (change.field, value) {
        (_, None) => "absent".to_string(),
        (ChangedField::SegmentSize | ChangedField::Window, Some(value)) => count(value, "byte"),
        (ChangedField::WindowScale, Some(value)) => format!("2^{value}"),
        (ChangedField::OtherOptions, Some(kind)) => format!("kind {kind}"),
        (_, Some(_)) => "present".to_string(),
    };
    let [client, server] = change.packets;
    format!(
        "changed on the path: {} is {} leaving the {sender}'s end, {} arriving at the {receiver}'s \
         (packets {client} and {server}; {})",
        change.field.words(),
        value(change.before),
        value(change.after),
        count(change.streams, "stream"),
    )
}

fn streams(path: &Path, top: usize, style: Style, lines: &mut Vec<String>) {
    let shown = path.worst.iter().take(top);
    if shown.len() == 0 {
        return;
    }
    let more = more_streams(path.streams_in_both, shown.len(), path.worst.len());
    let title = "segments lost before, between and after the captures; 99th percentile of the delay \
                 above its minimum";
    lines.extend(wrap(title, "", "  ", style.width));
    let mut table = Table::new([
        Column::right("streams"),
        Column::right("before"),
        Column::right("between"),
        Column::right("after"),
        Column::right("to server"),
        Column::right("to client"),
        Column::left("client > server"),
    ]);
    for stream in shown {
        table.row(stream_row(stream));
        if let Some([client, server]) = stream.rewritten {
            table.note(&format!("at the server's end: {client} > {server}"));
        }
    }
    lines.extend(table.lines("", style.width));
    lines.extend(more);
    lines.push(String::new());
}

fn stream_row(stream: &PathStream) -> [String; 7] {
    let sum = |of: fn(&PathDirection) -> u64| {
        number(stream.directions().into_iter().map(of).fold(0, u64::saturating_add))
    };
    let [to_server, to_client] = stream.directions().map(|direction| {
        direction.delay.as_ref().map_or_else(|| "-".to_string(), |times| delay(times.p99_us))
    });
    let [client_number, server_number] = stream.numbers;
    [
        format!("{client_number} = {server_number}"),
        sum(|direction| direction.lost_before.segments),
        sum(|direction| direction.lost_between.segments),
        sum(|direction| direction.lost_after.segments),
        to_server,
        to_client,
        format!("{} > {}", stream.client, stream.server),
    ]
}

/// A delay. One below zero, of clocks that were set, is shown as zero.
fn delay(us: f64) -> String {
    precise_micros(us.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_both_packets() {
        let change = PathChange {
            field: ChangedField::SegmentSize,
            left_at: Side::Client,
            before: Some(1460),
            after: Some(1380),
            packets: [1, 7],
            streams: 1,
        };
        let text = changed(&change);
        assert!(text.contains("1,460 bytes leaving the client's end, 1,380 bytes"), "{text}");
        assert!(text.contains("at the server's (packets 1 and 7; 1 stream)"), "{text}");
    }
}
