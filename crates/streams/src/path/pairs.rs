//! Which stream of one capture is which of the other, and on which side of the path its client is.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;

use model::{ChangedField, PathChange, Side};

use super::clock::{Clock, Minima};
use super::survey::{Known, Sampled, Survey};
use crate::Nanos;

/// Packets that two streams with other addresses must have in common, where no handshake tells.
const COMMON: usize = 3;
/// Changes that are told of each kind and way: the first, with the number of streams.
type Changes = BTreeMap<(ChangedField, bool), (PathChange, HashSet<u64>)>;
/// Share of the packets that must have another window before it is told.
const WINDOWS: f64 = 0.1;

/// A stream that is in both captures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    /// Its number in each.
    pub(super) numbers: [u64; 2],
    /// Its ends in each, the client first.
    pub(super) ends: [[SocketAddr; 2]; 2],
    /// Whether its client is at the first place.
    pub(super) client_first: bool,
    /// The largest segment that its SYNs allow, with time stamps; `None`: none was seen.
    pub(super) segment: Option<u32>,
}

/// The streams that are in both captures, and what is known of their clocks before all is looked at.
#[derive(Debug)]
pub(super) struct Pairs {
    pub(super) pairs: Vec<Pair>,
    pub(super) clock: Clock,
    /// Whether identifications arrive as they left, so that they tell packets apart.
    pub(super) ids_kept: bool,
    pub(super) changes: Vec<PathChange>,
}

/// A packet that is in the samples of both captures.
type Both = [Sampled; 2];

/// Finds them; `None`: not one stream, or not one packet is in both.
pub(super) fn of(surveys: &[Survey; 2]) -> Option<Pairs> {
    let both: Vec<Both> = common(surveys);
    let mut pairs = found(surveys, &both);
    let by_number: HashMap<[u64; 2], usize> =
        pairs.iter().enumerate().map(|(place, pair)| (pair.numbers, place)).collect();
    let both: Vec<(usize, Both)> = both
        .into_iter()
        .filter_map(|two| Some((*by_number.get(&[two[0].stream, two[1].stream])?, two)))
        .collect();
    turn(&mut pairs, surveys, &both);
    let mut ways = [Minima::default(), Minima::default()];
    for (place, [a, b]) in &both {
        let pair = &pairs[*place];
        let from_client = a.from == pair.ends[0][0];
        if from_client == pair.client_first {
            ways[0].add(a.at, b.at - a.at);
        } else {
            ways[1].add(a.at, a.at - b.at);
        }
    }
    let clock = Clock::of(&ways)?;
    let mut changes = Changes::new();
    pairs.iter().for_each(|pair| options(pair, surveys, &mut changes));
    windows(&pairs, &both, &mut changes);
    let told = |(mut change, streams): (PathChange, HashSet<u64>)| {
        change.streams = streams.len() as u64;
        change
    };
    let changes = changes.into_values().map(told).collect();
    let kept = both.iter().filter(|(_, [a, b])| a.id != 0 && a.id == b.id).count();
    let ids_kept = kept * 10 >= both.len() * 9;
    Some(Pairs { pairs, clock, ids_kept, changes })
}

/// Packets that are in both samples, each once, in the order of the first capture.
fn common([a, b]: &[Survey; 2]) -> Vec<Both> {
    let once = |sampled: &&Sampled| sampled.count == 1;
    let mut both: Vec<Both> = a
        .sample
        .iter()
        .filter_map(|(mark, a)| Some([*Some(a).filter(once)?, *b.sample.get(mark).filter(once)?]))
        .collect();
    both.sort_unstable_by_key(|[a, _]| a.number);
    both
}

fn found([a, b]: &[Survey; 2], both: &[Both]) -> Vec<Pair> {
    let mut in_common: HashMap<[u64; 2], usize> = HashMap::new();
    for [a, b] in both {
        *in_common.entry([a.stream, b.stream]).or_default() += 1;
    }
    let sorted = |mut ends: [SocketAddr; 2]| {
        ends.sort_unstable();
        ends
    };
    let mut by_ends: HashMap<[SocketAddr; 2], Vec<u64>> = HashMap::new();
    let mut by_begins: HashMap<(u32, u32), Vec<u64>> = HashMap::new();
    let mut numbers: Vec<u64> = b.streams.keys().copied().collect();
    numbers.sort_unstable();
    for number in &numbers {
        let known = &b.streams[number];
        by_ends.entry(sorted(known.ends)).or_default().push(*number);
        by_begins.extend_with(begins(known), *number);
    }
    let mut of_a: Vec<u64> = a.streams.keys().copied().collect();
    of_a.sort_unstable();
    let mut taken: HashSet<u64> = HashSet::new();
    let mut pairs = Vec::new();
    // The same addresses, and what is known of the handshake does not speak against it.
    let mut left = Vec::new();
    for number in of_a {
        let one = &a.streams[&number];
        let candidates = by_ends.get(&sorted(one.ends)).map_or(&[][..], Vec::as_slice);
        let shared = |other: &u64| in_common.get(&[number, *other]).copied().unwrap_or(0);
        let fits = candidates.iter().filter(|other| !taken.contains(other)).filter(|other| {
            let known = &b.streams[other];
            alike(one, known).unwrap_or(candidates.len() == 1 || shared(other) > 0)
        });
        match fits.max_by_key(|other| shared(other)) {
            Some(other) => {
                taken.insert(*other);
                pairs.push(pair(one, &b.streams[other], [number, *other]));
            }
            None => left.push(number),
        }
    }
    // Other addresses: both first sequence numbers, or that of a SYN and its time stamp.
    let mut still = Vec::new();
    for number in left {
        let one = &a.streams[&number];
        let other = begins(one)
            .and_then(|key| by_begins.get(&key))
            .and_then(|others| others.iter().find(|other| !taken.contains(other)));
        match other {
            Some(other) => {
                taken.insert(*other);
                pairs.push(pair(one, &b.streams[other], [number, *other]));
            }
            None => still.push(number),
        }
    }
    // No handshake: packets in common.
    let still: HashSet<u64> = still.into_iter().collect();
    let mut rest: Vec<([u64; 2], usize)> = in_common
        .into_iter()
        .filter(|([a, b], count)| *count >= COMMON && still.contains(a) && !taken.contains(b))
        .collect();
    rest.sort_unstable_by_key(|(numbers, count)| (std::cmp::Reverse(*count), *numbers));
    let mut used: HashSet<u64> = HashSet::new();
    for ([first, second], _) in rest {
        if used.insert(first) && taken.insert(second) {
            let (one, mut other) = (a.streams[&first], b.streams[&second]);
            // Which end is which is known by the packets.
            let turned = both
                .iter()
                .find(|two| [two[0].stream, two[1].stream] == [first, second])
                .is_some_and(|[a, b]| (a.from == one.ends[0]) != (b.from == other.ends[0]));
            if turned {
                other.ends.swap(0, 1);
            }
            pairs
                .push(Pair { ends: [one.ends, other.ends], ..pair(&one, &other, [first, second]) });
        }
    }
    pairs.sort_unstable_by_key(|pair| pair.numbers);
    pairs
}

/// Adds to lists that may not be there yet.
trait ExtendWith {
    fn extend_with(&mut self, key: Option<(u32, u32)>, number: u64);
}

impl ExtendWith for HashMap<(u32, u32), Vec<u64>> {
    fn extend_with(&mut self, key: Option<(u32, u32)>, number: u64) {
        if let Some(key) = key {
            self.entry(key).or_default().push(number);
        }
    }
}

/// What a translation of addresses leaves as it is.
fn begins(known: &Known) -> Option<(u32, u32)> {
    let client = known.begins[0]?;
    match known.begins[1] {
        Some(server) => Some((client, server)),
        None => {
            known.syns[0].map(|(.., stamp)| stamp).filter(|stamp| *stamp != 0).map(|s| (client, s))
        }
    }
}

/// Whether two handshakes are the same one; `None`: they cannot be compared.
fn alike(a: &Known, b: &Known) -> Option<bool> {
    let two = a.begins.iter().zip(b.begins);
    let compared: Vec<bool> = two.filter_map(|(a, b)| Some((*a)? == b?)).collect();
    (!compared.is_empty()).then(|| compared.iter().all(|same| *same))
}

fn pair(a: &Known, b: &Known, numbers: [u64; 2]) -> Pair {
    let mut ends = [a.ends, b.ends];
    // Only one of them knows who asked.
    if !a.roles || !b.roles {
        let (known, other) = if a.roles { (0, 1) } else { (1, 0) };
        let same = ends[other].contains(&ends[known][0]) && ends[other].contains(&ends[known][1]);
        if same {
            ends[other] = ends[known];
        }
    }
    // What arrives rules: a smaller one may have been put in on the way.
    let offered = |side: usize| {
        let both = [a, b].into_iter().filter_map(|known| known.syns[side]);
        both.filter_map(|(_, _, syn, _)| syn.segment_size).min()
    };
    let stamps = |known: &Known| known.syns.iter().flatten().all(|(_, _, syn, _)| syn.stamps);
    let header = if stamps(a) && stamps(b) { 12 } else { 0 };
    let segment = [offered(0), offered(1)].into_iter().flatten().min();
    let segment = segment.map(|size| u32::from(size).saturating_sub(header).max(1));
    Pair { numbers, ends, client_first: true, segment }
}

/// On which side of the path each client is: from there to the other place and back takes time, which
/// passes at the client's place and not at the other. No clocks need to be compared.
fn turn(pairs: &mut [Pair], surveys: &[Survey; 2], both: &[(usize, Both)]) {
    let mut times: Vec<[Vec<Nanos>; 2]> = pairs.iter().map(|_| Default::default()).collect();
    for (place, [a, b]) in both {
        let from_client = a.from == pairs[*place].ends[0][0];
        times[*place][usize::from(!from_client)].push(b.at - a.at);
    }
    let mut told: Vec<Option<bool>> = Vec::with_capacity(pairs.len());
    for (pair, times) in pairs.iter().zip(&mut times) {
        let syns = [0, 1].map(|place| {
            let known = surveys[place].streams.get(&pair.numbers[place])?;
            let [Some(syn), Some(answer)] = known.syns else { return None };
            Some(answer.1.saturating_sub(syn.1))
        });
        let handshake = syns[0].zip(syns[1]).map(|(a, b)| a.saturating_sub(b));
        let middle = |times: &mut Vec<Nanos>| {
            times.sort_unstable();
            times.get(times.len() / 2).copied()
        };
        let [there, back] = times;
        let data = middle(there).zip(middle(back)).map(|(there, back)| there.saturating_sub(back));
        let trip = handshake.filter(|trip| *trip != 0).or(data.filter(|trip| *trip != 0));
        told.push(trip.map(|trip| trip > 0));
    }
    // Where nothing tells, as most are.
    let first = told.iter().filter(|told| **told == Some(true)).count();
    let most = first >= told.iter().filter(|told| **told == Some(false)).count();
    for (pair, told) in pairs.iter_mut().zip(told) {
        pair.client_first = told.unwrap_or(most);
    }
}

fn note(
    changes: &mut Changes,
    field: ChangedField,
    left_at: Side,
    values: [Option<u64>; 2],
    packets: [u64; 2],
    stream: u64,
) {
    let [before, after] = values;
    let change = PathChange { field, left_at, before, after, packets, streams: 0 };
    changes
        .entry((field, left_at == Side::Server))
        .or_insert((change, HashSet::new()))
        .1
        .insert(stream);
}

/// What became of the options of a stream's SYNs.
fn options(pair: &Pair, surveys: &[Survey; 2], changes: &mut Changes) {
    let known = [0, 1].map(|place| surveys[place].streams.get(&pair.numbers[place]));
    let [Some(a), Some(b)] = known else { return };
    for side in 0..2 {
        let [Some(at_first), Some(at_second)] = [a.syns[side], b.syns[side]] else { continue };
        let leaves_first = (side == 0) == pair.client_first;
        let (left, arrived, left_at) = if leaves_first {
            (at_first.2, at_second.2, Side::Client)
        } else {
            (at_second.2, at_first.2, Side::Server)
        };
        let packets = [at_first.0, at_second.0];
        let flag = |set: bool| set.then_some(1);
        let all = [
            (
                ChangedField::SegmentSize,
                left.segment_size.map(u64::from),
                arrived.segment_size.map(u64::from),
            ),
            (ChangedField::WindowScale, left.scale.map(u64::from), arrived.scale.map(u64::from)),
            (ChangedField::SelectiveAcknowledgements, flag(left.sack), flag(arrived.sack)),
            (ChangedField::TimeStamps, flag(left.stamps), flag(arrived.stamps)),
            (
                ChangedField::OtherOptions,
                other(left.others & !arrived.others),
                other(arrived.others & !left.others),
            ),
        ];
        for (field, before, after) in all {
            if before != after {
                note(changes, field, left_at, [before, after], packets, pair.numbers[0]);
            }
        }
    }
}

/// The lowest kind of an option.
fn other(kinds: u64) -> Option<u64> {
    (kinds != 0).then(|| u64::from(kinds.trailing_zeros()))
}

/// Windows that leave otherwise than they arrive.
fn windows(pairs: &[Pair], both: &[(usize, Both)], changes: &mut Changes) {
    for side in [Side::Client, Side::Server] {
        let way: Vec<&(usize, Both)> = both
            .iter()
            .filter(|(place, [a, _])| {
                let from_client = a.from == pairs[*place].ends[0][0];
                (from_client == pairs[*place].client_first) == (side == Side::Client)
            })
            .collect();
        let differ: Vec<_> = way.iter().filter(|(_, [a, b])| a.window != b.window).collect();
        // A merge of small acknowledgements may keep the later of two windows.
        if (differ.len() as f64) < WINDOWS * way.len() as f64 {
            continue;
        }
        for (place, [a, b]) in differ {
            let (left, arrived) = if side == Side::Client { (a, b) } else { (b, a) };
            let values = [left.window, arrived.window].map(|window| Some(u64::from(window)));
            let packets = [a.number, b.number];
            note(changes, ChangedField::Window, side, values, packets, pairs[*place].numbers[0]);
        }
    }
}
