//! One stream in depth, from its recording.

use model::{CapturedPacket, CapturedStream, Side, StreamDepth};
use streams::depth::{RecordedPacket, StreamRecording};
use wire::packet::tcp::Flags;

use super::comments;

/// The flags shown, and their names.
const FLAGS: [(Flags, &str); 7] = [
    (Flags::SYN, "SYN"),
    (Flags::FIN, "FIN"),
    (Flags::RST, "RST"),
    (Flags::PSH, "PSH"),
    (Flags::ACK, "ACK"),
    (Flags::ECE, "ECE"),
    (Flags::CWR, "CWR"),
];

pub(super) fn of(recording: StreamRecording, stream: &CapturedStream) -> StreamDepth {
    let StreamRecording { phases, slowest_exchanges, packets, recorded, curve, first } = recording;
    StreamDepth {
        phases,
        slowest_exchanges,
        packets,
        ladder: recorded.iter().map(|one| packet(one, stream, first)).collect(),
        curve,
    }
}

fn packet(step: &RecordedPacket, stream: &CapturedStream, first: streams::Nanos) -> CapturedPacket {
    CapturedPacket {
        packet: step.packet,
        place: step.index,
        at_ns: step.at.saturating_sub(first),
        since_ns: step.since_previous,
        side: if step.source == stream.client { Side::Client } else { Side::Server },
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
