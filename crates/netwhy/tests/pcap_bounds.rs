//! `netwhy pcap` on captures that are made to exhaust memory or time.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use file::{SYN, text};
use serde_json::Value;

#[path = "pcap/file.rs"]
mod file;

/// Streams of the capture: without a limit they take 400 MB.
const STREAMS: u32 = 250_000;

/// A capture of so many streams of one SYN each.
fn syns(streams: u32) -> tempfile::NamedTempFile {
    let mut made = file::File::new();
    made.segment(0, false, [1, 0], SYN, 65535, 0);
    let record = made.bytes.split_off(24);
    let mut bytes = made.bytes;
    for number in 0..streams {
        let begin = bytes.len();
        bytes.extend(&record);
        bytes[begin..begin + 4].copy_from_slice(&(number / 10_000).to_le_bytes());
        // Another address and port of the client: 16 bytes of the record and 12 of the packet before.
        bytes[begin + 30..begin + 32].copy_from_slice(&((number >> 16) as u16).to_be_bytes());
        bytes[begin + 36..begin + 38].copy_from_slice(&(number as u16).to_be_bytes());
    }
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&bytes).expect("a capture");
    file
}

/// Runs what its arguments are, with so much address space.
fn sh(kib: u32) -> Command {
    let mut sh = Command::new("sh");
    sh.args(["-c", "ulimit -v $1; shift; exec \"$@\"", "sh", &kib.to_string()]);
    sh
}

/// Runs `netwhy pcap` with so much address space.
fn limited(kib: u32, file: &Path, options: &[&str]) -> Output {
    let mut netwhy = sh(kib);
    netwhy.args([env!("CARGO_BIN_EXE_netwhy"), "pcap"]).arg(file).args(options);
    netwhy.output().expect("netwhy")
}

#[test]
fn many_streams_take_bounded_memory() {
    let file = syns(STREAMS);
    let folder = tempfile::tempdir().expect("a folder");
    let tables = folder.path().join("tables");
    let tables = tables.to_str().expect("a name");
    for options in [&["--threads", "1"][..], &["--csv", tables]] {
        let output = limited(340_000, file.path(), &[options, &["--json"]].concat());
        assert!(output.status.success(), "{options:?}: {}", text(&output.stderr));
        let json =
            &output.stdout[output.stdout.iter().position(|byte| *byte == b'{').expect("JSON")..];
        let mut documents = serde_json::Deserializer::from_slice(json).into_iter::<Value>();
        let report = documents.next().expect("a report").expect("JSON");
        assert_eq!(report["packets"]["streams"], STREAMS);
        let services = report["packets"]["services"].as_array().expect("services");
        assert_eq!(services[0]["streams"], STREAMS, "all are added up");
        let missing = report["missing_evidence"].as_array().expect("a list");
        let why = missing[0]["why"].as_str().expect("a reason");
        assert!(why.contains("250,000 were captured, more than fit into memory"), "{why}");
    }
    let rows = std::fs::read_to_string(folder.path().join("tables/streams.csv")).expect("a table");
    assert_eq!(rows.lines().count(), 1 + STREAMS as usize);
}

/// With more memory, more streams are kept.
#[test]
fn more_memory_keeps_more_streams() {
    let file = syns(STREAMS);
    for threads in ["1", "2"] {
        let mut netwhy = Command::new(env!("CARGO_BIN_EXE_netwhy"));
        netwhy.arg("pcap").arg(file.path()).args([
            "--memory",
            "1G",
            "--threads",
            threads,
            "--json",
        ]);
        let output = netwhy.output().expect("netwhy");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        assert_eq!(report["packets"]["streams"], STREAMS);
        let missing = report["missing_evidence"].to_string();
        assert!(!missing.contains("memory"), "{missing}");
    }
    for (given, why) in [("5", "between 32M and 1T"), ("much", "a number with M, G or T")] {
        let mut netwhy = Command::new(env!("CARGO_BIN_EXE_netwhy"));
        netwhy.arg("pcap").arg(file.path()).args(["--memory", given]);
        let output = netwhy.output().expect("netwhy");
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}

/// Whatever the limit is: a report, or one line that says what is wrong.
#[test]
fn too_little_memory_is_an_error_of_one_line() {
    let file = syns(60_000);
    let starts = |kib: &u32| {
        let mut version = sh(*kib);
        version.args([env!("CARGO_BIN_EXE_netwhy"), "--version"]);
        version.output().expect("netwhy").status.success()
    };
    // With less, the kernel or the loader refuses to start it.
    let least = (20_000..400_000).step_by(4_000).find(starts).expect("a limit");
    for (threads, more) in
        [("1", 4_000), ("1", 60_000), ("8", 8_000), ("8", 40_000), ("64", 90_000)]
    {
        let output = limited(least + more, file.path(), &["--threads", threads]);
        let errors = text(&output.stderr);
        let what = format!("{threads} threads, {more} KiB: {} {errors}", output.status);
        match output.status.code() {
            Some(0) => assert_eq!(errors, "", "{what}"),
            Some(3) => {
                assert!(errors.starts_with("netwhy: ") && errors.lines().count() == 1, "{what}")
            }
            _ => panic!("{what}"),
        }
    }
}

/// Waits for the end of a process, for a minute.
fn ended(mut child: Child) -> Option<Output> {
    let began = Instant::now();
    while child.try_wait().expect("to wait").is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().expect("to kill");
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(child.wait_with_output().expect("the output"))
}

#[test]
fn sigint_ends_waiting_for_the_writer_of_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("a pipe");
    for arguments in [&["pcap"][..], &["pcap", "--follow"]] {
        let child = Command::new(env!("CARGO_BIN_EXE_netwhy"))
            .args(arguments)
            .arg(&pipe)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("netwhy");
        // Its handlers are in place when the mask of caught signals has SIGHUP (1), the last one.
        let status = format!("/proc/{}/status", child.id());
        let catches = || {
            let status = std::fs::read_to_string(&status).expect("a running process");
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let mask = u64::from_str_radix(mask.expect("a mask").trim(), 16).expect("a number");
            mask & 1 != 0
        };
        while !catches() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
        ended(child).expect("it ends");
    }
}

#[test]
fn sigint_ends_reading_where_no_packet_comes() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_netwhy"))
        .args(["pcap", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("netwhy");
    let mut input = child.stdin.take().expect("standard input");
    let section: [u32; 7] = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
    let section: Vec<u8> = section.iter().flat_map(|word| word.to_le_bytes()).collect();
    // A custom block of 64 KiB, again and again.
    let mut block = vec![0; 64 << 10];
    block[..4].copy_from_slice(&0xbad_u32.to_le_bytes());
    let length = (block.len() as u32).to_le_bytes();
    block[4..8].copy_from_slice(&length);
    let end = block.len() - 4;
    block[end..].copy_from_slice(&length);
    input.write_all(&section).expect("a section");
    // It reads: handlers of signals are in place.
    (0..64).for_each(|_| input.write_all(&block).expect("a block"));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    while input.write_all(&block).is_ok() {}
    let output = ended(child).expect("it ends");
    assert!(text(&output.stdout).contains("0 packets"), "{output:?}");
}
