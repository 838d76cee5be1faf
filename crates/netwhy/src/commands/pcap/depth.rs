//! One stream in depth, from what was recorded of it.

use model::{CapturedPacket, CapturedStream, Side, StreamDepth};
use streams::depth::recorder::{Recorded, Step};
use wire::packet::tcp::Flags;

use super::comments;

/// Flags that are told, as they are told.
const FLAGS: [(Flags, &str); 7] = [
    (Flags::SYN, "SYN"),
    (Flags::FIN, "FIN"),
    (Flags::RST, "RST"),
    (Flags::PSH, "PSH"),
    (Flags::ACK, "ACK"),
    (Flags::ECE, "ECE"),
    (Flags::CWR, "CWR"),
];

pub(super) fn of(recorded: Recorded, stream: &CapturedStream) -> StreamDepth {
    let Recorded { phases, slowest, packets, steps, curve, first } = recorded;
    StreamDepth {
        phases,
        slowest_exchanges: slowest,
        packets,
        ladder: steps.iter().map(|step| packet(step, stream, first)).collect(),
        curve,
    }
}

fn packet(step: &Step, stream: &CapturedStream, first: streams::Nanos) -> CapturedPacket {
    CapturedPacket {
        packet: step.packet,
        place: step.place,
        at_ns: step.at.saturating_sub(first),
        since_ns: step.since,
        side: if step.from == stream.client { Side::Client } else { Side::Server },
        flags: FLAGS
            .iter()
            .filter(|(flag, _)| step.flags.all(*flag))
            .map(|(_, name)| (*name).to_string())
            .collect(),
        sequence: step.sequence,
        length: step.length,
        acknowledgement: step.acknowledgement,
        window: step.window,
        comments: comments::of_step(step),
    }
}
