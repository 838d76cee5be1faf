//! Which stream of one capture is which of the other, and on which side of the path its client is.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

use model::Side;

use super::capture_summary::{CaptureSummary, SampledPacket, StreamStart};
use crate::ends::Ends;
use crate::time::Nanos;

/// Packets that two streams with different addresses must have in common, if there is no handshake.
const MIN_COMMON_PACKETS: usize = 3;
/// Streams of the other capture with the same ends and the same first sequence number of the client that
/// are compared: more of them are no accident.
const MAX_CANDIDATES: usize = 64;
/// Bytes that time stamps take of each segment.
const TIMESTAMP_BYTES: u32 = 12;

/// A stream that is in both captures.
#[derive(Debug, Clone, Copy)]
pub(super) struct MatchedStream {
    /// Its number in each capture.
    pub(super) numbers: Ends<u64>,
    /// Its ends in each capture.
    pub(super) ends: Ends<Ends<SocketAddr>>,
    /// Whether its client is on the client's side of the path: most are.
    pub(super) is_opened_by_client: bool,
    /// The largest segment that its SYNs allow, with time stamps; `None`: no SYN was captured.
    pub(super) mss: Option<u32>,
}

/// A packet that is in the samples of both captures.
pub(super) type CommonPacket = Ends<SampledPacket>;

/// The streams that are in both captures.
#[derive(Debug)]
pub(super) struct MatchedStreams {
    pub(super) streams: Vec<MatchedStream>,
    /// The packets of the samples of both, with the place of their stream.
    pub(super) packets: Vec<(usize, CommonPacket)>,
}

impl MatchedStream {
    /// The vantage point at which the end is that sent a packet, from its address in one capture.
    pub(super) fn vantage_of(&self, capture: Side, source: SocketAddr) -> Option<Side> {
        let end = self.ends.get(capture).side_where(|address| *address == source)?;
        Some(if self.is_opened_by_client { end } else { end.other() })
    }

    /// The same for a sampled packet: what is not from the client is from the server.
    pub(super) fn vantage_of_common(&self, packet: &CommonPacket) -> Side {
        let is_from_client = packet.client.source == self.ends.client.client;
        if is_from_client == self.is_opened_by_client { Side::Client } else { Side::Server }
    }
}

impl MatchedStreams {
    /// Finds them.
    pub(super) fn find(summaries: &Ends<CaptureSummary>) -> Self {
        let packets = common_packets(summaries);
        let mut streams = Matching::new(summaries, &packets).find();
        streams.sort_unstable_by_key(|stream| stream.numbers.into_array());
        let places: HashMap<Ends<u64>, usize> =
            streams.iter().enumerate().map(|(place, stream)| (stream.numbers, place)).collect();
        let packets: Vec<(usize, CommonPacket)> = packets
            .into_iter()
            .filter_map(|packet| {
                let numbers = packet.each_ref().map(|one| one.stream);
                Some((*places.get(&numbers)?, packet))
            })
            .collect();
        let mut matched = MatchedStreams { streams, packets };
        matched.find_sides(summaries);
        matched
    }

    /// The sampled packets with their streams.
    pub(super) fn common(&self) -> impl Iterator<Item = (&MatchedStream, &CommonPacket)> {
        self.packets.iter().filter_map(|(place, packet)| Some((self.streams.get(*place)?, packet)))
    }

    /// Finds on which side of the path each client is: a round trip to the other capture takes time
    /// at the client's vantage point, and none at the other. No clocks need to be compared.
    fn find_sides(&mut self, summaries: &Ends<CaptureSummary>) {
        // Differences of the clocks by sender.
        let mut differences: Vec<Ends<Vec<Nanos>>> = vec![Ends::default(); self.streams.len()];
        for (place, packet) in &self.packets {
            let (Some(stream), Some(differences)) =
                (self.streams.get(*place), differences.get_mut(*place))
            else {
                continue;
            };
            let is_from_client = packet.client.source == stream.ends.client.client;
            let sender = if is_from_client { Side::Client } else { Side::Server };
            let difference = packet.server.at.saturating_sub(packet.client.at);
            differences.get_mut(sender).push(difference);
        }
        let found: Vec<Option<bool>> = self
            .streams
            .iter()
            .zip(differences)
            .map(|(stream, differences)| is_opened_by_client(stream, summaries, differences))
            .collect();
        // Where nothing shows it, as most are.
        let count = |wanted| found.iter().filter(|found| **found == Some(wanted)).count();
        let most = count(true) >= count(false);
        for (stream, found) in self.streams.iter_mut().zip(found) {
            stream.is_opened_by_client = found.unwrap_or(most);
        }
    }
}

/// Whether the client of a stream is on the client's side, by its handshake, then by its data.
fn is_opened_by_client(
    stream: &MatchedStream,
    summaries: &Ends<CaptureSummary>,
    differences: Ends<Vec<Nanos>>,
) -> Option<bool> {
    let handshake_time = |capture: Side| {
        let start = summaries.get(capture).streams.get(stream.numbers.get(capture))?;
        let syns = start.syns.both()?;
        Some(syns.server.at.saturating_sub(syns.client.at))
    };
    let handshake = handshake_time(Side::Client)
        .zip(handshake_time(Side::Server))
        .map(|(client, server)| client.saturating_sub(server));
    let medians = differences.map(|mut differences| {
        differences.sort_unstable();
        differences.get(differences.len() / 2).copied()
    });
    let data = medians.both().map(|both| both.client.saturating_sub(both.server));
    let is_known = |time: &Nanos| *time != 0;
    let time = handshake.filter(is_known).or(data.filter(is_known));
    time.map(|time| time > 0)
}

/// Packets that are in both samples, once in each, in the order of the client's capture.
fn common_packets(summaries: &Ends<CaptureSummary>) -> Vec<CommonPacket> {
    let once = |packet: &&SampledPacket| packet.count == 1;
    let sample = summaries.client.sample.iter();
    let mut packets: Vec<CommonPacket> = sample
        .filter_map(|(hash, client)| {
            let client = *Some(client).filter(once)?;
            let server = *summaries.server.sample.get(hash).filter(once)?;
            Some(Ends { client, server })
        })
        .collect();
    packets.sort_unstable_by_key(|packet| packet.client.number);
    packets
}

/// Matches streams: by their addresses, then by what a translation of addresses leaves alone, then by
/// common packets.
struct Matching<'a> {
    summaries: &'a Ends<CaptureSummary>,
    packets: &'a [CommonPacket],
    /// Common packets of two streams: how many, and the place of the first.
    in_common: HashMap<Ends<u64>, (usize, usize)>,
    /// Streams of the server's capture that have been matched.
    taken: HashSet<u64>,
    matched: Vec<MatchedStream>,
}

impl<'a> Matching<'a> {
    fn new(summaries: &'a Ends<CaptureSummary>, packets: &'a [CommonPacket]) -> Self {
        let mut in_common: HashMap<Ends<u64>, (usize, usize)> = HashMap::new();
        for (place, packet) in packets.iter().enumerate() {
            let numbers = packet.each_ref().map(|one| one.stream);
            in_common.entry(numbers).or_insert((0, place)).0 += 1;
        }
        let (taken, matched) = (HashSet::new(), Vec::new());
        Matching { summaries, packets, in_common, taken, matched }
    }

    fn find(mut self) -> Vec<MatchedStream> {
        let left = self.match_addresses();
        let left = self.match_handshakes(left);
        self.match_packets(&left);
        self.matched
    }

    /// The streams of a capture by number.
    fn sorted(&self, capture: Side) -> Vec<(u64, &'a StreamStart)> {
        let streams = self.summaries.get(capture).streams.iter();
        let mut streams: Vec<_> = streams.map(|(number, start)| (*number, start)).collect();
        streams.sort_unstable_by_key(|(number, _)| *number);
        streams
    }

    fn add(&mut self, client: (u64, &StreamStart), server: (u64, &StreamStart)) {
        self.taken.insert(server.0);
        self.matched.push(matched(client, server));
    }

    /// The same addresses, unless the handshakes differ. Returns the streams of the client's capture
    /// that are left.
    fn match_addresses(&mut self) -> Vec<(u64, &'a StreamStart)> {
        let sorted = |start: &StreamStart| {
            let mut ends = start.ends.into_array();
            ends.sort_unstable();
            ends
        };
        let mut by_ends: HashMap<[SocketAddr; 2], SameEnds<'_>> = HashMap::new();
        for (number, start) in self.sorted(Side::Server) {
            by_ends.entry(sorted(start)).or_default().add(number, start);
        }
        let mut left = Vec::new();
        for (number, start) in self.sorted(Side::Client) {
            let Some(same_ends) = by_ends.get_mut(&sorted(start)) else {
                left.push((number, start));
                continue;
            };
            let in_common = |other: u64| {
                let numbers = Ends { client: number, server: other };
                self.in_common.get(&numbers).map_or(0, |(count, _)| *count)
            };
            let is_only_one = same_ends.count == 1;
            let candidates = same_ends.candidates(start, &self.taken);
            let fits = candidates.iter().filter(|(other, known)| {
                !self.taken.contains(other)
                    && have_same_handshake(start, known)
                        .unwrap_or(is_only_one || in_common(*other) > 0)
            });
            match fits.max_by_key(|(other, _)| in_common(*other)).copied() {
                Some(other) => self.add((number, start), other),
                None => left.push((number, start)),
            }
        }
        left
    }

    /// Other addresses, but the same first sequence numbers; or that of a SYN and its time stamp.
    /// Returns the streams that are left.
    fn match_handshakes(
        &mut self,
        left: Vec<(u64, &'a StreamStart)>,
    ) -> Vec<(u64, &'a StreamStart)> {
        let mut by_handshake: HashMap<(u32, u32), Candidates<'_>> = HashMap::new();
        for (number, start) in self.sorted(Side::Server) {
            if let Some(key) = handshake_key(start) {
                by_handshake.entry(key).or_default().push_back((number, start));
            }
        }
        let mut still_left = Vec::new();
        for (number, start) in left {
            let candidates = handshake_key(start).and_then(|key| by_handshake.get_mut(&key));
            match candidates.and_then(|candidates| first_free(candidates, &self.taken)) {
                Some(other) => self.add((number, start), other),
                None => still_left.push((number, start)),
            }
        }
        still_left
    }

    /// No handshake, but packets in common.
    fn match_packets(&mut self, left: &[(u64, &'a StreamStart)]) {
        let left: HashMap<u64, &StreamStart> = left.iter().copied().collect();
        let mut candidates: Vec<(Ends<u64>, usize, usize)> = self
            .in_common
            .iter()
            .map(|(numbers, (count, first))| (*numbers, *count, *first))
            .filter(|(numbers, count, _)| {
                *count >= MIN_COMMON_PACKETS
                    && left.contains_key(&numbers.client)
                    && !self.taken.contains(&numbers.server)
            })
            .collect();
        candidates
            .sort_unstable_by_key(|(numbers, count, _)| (Reverse(*count), numbers.into_array()));
        let mut used: HashSet<u64> = HashSet::new();
        for (numbers, _, first) in candidates {
            let Some(client) = left.get(&numbers.client) else { continue };
            let Some(server) = self.summaries.server.streams.get(&numbers.server) else { continue };
            if !used.insert(numbers.client) || !self.taken.insert(numbers.server) {
                continue;
            }
            let mut found = matched((numbers.client, client), (numbers.server, server));
            found.ends = Ends { client: client.ends, server: server.ends };
            // Which end is which is known by the packets.
            let is_swapped = self.packets.get(first).is_some_and(|packet| {
                (packet.client.source == client.ends.client)
                    != (packet.server.source == server.ends.client)
            });
            if is_swapped {
                found.ends.server.swap();
            }
            self.matched.push(found);
        }
    }
}

/// Streams of the server's capture, in the order of their numbers.
type Candidates<'a> = VecDeque<(u64, &'a StreamStart)>;

/// Streams of the server's capture with the same ends: ports may be used again, thousands of times.
#[derive(Debug, Default)]
struct SameEnds<'a> {
    count: usize,
    all: Candidates<'a>,
    /// By the first sequence number of the client.
    by_sequence: HashMap<Option<u32>, Candidates<'a>>,
}

impl<'a> SameEnds<'a> {
    fn add(&mut self, number: u64, start: &'a StreamStart) {
        self.count += 1;
        self.all.push_back((number, start));
        self.by_sequence
            .entry(start.first_sequences.client)
            .or_default()
            .push_back((number, start));
    }

    /// Those whose handshake may be that of a stream, in the order of their numbers.
    fn candidates(
        &mut self,
        of: &StreamStart,
        taken: &HashSet<u64>,
    ) -> Vec<(u64, &'a StreamStart)> {
        let first = |candidates: &mut Candidates<'a>| {
            first_free(candidates, taken);
            candidates.iter().take(MAX_CANDIDATES).copied().collect::<Vec<_>>()
        };
        let Some(sequence) = of.first_sequences.client else { return first(&mut self.all) };
        let mut found = Vec::new();
        for key in [Some(sequence), None] {
            found.extend(self.by_sequence.get_mut(&key).map(first).unwrap_or_default());
        }
        found.sort_unstable_by_key(|(number, _)| *number);
        found
    }
}

/// The first stream that is not taken; those before are forgotten.
fn first_free<'a>(
    candidates: &mut Candidates<'a>,
    taken: &HashSet<u64>,
) -> Option<(u64, &'a StreamStart)> {
    while candidates.front().is_some_and(|(number, _)| taken.contains(number)) {
        candidates.pop_front();
    }
    candidates.front().copied()
}

/// What a translation of addresses leaves alone.
fn handshake_key(start: &StreamStart) -> Option<(u32, u32)> {
    let client = start.first_sequences.client?;
    let timestamp = || start.syns.client.map(|syn| syn.timestamp).filter(|stamp| *stamp != 0);
    Some((client, start.first_sequences.server.or_else(timestamp)?))
}

/// Whether two handshakes are the same; `None`: they cannot be compared.
fn have_same_handshake(a: &StreamStart, b: &StreamStart) -> Option<bool> {
    let client = a.first_sequences.client.zip(b.first_sequences.client);
    let server = a.first_sequences.server.zip(b.first_sequences.server);
    let mut compared = [client, server].into_iter().flatten().peekable();
    compared.peek()?;
    Some(compared.all(|(a, b)| a == b))
}

fn matched(client: (u64, &StreamStart), server: (u64, &StreamStart)) -> MatchedStream {
    let (in_client, in_server) = (client.1, server.1);
    let mut ends = Ends { client: in_client.ends, server: in_server.ends };
    // If only one capture shows the roles, it decides for both.
    if !in_client.roles_known || !in_server.roles_known {
        let known = if in_client.roles_known { Side::Client } else { Side::Server };
        let (known, other) = ends.own_and_peer(known);
        let has = |address: SocketAddr| other.client == address || other.server == address;
        if has(known.client) && has(known.server) {
            *other = *known;
        }
    }
    // The SYN that arrives counts: a smaller MSS may have been inserted on the path.
    let syns = || {
        [in_client, in_server]
            .into_iter()
            .flat_map(|start| [start.syns.client, start.syns.server])
            .flatten()
    };
    let mss = syns().filter_map(|syn| syn.options.mss).min();
    let reserved = if syns().all(|syn| syn.options.timestamps) { TIMESTAMP_BYTES } else { 0 };
    MatchedStream {
        numbers: Ends { client: client.0, server: server.0 },
        ends,
        is_opened_by_client: true,
        mss: mss.map(|mss| u32::from(mss).saturating_sub(reserved).max(1)),
    }
}

#[cfg(test)]
mod tests {
    use wire::capture::{LinkType, Packet};

    use super::*;
    use crate::collect::CollectedSegment;
    use crate::path::PacketFingerprint;

    /// A capture of SYNs between the same two ends, each of a stream of its own.
    fn summary(syns: u32, sequence: fn(u32) -> u32) -> CaptureSummary {
        let mut summary = CaptureSummary::default();
        let mut bytes =
            vec![0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2];
        bytes.extend([16, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
        for number in 0..syns {
            bytes[24..28].copy_from_slice(&sequence(number).to_be_bytes());
            let packet = Packet {
                time_ns: Some(i128::from(number) * 1000),
                interface: 0,
                link: LinkType::RAW,
                bytes: &bytes,
                length: 40,
                drops: None,
            };
            let segment = CollectedSegment { stream: number.into(), ..CollectedSegment::default() };
            let number = u64::from(number) + 1;
            summary.add(&PacketFingerprint::of(&packet, number, &segment, 0).expect("a segment"));
        }
        summary
    }

    /// Each of 100,000 streams is compared with a few others, not with all of them: that would take
    /// minutes.
    #[test]
    fn ports_that_are_used_again_and_again_are_matched_in_one_pass() {
        let streams = 100_000;
        let different = || summary(streams, |number| number.wrapping_mul(2_654_435_761));
        let found = MatchedStreams::find(&Ends { client: different(), server: different() });
        assert_eq!(found.streams.len(), streams as usize);
        assert!(found.streams.iter().all(|stream| stream.numbers.client == stream.numbers.server));
        // The same two sequence numbers, over and over: nothing shows which is which.
        let same = || summary(streams, |number| number % 2);
        let found = MatchedStreams::find(&Ends { client: same(), server: same() });
        assert_eq!(found.streams.len(), streams as usize);
    }
}
