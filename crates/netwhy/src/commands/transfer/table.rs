//! The transfers one by one, and how much of their time theory explains.

use model::{BandwidthSource, OneTransfer, Transfer, TransferPeer};
use text::figures::bytes_as_given;
use text::{Column, Table, bit_rate, micros, number, percent, share};

/// Most transfers that are listed.
const MAX_ROWS: usize = 16;

/// The table; empty without transfers.
pub(super) fn lines(transfer: &Transfer, width: usize) -> Vec<String> {
    if transfer.transfers.is_empty() {
        return Vec::new();
    }
    let several_streams = transfer.streams > 1;
    let mut table = Table::new([
        Column::right(if several_streams { "  stream" } else { "transfer" }),
        Column::right("start"),
        Column::right("bytes"),
        Column::right("time"),
        Column::right("theory"),
        Column::right("rounds"),
        Column::right("window"),
        Column::right("handshake"),
    ]);
    for one in transfer.transfers.iter().take(MAX_ROWS) {
        table.row(row(one, several_streams));
    }
    let mut lines = table.lines("", width);
    if let Some(more @ 1..) = transfer.transfers.len().checked_sub(MAX_ROWS) {
        lines.push(format!("  {} more: --json has them all", number(more as u64)));
    }
    lines
}

fn row(one: &OneTransfer, several_streams: bool) -> [String; 8] {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_string());
    let transfer = u64::from(one.number) + 1;
    let name = match several_streams {
        true => format!("{}.{transfer}", u64::from(one.stream) + 1),
        false => number(transfer),
    };
    let time = match one.completed {
        true => milliseconds(one.duration_us),
        false => "failed".to_string(),
    };
    [
        name,
        milliseconds(one.at_us),
        bytes_as_given(one.bytes),
        time,
        known(one.theory.map(|theory| milliseconds(theory.total_us))),
        known(one.theory.map(|theory| number(theory.rounds.into()))),
        known(one.window_segments.map(|window| number(window.into()))),
        known(one.connect_us.map(milliseconds)),
    ]
}

/// A time in a column, in milliseconds up to ten seconds, so that small differences show: `1,180 ms`.
fn milliseconds(us: u64) -> String {
    match us {
        0 => "0 s".to_string(),
        1_000_000..10_000_000 => format!("{} ms", number((us + 500) / 1000)),
        us => micros(us),
    }
}

/// What is known of the path, as a sentence; empty: nothing.
pub(super) fn path(transfer: &Transfer) -> String {
    let mut facts = Vec::new();
    if let (Some(bps), Some(source)) = (transfer.bandwidth_bps, transfer.bandwidth_source) {
        let source = match source {
            BandwidthSource::Given => "given",
            BandwidthSource::DeliveryRate => "estimated: the sender's best delivery rate",
            BandwidthSource::ReceiveRate => "estimated: the best receive rate",
            BandwidthSource::LowerBound => {
                "a lower bound, nothing filled the path: see --bandwidth"
            }
        };
        facts.push(format!("bandwidth {} ({source})", bit_rate(bps)));
    }
    if let Some(us) = transfer.round_trip_us {
        facts.push(format!("round-trip time {}", micros(us)));
    }
    if transfer.peer_kind == TransferPeer::Http {
        facts.push("the sender's congestion window is not known".to_string());
    }
    if let Some(restarts) = transfer.senders.iter().find_map(|one| one.slow_start_after_idle) {
        let value = u8::from(restarts);
        let effect = match restarts {
            true => "restarts slow start after idle periods",
            false => "keeps its congestion window through idle periods",
        };
        let has_idle_periods = transfer.completed > 1 && !transfer.reconnect;
        let effect = if has_idle_periods { format!(", {effect}") } else { String::new() };
        facts.push(format!("sender: tcp_slow_start_after_idle={value}{effect}"));
    }
    if facts.is_empty() { String::new() } else { format!("Path: {}.", facts.join("; ")) }
}

/// How much of the time theory explains, as a sentence; empty: theory is not known.
pub(super) fn theory(transfer: &Transfer) -> String {
    let (mut measured_us, mut parts_us) = (0_u64, [0_u64; 4]);
    for one in &transfer.transfers {
        let Some(theory) = one.theory else { continue };
        measured_us = measured_us.saturating_add(one.duration_us);
        let parts =
            [theory.transmission_us, theory.slow_start_us, theory.request_us, theory.connect_us];
        parts_us.iter_mut().zip(parts).for_each(|(sum, us)| *sum = sum.saturating_add(us));
    }
    let theory_us = parts_us.iter().copied().fold(0, u64::saturating_add);
    if measured_us == 0 || theory_us == 0 {
        return String::new();
    }
    let part = |name: &str, us: u64| {
        format!("{name} {} ({})", micros(us), percent(share(us as f64, measured_us as f64)))
    };
    let names = ["size / bandwidth", "slow start", "requests", "handshakes"];
    let parts = names.iter().zip(parts_us).filter(|(_, us)| *us > 0);
    let parts: Vec<String> = parts.map(|(name, us)| part(name, us)).collect();
    let mut text = format!(
        "Theory explains {} of {}: {}",
        micros(theory_us),
        micros(measured_us),
        parts.join(", ")
    );
    if let Some(us @ 1..) = measured_us.checked_sub(theory_us) {
        text.push_str(&part("; not explained:", us));
    }
    text.push('.');
    text
}
