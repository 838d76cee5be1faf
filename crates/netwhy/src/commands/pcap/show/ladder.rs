//! Packet by packet: the client on the left, the server on the right, time going down.

use std::time::Duration;

use model::{CapturedPacket, CapturedStream, Side, StreamDepth};
use text::{Style, count, number, wrap};

/// Columns of the packet number and the times.
const LEFT_COLUMNS: usize = 29;
/// Columns of an arrow: its head, and the space between its line and the text.
const ARROW_COLUMNS: usize = 2;

pub(super) fn lines(stream: &CapturedStream, depth: &StreamDepth, style: Style) -> Vec<String> {
    let Some(first) = depth.ladder.first() else { return Vec::new() };
    let mut lines = vec![String::new()];
    lines.extend(wrap(&title(depth), "", "  ", style.width));
    let lane = style.width.saturating_sub(LEFT_COLUMNS);
    lines.push(format!("{:>7} {:>11} {:>8} {}", "packet", "time, s", "delta", ends(stream, lane)));
    let mut next = first.place;
    let mut last_at = 0;
    for packet in &depth.ladder {
        let not_shown = packet.place.saturating_sub(next);
        lines.extend(not_shown_line(not_shown, packet.at_ns.saturating_sub(last_at)));
        put(packet, style, &mut lines);
        (next, last_at) = (packet.place.saturating_add(1), packet.at_ns);
    }
    lines.extend(not_shown_line(depth.packets.saturating_sub(next), 0));
    lines
}

fn title(depth: &StreamDepth) -> String {
    let shown = depth.ladder.len() as u64;
    if shown == depth.packets {
        return "packets, client on the left, server on the right".to_string();
    }
    let option = match shown.saturating_mul(4) {
        more if more < depth.packets => format!("--ladder {more} or --ladder all shows more"),
        _ => "--ladder all shows all".to_string(),
    };
    format!(
        "{} of {}, around the worst stalls ({option})",
        number(shown),
        count(depth.packets, "packet")
    )
}

/// A line in place of packets that are not shown.
fn not_shown_line(packets: u64, time_ns: i64) -> Option<String> {
    if packets == 0 {
        return None;
    }
    let mut text = count(packets, "packet");
    if time_ns > 0 {
        text.push_str(&format!(", {}", time(time_ns)));
    }
    Some(format!("{:LEFT_COLUMNS$}… {text} …", ""))
}

/// The two ends above their sides.
fn ends(stream: &CapturedStream, lane: usize) -> String {
    let (mut left, mut right) = (stream.client.to_string(), stream.server.to_string());
    if left.len() + right.len() + 1 > lane {
        (left, right) = ("client".to_string(), "server".to_string());
    }
    let width = lane.saturating_sub(left.len());
    format!("{left}{right:>width$}")
}

fn put(packet: &CapturedPacket, style: Style, lines: &mut Vec<String>) {
    let at = packet.at_ns as f64 / 1e9;
    let since = packet.since_ns.map_or(String::new(), time);
    let left = format!("{:>7} {at:>11.6} {since:>8} ", packet.packet);
    // Times of a broken clock are wider: they take columns from the arrow.
    let lane = style.width.saturating_sub(left.chars().count()).saturating_sub(ARROW_COLUMNS);
    let text = header_fields(packet, lane);
    let line = "─".repeat(lane.saturating_sub(text.chars().count()));
    lines.push(match packet.side {
        Side::Client => format!("{left}{text} {line}▶"),
        Side::Server => format!("{left}◀{line} {text}"),
    });
    if !packet.comments.is_empty() {
        let first = format!("{:LEFT_COLUMNS$}^ ", "");
        let hang = " ".repeat(LEFT_COLUMNS + 2);
        lines.extend(wrap(&packet.comments.join("; "), &first, &hang, style.width));
    }
}

/// Flags, sequence and acknowledgement numbers and window, as far as there is room for them.
fn header_fields(packet: &CapturedPacket, lane: usize) -> String {
    let has = |name: &str| packet.flags.iter().any(|flag| flag == name);
    let mut fields: Vec<String> =
        packet.flags.iter().filter(|flag| *flag != "ACK").cloned().collect();
    if packet.length > 0 || has("SYN") || has("FIN") {
        fields.push(format!("seq {}", packet.sequence));
    }
    if packet.length > 0 {
        fields.push(format!("len {}", packet.length));
    }
    if let Some(acknowledgement) = packet.acknowledgement {
        fields.push(format!("ack {acknowledgement}"));
    }
    if !has("RST") {
        fields.push(format!("win {}", packet.window));
    }
    let mut text = fields.join(" ");
    while text.chars().count() > lane && fields.len() > 1 {
        fields.pop();
        text = fields.join(" ");
    }
    text.chars().take(lane).collect()
}

/// A time in at most eight columns: of a minute and more only the seconds.
fn time(nanos: i64) -> String {
    const MINUTE_NS: i64 = 60_000_000_000;
    if nanos >= MINUTE_NS {
        return format!("{} s", nanos / 1_000_000_000);
    }
    text::duration(Duration::from_nanos(nanos.max(0).unsigned_abs()))
}
