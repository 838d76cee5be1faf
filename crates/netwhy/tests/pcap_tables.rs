//! `netwhy pcap --csv` and `--parquet`: streams, exchanges and events as tables, on captures that are made
//! here, and compared with tshark where it is installed.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

use std::io::Write as _;
use std::path::Path;

use file::{ACK, File, SYN, capture, json, run, stream_numbers, text, tshark};

#[path = "pcap/file.rs"]
mod file;

/// Rows of a table by the names of their columns.
fn table(text: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("names").split(',').collect();
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            assert_eq!(cells.len(), names.len(), "{line}");
            names
                .iter()
                .zip(cells)
                .map(|(name, cell)| (name.to_string(), cell.to_string()))
                .collect()
        })
        .collect()
}

fn read(folder: &Path, name: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    table(&std::fs::read_to_string(folder.join(name)).expect("a table"))
}

#[test]
fn streams_exchanges_and_events_as_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = folder.path().join("new/rows");
    let path = rows.to_str().expect("UTF-8");
    let output = run(&["pcap", "-", "--csv", path], &capture());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("events.csv with 4 events"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("stops reading"), "the report is printed as well");
    let streams = read(&rows, "streams.csv");
    let of = |number: &str| {
        streams.iter().find(|row| row["stream"] == number).unwrap_or_else(|| panic!("{number}"))
    };
    assert_eq!(streams.len(), 3);
    assert_eq!((&*of("1")["end"], &*of("1")["handshake_us"]), ("closed", "1000"));
    assert_eq!((&*of("2")["syn_retransmissions"], &*of("2")["syn_wait_us"]), ("1", "1000000"));
    assert_eq!((&*of("0")["receiver_stalled_us"], &*of("0")["loss_us"]), ("2000000", "300000"));
    assert_eq!(of("0")["server_mss_bytes"], "", "unknown values are empty");
    let exchanges = read(&rows, "exchanges.csv");
    assert_eq!(exchanges.len(), 3);
    let slow = exchanges.iter().find(|row| row["stream"] == "2").expect("an exchange");
    assert_eq!((&*slow["request_bytes"], &*slow["response_bytes"]), ("30", "40"));
    assert_eq!(
        (&*slow["response_wait_us"], &*slow["largest_category"]),
        ("500000", "server-think")
    );
    let events = read(&rows, "events.csv");
    let lines: Vec<String> = events
        .iter()
        .map(|row| {
            ["stream", "packet", "side", "event", "waited_us"].map(|name| &*row[name]).join(" ")
        })
        .collect();
    assert_eq!(
        lines,
        [
            "0 6 server rto-retransmission 300000",
            "0 7 client zero-window ",
            "0 16 server window-stall 2000000",
            "2 19 client syn-retransmission 1000000",
        ]
    );
    // Existing files are not overwritten.
    let output = run(&["pcap", "-", "--csv", path], &capture());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("streams.csv exists"));
    // tshark counts the same packets.
    let words = ["-q", "-z", "conv,tcp"];
    if let Some(lines) = tshark(&capture(), &words) {
        let line = lines.iter().find(|line| line.contains(":6000")).expect("a conversation");
        let words: Vec<&str> = line.split_whitespace().collect();
        let arrow = words.iter().position(|word| *word == "<->").expect("an arrow");
        // Packets to the left, to the right, in total.
        let packets: Vec<u64> =
            words[arrow + 2..].iter().filter_map(|word| word.parse().ok()).collect();
        let ours = ["server_packets", "client_packets"].map(|name| of("1")[name].parse::<u64>());
        assert!(packets.contains(&ours[0].clone().expect("a count")), "{line}");
        assert!(packets.contains(&ours[1].clone().expect("a count")), "{line}");
    }
}

#[test]
fn one_table_of_the_selected_streams_to_standard_output() {
    let words = ["pcap", "-", "--csv", "-", "--filter", "port 7000"];
    let streams = table(&text(&run(&words, &capture()).stdout));
    assert_eq!(streams.iter().map(|row| &*row["stream"]).collect::<Vec<_>>(), ["2"]);
    let words = ["pcap", "-", "--csv", "-", "--table", "events", "--filter", "port 7000"];
    let events = table(&text(&run(&words, &capture()).stdout));
    assert!(!events.is_empty() && events.iter().all(|row| row["stream"] == "2"));
    // Stalls are known only at the end: the capture is read twice, which a pipe cannot be.
    let words = ["pcap", "-", "--csv", "-", "--table", "exchanges", "--filter", "min-stall 1500ms"];
    let output = run(&words, &capture());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("read the capture twice"), "{}", text(&output.stderr));
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&capture()).expect("a capture");
    let mut words = words;
    words[1] = file.path().to_str().expect("UTF-8");
    let exchanges = table(&text(&run(&words, b"").stdout));
    assert_eq!(exchanges.iter().map(|row| &*row["stream"]).collect::<Vec<_>>(), ["0"]);
}

#[test]
fn a_window_that_stays_closed_is_a_stall_without_a_packet() {
    let mut file = File::new();
    file.segment(0, false, [100, 0], SYN, 65535, 0);
    file.segment(1, true, [900, 101], SYN | ACK, 65535, 0);
    file.segment(1, false, [101, 901], ACK, 65535, 0);
    file.segment(2, true, [901, 101], ACK, 65535, 1000);
    file.segment(3, false, [101, 1901], ACK, 0, 0);
    for ms in [503, 1503] {
        file.segment(ms, true, [1901, 101], ACK, 65535, 1);
        file.segment(ms + 1, false, [101, 1901], ACK, 0, 0);
    }
    let words = ["pcap", "-", "--csv", "-", "--table", "events"];
    let events = table(&text(&run(&words, &file.bytes).stdout));
    let last = events.last().expect("an event");
    assert_eq!((&*last["event"], &*last["packet"]), ("window-stall", ""));
    assert_eq!((&*last["side"], &*last["waited_us"]), ("server", "1501000"));
    let report = json(&["pcap", "-", "--json", "--filter", "min-stall 1500ms"], &file.bytes);
    assert_eq!(stream_numbers(&report), [0]);
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_the_parquet_feature_the_error_names_it() {
    let output = run(&["pcap", "-", "--parquet", "rows"], &capture());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--features parquet"), "{}", text(&output.stderr));
}

#[cfg(feature = "parquet")]
#[test]
fn tables_as_parquet() {
    let folder = tempfile::tempdir().expect("a folder");
    let output =
        run(&["pcap", "-", "--parquet", folder.path().to_str().expect("UTF-8")], &capture());
    assert!(output.status.success(), "{}", text(&output.stderr));
    for name in ["streams", "exchanges", "events"] {
        let bytes = std::fs::read(folder.path().join(format!("{name}.parquet"))).expect("a file");
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{name}");
    }
}
