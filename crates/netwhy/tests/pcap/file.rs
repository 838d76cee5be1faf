//! Captures made by the tests, and `netwhy` as users run it.

// No test uses all of it.
#![allow(dead_code)]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const CLIENT: [u8; 4] = [198, 18, 0, 1];
const SERVER: [u8; 4] = [198, 18, 0, 2];
pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const ACK: u8 = 16;

/// A pcap file.
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    id: u16,
    port: u16,
}

impl File {
    pub(crate) fn new() -> Self {
        let head = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 101];
        File { bytes: head.iter().flat_map(|word| word.to_le_bytes()).collect(), id: 0, port: 5000 }
    }

    /// Sets the client's port: the next segments belong to another stream.
    pub(crate) fn port(&mut self, port: u16) {
        self.port = port;
    }

    /// Truncates the last packet to `kept` bytes, as a short snap length does, and sets its data offset to
    /// `words` of four bytes.
    pub(crate) fn truncate(&mut self, words: u8, length: usize, kept: usize) {
        let packet = self.bytes.len() - length;
        self.bytes[packet + 32] = words << 4;
        self.bytes.truncate(packet + kept);
        self.bytes[packet - 8..packet - 4].copy_from_slice(&(kept as u32).to_le_bytes());
    }

    /// Adds a segment at a time in milliseconds, from the server if `back`, else from the client.
    pub(crate) fn segment(
        &mut self,
        ms: u32,
        back: bool,
        numbers: [u32; 2],
        flags: u8,
        window: u16,
        data: u16,
    ) {
        let (from, to) = if back { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
        let ports: [u16; 2] = if back { [80, self.port] } else { [self.port, 80] };
        self.id += 1;
        let length = 40 + data;
        for word in [ms / 1000, ms % 1000 * 1000, u32::from(length), u32::from(length)] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend([0x45, 0]);
        self.bytes.extend(length.to_be_bytes());
        self.bytes.extend(self.id.to_be_bytes());
        self.bytes.extend([0x40, 0, 64, 6, 0, 0]);
        self.bytes.extend(from);
        self.bytes.extend(to);
        ports.iter().for_each(|port| self.bytes.extend(port.to_be_bytes()));
        numbers.iter().for_each(|number| self.bytes.extend(number.to_be_bytes()));
        self.bytes.extend([0x50, flags]);
        self.bytes.extend(window.to_be_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.resize(self.bytes.len() + usize::from(data), b'x');
    }
}

/// Runs `netwhy` with these arguments and this standard input.
pub(crate) fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_netwhy"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("netwhy");
    // It may end before it has read everything.
    let _ = child.stdin.take().expect("standard input").write_all(input);
    child.wait_with_output().expect("to wait")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A request, a response with an RTO retransmission, and a receiver that closes its window.
pub(crate) fn lost_and_stalled() -> File {
    let mut file = File::new();
    file.segment(0, false, [100, 0], SYN, 65535, 0);
    file.segment(20, true, [900, 101], SYN | ACK, 65535, 0);
    file.segment(20, false, [101, 901], ACK, 65535, 0);
    file.segment(21, false, [101, 901], ACK, 65535, 50);
    file.segment(60, true, [901, 151], ACK, 65535, 1000);
    file.segment(360, true, [901, 151], ACK, 65535, 1000);
    file.segment(361, false, [151, 1901], ACK, 0, 0);
    file
}

/// Three streams: 0 loses 300 ms and waits 2 s for a window, 1 is quick, 2 retransmits its SYN and takes
/// 500 ms to answer.
pub(crate) fn capture() -> Vec<u8> {
    let mut file = lost_and_stalled();
    file.port(6000);
    file.segment(400, false, [100, 0], SYN, 65535, 0);
    file.segment(401, true, [900, 101], SYN | ACK, 65535, 0);
    file.segment(401, false, [101, 901], ACK, 65535, 0);
    file.segment(402, false, [101, 901], ACK, 65535, 10);
    file.segment(404, true, [901, 111], ACK, 65535, 20);
    file.segment(405, false, [111, 921], ACK | FIN, 65535, 0);
    file.segment(406, true, [921, 112], ACK | FIN, 65535, 0);
    file.segment(406, false, [112, 922], ACK, 65535, 0);
    file.port(5000);
    file.segment(2361, false, [151, 1901], ACK, 65535, 0);
    file.segment(2362, true, [1901, 151], ACK, 65535, 1000);
    file.port(7000);
    file.segment(2400, false, [100, 0], SYN, 65535, 0);
    file.segment(3400, false, [100, 0], SYN, 65535, 0);
    file.segment(3410, true, [900, 101], SYN | ACK, 65535, 0);
    file.segment(3410, false, [101, 901], ACK, 65535, 0);
    file.segment(3411, false, [101, 901], ACK, 65535, 30);
    file.segment(3420, true, [901, 131], ACK, 65535, 0);
    file.segment(3911, true, [901, 131], ACK, 65535, 40);
    file.bytes
}

/// Runs `netwhy`, which must succeed and print JSON.
pub(crate) fn json(arguments: &[&str], input: &[u8]) -> Value {
    let output = run(arguments, input);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The numbers of the streams in a report.
pub(crate) fn stream_numbers(report: &Value) -> Vec<u64> {
    let worst = report["packets"]["worst"].as_array().expect("streams");
    let mut all: Vec<u64> =
        worst.iter().map(|stream| stream["number"].as_u64().expect("a number")).collect();
    all.sort_unstable();
    all
}

/// No line is wider than 80 columns.
pub(crate) fn assert_narrow(printed: &str) {
    for line in printed.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
}

/// The lines that tshark prints; `None` if it is not installed: the calling test is skipped.
pub(crate) fn tshark(bytes: &[u8], arguments: &[&str]) -> Option<Vec<String>> {
    if !test_support::are_installed(&["tshark"]) {
        return None;
    }
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("a capture");
    let output = Command::new("tshark").arg("-r").arg(file.path()).args(arguments).output();
    let output = output.expect("tshark");
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(text(&output.stdout).lines().map(str::to_string).collect())
}
