//! `netwhy pcap --client --server` on captures of a path that is known: what it estimates is held
//! against the truth.

use std::path::{Path, PathBuf};

use serde_json::Value;

use file::{is_narrow, run, text};
use two::{Files, MS, MSS, Way, captures, captures_and_times};

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

fn path(way: &Way) -> Value {
    Files::of(&captures(way)).told()["path"].clone()
}

#[test]
fn clocks_are_told_within_what_they_can_be() {
    let way = Way {
        jitter: 4 * MS,
        ahead: 10_800_000 * MS,
        drift: 40.0,
        flights: 1_500,
        offload: false,
        ..Way::default()
    };
    let (captures, took) = captures_and_times(&way);
    let path = Files::of(&captures).told()["path"].clone();
    let clock = &path["clock"];
    // 20 ms there and 30 back: half of the difference cannot be told from the clock.
    near(&clock["offset_us"], 10_800_000_000.0 - 5_000.0, 150.0);
    near(&clock["uncertainty_us"], 25_000.0, 100.0);
    near(&clock["min_round_trip_us"], 50_000.0, 200.0);
    near(&clock["drift_ppm"], 40.0, 4.0);
    let (there, back) = (&path["to_server"]["delay"], &path["to_client"]["delay"]);
    near(&there["min_us"], 25_000.0, 100.0);
    for (told, took) in [there, back].into_iter().zip(&took) {
        let beyond = |share: usize| (took[took.len() * share / 100] - took[0]) as f64 / 1e3;
        near(&told["p50_us"], beyond(50), beyond(50) * 0.07);
        near(&told["p99_us"], beyond(99), beyond(99) * 0.07);
        near(&told["max_us"], (took[took.len() - 1] - took[0]) as f64 / 1e3, 50.0);
    }
    assert_eq!(path["to_client"]["segments"], 15_000 + 2);
    assert_eq!(path["to_client"]["lost_between"]["segments"], 0);
    assert_eq!(clock["before_they_left"], 0);
}

#[test]
fn a_short_capture_and_a_clock_that_is_behind() {
    let path = path(&Way { ahead: -3_000 * MS, offload: false, ..Way::default() });
    near(&path["clock"]["offset_us"], -3_000_000.0 - 5_000.0, 20.0);
    assert!(path["clock"]["drift_ppm"].is_null());
    near(&path["to_client"]["delay"]["p50_us"], 0.0, 20.0);
}

#[test]
fn what_was_lost_where() {
    for offload in [true, false] {
        // One alone, three in a row over two flights, one alone.
        let way = Way {
            jitter: MS,
            ahead: 777 * MS,
            between: vec![15, 98, 99, 100, 305],
            before: vec![201, 202],
            behind: vec![250],
            offload,
            ..Way::default()
        };
        let files = Files::of(&captures(&way));
        let report = files.told();
        let way = &report["path"]["to_client"];
        assert_eq!(way["lost_between"]["segments"], 5, "{way}");
        assert_eq!(way["lost_between"]["bytes"], 5 * u64::from(MSS));
        assert_eq!(
            (&way["bursts"], &way["lost_in_bursts"], &way["longest_burst"]),
            (&1.into(), &3.into(), &3.into())
        );
        assert_eq!(way["lost_before"]["segments"], 2, "{way}");
        assert_eq!(way["lost_after"]["segments"], 1, "{way}");
        assert_eq!((&way["duplicated"], &way["spurious"]), (&0.into(), &0.into()), "{way}");
        assert_eq!(way["not_captured_arriving"], 0);
        assert_eq!(report["path"]["to_server"]["lost_between"]["segments"], 0);
        // Segment 15 is in the second packet of data, which is the sixth (SYN, its answer, the rest
        // of the handshake, the request); or it is a packet of its own.
        let first = if offload { 6 } else { 4 + 16 };
        assert_eq!(way["lost_between"]["first_packet"], first);
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
        let said = proofs.join("\n");
        assert!(said.contains("5 of 8 lost between the two captures"), "{said}");
        assert!(said.contains("in both captures"), "{said}");
        let said = text(&files.run(&[]).stdout);
        assert!(said.contains("2 alone, 3 in 1 burst of up to 3"), "{said}");
    }
}

#[test]
fn a_text_for_a_terminal() {
    let way = Way { between: vec![15, 16], stripped: true, ..Way::default() };
    let captures = captures(&way);
    let folder = Files::of(&captures);
    // As users have it: short names.
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_netwhy"))
        .args(["pcap", "--client", "a.pcap", "--server", "b.pcap"])
        .current_dir(folder.path(""))
        .output()
        .expect("netwhy");
    let said = text(&output.stdout);
    is_narrow(&said);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.starts_with("a.pcap (client) and b.pcap (server): "), "{said}");
    assert!(said.contains("if both ways are equally long"), "{said}");
    assert!(said.contains("round trip between both: 50.0 ms at least"), "{said}");
    assert!(said.contains("lost between the two captures"), "{said}");
    assert!(said.contains("window scale of the SYN is 2^7 when it leaves the client's"), "{said}");
}

#[test]
fn a_connection_that_never_opened() {
    let [mut client, server] = captures(&Way::default());
    // The first SYN once more, half a second later, from another port and with another number.
    let mut syn = client[24..24 + 16 + 60].to_vec();
    syn[4..8].copy_from_slice(&500_000_000u32.to_le_bytes());
    syn[16 + 20 + 1] ^= 1;
    syn[16 + 20 + 4] ^= 1;
    let after = 24 + syn.len();
    client.splice(after..after, syn);
    let files = Files::of(&[client, server]);
    let path = &files.told()["path"];
    assert_eq!(path["syns_never_arrived"], serde_json::json!([1, 0]));
    assert_eq!(path["streams_in_both"], 1);
    let said = text(&files.run(&[]).stdout);
    assert!(said.contains("connections that were never opened: the SYNs of 1 in"), "{said}");
}

#[test]
fn a_translation_of_addresses_and_options_that_are_stripped() {
    let translated = ([203, 0, 113, 9], 40_000);
    let way = Way { translated, stripped: true, between: vec![40], ..Way::default() };
    let path = path(&way);
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
    // Without its handshake the stream is found by its packets.
    let begun = Way { stripped: false, begun: true, ..way };
    let path = self::path(&begun);
    assert_eq!((&path["streams_in_both"], &path["streams_rewritten"]), (&1.into(), &1.into()));
    assert_eq!(path["to_client"]["lost_between"]["segments"], 1);
}

#[test]
fn what_is_overtaken_or_comes_twice_is_not_lost() {
    let way = Way { late: vec![33, 77], twice: vec![120, 121, 122], ..Way::default() };
    let way = path(&way);
    let way = &way["to_client"];
    assert_eq!(way["lost_between"]["segments"], 0, "{way}");
    assert_eq!(way["reordered"], 2, "{way}");
    assert_eq!(way["duplicated"], 3, "{way}");
    near(&way["delay"]["max_us"], 5_000.0, 100.0);
}

#[test]
fn a_capture_that_is_cut_says_nothing_of_what_it_did_not_see() {
    let way = Way { between: vec![20, 480], ..Way::default() };
    let [client, server] = captures(&way);
    // Half of the client's capture, in the middle of a packet.
    let files = Files::of(&[client[..client.len() / 2 + 7].to_vec(), server.clone()]);
    let report = files.told();
    assert_eq!(report["path"]["to_client"]["lost_between"]["segments"], 1, "only the first");
    let gaps = report["missing_evidence"].to_string();
    assert!(gaps.contains("the end of"), "{gaps}");
    let files = Files::of(&[client.clone(), server[..server.len() / 2 + 7].to_vec()]);
    let path = &files.told()["path"];
    assert_eq!(path["to_client"]["not_captured_leaving"], 0, "it had ended: {path}");
    // The capture itself misses some: they are no losses.
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
    let path = &Files::of(&[missed, server]).told()["path"];
    assert_eq!(path["to_client"]["lost_between"]["segments"], 2, "{path}");
    let not_seen = number(&path["to_client"]["not_captured_arriving"])
        + number(&path["to_server"]["not_captured_leaving"]);
    assert!(not_seen >= 1.0, "{path}");
}

#[test]
fn the_same_the_other_way_round_and_twice_the_same() {
    let way = Way { between: vec![15, 16], ahead: 500 * MS, ..Way::default() };
    let files = Files::of(&captures(&way));
    let output = files.named(["b.pcap", "a.pcap"], &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let path = &report["path"];
    assert_eq!(path["streams_opened_at_server"], 1);
    // What left at the first place is the server's answer now.
    assert_eq!(path["to_server"]["lost_between"]["segments"], 2);
    near(&path["clock"]["offset_us"], -500_000.0 + 5_000.0, 50.0);
    let said = text(&files.named(["b.pcap", "a.pcap"], &[]).stdout);
    assert!(said.contains("exchanged?"), "{said}");
    let output = files.named(["a.pcap", "a.pcap"], &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    near(&report["path"]["clock"]["min_round_trip_us"], 0.0, 0.001);
    assert_eq!(report["path"]["to_client"]["lost_between"]["segments"], 0);
}

#[test]
fn what_cannot_be_compared_is_said() {
    let one = captures(&Way::default());
    let [_, other] = captures(&Way {
        translated: ([203, 0, 113, 9], 9),
        begun: true,
        flights: 1,
        ..Way::default()
    });
    let mut file = file::File::new();
    file.port(7000);
    file.segment(0, false, [5, 0], file::SYN, 1000, 0);
    let files = Files::of(&[one[0].clone(), file.bytes]);
    let output = files.run(&[]);
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stderr);
    assert!(said.contains("no TCP stream is in both"), "{said}");
    assert!(said.contains("such as 198.18.0.1:7000 > 198.18.0.2:80"), "{said}");
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
fn real_captures_are_the_same_as_themselves() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    let folder = std::env::var_os("NETWHY_CAPTURES").map_or(beside, PathBuf::from).join("labelled");
    let Ok(files) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: there are no captures (NETWHY_CAPTURES names their folder)");
        return;
    };
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
        for way in ["to_server", "to_client"] {
            let way = &path[way];
            assert_eq!(way["lost_between"]["segments"], 0, "{name}: {way}");
            assert_eq!(way["not_captured_arriving"], 0, "{name}: {way}");
            assert_eq!(way["duplicated"], 0, "{name}: {way}");
        }
        seen += 1;
    }
    println!("{seen} captures are the same as themselves");
}

#[test]
fn damaged_captures_harm_nobody() {
    let [client, server] = captures(&Way { flights: 5, between: vec![7], ..Way::default() });
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
        let said = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}
