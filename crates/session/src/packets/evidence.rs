//! A capture as evidence.

use model::{Capability, CapturedStream, Evidence, MissingEvidence, Packets, Source, Window};
use streams::Collected;

/// What the capture lacks of its streams.
fn not_captured(packets: &Packets) -> impl Iterator<Item = MissingEvidence> {
    let count = |lacks: fn(&CapturedStream) -> bool| {
        packets.worst.iter().filter(|stream| lacks(stream)).count() as u64
    };
    let without_options =
        count(|stream| stream.directions().iter().any(|sent| sent.options_truncated));
    let one_direction = count(|stream| {
        let [client, server] = stream.directions();
        (client.packets == 0 && server.data_segments > 0)
            || (server.packets == 0 && client.data_segments > 0)
    });
    let filtered = count(|stream| stream.directions().iter().any(|sent| sent.lacks_data()));
    let missing = [
        (
            filtered,
            "data",
            "acknowledged and not captured: the capture was filtered, or lost packets; times of exchanges \
             and rates are not to be trusted",
            "capture all packets of a connection, with a larger buffer (tcpdump -B 65536)",
        ),
        (
            without_options,
            "the window sizes",
            "the options of their SYNs were truncated by the capture",
            "capture at least 96 bytes of each packet: tcpdump -s 96",
        ),
        (
            one_direction,
            "one direction",
            "not captured, so its acknowledgements and windows are unknown",
            "capture where both directions pass, best at an end of the path",
        ),
    ];
    let missing = missing.into_iter().filter(|(streams, ..)| *streams > 0);
    missing.map(|(streams, what, why, how_to_observe)| MissingEvidence {
        capability: Capability::Available,
        source: Source::Packets,
        what: format!("{what} of {}", text::count(streams, "stream")),
        why: why.to_string(),
        how_to_observe: Some(how_to_observe.to_string()),
    })
}

/// What did not fit into memory, and why that matters: streams that were ended though they were open, and
/// queries of DNS.
pub fn beyond_memory(collected: &Collected) -> Vec<(String, String)> {
    let mut beyond = Vec::new();
    if collected.evicted > 0 {
        let why = format!(
            "{} were captured, more than fit into memory: the least recently active ones were taken as \
             ended, {} of them still open",
            text::number(collected.packets.streams),
            text::number(collected.evicted)
        );
        beyond.push(("complete streams".to_string(), why));
    }
    if collected.dns_queries_refused > 0 {
        let queries = collected.dns_queries_refused;
        let what = format!(
            "{} DNS {}",
            text::number(queries),
            if queries == 1 { "query" } else { "queries" }
        );
        let why = "more look-ups were pending at once than fit into memory".to_string();
        beyond.push((what, why));
    }
    beyond
}

/// Packets as evidence, with what of them was not observed.
pub fn evidence(
    packets: Packets,
    mut missing_evidence: Vec<MissingEvidence>,
    interrupted: bool,
) -> Evidence {
    missing_evidence.extend(not_captured(&packets));
    Evidence {
        schema_version: Evidence::SCHEMA_VERSION,
        netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
        window: Window {
            start_unix_ms: u64::try_from(packets.first_unix_us / 1_000).unwrap_or(0),
            duration_ms: packets.span_us / 1_000,
            interrupted,
        },
        missing_evidence,
        packets: Some(packets),
        ..Evidence::default()
    }
}
