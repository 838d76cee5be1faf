//! What is known of some captures from their labels, or was found by hand.

use std::path::{Path, PathBuf};

use streams::{Stall, StallReason, Stream};

use super::captures;

fn labelled() -> Option<Vec<PathBuf>> {
    captures::of("labelled")
}

fn read(path: &Path) -> Vec<Stream> {
    captures::read(path).streams
}

#[test]
fn new_and_retransmitted_bytes_add_up() {
    let Some(all) = labelled() else { return };
    for path in all {
        for stream in read(&path) {
            for end in stream.ends.iter() {
                let counts = &end.sent.counts;
                assert!(counts.new_bytes <= counts.bytes, "{}: {counts:?}", path.display());
                assert!(counts.retransmitted() <= counts.packets, "{}", path.display());
            }
            if std::env::var_os("NETWHY_SHOW").is_some() {
                let [client, server] = stream.addresses();
                println!("{} {client}-{server} {:?}", path.display(), stream.state);
                for end in stream.ends.iter() {
                    println!("   {:?}", end.sent.counts);
                    println!("   shortest round trip {:?}", end.sent.round_trip.min());
                }
            }
        }
    }
}

#[test]
fn duplicate_packets_are_no_retransmissions() {
    let Some(all) = labelled() else { return };
    let with_duplicates =
        ["tcptrace-hardware_dups", "zeek-duplicates-1", "zeek-duplicates-2", "zeek-duplicates-3"];
    for path in all {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !with_duplicates.contains(&name.as_str()) {
            continue;
        }
        for stream in read(&path) {
            for end in stream.ends.iter() {
                let counts = &end.sent.counts;
                assert_eq!(counts.retransmitted(), 0, "{name}: {counts:?}");
                assert_eq!(counts.reordered, 0, "{name}: {counts:?}");
            }
        }
    }
}

/// Stalls of a capture of at least so many milliseconds.
fn stalls(name: &str, reason: StallReason, min_ms: i64) -> Option<Vec<i64>> {
    let mut all = labelled()?.into_iter();
    let path = all.find(|path| path.file_stem().is_some_and(|stem| stem == name));
    let path = path.unwrap_or_else(|| panic!("there is no capture {name}"));
    let stalls: Vec<Stall> = captures::read(&path).stalls;
    let named = stalls.iter().filter(|stall| stall.reason == reason);
    let mut all: Vec<i64> = named.map(|stall| stall.duration / 1_000_000).collect();
    all.retain(|ms| *ms >= min_ms);
    all.sort_unstable();
    Some(all)
}

#[test]
fn readers_that_stop() {
    let Some(all) = stalls("tcptrace-zwnd", StallReason::ClosedWindow, 1000) else { return };
    assert!(all.last().is_some_and(|ms| (20_000..24_000).contains(ms)), "{all:?}");
    let all = stalls("ndt-receiver-stalled", StallReason::ClosedWindow, 1000).expect("a capture");
    assert!(all.len() >= 2 && all.last().is_some_and(|ms| (3_000..4_500).contains(ms)), "{all:?}");
}

#[test]
fn delayed_acknowledgements_that_an_end_waited_for() {
    let Some(all) = stalls("joy-ssh", StallReason::DelayedAck, 0) else { return };
    assert_eq!(all, [39]);
    let all = stalls("joy-hydra", StallReason::DelayedAck, 0).expect("a capture");
    assert_eq!(all.len(), 14, "{all:?}");
    assert!(all.iter().all(|ms| (36..=39).contains(ms)), "{all:?}");
    // Where no end waited for one.
    for name in ["tcptrace-zwnd", "zeek-reader-stops", "l4s-cubic-fq-codel-wifi", "ndt-idle"] {
        let none = stalls(name, StallReason::DelayedAck, 0).expect("a capture");
        assert!(none.is_empty(), "{name}: {none:?}");
    }
}
