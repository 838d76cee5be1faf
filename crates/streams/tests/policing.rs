//! Policers in real captures: what is found against what was there.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use model::Side;
use streams::policing::{PolicedResponse, PolicerDetector};
use streams::{Ends, SegmentKind, Table};
use sys::capture::Capture;
use wire::packet::tcp::TcpOption;
use wire::packet::{Tcp, decode};

/// The captures of a folder; `None` without them: the calling test is skipped.
fn captures(folder: &str) -> Option<Vec<PathBuf>> {
    let folder = test_support::captures(folder)?;
    let entries = std::fs::read_dir(&folder).expect("a folder");
    let mut all: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    all.sort();
    Some(all)
}

/// A response: its stream, its sender, its bytes, what was found.
struct Response {
    stream: u64,
    side: Side,
    bytes: u64,
    found: Option<PolicedResponse>,
}

/// What one end of a stream sends.
#[derive(Default)]
struct Watched {
    detector: PolicerDetector,
    bytes: u64,
}

/// The responses of a capture, in order.
fn responses(path: &Path) -> Vec<Response> {
    let mut all = Vec::new();
    let mut table = Table::new();
    let mut watched: HashMap<u64, Ends<Watched>> = HashMap::new();
    let Ok(mut capture) = Capture::open(path) else { return all };
    let read = capture.for_each_packet(|packet| {
        let Ok(decoded) = decode(packet.link, packet.bytes, packet.length) else {
            return ControlFlow::Continue(());
        };
        let Ok(tcp) = Tcp::of(&decoded.ip) else { return ControlFlow::Continue(()) };
        let at = packet.time_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(0);
        let taken = table.take(&decoded, &tcp, at, &mut |_| {});
        let (stream, side, event) = (taken.stream, taken.side, taken.event);
        let both = watched.entry(stream.number).or_default();
        if let Some(exchange) = event.exchange
            && stream.ends.get(exchange.requester.other()).sent.in_flight() == 0
        {
            let side = exchange.requester.other();
            let Watched { detector, bytes } = both.get_mut(side);
            let found = detector.end_response(0);
            let bytes = std::mem::take(bytes);
            all.push(Response { stream: stream.number, side, bytes, found });
        }
        if event.kind == SegmentKind::DuplicatePacket {
            return ControlFlow::Continue(());
        }
        let (own, peer) = both.own_and_peer(side);
        if let Some(next) = stream.ends.get(side).sent.next_sequence()
            && tcp.length > 0
        {
            let headers = decoded.ip.length.saturating_sub(tcp.length) + 20;
            let from = next.near(tcp.sequence);
            own.detector.sent(event.kind, from, tcp.length, headers, at);
            own.bytes += u64::from(tcp.length);
        }
        if let Some(next) = stream.ends.get(side.other()).sent.next_sequence() {
            let to = next.near(tcp.acknowledgement);
            peer.detector.acknowledged(to, at);
            for option in tcp.options() {
                let TcpOption::Sack(sack) = option else { continue };
                let Some((from, end)) = sack.blocks().next() else { continue };
                peer.detector.selectively_acknowledged(to, to.near(from), to.near(end), at);
            }
        }
        ControlFlow::Continue(())
    });
    if let Err(error) = read {
        eprintln!("{}: {error:?}", path.display());
    }
    let mut numbers: Vec<u64> = watched.keys().copied().collect();
    numbers.sort_unstable();
    for stream in numbers {
        let mut both = watched.remove(&stream).unwrap_or_default();
        for side in [Side::Client, Side::Server] {
            let Watched { detector, bytes } = both.get_mut(side);
            let found = detector.end_response(0);
            all.push(Response { stream, side, bytes: *bytes, found });
        }
    }
    all
}

/// A figure in the name of a trace, after a word.
fn figure(name: &str, word: &str) -> Option<u64> {
    let rest = name.split(&format!("-{word}")).nth(1)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Found, and how many there are.
#[derive(Default)]
struct Recall {
    found: usize,
    all: usize,
}

/// The traces of Flach et al.: the truth is in their names, their responses are chunks of 2 MB.
#[test]
fn policers_of_a_router_are_found() {
    let Some(captures) = captures("policing") else { return };
    let mut recall: BTreeMap<u64, Recall> = BTreeMap::new();
    let mut others = Recall::default();
    let (mut rates, mut off) = (0, 0.0_f64);
    for path in captures {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".pcap.gz") {
            continue;
        }
        let chunks: Vec<Response> =
            responses(&path).into_iter().filter(|response| response.bytes > 1_000_000).collect();
        let truth = figure(&name, "PCIR");
        let bucket = figure(&name, "PBC").unwrap_or(0);
        let this = match truth {
            Some(_) => recall.entry(bucket).or_default(),
            None => &mut others,
        };
        let hits = chunks.iter().filter(|chunk| chunk.found.is_some()).count();
        this.found += hits;
        this.all += chunks.len();
        println!("{hits}/{} {name}", chunks.len());
        for found in chunks.iter().filter_map(|chunk| chunk.found) {
            let Some(truth) = truth else { continue };
            let of = |rate: u64| rate as f64 / truth as f64;
            let (low, high) = found.rate_range_bps;
            println!(
                "    rate {:.3?} of the truth ({:.3} to {:.3}), bucket {}, {} of {} lost in {} bursts",
                found.rate_bps.map(of),
                of(low),
                of(high),
                found.bucket_bytes,
                found.lost,
                found.lost + found.passed,
                found.bursts,
            );
            if let Some(rate) = found.rate_bps {
                rates += 1;
                off = off.max((of(rate) - 1.0).abs());
            }
        }
    }
    for (bucket, Recall { found, all }) in &recall {
        println!("bucket {bucket}: {found} of {all}");
    }
    let found: usize = recall.values().map(|recall| recall.found).sum();
    let all: usize = recall.values().map(|recall| recall.all).sum();
    println!("found {found} of {all}, false positives {} of {}", others.found, others.all);
    println!("{rates} rates, off by at most {:.1} %", off * 100.0);
    assert_eq!(others.found, 0, "false positives");
    assert!(found * 4 >= all * 3, "{found} of {all}");
    assert!(off < 0.05, "a rate is off by {off}");
}

#[test]
fn other_captures_have_no_policer() {
    for folder in ["labelled", "robustness"] {
        let Some(captures) = captures(folder) else { return };
        for path in captures {
            for response in responses(&path) {
                assert!(
                    response.found.is_none(),
                    "{}: stream {} {} {:?}",
                    path.display(),
                    response.stream,
                    response.side.name(),
                    response.found
                );
            }
        }
    }
}
