//! `netwhy pcap --client --server` on captures of a simulated path: the estimates are compared with the
//! truth.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

use serde_json::Value;

use file::{assert_narrow, run, text};
use two::{Files, MS, MSS, Path, captures, captures_and_times};

#[path = "pcap/file.rs"]
mod file;
#[path = "pcap/two.rs"]
mod two;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn near(value: &Value, expected: f64, within: f64) {
    let value = number(value);
    assert!((value - expected).abs() <= within, "{value} for {expected} within {within}");
}

fn path(path: &Path) -> Value {
    Files::of(&captures(path)).report()["path"].clone()
}

#[test]
fn clocks_and_delays_are_estimated_within_their_uncertainty() {
    let simulated = Path {
        jitter: 4 * MS,
        ahead: 10_800_000 * MS,
        drift: 40.0,
        flights: 1_500,
        offload: false,
        ..Path::default()
    };
    let (captures, delays) = captures_and_times(&simulated);
    let path = Files::of(&captures).report()["path"].clone();
    let clock = &path["clock"];
    // 20 ms to the server and 30 ms back: half of the difference looks like an offset of the clock.
    near(&clock["offset_us"], 10_800_000_000.0 - 5_000.0, 150.0);
    near(&clock["uncertainty_us"], 25_000.0, 100.0);
    near(&clock["min_round_trip_us"], 50_000.0, 200.0);
    near(&clock["drift_ppm"], 40.0, 4.0);
    let (to_server, to_client) = (&path["to_server"]["delay"], &path["to_client"]["delay"]);
    near(&to_server["min_us"], 25_000.0, 100.0);
    for (estimated, true_ns) in [to_server, to_client].into_iter().zip(&delays) {
        let above_min = |at: usize| (true_ns[at] - true_ns[0]) as f64 / 1e3;
        let percentile = |percent: usize| above_min(true_ns.len() * percent / 100);
        near(&estimated["p50_us"], percentile(50), percentile(50) * 0.07);
        near(&estimated["p99_us"], percentile(99), percentile(99) * 0.07);
        near(&estimated["max_us"], above_min(true_ns.len() - 1), 50.0);
    }
    assert_eq!(path["to_client"]["segments"], 15_000 + 2);
    assert_eq!(path["to_client"]["lost_between"]["segments"], 0);
    assert_eq!(clock["before_they_left"], 0);
}

#[test]
fn a_short_capture_and_a_clock_that_is_behind() {
    let path = path(&Path { ahead: -3_000 * MS, offload: false, ..Path::default() });
    near(&path["clock"]["offset_us"], -3_000_000.0 - 5_000.0, 20.0);
    assert!(path["clock"]["drift_ppm"].is_null());
    near(&path["to_client"]["delay"]["p50_us"], 0.0, 20.0);
}

#[test]
fn losses_are_attributed_to_the_part_of_the_path() {
    for offload in [true, false] {
        // One segment, three in a row over two flights, one segment.
        let simulated = Path {
            jitter: MS,
            ahead: 777 * MS,
            between: vec![15, 98, 99, 100, 305],
            before: vec![201, 202],
            after: vec![250],
            offload,
            ..Path::default()
        };
        let files = Files::of(&captures(&simulated));
        let report = files.report();
        let direction = &report["path"]["to_client"];
        assert_eq!(direction["lost_between"]["segments"], 5, "{direction}");
        assert_eq!(direction["lost_between"]["bytes"], 5 * u64::from(MSS));
        assert_eq!(
            (&direction["bursts"], &direction["lost_in_bursts"], &direction["longest_burst"]),
            (&1.into(), &3.into(), &3.into())
        );
        assert_eq!(direction["lost_before"]["segments"], 2, "{direction}");
        assert_eq!(direction["lost_after"]["segments"], 1, "{direction}");
        assert_eq!(
            (&direction["duplicated"], &direction["spurious"]),
            (&0.into(), &0.into()),
            "{direction}"
        );
        assert_eq!(direction["not_captured_arriving"], 0);
        assert_eq!(report["path"]["to_server"]["lost_between"]["segments"], 0);
        // With offload segment 15 is in the second packet of data, the sixth of the capture (after SYN,
        // SYN-ACK, ACK and the request); without, it is a packet of its own.
        let first = if offload { 6 } else { 4 + 16 };
        assert_eq!(direction["lost_between"]["first_packet"], first);
        let loss = report["findings"]
            .as_array()
            .and_then(|all| all.iter().find(|finding| finding["cause"] == "packet-loss"))
            .expect("the cause");
        let proofs: Vec<&str> = loss["evidence"]
            .as_array()
            .expect("proofs")
            .iter()
            .filter_map(|proof| proof["text"].as_str())
            .collect();
        let printed = proofs.join("\n");
        assert!(printed.contains("5 of 8 lost between the two captures"), "{printed}");
        assert!(printed.contains("in both captures"), "{printed}");
        let printed = text(&files.run(&[]).stdout);
        assert!(printed.contains("2 single segments, 3 in 1 burst of up to 3"), "{printed}");
    }
}

#[test]
fn the_report_as_text() {
    let simulated = Path { between: vec![15, 16], stripped: true, ..Path::default() };
    let captures = captures(&simulated);
    let folder = Files::of(&captures);
    // Short names, as users have.
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_netwhy"))
        .args(["pcap", "--client", "a.pcap", "--server", "b.pcap"])
        .current_dir(folder.path(""))
        .output()
        .expect("netwhy");
    let printed = text(&output.stdout);
    assert_narrow(&printed);
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(printed.starts_with("a.pcap (client) and b.pcap (server): "), "{printed}");
    assert!(printed.contains("if both directions take equally long"), "{printed}");
    assert!(printed.contains("minimum round trip between the captures: 50.0 ms"), "{printed}");
    assert!(printed.contains("lost between the two captures"), "{printed}");
    assert!(
        printed
            .contains("window scale of the SYN is 2^7 leaving the client's end, absent arriving"),
        "{printed}"
    );
}

#[test]
fn a_connection_that_never_opened() {
    let [mut client, server] = captures(&Path::default());
    // A copy of the first SYN, half a second later, with another port and sequence number.
    let mut syn = client[24..24 + 16 + 60].to_vec();
    syn[4..8].copy_from_slice(&500_000_000u32.to_le_bytes());
    syn[16 + 20 + 1] ^= 1;
    syn[16 + 20 + 4] ^= 1;
    let after = 24 + syn.len();
    client.splice(after..after, syn);
    let files = Files::of(&[client, server]);
    let path = &files.report()["path"];
    assert_eq!(path["syns_never_arrived"], serde_json::json!([1, 0]));
    assert_eq!(path["streams_in_both"], 1);
    let printed = text(&files.run(&[]).stdout);
    assert!(
        printed.contains("connections that never opened: the SYNs of 1 stream in"),
        "{printed}"
    );
}

#[test]
fn rewritten_addresses_and_stripped_options() {
    let translated = ([203, 0, 113, 9], 40_000);
    let simulated = Path { translated, stripped: true, between: vec![40], ..Path::default() };
    let path = path(&simulated);
    assert_eq!((&path["streams_in_both"], &path["streams_rewritten"]), (&1.into(), &1.into()));
    let stream = &path["worst"][0];
    assert_eq!(stream["client"], "198.18.0.1:5000");
    assert_eq!(stream["rewritten"][0], "203.0.113.9:40000");
    assert_eq!(stream["to_client"]["lost_between"]["segments"], 1);
    let changes = path["changes"].as_array().expect("changes");
    let change = |field: &str, left: &str| {
        let found = changes.iter().find(|one| one["field"] == field && one["left_at"] == left);
        found.unwrap_or_else(|| panic!("no {field} from the {left}: {changes:?}"))
    };
    let size = change("segment-size", "client");
    assert_eq!((&size["before"], &size["after"]), (&1460.into(), &1448.into()));
    assert_eq!(size["packets"], serde_json::json!([1, 1]));
    assert_eq!(change("segment-size", "server")["packets"], serde_json::json!([2, 2]));
    for field in ["window-scale", "selective-acknowledgements", "time-stamps"] {
        assert!(change(field, "client")["after"].is_null());
    }
    // Without its handshake the stream is matched by its packets.
    let simulated = Path { stripped: false, without_handshake: true, ..simulated };
    let path = self::path(&simulated);
    assert_eq!((&path["streams_in_both"], &path["streams_rewritten"]), (&1.into(), &1.into()));
    assert_eq!(path["to_client"]["lost_between"]["segments"], 1);
}

#[test]
fn reordered_and_duplicated_segments_are_not_lost() {
    let simulated = Path { late: vec![33, 77], duplicated: vec![120, 121, 122], ..Path::default() };
    let path = path(&simulated);
    let direction = &path["to_client"];
    assert_eq!(direction["lost_between"]["segments"], 0, "{direction}");
    assert_eq!(direction["reordered"], 2, "{direction}");
    assert_eq!(direction["duplicated"], 3, "{direction}");
    near(&direction["delay"]["max_us"], 5_000.0, 100.0);
}

#[test]
fn segments_that_a_capture_missed_are_not_lost() {
    let simulated = Path { between: vec![20, 480], ..Path::default() };
    let [client, server] = captures(&simulated);
    // The first half of the client's capture, cut in the middle of a packet.
    let files = Files::of(&[client[..client.len() / 2 + 7].to_vec(), server.clone()]);
    let report = files.report();
    assert_eq!(report["path"]["to_client"]["lost_between"]["segments"], 1, "only the first loss");
    let missing = report["missing_evidence"].to_string();
    assert!(missing.contains("the end of"), "{missing}");
    let files = Files::of(&[client.clone(), server[..server.len() / 2 + 7].to_vec()]);
    let path = &files.report()["path"];
    assert_eq!(path["to_client"]["not_captured_leaving"], 0, "the capture had ended: {path}");
    // The capture drops three packets: they are no losses.
    let mut missed = client[..24].to_vec();
    let (mut at, mut packet) = (24, 0);
    while at + 16 <= client.len() {
        let word: [u8; 4] = client[at + 8..at + 12].try_into().expect("four bytes");
        let end = at + 16 + u32::from_le_bytes(word) as usize;
        packet += 1;
        if !(300..303).contains(&packet) {
            missed.extend(&client[at..end]);
        }
        at = end;
    }
    let path = &Files::of(&[missed, server]).report()["path"];
    assert_eq!(path["to_client"]["lost_between"]["segments"], 2, "{path}");
    let not_captured = number(&path["to_client"]["not_captured_arriving"])
        + number(&path["to_server"]["not_captured_leaving"]);
    assert!(not_captured >= 1.0, "{path}");
}

#[test]
fn swapped_captures_and_a_capture_with_itself() {
    let simulated = Path { between: vec![15, 16], ahead: 500 * MS, ..Path::default() };
    let files = Files::of(&captures(&simulated));
    let output = files.named(["b.pcap", "a.pcap"], &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let path = &report["path"];
    assert_eq!(path["streams_opened_at_server"], 1);
    // What leaves at the first capture now is the server's response.
    assert_eq!(path["to_server"]["lost_between"]["segments"], 2);
    near(&path["clock"]["offset_us"], -500_000.0 + 5_000.0, 50.0);
    let printed = text(&files.named(["b.pcap", "a.pcap"], &[]).stdout);
    assert!(printed.contains("are --client and --server swapped?"), "{printed}");
    let output = files.named(["a.pcap", "a.pcap"], &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    near(&report["path"]["clock"]["min_round_trip_us"], 0.0, 0.001);
    assert_eq!(report["path"]["to_client"]["lost_between"]["segments"], 0);
}

#[test]
fn captures_that_cannot_be_compared_are_refused() {
    let one = captures(&Path::default());
    let [_, other] = captures(&Path {
        translated: ([203, 0, 113, 9], 9),
        without_handshake: true,
        flights: 1,
        ..Path::default()
    });
    let mut file = file::File::new();
    file.port(7000);
    file.segment(0, false, [5, 0], file::SYN, 1000, 0);
    let files = Files::of(&[one[0].clone(), file.bytes]);
    let output = files.run(&[]);
    assert_eq!(output.status.code(), Some(3));
    let printed = text(&output.stderr);
    assert!(printed.contains("no TCP stream in common"), "{printed}");
    assert!(printed.contains("such as 198.18.0.1:7000 > 198.18.0.2:80"), "{printed}");
    for bytes in [b"no capture".to_vec(), Vec::new()] {
        let output = Files::of(&[one[0].clone(), bytes]).run(&[]);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    }
    assert_eq!(run(&["pcap", "--client", "a.pcap"], b"").status.code(), Some(2));
    let words = ["pcap", "x.pcap", "--client", "a.pcap", "--server", "b.pcap"];
    assert_eq!(run(&words, b"").status.code(), Some(2));
    let words = ["pcap", "--client", "-", "--server", "-"];
    assert_eq!(run(&words, &other).status.code(), Some(2));
}

#[test]
fn real_captures_equal_themselves() {
    let Some(folder) = test_support::captures("labelled") else { return };
    let files = std::fs::read_dir(&folder).expect("a folder");
    let mut seen = 0;
    for file in files.map(|file| file.expect("a file").path()) {
        let name = file.to_str().expect("UTF-8");
        let is_capture = file.extension().is_some_and(|end| end == "pcap" || end == "pcapng");
        if !is_capture {
            continue;
        }
        let output = run(&["pcap", "--json", "--client", name, "--server", name], b"");
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let path = &report["path"];
        near(&path["clock"]["min_round_trip_us"], 0.0, 0.0);
        assert_eq!(path["streams_in_both"], path["captures"][0]["streams"], "{name}");
        for direction in ["to_server", "to_client"] {
            let direction = &path[direction];
            assert_eq!(direction["lost_between"]["segments"], 0, "{name}: {direction}");
            assert_eq!(direction["not_captured_arriving"], 0, "{name}: {direction}");
            assert_eq!(direction["duplicated"], 0, "{name}: {direction}");
        }
        seen += 1;
    }
    println!("{seen} captures equal themselves");
}

#[test]
fn damaged_captures_do_no_harm() {
    let [client, server] = captures(&Path { flights: 5, between: vec![7], ..Path::default() });
    let mut seed = 11u64;
    for _ in 0..40 {
        let mut both = [client.clone(), server.clone()];
        for bytes in &mut both {
            for _ in 0..20 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = 24 + (seed >> 33) as usize % (bytes.len() - 24);
                bytes[at] = (seed >> 20) as u8;
            }
        }
        let output = Files::of(&both).run(&["--json"]);
        let printed = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{printed}");
        assert!(!printed.contains("panicked"), "{printed}");
    }
}
