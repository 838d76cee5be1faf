//! The phases of a stream's life.

use model::{CapturedStream, PhaseKind, StreamDepth, StreamEnd};
use text::{Column, Style, Table, micros, number};

/// Phases shorter than the duration of the stream divided by this are left out.
const MIN_PART_OF_STREAM: u64 = 1_000;

pub(super) fn lines(stream: &CapturedStream, depth: &StreamDepth, style: Style) -> Vec<String> {
    let mut table =
        Table::new([Column::right("start"), Column::right("duration"), Column::left("phase")]);
    let min_us = (stream.span_us / MIN_PART_OF_STREAM).max(1);
    for phase in depth.phases.iter().filter(|phase| phase.duration_us >= min_us) {
        table.row([
            micros(phase.at_us),
            micros(phase.duration_us),
            description(phase.phase, stream),
        ]);
    }
    if table.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new()];
    lines.extend(table.lines("  ", style.width));
    lines
}

fn description(phase: PhaseKind, stream: &CapturedStream) -> String {
    match phase {
        PhaseKind::Handshake => "handshake".to_string(),
        PhaseKind::BeforeData => "open, no data yet".to_string(),
        PhaseKind::FirstExchange if stream.exchanges <= 1 => "exchange 0, the only one".to_string(),
        PhaseKind::FirstExchange => "exchange 0".to_string(),
        PhaseKind::LaterExchanges => match stream.exchanges.saturating_sub(1) {
            0 | 1 => "exchange 1".to_string(),
            last => format!("exchanges 1 to {}", number(last)),
        },
        PhaseKind::AfterData => format!("after the last data, {}", end(stream.end)),
    }
}

fn end(end: StreamEnd) -> &'static str {
    match end {
        StreamEnd::Open => "still open at the last packet",
        StreamEnd::HalfClosed => "half-closed at the last packet",
        StreamEnd::Closed => "until it was closed",
        StreamEnd::Reset => "until it was reset",
        StreamEnd::Refused => "refused",
    }
}
