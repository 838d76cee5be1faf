//! `netwhy pcap` as users run it, on captures that are made here.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

use std::process::Output;

use file::{ACK, run, text};
use serde_json::Value;

#[path = "pcap/file.rs"]
mod file;

/// A request, a response with an RTO retransmission, and a receiver that closes its window for two seconds.
fn capture() -> Vec<u8> {
    let mut file = file::lost_and_stalled();
    file.segment(2361, false, [151, 1901], ACK, 65535, 0);
    file.segment(2362, true, [1901, 151], ACK, 65535, 1000);
    file.bytes
}

#[test]
fn the_report_has_the_cause_then_the_time_breakdown_then_the_streams() {
    let output = run(&["pcap", "-"], &capture());
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}{}", text(&output.stderr));
    assert!(
        printed.starts_with(
            "-: 9 packets in 2.4 s, 1 exchange on 1 TCP stream, captured at the client"
        )
    );
    let first = printed.find("1  198.18.0.1:5000 stops reading").expect("a finding");
    let breakdown = printed.find("where the time went at 198.18.0.2:80").expect("the breakdown");
    let streams = printed.find("\nstream ").expect("the streams");
    assert!(first < breakdown && breakdown < streams, "{printed}");
    assert!(printed.contains("85 % the reader's window was closed, 2.0 s"), "{printed}");
    assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    let printed = text(&run(&["pcap", "-", "--stream", "0"], &capture()).stdout);
    assert!(printed.contains("opened in 20 ms"), "{printed}");
    assert!(printed.contains("1 retransmitted (RTO)"), "{printed}");
    assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
}

#[test]
fn the_report_as_json() {
    let output = run(&["pcap", "--json", "-"], &capture());
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["findings"][0]["cause"], "receiver-stalled");
    let stream = &value["packets"]["worst"][0];
    assert_eq!(stream["handshake_us"], 20_000);
    let server = &stream["from_server"];
    assert_eq!(server["rto_retransmissions"], 1);
    assert_eq!(server["new_bytes"], 2000);
    assert_eq!(server["zero_window_stalls"]["total_us"], 2_000_000);
    assert_eq!(server["zero_window_stalls"]["longest_ended_at"], 8);
    let all = |end: &str| -> u64 {
        let breakdown = stream[end]["time_breakdown"].as_array().expect("a breakdown");
        breakdown.iter().map(|share| share["time_us"].as_u64().expect("a time")).sum()
    };
    assert_eq!(
        all("from_client") + all("from_server"),
        2_362_000,
        "every interval belongs to a category"
    );
    let one = run(&["pcap", "--json", "--stream", "0", "-"], &capture());
    let mut one: Value = serde_json::from_slice(&one.stdout).expect("JSON");
    let fields = one.as_object_mut().expect("an object");
    let depth = fields.remove("depth").expect("its depth");
    assert_eq!(fields.remove("schema_version"), Some(1.into()));
    assert_eq!(one, *stream, "the stream is as in the report");
    assert_eq!(depth["ladder"].as_array().map(Vec::len), Some(9));
}

#[test]
fn exit_codes_and_several_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = capture();
    // Two consecutive files, as a rotating capture writes them: the file header and packets 1 to 6, the
    // file header and the rest.
    let split = 24 + 2 * (16 + 40) + (16 + 40) + (16 + 90) + 2 * (16 + 1040);
    let files = [all[..split].to_vec(), [&all[..24], &all[split..]].concat()];
    let names = ["1.pcap", "2.pcap"].map(|name| folder.path().join(name));
    for (name, bytes) in names.iter().zip(files) {
        std::fs::write(name, bytes).expect("a file");
    }
    let words = ["pcap", "--json", "--fail-on", "critical"];
    let words: Vec<&str> =
        words.into_iter().chain(names.iter().map(|name| name.to_str().expect("UTF-8"))).collect();
    let output = run(&words, b"");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (value["packets"]["packets"].as_u64(), value["packets"]["streams"].as_u64()),
        (Some(9), Some(1))
    );
    assert_eq!(value["findings"][0]["cause"], "receiver-stalled");
}

#[test]
fn several_threads_give_the_report_of_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("three.pcap");
    let name = path.to_str().expect("UTF-8");
    let read = |bytes: &[u8], threads: &str| {
        std::fs::write(&path, bytes).expect("a file");
        let output = run(&["pcap", name, name, "--threads", threads], b"");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let all = file::capture();
    let one = read(&all, "1");
    assert!(one.0 == Some(0) && one.1.contains("48 packets"), "{one:?}");
    for threads in ["2", "3", "7"] {
        assert_eq!(read(&all, threads), one, "{threads}");
    }
    // A problem of a file is reported once.
    let cut = &all[..all.len() - 7];
    assert_eq!(read(cut, "3"), read(cut, "1"));
    let broken = read(b"not a capture at all", "3");
    assert_eq!(broken.0, Some(3), "{broken:?}");
    assert_eq!(broken, read(b"not a capture at all", "1"));
    let output = run(&["pcap", name, "--threads", "0"], b"");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_truncated_file_and_one_that_is_no_capture_are_reported() {
    let file = capture();
    let cut = run(&["pcap", "-"], &file[..file.len() - 7]);
    assert!(cut.status.success());
    assert!(text(&cut.stdout).contains("Not observed: the end of -"), "{}", text(&cut.stdout));
    let none = run(&["pcap", "-"], b"not a capture at all");
    assert_eq!(none.status.code(), Some(3));
    assert!(text(&none.stderr).contains("neither pcap nor pcapng"), "{}", text(&none.stderr));
    assert_eq!(run(&["pcap", "no-such-file"], b"").status.code(), Some(3));
    assert_eq!(run(&["pcap", "-", "--stream", "7"], &file).status.code(), Some(2));
}

#[test]
fn missing_options_and_directions_are_reported() {
    // Sixteen bytes of options, none of them captured.
    let mut file = file::File::new();
    file.segment(0, false, [100, 0], file::SYN, 65535, 16);
    file.truncate(9, 56, 40);
    file.segment(20, true, [900, 101], file::SYN | ACK, 65535, 0);
    file.segment(21, false, [101, 901], ACK, 1, 0);
    let printed = text(&run(&["pcap", "-"], &file.bytes).stdout);
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("Not observed: the window sizes of 1 stream (the options of their SYNs"),
        "{printed}"
    );
    assert!(words.contains("tcpdump -s 96"), "{printed}");
    // Only the server's packets.
    let mut file = file::File::new();
    (0..4).for_each(|number| file.segment(number, true, [900 + 100 * number, 1], ACK, 500, 100));
    let output = run(&["pcap", "--json", "-"], &file.bytes);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["missing_evidence"][0]["what"], "one direction of 1 stream", "{report:#}");
    // Nothing is missing in a complete capture.
    let report = run(&["pcap", "--json", "-"], &capture());
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["missing_evidence"].as_array().map(Vec::len), Some(0), "{report:#}");
}

#[test]
fn an_annotated_copy_for_wireshark() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.pcapng");
    let path = out.to_str().expect("UTF-8");
    let output = run(&["pcap", "-", "--annotate", path], &capture());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("comments on 2 packets"), "{}", text(&output.stderr));
    // The copy gives the same report.
    let before = run(&["pcap", "--json", "-"], &capture());
    let after = run(&["pcap", "--json", path], b"");
    let worst = |output: &Output| -> Value {
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        report["packets"]["worst"].clone()
    };
    assert_eq!(worst(&before), worst(&after));
    let again = run(&["pcap", "-", "--annotate", path], &capture());
    assert_eq!(again.status.code(), Some(2), "an existing file is an error");
    let copy = std::fs::read(path).expect("the copy");
    let comments = file::tshark(&copy, &["-T", "fields", "-e", "frame.comment"]);
    let Some(lines) = comments else { return };
    assert_eq!(lines[5], "netwhy: RTO retransmission");
    assert_eq!(lines[7], "netwhy: the window opens again after 2.0 s");
}

#[test]
fn an_annotated_copy_of_selected_streams() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let all = path("all.pcap");
    std::fs::write(&all, file::capture()).expect("a file");
    // Of three streams: one by its port, two with stalls, none.
    for (filter, packets, streams) in
        [("port 6000", 8, 1), ("min-stall 200ms", 16, 2), ("stream 7", 0, 0)]
    {
        let out = path(&format!("{streams}.pcapng"));
        let output = run(&["pcap", &all, "--filter", filter, "--annotate", &out], b"");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let part = file::json(&["pcap", "--json", &out], b"");
        assert_eq!(part["packets"]["packets"], packets, "{filter}");
        assert_eq!(part["packets"]["streams"], streams, "{filter}");
    }
    let output = run(
        &["pcap", "-", "--filter", "min-stall 1s", "--annotate", &path("never")],
        &file::capture(),
    );
    assert_eq!(output.status.code(), Some(2), "standard input cannot be read twice");
    assert!(!folder.path().join("never").exists());
}

/// The header of a capture and no packet; a filter that selects nothing; one direction alone.
#[test]
fn a_capture_of_nothing_says_so_and_rules_nothing_out() {
    let empty = file::File::new().bytes;
    let mut one_way = file::File::new();
    for number in 0..9 {
        one_way.segment(number, true, [1 + 100 * number, 1], ACK, 65535, 100);
    }
    for (arguments, bytes, says, why) in [
        (&[][..], &empty, "nothing to diagnose", "no TCP stream"),
        (&["--filter", "port 9"][..], &capture(), "The filter selects no stream", "filter"),
        (&[][..], &one_way.bytes, "Nothing in this capture could show", "only one direction"),
    ] {
        let printed = text(&run(&[&["pcap", "-"], arguments].concat(), bytes).stdout);
        assert!(printed.contains(says) && !printed.contains("Ruled out"), "{printed}");
        assert!(printed.contains("Not checked: ") && printed.contains(why), "{printed}");
        let report = file::json(&[&["pcap", "-", "--json"], arguments].concat(), bytes);
        assert_eq!(report["ruled_out"], serde_json::json!([]), "{report}");
        let not_checked = report["not_checked"].as_array().expect("a list");
        assert!(not_checked.len() > 15, "{report}");
        assert!(not_checked.iter().all(|one| one["because"] != ""), "{report}");
    }
}

/// Few lines say what is ruled out; with `--verbose` each cause is there, with its figure.
#[test]
fn verbose_lists_every_cause_once() {
    let printed = text(&run(&["pcap", "-", "--verbose"], &capture()).stdout);
    let (short, all) = printed.split_once("\nAll causes\n").expect("a table");
    assert!(short.contains("Ruled out: retransmitted SYNs (0 of 1 connection)"), "{short}");
    let report = file::json(&["pcap", "-", "--json"], &capture());
    for (list, word) in [
        ("findings", "found"),
        ("ruled_out", "ruled out"),
        ("undecided", "undecided"),
        ("not_checked", "not checked"),
    ] {
        for one in report[list].as_array().expect("a list") {
            let cause = one["cause"].as_str().expect("a name");
            let row = |line: &&str| line.split_whitespace().next() == Some(cause);
            let rows: Vec<&str> = all.lines().filter(row).collect();
            assert!(rows.len() == 1 && rows[0].contains(word), "{cause}: {all}");
        }
    }
}
