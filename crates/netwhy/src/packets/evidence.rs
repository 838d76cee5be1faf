//! A capture as evidence.

use model::{CapturedStream, Evidence, MissingEvidence, Packets, Source, Window};

/// What the packets of its streams lack.
fn not_captured(packets: &Packets) -> impl Iterator<Item = MissingEvidence> {
    let count = |lacks: fn(&CapturedStream) -> bool| {
        packets.worst.iter().filter(|stream| lacks(stream)).count() as u64
    };
    let cut = count(|stream| stream.directions().iter().any(|sent| sent.options_truncated));
    let half = count(|stream| {
        let [client, server] = stream.directions();
        (client.packets == 0 && server.data_segments > 0)
            || (server.packets == 0 && client.data_segments > 0)
    });
    let gaps = [
        (
            cut,
            "the window sizes",
            "options of their SYNs were cut off when they were captured",
            Some("96 bytes of each packet and more: tcpdump -s 96"),
        ),
        (
            half,
            "one direction",
            "what was acknowledged, and how much there was room for, is not in the capture",
            Some("a place that both directions pass, best an end of the path"),
        ),
    ];
    gaps.into_iter().filter(|(streams, ..)| *streams > 0).map(|(streams, what, why, closes)| {
        MissingEvidence {
            capability: model::Capability::Available,
            source: Source::Packets,
            what: format!(
                "{what} of {} stream{}",
                text::number(streams),
                if streams == 1 { "" } else { "s" }
            ),
            why: why.to_string(),
            how_to_observe: closes.map(str::to_string),
        }
    })
}

/// Packets as evidence, with what of them was not observed.
pub(crate) fn evidence(
    packets: Packets,
    mut gaps: Vec<MissingEvidence>,
    interrupted: bool,
) -> Evidence {
    gaps.extend(not_captured(&packets));
    Evidence {
        schema_version: Evidence::SCHEMA_VERSION,
        netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
        window: Window {
            start_unix_ms: u64::try_from(packets.first_unix_us / 1_000).unwrap_or(0),
            duration_ms: packets.span_us / 1_000,
            interrupted,
        },
        missing_evidence: gaps,
        packets: Some(packets),
        ..Evidence::default()
    }
}
