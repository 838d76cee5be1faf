//! Real captures: those with a label have the causes of the label, odd and damaged ones do no harm.
//! They are not part of the project; without them these tests are skipped.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use test_support::captures;

/// Labels that the packets contradict, and why.
const DISPUTED_LABELS: &[(&str, &str)] = &[(
    "arkime-loss-burst.pcap",
    "all apparent retransmissions have the IP identification of the original: duplicate packets of the \
     capture, four times within 50 ms",
)];
/// Longest time for one capture, in a build without optimisation.
const MAX_TIME: Duration = Duration::from_secs(60);

/// Runs netwhy on a file: exit code, standard output and standard error.
fn netwhy(arguments: &[&str], file: &Path) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_netwhy"))
        .args(arguments)
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("netwhy");
    let began = Instant::now();
    let mut outputs = (child.stdout.take().expect("pipe"), child.stderr.take().expect("pipe"));
    let reader = std::thread::spawn(move || {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        std::io::Read::read_to_end(&mut outputs.0, &mut out).expect("its output");
        std::io::Read::read_to_end(&mut outputs.1, &mut err).expect("its errors");
        (out, err)
    });
    while child.try_wait().expect("its state").is_none() {
        if began.elapsed() > MAX_TIME {
            child.kill().expect("to end it");
            panic!("{} takes longer than {MAX_TIME:?}", file.display());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let (out, err) = reader.join().expect("its output");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (child.wait().expect("its end").code(), text(out), text(err))
}

#[test]
fn labelled_captures_have_the_causes_of_their_labels() {
    let Some(folder) = captures("labelled") else { return };
    let labels = std::fs::read_to_string(folder.join("labels.tsv")).expect("labels");
    let list = |text: &str| -> BTreeSet<String> {
        text.split(',').filter(|id| !id.is_empty() && *id != "-").map(str::to_string).collect()
    };
    let mut wrong = Vec::new();
    let mut seen = 0;
    for line in labels.lines().skip(1) {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let (file, expect, never) = (next(), list(next()), list(next()));
        let (code, out, err) = netwhy(&["pcap", "--json"], &folder.join(file));
        assert_eq!(code, Some(0), "{file}: {err}");
        let report: Value = serde_json::from_str(&out).expect("JSON");
        let (_, shared, _) = netwhy(&["pcap", "--json", "--threads", "3"], &folder.join(file));
        assert_eq!(shared, out, "{file}: several threads give the report of one");
        let findings = report["findings"].as_array().expect("findings");
        let named: BTreeSet<String> =
            findings.iter().filter_map(|f| f["cause"].as_str().map(str::to_string)).collect();
        seen += 1;
        if named.intersection(&never).next().is_some() || !expect.is_subset(&named) {
            if let Some((_, why)) = DISPUTED_LABELS.iter().find(|(disputed, _)| *disputed == file) {
                println!("{file}: {named:?}, its label says {expect:?}; disputed: {why}");
                continue;
            }
            wrong.push(format!("{file}: named {named:?}, expected {expect:?}, never {never:?}"));
        }
    }
    assert!(seen > 0, "no labels");
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}

/// A packet: its time in nanoseconds, its length, and its captured bytes.
type Packet = (u64, u32, Vec<u8>);

/// The packets of a capture, and their link type.
fn packets(path: &Path) -> (u16, Vec<Packet>) {
    let (mut link, mut all) = (0, Vec::new());
    let mut capture = sys::capture::Capture::open(path).expect("a capture");
    capture
        .for_each_packet(|packet| {
            link = packet.link.0;
            let at = packet.time_ns.and_then(|ns| u64::try_from(ns).ok()).expect("a time");
            all.push((at, packet.length, packet.bytes.to_vec()));
            ControlFlow::Continue(())
        })
        .expect("packets");
    (link, all)
}

/// Writes a pcap file with nanoseconds.
fn write(path: &Path, link: u16, packets: &[Packet]) {
    let mut out = Vec::new();
    for number in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 1 << 18, u32::from(link)] {
        out.extend(u32::to_le_bytes(number));
    }
    for (at, length, bytes) in packets {
        let (seconds, rest) = ((at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32);
        for number in [seconds, rest, bytes.len() as u32, *length] {
            out.extend(number.to_le_bytes());
        }
        out.extend(bytes);
    }
    std::fs::write(path, out).expect("a file");
}

fn named(path: &Path) -> BTreeSet<String> {
    let (code, out, err) = netwhy(&["pcap", "--json"], path);
    assert_eq!(code, Some(0), "{}: {err}", path.display());
    let report: Value = serde_json::from_str(&out).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    findings.iter().filter_map(|f| f["cause"].as_str().map(str::to_string)).collect()
}

/// Causes that an artefact of the capture can look like. Not those that depend on how much is sent in a
/// round trip, which reordered packets change slightly.
const CAPTURE_ARTEFACTS: [&str; 8] = [
    "corruption",
    "packet-loss",
    "rate-policed",
    "rate-shaped",
    "receiver-stalled",
    "reordering",
    "syn-retransmitted",
    "window-scaling-off",
];

/// Other captures of the same packets: truncated packets, duplicate packets, packets in another order.
/// None of that is a cause.
#[test]
fn artefacts_of_the_capture_are_no_causes() {
    let Some(folder) = captures("labelled") else { return };
    let written = tempfile::tempdir().expect("a folder");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "pcap") {
            continue;
        }
        let before = named(&path);
        let (link, all) = packets(&path);
        let short = all
            .iter()
            .map(|(at, length, bytes)| (*at, *length, bytes[..bytes.len().min(68)].to_vec()));
        let twice = all
            .iter()
            .flat_map(|packet| [packet.clone(), (packet.0 + 2_000, packet.1, packet.2.clone())]);
        // Two CPUs write one file, up to 20 µs late; each packet keeps its time. Packets with the same time
        // keep their order, which is all that is known of them.
        let mut places: Vec<usize> = (0..all.len()).collect();
        places.sort_by_key(|place| {
            all[*place].0 + (all[*place].0 / 1_000).wrapping_mul(7919) % 20_000
        });
        let shuffled = places.iter().map(|place| all[*place].clone());
        for (what, packets) in [
            ("68 bytes of each packet", short.collect::<Vec<_>>()),
            ("each packet twice", twice.collect()),
            ("in the order of two CPUs", shuffled.collect()),
        ] {
            let copy = written.path().join("copy.pcap");
            write(&copy, link, &packets);
            let mut more: Vec<String> = named(&copy).difference(&before).cloned().collect();
            more.retain(|name| CAPTURE_ARTEFACTS.contains(&name.as_str()));
            if !more.is_empty() {
                wrong.push(format!("{}, {what}: {more:?}", path.display()));
            }
            seen += 1;
        }
    }
    assert!(seen > 0, "no captures");
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The traces of Flach et al.: their names have the truth, and each has five responses of 2 MB. Their
/// detector finds 66 of 120, and has no false positive in 100.
#[test]
fn policers_are_distinguished_from_shapers_and_losses() {
    let Some(folder) = captures("policing") else { return };
    let (mut found, mut all, mut rates, mut off) = (0, 0, 0, 0.0_f64);
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".pcap.gz") {
            continue;
        }
        let (code, out, err) = netwhy(&["pcap", "--json"], &entry.path());
        assert_eq!(code, Some(0), "{name}: {err}");
        let report: Value = serde_json::from_str(&out).expect("JSON");
        let findings = report["findings"].as_array().expect("findings");
        let named = findings.iter().any(|finding| finding["cause"] == "rate-policed");
        let streams = report["packets"]["worst"].as_array().expect("streams");
        let policed: Vec<&Value> = streams
            .iter()
            .flat_map(|stream| ["from_client", "from_server"].map(|end| &stream[end]["policed"]))
            .flat_map(|policed| policed.as_array().expect("exchanges"))
            .collect();
        assert_eq!(named, !policed.is_empty(), "{name}");
        let truth = name.split("-PCIR").nth(1).and_then(|rest| rest.split('-').next());
        let Some(truth) = truth.and_then(|rate| rate.parse::<f64>().ok()) else {
            if named {
                wrong.push(name);
            }
            continue;
        };
        all += 5;
        found += policed.len().min(5);
        for rate in policed.iter().filter_map(|exchange| exchange["rate_bps"].as_f64()) {
            rates += 1;
            off = off.max((rate / truth - 1.0).abs());
        }
    }
    println!("{found} of {all} found, {rates} with a rate, at most {:.1} % off", 100.0 * off);
    assert!(all > 0, "no traces");
    assert!(wrong.is_empty(), "false positives: {wrong:?}");
    assert!(found * 120 >= 90 * all, "{found} of {all}");
    assert!(off < 0.05, "a rate is {:.1} % off", 100.0 * off);
}

#[test]
fn odd_and_damaged_captures_do_no_harm() {
    let Some(folder) = captures("robustness") else { return };
    let mut folders = vec![folder];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let (code, out, err) = netwhy(&["pcap"], &path);
            assert!(matches!(code, Some(0 | 3)), "{}: {code:?}\n{out}{err}", path.display());
            assert!(!out.contains('\x1b') && !err.contains('\x1b'), "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 0, "no captures");
    println!("{seen} captures");
}
