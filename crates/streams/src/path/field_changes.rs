//! What a device between two captures changed: options of SYNs, windows.

use std::collections::{BTreeMap, HashSet};

use model::{ChangedField, PathChange, Side};

use super::capture_summary::CaptureSummary;
use super::stream_matching::{CommonPacket, MatchedStream, MatchedStreams};
use crate::ends::Ends;

/// Share of the packets whose window must differ before it is reported.
const MIN_CHANGED_WINDOWS: f64 = 0.1;

/// The first change of each field in each direction, and the streams that have one.
#[derive(Debug, Default)]
struct FieldChanges {
    changes: BTreeMap<(ChangedField, bool), (PathChange, HashSet<u64>)>,
}

/// The changes of all streams.
pub(super) fn find(summaries: &Ends<CaptureSummary>, matched: &MatchedStreams) -> Vec<PathChange> {
    let mut found = FieldChanges::default();
    matched.streams.iter().for_each(|stream| found.compare_syns(stream, summaries));
    found.compare_windows(matched);
    let changes = found.changes.into_values();
    changes
        .map(|(change, streams)| PathChange { streams: streams.len() as u64, ..change })
        .collect()
}

impl FieldChanges {
    /// Notes a field that left with one value and arrived with another.
    fn add(
        &mut self,
        field: ChangedField,
        left_at: Side,
        [before, after]: [Option<u64>; 2],
        packets: Ends<u64>,
        stream: u64,
    ) {
        let packets = packets.into_array();
        let change = PathChange { field, left_at, before, after, packets, streams: 0 };
        let (_, streams) = self
            .changes
            .entry((field, left_at == Side::Server))
            .or_insert((change, HashSet::new()));
        streams.insert(stream);
    }

    /// Compares the options of a stream's SYNs.
    fn compare_syns(&mut self, stream: &MatchedStream, summaries: &Ends<CaptureSummary>) {
        let start = |vantage| summaries.get(vantage).streams.get(stream.numbers.get(vantage));
        let (Some(in_client), Some(in_server)) = (start(Side::Client), start(Side::Server)) else {
            return;
        };
        for side in [Side::Client, Side::Server] {
            let syns =
                Ends { client: *in_client.syns.get(side), server: *in_server.syns.get(side) };
            let Some(syns) = syns.both() else { continue };
            let left_at = if stream.is_opened_by_client { side } else { side.other() };
            let left = syns.get(left_at).options;
            let arrived = syns.get(left_at.other()).options;
            let packets = syns.map(|syn| syn.number);
            let flag = |is_set: bool| is_set.then_some(1);
            let (removed, added) = (left.others & !arrived.others, arrived.others & !left.others);
            let values = [
                (ChangedField::SegmentSize, [left.mss, arrived.mss].map(|mss| mss.map(u64::from))),
                (
                    ChangedField::WindowScale,
                    [left.window_scale, arrived.window_scale].map(|scale| scale.map(u64::from)),
                ),
                (
                    ChangedField::SelectiveAcknowledgements,
                    [left.sack_permitted, arrived.sack_permitted].map(flag),
                ),
                (ChangedField::TimeStamps, [left.timestamps, arrived.timestamps].map(flag)),
                (ChangedField::OtherOptions, [removed, added].map(lowest_kind)),
            ];
            for (field, values) in values {
                if values[0] != values[1] {
                    self.add(field, left_at, values, packets, stream.numbers.client);
                }
            }
        }
    }

    /// Compares the windows of the sampled packets.
    fn compare_windows(&mut self, matched: &MatchedStreams) {
        for left_at in [Side::Client, Side::Server] {
            let direction = || {
                matched
                    .common()
                    .filter(|(stream, packet)| stream.vantage_of_common(packet) == left_at)
            };
            let differs = |(_, packet): &(&MatchedStream, &CommonPacket)| {
                packet.client.window != packet.server.window
            };
            let (all, differing) = (direction().count(), direction().filter(differs).count());
            // An offload that merges acknowledgements may keep the later of two windows.
            if (differing as f64) < MIN_CHANGED_WINDOWS * all as f64 {
                continue;
            }
            for (stream, packet) in direction().filter(differs) {
                let values = [packet.get(left_at), packet.get(left_at.other())]
                    .map(|one| Some(u64::from(one.window)));
                let packets = packet.each_ref().map(|one| one.number);
                self.add(ChangedField::Window, left_at, values, packets, stream.numbers.client);
            }
        }
    }
}

/// The lowest kind of some options.
fn lowest_kind(kinds: u64) -> Option<u64> {
    (kinds != 0).then(|| u64::from(kinds.trailing_zeros()))
}
