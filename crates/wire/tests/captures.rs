//! Real captures, whole and damaged: each is read to its end, without a panic and within the file.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

use std::path::{Path, PathBuf};

use test_support::captures;
use wire::capture::{Reader, Step};
use wire::packet::{Tcp, decode};

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, into);
        } else if path.extension().is_some_and(|end| end == "pcap" || end == "pcapng") {
            into.push(path);
        }
    }
}

/// Packets of a file, and its damage.
fn read(bytes: &[u8]) -> (usize, Option<String>) {
    let mut reader = Reader::new();
    let (mut rest, mut packets) = (bytes, 0);
    loop {
        let (taken, step) = reader.step(rest);
        rest = &rest[taken..];
        match step {
            Step::Packet(packet) => {
                assert!(packet.bytes.len() <= bytes.len());
                packets += 1;
            }
            Step::Skipped | Step::Comment(_) => {}
            Step::NeedBytes(wanted) => {
                assert!(wanted > rest.len());
                return (packets, (!rest.is_empty()).then(|| "cut off".to_string()));
            }
            Step::Damaged(broken) => return (packets, Some(broken.to_string())),
        }
    }
}

/// TCP segments in a file.
fn segments(bytes: &[u8]) -> usize {
    let mut reader = Reader::new();
    let (mut rest, mut segments) = (bytes, 0);
    loop {
        let (taken, step) = reader.step(rest);
        rest = &rest[taken..];
        match step {
            Step::Packet(packet) => {
                let decoded = decode(packet.link, packet.bytes, packet.length);
                segments += usize::from(decoded.is_ok_and(|decoded| Tcp::of(&decoded.ip).is_ok()));
            }
            Step::Skipped | Step::Comment(_) => {}
            Step::NeedBytes(_) | Step::Damaged(_) => return segments,
        }
    }
}

#[test]
fn any_capture_is_decoded_without_a_panic() {
    let Some(folder) = captures("robustness") else { return };
    let mut all = Vec::new();
    files(&folder, &mut all);
    // A test of `streams` compares them with tshark.
    let segments: usize =
        all.iter().map(|path| segments(&std::fs::read(path).expect("a capture"))).sum();
    println!("{segments} TCP segments in {} captures", all.len());
    assert!(segments > 1000);
}

#[test]
fn every_capture_is_read_to_its_end() {
    let Some(folder) = captures("robustness") else { return };
    let mut all = Vec::new();
    files(&folder, &mut all);
    assert!(all.len() > 900, "{} captures", all.len());
    let (mut packets, mut whole, mut empty) = (0, 0, 0);
    for path in &all {
        let (count, end) = read(&std::fs::read(path).expect("a capture"));
        packets += count;
        whole += usize::from(end.is_none());
        empty += usize::from(count == 0);
        if std::env::var_os("NETWHY_SHOW").is_some() {
            println!("{}\t{count}\t{}", path.display(), end.unwrap_or_default());
        }
    }
    println!("{} captures, {packets} packets, {whole} whole, {empty} without a packet", all.len());
    // Most are sound: a reader that stops early would not pass.
    assert!(whole * 10 > all.len() * 9, "only {whole} of {} were read to their end", all.len());
}

#[test]
fn labelled_captures_are_sound() {
    let Some(folder) = captures("labelled") else { return };
    let mut all = Vec::new();
    files(&folder, &mut all);
    for path in all {
        let (packets, end) = read(&std::fs::read(&path).expect("a capture"));
        // One of them was truncated when it was written.
        let sound = end.as_deref().is_none_or(|end| end == "cut off");
        assert!(packets > 10 && sound, "{}: {packets} packets, {end:?}", path.display());
    }
}
