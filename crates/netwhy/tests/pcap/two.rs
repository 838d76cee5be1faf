//! A path that is known, and the two captures that its ends make of it.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::file::{ACK, FIN, SYN, run, text};

pub(crate) const MSS: u32 = 1448;
pub(crate) const MS: i64 = 1_000_000;
const CLIENT: ([u8; 4], u16) = ([198, 18, 0, 1], 5000);
const SERVER: ([u8; 4], u16) = ([198, 18, 0, 2], 80);
const PSH: u8 = 8;

/// What happens on the way.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// One way at least, nanoseconds: to the server, to the client.
    pub(crate) least: [i64; 2],
    /// Most that is added to that.
    pub(crate) jitter: i64,
    /// How far the clock at the server is ahead, nanoseconds, and what it gains, 1e-6.
    pub(crate) ahead: i64,
    pub(crate) drift: f64,
    /// Flights of ten segments, 20 ms apart.
    pub(crate) flights: u32,
    /// Segments that are lost between, before the server's capture, and behind the client's.
    pub(crate) between: Vec<u32>,
    pub(crate) before: Vec<u32>,
    pub(crate) behind: Vec<u32>,
    /// Segments that come 5 ms late, and those that come twice.
    pub(crate) late: Vec<u32>,
    pub(crate) twice: Vec<u32>,
    /// What the client has at the server's end.
    pub(crate) translated: ([u8; 4], u16),
    /// Whether SYNs lose their window scale, SACK and time stamps, and have an MSS of 1448.
    pub(crate) stripped: bool,
    /// Whether the sender hands ten segments to its card at once.
    pub(crate) offload: bool,
    /// Whether both captures begin after the handshake.
    pub(crate) begun: bool,
}

impl Default for Way {
    fn default() -> Self {
        Way {
            least: [20 * MS, 30 * MS],
            jitter: 0,
            ahead: 0,
            drift: 0.0,
            flights: 50,
            between: Vec::new(),
            before: Vec::new(),
            behind: Vec::new(),
            late: Vec::new(),
            twice: Vec::new(),
            translated: CLIENT,
            stripped: false,
            offload: true,
            begun: false,
        }
    }
}

/// A segment as it is sent.
#[derive(Debug, Clone, Copy)]
struct Segment {
    back: bool,
    numbers: [u32; 2],
    flags: u8,
    id: u16,
    stamps: (u32, u32),
    data: u32,
}

/// The captures that the two ends make: when by the true clock, what.
#[derive(Debug, Default)]
struct Captured {
    places: [Vec<(i64, Segment)>; 2],
    last: [i64; 2],
    /// How long each took.
    took: [Vec<i64>; 2],
    ids: u16,
    seed: u64,
}

impl Captured {
    /// One that arrives after those before it, with a jitter that is the same in every run.
    fn travels(&mut self, way: &Way, left: i64, back: bool) -> i64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        let jitter = (self.seed >> 33) as i64 % (way.jitter + 1);
        let last = &mut self.last[usize::from(back)];
        *last = (left + way.least[usize::from(back)] + jitter).max(*last + 1_000);
        self.took[usize::from(back)].push(*last - left);
        *last
    }

    fn id(&mut self) -> u16 {
        self.ids += 1;
        self.ids
    }

    /// Leaves at its place and arrives at the other one; when.
    fn passes(&mut self, way: &Way, at: i64, segment: Segment) -> i64 {
        let arrives = self.travels(way, at, segment.back);
        self.places[usize::from(segment.back)].push((at, segment));
        self.places[usize::from(!segment.back)].push((arrives, segment));
        arrives
    }
}

fn stamp(at: i64) -> u32 {
    (at / MS) as u32 + 7_000
}

/// A request and a long answer of the server. What was lost is sent again 200 ms later.
pub(crate) fn captures(way: &Way) -> [Vec<u8>; 2] {
    captures_and_times(way).0
}

/// The same, and how long packets took each way, shortest first.
pub(crate) fn captures_and_times(way: &Way) -> ([Vec<u8>; 2], [Vec<i64>; 2]) {
    let mut all = Captured { ids: 0, seed: 5, ..Captured::default() };
    let pure = |back, numbers, flags, id, at| Segment {
        back,
        numbers,
        flags,
        id,
        stamps: (stamp(at), stamp(at) - 50),
        data: 0,
    };
    if !way.begun {
        let id = all.id();
        let at = all.passes(way, 0, pure(false, [99, 0], SYN, id, 0));
        let id = all.id();
        let at = all.passes(way, at + 40_000, pure(true, [899, 100], SYN | ACK, id, at));
        let id = all.id();
        all.passes(way, at + 30_000, pure(false, [100, 900], ACK, id, at));
    }
    let id = all.id();
    all.passes(way, 90 * MS, Segment { data: 100, ..pure(false, [100, 900], ACK, id, 90 * MS) });
    // What is sent: when, first segment, segments, whether again.
    let mut sendings: Vec<(i64, u32, u32, bool)> = Vec::new();
    let step = if way.offload { 10 } else { 1 };
    for first in (0..way.flights * 10).step_by(step as usize) {
        let at = 150 * MS + i64::from(first / 10) * 20 * MS + i64::from(first % 10) * 12_000;
        sendings.push((at, first, step, false));
        for segment in first..first + step {
            let lost = [&way.between, &way.before, &way.behind];
            if lost.iter().any(|lost| lost.contains(&segment)) {
                sendings.push((at + 200 * MS, segment, 1, true));
            }
        }
    }
    sendings.sort_unstable();
    let mut arrived: Vec<(i64, u32, Segment)> = Vec::new();
    for (at, first, count, again) in sendings {
        let id = all.ids + 1;
        all.ids = all.ids.wrapping_add(count as u16);
        let sent = Segment {
            back: true,
            numbers: [900 + first * MSS, 200],
            flags: ACK | if count > 1 { PSH } else { 0 },
            id,
            stamps: (stamp(at), stamp(at) - 50),
            data: count * MSS,
        };
        // A segment that is lost before it leaves makes two packets of an offloaded one.
        let mut open: Option<(u32, u32)> = None;
        for segment in first..=first + count {
            let leaves = segment < first + count && (again || !way.before.contains(&segment));
            if leaves {
                open = Some(open.map_or((segment, 1), |(from, count)| (from, count + 1)));
            } else if let Some((from, count)) = open.take() {
                let numbers = [900 + from * MSS, 200];
                let id = id.wrapping_add((from - first) as u16);
                let part = Segment { numbers, id, data: count * MSS, ..sent };
                all.places[1].push((at + i64::from(from - first) * 1_000, part));
            }
        }
        for segment in first..first + count {
            let numbers = [900 + segment * MSS, 200];
            let id = id.wrapping_add((segment - first) as u16);
            let one = Segment { numbers, id, data: MSS, flags: ACK, ..sent };
            let lost = way.between.contains(&segment) || way.before.contains(&segment);
            if lost && !again {
                continue;
            }
            let left = at + i64::from(segment - first) * 12_000;
            let mut comes = all.travels(way, left, true);
            if way.late.contains(&segment) {
                comes += 5 * MS;
            }
            for _ in 0..1 + usize::from(way.twice.contains(&segment)) {
                all.places[0].push((comes, one));
                comes += 300_000;
            }
            if again || !way.behind.contains(&segment) {
                arrived.push((comes, segment, one));
            }
        }
    }
    acknowledge(way, &mut all, arrived);
    all.places.iter_mut().for_each(|place| place.sort_by_key(|(at, _)| *at));
    all.took.iter_mut().for_each(|took| took.sort_unstable());
    let [client, server] = all.places;
    ([written(&client, way, 0), written(&server, way, 1)], all.took)
}

/// The client acknowledges what has come to it.
fn acknowledge(way: &Way, all: &mut Captured, mut arrived: Vec<(i64, u32, Segment)>) {
    arrived.sort_unstable_by_key(|(at, segment, _)| (*at, *segment));
    let mut has = vec![false; way.flights as usize * 10];
    let mut next = 0;
    for (at, segment, seen) in arrived {
        has[segment as usize] = true;
        while has.get(next).copied().unwrap_or(false) {
            next += 1;
        }
        if segment % 2 == 1 || next < has.len() && has[next..].contains(&true) {
            let id = all.id();
            let acknowledgement = Segment {
                back: false,
                numbers: [200, 900 + next as u32 * MSS],
                flags: ACK,
                id,
                stamps: (stamp(at), seen.stamps.0),
                data: 0,
            };
            all.passes(way, at + 50_000, acknowledgement);
        }
    }
    let end = all.last[0] + 10 * MS;
    let id = all.id();
    let numbers = [200, 900 + next as u32 * MSS];
    let fin = Segment {
        back: false,
        numbers,
        flags: ACK | FIN,
        id,
        stamps: (stamp(end), stamp(end)),
        data: 0,
    };
    all.passes(way, end, fin);
    let fin = Segment { back: true, numbers: [numbers[1], 201], id: id.wrapping_add(1), ..fin };
    all.passes(way, end + 2_000 * MS, fin);
}

/// A capture with times in nanoseconds.
fn written(packets: &[(i64, Segment)], way: &Way, place: usize) -> Vec<u8> {
    let head = [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 262_144, 101];
    let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (at, segment) in packets {
        let began = 1_790_000_000 * 1_000 * MS;
        let ahead = way.ahead + (*at as f64 * way.drift * 1e-6) as i64;
        let at = began + at + if place == 1 { ahead } else { 0 };
        let client = if place == 1 { way.translated } else { CLIENT };
        let (from, to) = if segment.back { (SERVER, client) } else { (client, SERVER) };
        let arrives = usize::from(segment.back) != place;
        let options = options(segment, way.stripped && arrives, way.stripped);
        let length = 40 + options.len() as u32 + segment.data;
        let kept = 40 + options.len() as u32;
        for word in [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, kept, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0x45, 0]);
        bytes.extend((length as u16).to_be_bytes());
        bytes.extend(segment.id.to_be_bytes());
        bytes.extend([0x40, 0, 64, 6, 0, 0]);
        bytes.extend(from.0);
        bytes.extend(to.0);
        bytes.extend([from.1, to.1].iter().flat_map(|port| port.to_be_bytes()));
        bytes.extend(segment.numbers.iter().flat_map(|number| number.to_be_bytes()));
        bytes.extend([(5 + options.len() as u8 / 4) << 4, segment.flags]);
        bytes.extend([0xff, 0xff, 0, 0, 0, 0]);
        bytes.extend(options);
    }
    bytes
}

fn options(segment: &Segment, stripped: bool, no_stamps: bool) -> Vec<u8> {
    let (value, echo) = segment.stamps;
    let stamps = [value.to_be_bytes(), echo.to_be_bytes()].concat();
    if segment.flags & SYN == 0 {
        return if no_stamps { Vec::new() } else { [&[1, 1, 8, 10][..], &stamps].concat() };
    }
    if stripped {
        return vec![2, 4, 5, 0xa8];
    }
    [&[2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 8, 10][..], &stamps].concat()
}

/// Two files in a folder of their own.
pub(crate) struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    pub(crate) fn of(captures: &[Vec<u8>; 2]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files { folder };
        for (bytes, name) in captures.iter().zip(["a.pcap", "b.pcap"]) {
            std::fs::write(files.path(name), bytes).expect("a file");
        }
        files
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `netwhy pcap --client a.pcap --server b.pcap` and more words.
    pub(crate) fn run(&self, more: &[&str]) -> Output {
        self.named(["a.pcap", "b.pcap"], more)
    }

    pub(crate) fn named(&self, names: [&str; 2], more: &[&str]) -> Output {
        let [a, b] = names.map(|name| self.path(name));
        let words = |path: &Path| path.to_str().expect("UTF-8").to_string();
        let (a, b) = (words(&a), words(&b));
        run(&[&["pcap", "--client", &a, "--server", &b], more].concat(), b"")
    }

    /// The path as JSON.
    pub(crate) fn told(&self) -> Value {
        let output = self.run(&["--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}
