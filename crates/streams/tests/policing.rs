//! Policers in real captures: what is found beside what was there.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use streams::policing::{Policed, Policing};
use streams::{Kind, Table};
use sys::capture::Capture;
use wire::packet::tcp::TcpOption;
use wire::packet::{Tcp, decode};

/// The captures of a folder; `None`, after saying so, without them.
fn captures(folder: &str) -> Option<Vec<PathBuf>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    let folder = std::env::var_os("NETWHY_CAPTURES").map_or(beside, PathBuf::from).join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: there are no captures (NETWHY_CAPTURES names their folder)");
        return None;
    };
    let mut all: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    all.sort();
    Some(all)
}

/// An answer: its stream, who gave it, new bytes of it, what was found.
struct Answer {
    stream: u64,
    side: usize,
    bytes: u64,
    found: Option<Policed>,
}

/// The answers of a capture, in order.
fn answers(path: &Path) -> Vec<Answer> {
    let mut all = Vec::new();
    let mut table = Table::new();
    let mut watched: HashMap<u64, [(Policing, u64); 2]> = HashMap::new();
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
        if let Some(turn) = event.turn
            && stream.directions[1 - usize::from(turn.asker)].flight() == 0
        {
            let side = 1 - usize::from(turn.asker);
            let (policing, bytes) = &mut both[side];
            let found = policing.end();
            let bytes = std::mem::take(bytes);
            all.push(Answer { stream: stream.number, side, bytes, found });
        }
        if event.kind == Kind::Copy {
            return ControlFlow::Continue(());
        }
        if let Some(next) = stream.directions[side].next()
            && tcp.length > 0
        {
            let headers = decoded.ip.length.saturating_sub(tcp.length) + 20;
            let from = next.near(tcp.sequence);
            let (policing, bytes) = &mut both[side];
            policing.sent(event.kind, from, tcp.length, headers, at);
            *bytes += u64::from(tcp.length);
        }
        if let Some(next) = stream.directions[1 - side].next() {
            let to = next.near(tcp.acknowledgement);
            let (policing, _) = &mut both[1 - side];
            policing.acknowledged(to, at);
            for option in tcp.options() {
                let TcpOption::Sack(sack) = option else { continue };
                let Some((from, end)) = sack.blocks().next() else { continue };
                policing.selected(to, to.near(from), to.near(end), at);
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
        for (side, (policing, bytes)) in
            watched.remove(&stream).unwrap_or_default().iter_mut().enumerate()
        {
            let found = policing.end();
            all.push(Answer { stream, side, bytes: *bytes, found });
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

/// The traces of Flach et al.: the truth is in their names, their answers are chunks of 2 MB.
#[test]
fn policers_of_a_router_lab() {
    let Some(captures) = captures("policing") else { return };
    let mut recall: BTreeMap<u64, Recall> = BTreeMap::new();
    let mut others = Recall::default();
    let (mut rates, mut off) = (0, 0.0_f64);
    for path in captures {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".pcap.gz") {
            continue;
        }
        let chunks: Vec<Answer> =
            answers(&path).into_iter().filter(|answer| answer.bytes > 1_000_000).collect();
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
    println!("found {found} of {all}, false {} of {}", others.found, others.all);
    println!("{rates} rates, off by {:.1} % at most", off * 100.0);
    assert_eq!(others.found, 0, "false ones");
    assert!(found * 4 >= all * 3, "{found} of {all}");
    assert!(off < 0.05, "a rate is off by {off}");
}

#[test]
fn none_where_there_is_no_policer() {
    for folder in ["labelled", "robustness"] {
        let Some(captures) = captures(folder) else { return };
        for path in captures {
            for answer in answers(&path) {
                assert!(
                    answer.found.is_none(),
                    "{}: stream {} side {} {:?}",
                    path.display(),
                    answer.stream,
                    answer.side,
                    answer.found
                );
            }
        }
    }
}
