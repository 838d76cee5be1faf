//! Packet by packet: the client left, the server right, time going down.

use std::time::Duration;

use model::{CapturedPacket, CapturedStream, Side, StreamDepth};

use super::lines::{WIDTH, put as text};

/// Columns of number and times.
const LEFT: usize = 29;
/// Columns between the two ends.
const LANE: usize = WIDTH - LEFT;

pub(super) fn put(out: &mut String, stream: &CapturedStream, depth: &StreamDepth) {
    let Some(first) = depth.ladder.first() else { return };
    out.push('\n');
    let shown = depth.ladder.len() as u64;
    let title = if shown == depth.packets {
        "packets, client left, server right".to_string()
    } else {
        let more = match shown * 4 {
            more if more < depth.packets => format!("--ladder {more} or all shows more"),
            _ => "--ladder all shows all".to_string(),
        };
        let (shown, packets) = (text::number(shown), text::number(depth.packets));
        format!("{shown} of {packets} packets, around the worst stalls ({more})")
    };
    text(out, "", &title);
    out.push_str(&format!("{:>7} {:>11} {:>8} {}\n", "packet", "at, s", "since", ends(stream)));
    let mut next = first.place;
    let mut last_at = 0;
    for packet in &depth.ladder {
        skipped(out, packet.place.saturating_sub(next), packet.at_ns - last_at);
        line(out, packet);
        (next, last_at) = (packet.place + 1, packet.at_ns);
    }
    skipped(out, depth.packets.saturating_sub(next), 0);
}

/// Packets that are not shown.
fn skipped(out: &mut String, packets: u64, time: i64) {
    if packets == 0 {
        return;
    }
    let plural = if packets == 1 { "" } else { "s" };
    let mut words = format!("… {} packet{plural}", text::number(packets));
    if time > 0 {
        words.push_str(&format!(", {}", self::time(time)));
    }
    out.push_str(&format!("{:LEFT$}{words} …\n", ""));
}

/// The two ends over their sides.
fn ends(stream: &CapturedStream) -> String {
    let (mut left, mut right) = (stream.client.to_string(), stream.server.to_string());
    if left.len() + right.len() + 1 > LANE {
        (left, right) = ("client".to_string(), "server".to_string());
    }
    let width = LANE - left.len();
    format!("{left}{right:>width$}")
}

fn line(out: &mut String, packet: &CapturedPacket) {
    let at = packet.at_ns as f64 / 1e9;
    let since = packet.since_ns.map_or(String::new(), time);
    let left = format!("{:>7} {at:>11.6} {since:>8} ", packet.packet);
    // What is wider on the left, as times of no clock are, takes it from the lane.
    let lane = WIDTH.saturating_sub(left.chars().count()).saturating_sub(2);
    let words = words(packet, lane);
    let dashes = "─".repeat(lane.saturating_sub(words.chars().count()));
    out.push_str(&left);
    match packet.side {
        Side::Client => out.push_str(&format!("{words} {dashes}▶\n")),
        Side::Server => out.push_str(&format!("◀{dashes} {words}\n")),
    }
    if !packet.comments.is_empty() {
        let comments = packet.comments.join("; ");
        let hang = " ".repeat(LEFT + 2);
        for line in text::wrap(&comments, &format!("{:LEFT$}^ ", ""), &hang, WIDTH) {
            out.push_str(&line);
            out.push('\n');
        }
    }
}

/// Flags, numbers and window; as much of it as there is room for.
fn words(packet: &CapturedPacket, lane: usize) -> String {
    let mut words: Vec<String> =
        packet.flags.iter().filter(|flag| *flag != "ACK").cloned().collect();
    let counts = packet.flags.iter().any(|flag| flag == "SYN" || flag == "FIN");
    if packet.length > 0 || counts {
        words.push(format!("seq {}", packet.sequence));
    }
    if packet.length > 0 {
        words.push(format!("len {}", packet.length));
    }
    if let Some(acknowledgement) = packet.acknowledgement {
        words.push(format!("ack {acknowledgement}"));
    }
    if !packet.flags.iter().any(|flag| flag == "RST") {
        words.push(format!("win {}", packet.window));
    }
    let mut text = words.join(" ");
    while text.chars().count() > lane && words.len() > 1 {
        words.pop();
        text = words.join(" ");
    }
    text.chars().take(lane).collect()
}

/// A time in the eight columns that it has; of minutes and more the seconds.
fn time(nanos: i64) -> String {
    const MINUTE: i64 = 60_000_000_000;
    if nanos >= MINUTE {
        return format!("{} s", nanos / 1_000_000_000);
    }
    text::duration(Duration::from_nanos(nanos.max(0).unsigned_abs()))
}
