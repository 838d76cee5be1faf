//! The phases of a stream's life and its slowest turns.

use model::{CapturedExchange, CapturedStream, PhaseKind, StreamDepth, StreamEnd};

use super::lines::WIDTH;
use text::micros;

/// Turns that are shown.
const SLOWEST: usize = 5;

pub(super) fn put(out: &mut String, stream: &CapturedStream, depth: &StreamDepth) {
    phases(out, stream, depth);
    slowest(out, stream, depth);
}

fn phases(out: &mut String, stream: &CapturedStream, depth: &StreamDepth) {
    // What is too short to matter is left out.
    let worth = |us: u64| us > 0 && us >= stream.span_us / 1_000;
    let shown: Vec<_> = depth.phases.iter().filter(|phase| worth(phase.duration_us)).collect();
    if shown.is_empty() {
        return;
    }
    out.push_str("\nphases      from      lasted\n");
    for phase in shown {
        let words = match phase.phase {
            PhaseKind::Handshake => "handshake".to_string(),
            PhaseKind::BeforeData => "open, no data yet".to_string(),
            PhaseKind::FirstExchange if stream.exchanges <= 1 => {
                "its only turn, turn 0".to_string()
            }
            PhaseKind::FirstExchange => "the first turn, turn 0".to_string(),
            PhaseKind::LaterExchanges => match stream.exchanges.saturating_sub(1) {
                1 => "turn 1".to_string(),
                last => format!("turns 1 to {}", text::number(last)),
            },
            PhaseKind::AfterData => format!("after the last data, {}", end(stream.end)),
        };
        let line =
            format!("{:>16}{:>12}  {words}\n", micros(phase.at_us), micros(phase.duration_us));
        out.push_str(&line);
    }
}

fn end(end: StreamEnd) -> &'static str {
    match end {
        StreamEnd::Open => "still open at the last packet",
        StreamEnd::HalfClosed => "half closed at the last packet",
        StreamEnd::Closed => "until it was closed",
        StreamEnd::Reset => "until it was reset",
        StreamEnd::Refused => "refused",
    }
}

fn slowest(out: &mut String, stream: &CapturedStream, depth: &StreamDepth) {
    if depth.slowest_exchanges.is_empty() {
        return;
    }
    let shown = depth.slowest_exchanges.len().min(SLOWEST);
    let of = if stream.exchanges > shown as u64 {
        format!("slowest {shown} of {} turns", text::number(stream.exchanges))
    } else {
        "turns, the slowest first".to_string()
    };
    out.push_str(&format!("\n{of}\n"));
    out.push_str(&format!(
        "{:>5} {:>8} {:>8} {:>7} {:>8} {:>7}  most of it\n",
        "turn", "from", "asked", "thought", "answer", "took"
    ));
    for turn in &depth.slowest_exchanges[..shown] {
        let largest = turn.largest().map_or("", |share| share.category.words());
        let asker = if turn.requester == model::Side::Server { " (the server asked)" } else { "" };
        let columns = format!(
            "{:>5} {:>8} {:>8} {:>7} {:>8} {:>7} ",
            turn.exchange,
            micros(turn.at_us.saturating_sub(stream.first_us)),
            text::bytes(turn.request_bytes),
            micros(turn.time_us(model::TimeCategory::ServerThink)),
            text::bytes(turn.response_bytes),
            micros(turn.spent_us()),
        );
        for line in text::wrap(&format!("{columns} {largest}{asker}"), "", &" ".repeat(50), WIDTH) {
            out.push_str(&line);
            out.push('\n');
        }
        if let Some(said) = said(turn) {
            for line in text::wrap(&said, "      ", "        ", WIDTH) {
                out.push_str(&line);
                out.push('\n');
            }
        }
    }
}

/// What HTTP asked for, and how it was answered.
fn said(turn: &CapturedExchange) -> Option<String> {
    let asked = turn.method.as_ref().zip(turn.target.as_ref());
    let asked = asked.map(|(method, target)| format!("{method} {target}"));
    let status = turn.status.map(|status| format!("status {status}"));
    match (asked, status) {
        (Some(asked), Some(status)) => Some(format!("{asked}: {status}")),
        (asked, status) => asked.or(status),
    }
}
