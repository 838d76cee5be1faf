//! `netwhy pcap` in depth: filters, one stream packet by packet, files that grow. On captures that are
//! made here, and compared with tshark where it is installed.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use file::{ACK, File, SYN, assert_narrow, capture, json, run, stream_numbers, text, tshark};
use serde_json::Value;

#[path = "pcap/file.rs"]
mod file;

/// A long stream: a server sends 600 segments, pauses once for 1 s, and loses one.
fn long() -> Vec<u8> {
    let mut file = File::new();
    file.segment(0, false, [100, 0], SYN, 65535, 0);
    file.segment(10, true, [900, 101], SYN | ACK, 65535, 0);
    file.segment(10, false, [101, 901], ACK, 65535, 0);
    file.segment(11, false, [101, 901], ACK, 65535, 50);
    let mut ms = 20;
    for number in 0..600u32 {
        ms += if number == 300 { 1000 } else { 1 };
        file.segment(ms, true, [901 + number * 100, 151], ACK, 65535, 100);
        file.segment(ms + 1, false, [151, 1001 + number * 100], ACK, 65535, 0);
        if number == 450 {
            ms += 700;
            file.segment(ms, true, [901 + number * 100, 151], ACK, 65535, 100);
        }
    }
    file.bytes
}

#[test]
fn a_filter_selects_streams_which_keep_their_numbers() {
    for (filter, wanted) in [
        ("host 198.18.0.1", vec![0, 1, 2]),
        ("port 6000", vec![1]),
        ("port 80 and not port 6000", vec![0, 2]),
        ("stream 2 or stream 0", vec![0, 2]),
        ("min-stall 500ms", vec![0, 2]),
        ("min-stall 1500ms", vec![0]),
        ("not min-stall 1ms", vec![1]),
        ("net 10.0.0.0/8", vec![]),
        ("net 198.18.0.0/15 and (port 7000 or port 6000)", vec![1, 2]),
    ] {
        let report = json(&["pcap", "-", "--json", "--filter", filter], &capture());
        let packets = &report["packets"];
        assert_eq!(stream_numbers(&report), wanted, "{filter}");
        assert_eq!(packets["selected"], wanted.len(), "{filter}");
        assert_eq!((&packets["streams"], &packets["packets"]), (&3.into(), &24.into()), "{filter}");
        assert_eq!(packets["filter"], filter);
        let streams: u64 = packets["services"]
            .as_array()
            .expect("services")
            .iter()
            .map(|service| service["streams"].as_u64().expect("a count"))
            .sum();
        assert_eq!(
            streams as usize,
            wanted.len(),
            "{filter}: services count selected streams only"
        );
    }
    // Findings and times of exchanges are those of the selected streams only.
    let quick = json(&["pcap", "-", "--json", "--filter", "port 6000"], &capture());
    assert_eq!(quick["findings"], Value::Array(Vec::new()));
    let p99 = quick["packets"]["services"][0]["exchange_p99_us"].as_u64().expect("a time");
    assert!((1_500..2_500).contains(&p99), "2 ms: {p99}");
    let printed = text(&run(&["pcap", "-", "--filter", "port 6000"], &capture()).stdout);
    assert!(printed.contains("1 exchange on 1 of 3 TCP streams (port 6000)"), "{printed}");
    let printed = text(&run(&["pcap", "-", "--filter", "port 6001"], &capture()).stdout);
    assert!(printed.contains("The filter selects no stream: nothing to diagnose."), "{printed}");
}

#[test]
fn a_syntax_error_of_a_filter_is_shown_with_its_place() {
    for option in ["--filter", "--stream"] {
        let output = run(&["pcap", "-", option, "host 198.18.0.2 and prt 80"], b"");
        assert_eq!(output.status.code(), Some(2));
        let printed = text(&output.stderr);
        assert!(printed.contains("«prt» is no keyword of a filter, at character 21"), "{printed}");
        let mark = printed.lines().position(|line| line.trim() == "^").expect("a mark");
        let filter = printed.lines().nth(mark - 1).expect("the filter");
        assert_eq!(filter.trim(), "host 198.18.0.2 and prt 80");
    }
    let output = run(&["pcap", "-", "--stream", "port 9"], &capture());
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr)
            .contains("no stream is selected by: port 9 (the capture has 3 streams)")
    );
}

#[test]
fn one_stream_in_depth() {
    let printed = text(&run(&["pcap", "-", "--stream", "0"], &capture()).stdout);
    assert_narrow(&printed);
    let after = printed.split("duration  phase\n").nth(1).expect("phases");
    let (phases, rest) = after.split_once("\nexchanges, the slowest first\n").expect("exchanges");
    let phases: Vec<&str> = phases.lines().map(str::trim).collect();
    assert_eq!(phases, ["0 µs     20 ms  handshake", "21 ms     2.3 s  exchange 0, the only one"]);
    let exchange = rest.lines().nth(1).expect("an exchange");
    assert_eq!(
        exchange.split_whitespace().collect::<Vec<_>>().join(" "),
        "0 21 ms 50 B 19 ms 2,000 B 2.3 s the reader's window"
    );
    let title = "packets, client on the left, server on the right\n";
    let ladder = printed.split(title).nth(1).expect("the ladder");
    let expected =
        " packet     time, s    delta 198.18.0.1:5000                       198.18.0.2:80
      1    0.000000          SYN seq 0 win 65535 ──────────────────────────────▶
      2    0.020000    20 ms ◀──────────────────────── SYN seq 0 ack 1 win 65535
      3    0.020000     0 µs ack 1 win 65535 ──────────────────────────────────▶
      4    0.021000   1.0 ms seq 1 len 50 ack 1 win 65535 ─────────────────────▶
                             ^ exchange 0 begins
      5    0.060000    39 ms ◀──────────────────── seq 1 len 1000 ack 51 win 65535
                             ^ 19 ms of server think time
      6    0.360000   300 ms ◀──────────────────── seq 1 len 1000 ack 51 win 65535
                             ^ RTO retransmission; 300 ms lost
      7    0.361000   1.0 ms ack 1001 win 0 ───────────────────────────────────▶
                             ^ closes its window
     16    2.361000    2.0 s ack 1001 win 65535 ───────────────────────────────▶
                             ^ the window opens again after 2.0 s
     17    2.362000   1.0 ms ◀────────────────── seq 1001 len 1000 ack 51 win 65535
";
    let narrow = |text: &str| text.replace('─', "");
    assert_eq!(narrow(ladder), narrow(expected), "{ladder}");
    // The retransmission is marked in the plot.
    assert!(
        printed.contains("data sent by the server 198.18.0.2:80; one column is 36 ms"),
        "{printed}"
    );
    assert!(printed.lines().any(|line| line.contains('┤') && line.contains('R')), "{printed}");
    // A retransmitted SYN, and a slow server.
    let printed = text(&run(&["pcap", "-", "--stream", "2"], &capture()).stdout);
    assert!(printed.contains("SYN retransmission; 1.0 s without a reply"), "{printed}");
    assert!(printed.contains("491 ms of server think time"), "{printed}");
}

#[test]
fn the_worst_of_a_filter_from_a_file_and_from_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("all.pcap");
    std::fs::write(&path, capture()).expect("a capture");
    let path = path.to_str().expect("UTF-8");
    for (filter, wanted) in [("tcp", "stream 0:"), ("port 6000 or port 7000", "stream 2:")] {
        let file = run(&["pcap", path, "--stream", filter], b"");
        let pipe = run(&["pcap", "-", "--stream", filter], &capture());
        let (file, pipe) = (text(&file.stdout), text(&pipe.stdout));
        assert!(file.starts_with(wanted), "{file}");
        assert!(file.contains("lost most time of the streams selected by: "), "{file}");
        assert_eq!(file, pipe);
    }
}

#[test]
fn a_stream_of_a_pipe_that_was_not_recorded_is_shown_without_packets() {
    let mut file = File::new();
    for port in 0..80 {
        file.port(10_000 + port);
        file.segment(u32::from(port), false, [100, 0], SYN, 65535, 0);
    }
    // The last stream lost most time.
    file.segment(5_000, false, [100, 0], SYN, 65535, 0);
    let printed = text(&run(&["pcap", "-", "--stream", "tcp"], &file.bytes).stdout);
    assert_narrow(&printed);
    assert!(printed.starts_with("stream 79: 198.18.0.1:10079"), "{printed}");
    assert!(printed.contains("a SYN was not answered"), "{printed}");
    assert!(printed.contains("Its packets are not shown: standard input and pipes"), "{printed}");
    assert!(printed.contains("--stream 79."), "{printed}");
    let printed = text(&run(&["pcap", "-", "--stream", "79"], &file.bytes).stdout);
    assert!(printed.contains("SYN retransmission; 4.9 s without a reply"), "{printed}");
}

#[test]
fn a_long_stream_is_shown_around_its_worst_stalls() {
    let bytes = long();
    let packets = (bytes.len() - 24) / 56;
    assert!(packets > 1200 - 700, "many packets");
    let all = json(&["pcap", "-", "--json", "--stream", "0", "--ladder", "all"], &bytes);
    let all = all["depth"]["ladder"].as_array().expect("packets").clone();
    assert_eq!(all.len(), 4 + 1200 + 1);
    let some = json(&["pcap", "-", "--json", "--stream", "0", "--ladder", "30"], &bytes);
    let some = some["depth"]["ladder"].as_array().expect("packets");
    assert!((20..=30).contains(&some.len()), "{}", some.len());
    assert!(some.iter().all(|packet| all.contains(packet)), "some of the same packets");
    // The first packet and the last, the pause of 1 s and the loss of 700 ms.
    let places: Vec<u64> = some.iter().map(|p| p["place"].as_u64().expect("a place")).collect();
    for place in [0, 4 + 600, 4 + 902, 1204] {
        assert!(places.contains(&place), "{place} is not in {places:?}");
    }
    let printed = text(&run(&["pcap", "-", "--stream", "0", "--ladder", "30"], &bytes).stdout);
    assert_narrow(&printed);
    let ladder = printed.split("packets, around the worst stalls").nth(1).expect("the ladder");
    let skipped: u64 = ladder
        .lines()
        .filter_map(|line| line.trim().strip_prefix("… ")?.split(' ').next())
        .map(|count| count.replace(',', "").parse::<u64>().expect("a count"))
        .sum();
    assert_eq!(skipped as usize + some.len(), all.len(), "{printed}");
}

#[test]
fn the_ladder_has_the_numbers_of_tshark() {
    for bytes in [capture(), long()] {
        let words = ["-T", "fields", "-e", "frame.number", "-e", "tcp.seq", "-e", "tcp.len"];
        let more = ["-e", "tcp.ack", "-e", "tcp.window_size", "-Y", "tcp.stream==0"];
        let Some(lines) = tshark(&bytes, &[&words[..], &more].concat()) else { return };
        let depth = json(&["pcap", "-", "--json", "--stream", "0", "--ladder", "all"], &bytes);
        let ladder = depth["depth"]["ladder"].as_array().expect("packets");
        assert_eq!(ladder.len(), lines.len());
        for (packet, line) in ladder.iter().zip(lines) {
            let ack = packet["acknowledgement"].as_u64().unwrap_or(0);
            let ours = ["packet", "sequence", "length"].map(|name| packet[name].to_string());
            let ours = format!("{}\t{ack}\t{}", ours.join("\t"), packet["window"]);
            assert_eq!(ours, line);
        }
    }
}

#[test]
fn a_growing_file_is_followed_until_its_writer_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("growing.pcap");
    let bytes = capture();
    let mut writer = std::fs::File::create(&path).expect("a file");
    // A part of the file header.
    writer.write_all(&bytes[..10]).expect("a piece");
    let child = Command::new(env!("CARGO_BIN_EXE_netwhy"))
        .args(["pcap", "--follow"])
        .arg(&path)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("netwhy");
    let began = Instant::now();
    // Each piece ends inside of a packet.
    let pieces: Vec<&[u8]> = bytes[10..].chunks(333).collect();
    for piece in &pieces {
        writer.write_all(piece).expect("a piece");
        std::thread::sleep(Duration::from_millis(2000 / pieces.len() as u64));
    }
    std::thread::sleep(Duration::from_millis(1500));
    drop(writer);
    let output = child.wait_with_output().expect("to wait");
    assert!(began.elapsed() < Duration::from_secs(20), "it ends with its writer");
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}");
    assert_narrow(&printed);
    let (before, report) = printed.split_once("\n\n").expect("findings, then the report");
    assert_eq!(before.matches("receiver-stalled").count(), 1, "each once: {printed}");
    assert!(before.contains(" UTC +"), "with its time: {printed}");
    assert!(report.contains("24 packets in 3.9 s"), "{printed}");
    assert!(!report.contains("Not observed"), "{printed}");
    // The same from a pipe, and of one stream.
    let output = run(&["pcap", "-", "--follow"], &bytes);
    assert!(text(&output.stdout).contains("24 packets in 3.9 s"), "{}", text(&output.stdout));
    let output = run(&["pcap", "-", "--follow", "--stream", "0"], &bytes);
    assert!(text(&output.stdout).starts_with("stream 0:"), "{}", text(&output.stdout));
}

#[test]
fn files_that_cannot_be_followed_are_refused() {
    let output = run(&["pcap", "a.pcap", "b.pcap", "--follow"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--follow reads one file"), "{}", text(&output.stderr));
    let mut file = tempfile::NamedTempFile::with_suffix(".gz").expect("a file");
    file.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0]).expect("a head");
    let output = run(&["pcap", file.path().to_str().expect("UTF-8"), "--follow"], b"");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("it is compressed"), "{}", text(&output.stderr));
    assert_eq!(run(&["pcap", "-", "--follow"], b"no capture at all").status.code(), Some(3));
}

#[test]
fn hostile_packets_do_no_harm() {
    let whole = [capture(), long()[24..].to_vec()].concat();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for round in 0..24 {
        let mut bytes = whole.clone();
        for _ in 0..=round * 8 {
            // Most packets stay readable: few of the bytes are lengths of records.
            let at = 24 + random(bytes.len() - 24);
            bytes[at] = random(256) as u8;
        }
        for words in [
            &["pcap", "-", "--stream", "tcp", "--ladder", "all"][..],
            &["pcap", "-", "--csv", "-", "--table", "exchanges"],
            &["pcap", "-", "--csv", "-", "--table", "events"],
            &["pcap", "-", "--filter", "min-stall 10ms and not host 198.18.0.9"],
        ] {
            let output = run(words, &bytes);
            let printed = text(&output.stdout) + &text(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 2 | 3)), "{words:?}: {printed}");
            assert!(!printed.contains('\u{1b}'), "{words:?}");
            if words.contains(&"--stream") && output.status.success() {
                assert_narrow(&printed);
            }
        }
    }
}
