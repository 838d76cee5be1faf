//! A simulated path, and the captures at both of its ends.

use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;

use crate::file::{ACK, FIN, SYN, run, text};

pub(crate) const MSS: u32 = 1448;
pub(crate) const MS: i64 = 1_000_000;
const CLIENT: ([u8; 4], u16) = ([198, 18, 0, 1], 5000);
const SERVER: ([u8; 4], u16) = ([198, 18, 0, 2], 80);
const PSH: u8 = 8;

/// The path: its delays, losses and what it changes.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    /// Minimum one-way delay, nanoseconds: to the server, to the client.
    pub(crate) min_delay: [i64; 2],
    /// Largest delay in addition, nanoseconds.
    pub(crate) jitter: i64,
    /// How far the server's clock is ahead, nanoseconds, and its drift, ppm.
    pub(crate) ahead: i64,
    pub(crate) drift: f64,
    /// Flights of ten segments, 20 ms apart.
    pub(crate) flights: u32,
    /// Segments lost between the captures, before the server's, and after the client's.
    pub(crate) between: Vec<u32>,
    pub(crate) before: Vec<u32>,
    pub(crate) after: Vec<u32>,
    /// Segments that arrive 5 ms late, and segments that arrive twice.
    pub(crate) late: Vec<u32>,
    pub(crate) duplicated: Vec<u32>,
    /// The client's address and port at the server's end.
    pub(crate) translated: ([u8; 4], u16),
    /// Whether SYNs lose the window scale, SACK and timestamps options, and get an MSS of 1448.
    pub(crate) stripped: bool,
    /// Whether the sender passes ten segments to its network card at once (TSO).
    pub(crate) offload: bool,
    /// Whether both captures start after the handshake.
    pub(crate) without_handshake: bool,
}

impl Default for Path {
    fn default() -> Self {
        Path {
            min_delay: [20 * MS, 30 * MS],
            jitter: 0,
            ahead: 0,
            drift: 0.0,
            flights: 50,
            between: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            late: Vec::new(),
            duplicated: Vec::new(),
            translated: CLIENT,
            stripped: false,
            offload: true,
            without_handshake: false,
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

/// What both ends capture, with the true time.
#[derive(Debug, Default)]
struct Captured {
    ends: [Vec<(i64, Segment)>; 2],
    last: [i64; 2],
    /// The delay of each segment.
    delays: [Vec<i64>; 2],
    ids: u16,
    seed: u64,
}

impl Captured {
    /// When a segment arrives: after those before it, with a jitter that is the same in every run.
    fn arrival(&mut self, path: &Path, left: i64, back: bool) -> i64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        let jitter = (self.seed >> 33) as i64 % (path.jitter + 1);
        let last = &mut self.last[usize::from(back)];
        *last = (left + path.min_delay[usize::from(back)] + jitter).max(*last + 1_000);
        self.delays[usize::from(back)].push(*last - left);
        *last
    }

    fn id(&mut self) -> u16 {
        self.ids += 1;
        self.ids
    }

    /// Sends a segment that both ends capture; returns when it arrives.
    fn send(&mut self, path: &Path, at: i64, segment: Segment) -> i64 {
        let arrives = self.arrival(path, at, segment.back);
        self.ends[usize::from(segment.back)].push((at, segment));
        self.ends[usize::from(!segment.back)].push((arrives, segment));
        arrives
    }
}

fn stamp(at: i64) -> u32 {
    (at / MS) as u32 + 7_000
}

/// A request and a long response. Lost segments are retransmitted 200 ms later.
pub(crate) fn captures(path: &Path) -> [Vec<u8>; 2] {
    captures_and_times(path).0
}

/// The same, and the delays of each direction, shortest first.
pub(crate) fn captures_and_times(path: &Path) -> ([Vec<u8>; 2], [Vec<i64>; 2]) {
    let mut all = Captured { ids: 0, seed: 5, ..Captured::default() };
    let pure = |back, numbers, flags, id, at| Segment {
        back,
        numbers,
        flags,
        id,
        stamps: (stamp(at), stamp(at) - 50),
        data: 0,
    };
    if !path.without_handshake {
        let id = all.id();
        let at = all.send(path, 0, pure(false, [99, 0], SYN, id, 0));
        let id = all.id();
        let at = all.send(path, at + 40_000, pure(true, [899, 100], SYN | ACK, id, at));
        let id = all.id();
        all.send(path, at + 30_000, pure(false, [100, 900], ACK, id, at));
    }
    let id = all.id();
    all.send(path, 90 * MS, Segment { data: 100, ..pure(false, [100, 900], ACK, id, 90 * MS) });
    // Time, first segment, number of segments, whether it is a retransmission.
    let mut sendings: Vec<(i64, u32, u32, bool)> = Vec::new();
    let step = if path.offload { 10 } else { 1 };
    for first in (0..path.flights * 10).step_by(step as usize) {
        let at = 150 * MS + i64::from(first / 10) * 20 * MS + i64::from(first % 10) * 12_000;
        sendings.push((at, first, step, false));
        for segment in first..first + step {
            let lost = [&path.between, &path.before, &path.after];
            if lost.iter().any(|lost| lost.contains(&segment)) {
                sendings.push((at + 200 * MS, segment, 1, true));
            }
        }
    }
    sendings.sort_unstable();
    let mut arrived: Vec<(i64, u32, Segment)> = Vec::new();
    for (at, first, count, is_retransmission) in sendings {
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
        // A segment that is lost before the capture splits an offloaded packet in two.
        let mut open: Option<(u32, u32)> = None;
        for segment in first..=first + count {
            let leaves =
                segment < first + count && (is_retransmission || !path.before.contains(&segment));
            if leaves {
                open = Some(open.map_or((segment, 1), |(from, count)| (from, count + 1)));
            } else if let Some((from, count)) = open.take() {
                let numbers = [900 + from * MSS, 200];
                let id = id.wrapping_add((from - first) as u16);
                let part = Segment { numbers, id, data: count * MSS, ..sent };
                all.ends[1].push((at + i64::from(from - first) * 1_000, part));
            }
        }
        for segment in first..first + count {
            let numbers = [900 + segment * MSS, 200];
            let id = id.wrapping_add((segment - first) as u16);
            let one = Segment { numbers, id, data: MSS, flags: ACK, ..sent };
            let lost = path.between.contains(&segment) || path.before.contains(&segment);
            if lost && !is_retransmission {
                continue;
            }
            let left = at + i64::from(segment - first) * 12_000;
            let mut comes = all.arrival(path, left, true);
            if path.late.contains(&segment) {
                comes += 5 * MS;
            }
            for _ in 0..1 + usize::from(path.duplicated.contains(&segment)) {
                all.ends[0].push((comes, one));
                comes += 300_000;
            }
            if is_retransmission || !path.after.contains(&segment) {
                arrived.push((comes, segment, one));
            }
        }
    }
    acknowledge(path, &mut all, arrived);
    all.ends.iter_mut().for_each(|end| end.sort_by_key(|(at, _)| *at));
    all.delays.iter_mut().for_each(|delays| delays.sort_unstable());
    let [client, server] = all.ends;
    ([pcap(&client, path, 0), pcap(&server, path, 1)], all.delays)
}

/// The client acknowledges the segments that arrived.
fn acknowledge(path: &Path, all: &mut Captured, mut arrived: Vec<(i64, u32, Segment)>) {
    arrived.sort_unstable_by_key(|(at, segment, _)| (*at, *segment));
    let mut has = vec![false; path.flights as usize * 10];
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
            all.send(path, at + 50_000, acknowledgement);
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
    all.send(path, end, fin);
    let fin = Segment { back: true, numbers: [numbers[1], 201], id: id.wrapping_add(1), ..fin };
    all.send(path, end + 2_000 * MS, fin);
}

/// A pcap file with times in nanoseconds.
fn pcap(packets: &[(i64, Segment)], path: &Path, end: usize) -> Vec<u8> {
    let head = [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 262_144, 101];
    let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (at, segment) in packets {
        let began = 1_790_000_000 * 1_000 * MS;
        let ahead = path.ahead + (*at as f64 * path.drift * 1e-6) as i64;
        let at = began + at + if end == 1 { ahead } else { 0 };
        let client = if end == 1 { path.translated } else { CLIENT };
        let (from, to) = if segment.back { (SERVER, client) } else { (client, SERVER) };
        let arrives = usize::from(segment.back) != end;
        let options = options(segment, path.stripped && arrives, path.stripped);
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

/// Two files in a temporary folder.
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

    /// Runs `netwhy pcap --client a.pcap --server b.pcap` with more arguments.
    pub(crate) fn run(&self, more: &[&str]) -> Output {
        self.named(["a.pcap", "b.pcap"], more)
    }

    pub(crate) fn named(&self, names: [&str; 2], more: &[&str]) -> Output {
        let [a, b] = names.map(|name| self.path(name));
        let words = |path: &std::path::Path| path.to_str().expect("UTF-8").to_string();
        let (a, b) = (words(&a), words(&b));
        run(&[&["pcap", "--client", &a, "--server", &b], more].concat(), b"")
    }

    /// The report as JSON.
    pub(crate) fn report(&self) -> Value {
        let output = self.run(&["--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}
