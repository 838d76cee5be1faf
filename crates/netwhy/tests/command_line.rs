//! The command line as people meet it: every command of README in terminals of several widths, in a pipe
//! whose reader goes away, without root, with mistyped names.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use terminal::{Shown, netwhy, output, text};

#[path = "pcap/file.rs"]
mod file;
#[path = "command_line/terminal.rs"]
mod terminal;

const WIDTHS: [u16; 3] = [60, 80, 160];
const FIRST_SESSION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/first-session.json");

/// A folder with a capture, and its path.
fn capture() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("slow.pcap");
    std::fs::write(&path, file::lost_and_stalled().bytes).expect("to write");
    (folder, path.to_str().expect("a path").to_string())
}

/// What a command prints in terminals of all widths, one below the other.
fn in_all_widths(arguments: &[&str]) -> String {
    in_all_widths_at(Path::new("."), arguments)
}

/// The same in a folder.
fn in_all_widths_at(folder: &Path, arguments: &[&str]) -> String {
    let shown = WIDTHS.map(|width| {
        let mut command = netwhy(arguments);
        command.current_dir(folder);
        let Shown { text, code } = terminal::run(command, width);
        assert_eq!(code, Some(0), "{arguments:?}: {text}");
        format!("{}\n{text}", "=".repeat(width.into()))
    });
    shown.join("")
}

#[test]
fn a_report_in_all_widths() {
    insta::assert_snapshot!(in_all_widths(&["diagnose", FIRST_SESSION]));
}

#[test]
fn a_page_of_a_cause_in_all_widths() {
    insta::assert_snapshot!(in_all_widths(&["explain", "initial-window-small"]));
}

#[test]
fn the_list_of_causes_in_all_widths() {
    insta::assert_snapshot!(in_all_widths(&["explain"]));
}

#[test]
fn a_capture_in_all_widths() {
    let (folder, _) = capture();
    let show = |arguments: &[&str]| in_all_widths_at(folder.path(), arguments);
    insta::assert_snapshot!(
        show(&["pcap", "slow.pcap"]) + &show(&["pcap", "slow.pcap", "--stream", "0"])
    );
}

#[test]
fn help_in_all_widths() {
    insta::assert_snapshot!(in_all_widths(&["help", "record"]));
}

#[test]
fn columns_set_the_width_in_a_terminal_and_in_a_pipe() {
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    let with = |columns: &str| {
        let mut command = netwhy(&["diagnose", FIRST_SESSION]);
        command.env("COLUMNS", columns);
        command
    };
    let piped = |columns: &str| text(&output(with(columns)).stdout);
    let usual = text(&output(netwhy(&["diagnose", FIRST_SESSION])).stdout);
    assert!(widest(&usual) <= Some(80));
    for ignored in ["", "0", "-3", "wide", "99999999999999999999999999"] {
        assert_eq!(piped(ignored), usual, "COLUMNS={ignored}");
    }
    assert!(widest(&piped("120")) > Some(80) && widest(&piped("120")) <= Some(120));
    assert_eq!(piped("100000"), piped("200"));
    assert_eq!(piped("3"), piped("40"));
    assert_eq!(terminal::run(with("100"), 60).text, piped("100"));
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut to_file = with("120");
    to_file.args(["--force", "--output"]).arg(file.path());
    assert!(output(to_file).status.success());
    assert_eq!(std::fs::read_to_string(file.path()).expect("the report"), piped("120"));
}

/// An HTTP server on the loopback interface that answers each request on a connection of its own, until
/// the test ends.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut client, mut request) = (client, [0; 4096]);
                while client.read(&mut request).is_ok_and(|bytes| bytes > 0) {
                    let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
                }
            });
        }
    });
    format!("http://{address}/")
}

/// The commands of README that print a report or table, on this host and its loopback interface.
fn commands(url: &str, capture: &str) -> Vec<Vec<String>> {
    [
        "--for 300ms",
        "--for 300ms -- true",
        "--for 300ms --capture",
        "explain",
        "record --for 300ms -o -",
        "diagnose FIRST",
        "conntrack",
        "conntrack --list --top 3",
        "capture -i lo --analyse --for 300ms",
        "sockets",
        "sockets -l",
        "sockets --all --processes",
        "sockets --group-by process",
        "pcap CAPTURE",
        "pcap CAPTURE --filter",
        "pcap CAPTURE --stream 0",
        "pcap CAPTURE --csv -",
        "pcap --client CAPTURE --server CAPTURE",
        "http URL -n 20 -c 2",
        "ping --udp -c 2 -i 10ms 127.0.0.1:9",
        "ping -c 2 -i 10ms HOST",
        "trace --udp --numeric 127.0.0.1",
        "transfer URL -n 1",
        "lab list",
        "help",
        "help pcap",
    ]
    .map(|line| {
        let host = url.trim_start_matches("http://").trim_end_matches('/');
        let words = line.split(' ').map(|word| match word {
            "CAPTURE" => capture.to_string(),
            "FIRST" => FIRST_SESSION.to_string(),
            "URL" => url.to_string(),
            "HOST" => host.to_string(),
            word => word.to_string(),
        });
        let mut words: Vec<String> = words.collect();
        if words.last().is_some_and(|word| word == "--filter") {
            words.push("host 198.18.0.2 and port 80".to_string());
        }
        words
    })
    .into()
}

/// Exit codes of such a command: without root, or without connection tracking, some cannot observe.
fn is_expected(words: &[&str], code: Option<i32>) -> bool {
    let may_observe = !matches!(words, ["conntrack" | "capture", ..]);
    code == Some(0) || (code == Some(3) && !may_observe)
}

/// Whether a terminal shows rows for programs, which are never wrapped, or bytes.
fn is_for_programs(words: &[&str]) -> bool {
    words.contains(&"--list") || words.contains(&"-")
}

/// Whether a line is one word, after a label and before what is short: it may be wider.
fn is_one_word(line: &str) -> bool {
    let longest = line.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
    line.chars().count() <= longest + 30
}

/// Whether a line is to be copied: a command or its example.
fn is_command(line: &str) -> bool {
    let line = line.trim_start();
    ["netwhy", "ss ", "nstat", "tcpdump", "tshark", "sysctl", "ip ", "tc ", "check ", "--"]
        .iter()
        .any(|start| line.starts_with(start))
}

#[test]
fn lines_fit_into_the_terminal() {
    let (url, (_folder, path)) = (server(), capture());
    let mut wide = Vec::new();
    for words in commands(&url, &path) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        for width in WIDTHS {
            let Shown { text, code } = terminal::run(netwhy(&words), width);
            assert!(is_expected(&words, code), "{words:?}: {code:?}\n{text}");
            let fits = |line: &&str| {
                let columns = line.chars().count();
                is_for_programs(&words)
                    || columns <= usize::from(width)
                    || is_one_word(line)
                    || is_command(line)
            };
            let lines = text.lines().filter(|line| !fits(line));
            wide.extend(lines.map(|line| format!("{width} columns, {words:?}: {line}")));
        }
    }
    assert_eq!(wide, [""; 0]);
}

#[test]
fn commands_end_quietly_when_their_reader_goes_away() {
    let (url, (_folder, path)) = (server(), capture());
    let mut all = commands(&url, &path);
    all.push(vec!["--json-lines".to_string(), "--for".to_string(), "50s".to_string()]);
    all.push(vec!["--help".to_string()]);
    for words in all {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = netwhy(&words);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netwhy");
        let mut reader = child.stdout.take().expect("standard output");
        let mut first = Vec::new();
        let mut byte = [0];
        while reader.read(&mut byte).is_ok_and(|bytes| bytes == 1) && byte[0] != b'\n' {
            first.push(byte[0]);
        }
        drop(reader);
        let ended = child.wait_with_output().expect("to wait");
        let code = ended.status.code();
        assert!(is_expected(&words, code), "{words:?}: {code:?} {}", text(&ended.stderr));
        // With `-- COMMAND` the report goes to standard error, and this is the command's output.
        let may_be_empty = words.contains(&"--") || words[0] == "conntrack";
        assert!(may_be_empty || code == Some(3) || !first.is_empty(), "{words:?}");
    }
}

#[test]
fn json_lines_are_series_then_the_report() {
    let run = output(netwhy(&["--json-lines", "--for", "2500ms"]));
    assert!(run.status.success(), "{}", text(&run.stderr));
    let lines: Vec<serde_json::Value> =
        text(&run.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().expect("type")).collect();
    assert_eq!((types[0], *types.last().expect("a line")), ("series", "report"), "{types:?}");
    assert_eq!(types.iter().filter(|kind| **kind == "report").count(), 1);
    let times: Vec<_> =
        lines.iter().map(|line| line["time_unix_us"].as_i64().expect("a time")).collect();
    assert!(times.is_sorted(), "{times:?}");
    let series = lines[0]["series"].as_array().expect("series");
    assert!(series.iter().any(|one| one["name"] == "tcp_listeners"), "{series:?}");
    let report = lines.last().expect("the report");
    assert!(report["window"]["duration_ms"].as_u64() >= Some(2500), "{report}");
    let line: model::WatchLine = serde_json::from_value(report.clone()).expect("the schema's");
    assert!(matches!(line, model::WatchLine::Report { .. }));
}

#[test]
fn wrong_names_are_refused_with_the_right_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file").to_str().expect("a path").to_string();
    for (arguments, expected) in [
        (&["explan"][..], "'explain'"),
        (&["pign", "127.0.0.1"], "'ping'"),
        (&["curl", "-s"], "netwhy -- curl"),
        (&["--prot", "80"], "'--port'"),
        (&["lab", "lsit"], "'list'"),
        (&["lab", "run", "bufferblaot"], "similar: bufferbloat"),
        (&["explain", "accept-queue"], "did you mean accept-queue-overflow?"),
        (&["explain", "bufferblaot"], "did you mean bufferbloat?"),
        (&["--fail-on", "critcal"], "'critical'"),
        (&["sockets", "--sort", "retrnas"], "'retrans'"),
        (&["sockets", "--state", "listne"], "did you mean listen?"),
        (&["conntrack", "--protocol", "tpc"], "did you mean tcp?"),
        (&["conntrack", "--state", "time_wiat"], "did you mean time_wait?"),
        (&["--netns", "no-such-name"], "no namespace has that name"),
        (&["--pid", "2147483647"], "--pid 2147483647: no such process"),
        (&["sockets", "--pid", "2147483647"], "no such process"),
        (&["record", "--pid", "2147483647", "-o", &file], "no such process"),
    ] {
        let refused = output(netwhy(arguments));
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected) && refused.stdout.is_empty(), "{arguments:?}: {error}");
    }
    assert!(!Path::new(&file).exists(), "nothing is written");
    if !test_support::is_root() {
        return test_support::skip(&test_support::Reason::NotRoot);
    }
    for arguments in [
        &["--capture", "--interface", "l0"][..],
        &["record", "--capture", "--interface", "l0", "-o", &file],
        &["capture", "-i", "l0", "-w", &file],
    ] {
        let refused = output(netwhy(arguments));
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains("there is no such interface"), "{arguments:?}: {error}");
        assert!(error.contains("did you mean lo?"), "{arguments:?}: {error}");
    }
    assert!(!Path::new(&file).exists(), "nothing is written");
}

/// What people type may hold what acts on a terminal.
#[test]
fn a_refused_word_is_shown_escaped() {
    for arguments in [&["\x1b[2J"][..], &["--\x1b]0;x\x07"], &["explain", "\x1b[2J"]] {
        let refused = output(netwhy(arguments));
        assert_eq!(refused.status.code(), Some(2));
        let error = text(&refused.stderr);
        assert!(!error.contains(['\x1b', '\x07']), "{error:?}");
    }
}

#[test]
fn without_root_commands_report_what_they_could_not_observe() {
    if !test_support::is_root() {
        return test_support::skip(&test_support::Reason::NotRoot);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("to open the folder");
    let copy = folder.path().join("netwhy");
    std::fs::copy(env!("CARGO_BIN_EXE_netwhy"), &copy).expect("a copy");
    let as_nobody = |line: &str| {
        let mut command = Command::new("timeout");
        command.args(["60", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.args(["--inh-caps=-all", "--bounding-set=-all"]).arg(&copy);
        command.args(line.split(' ')).current_dir("/").stdin(Stdio::null());
        output(command)
    };
    // README, «What needs root», row by row.
    let watched = as_nobody("--for 500ms --json --capture");
    assert_eq!(watched.status.code(), Some(0), "{}", text(&watched.stderr));
    let report: serde_json::Value = serde_json::from_slice(&watched.stdout).expect("a report");
    assert!(report["tcp_sockets"].is_u64(), "sockets are observed");
    let all = report["missing_evidence"].as_array().expect("missing evidence");
    let missing = |source: &str| {
        let mut same = all.iter().filter(|one| one["source"] == source);
        same.next().map(|one| one["how_to_observe"].as_str().unwrap_or_default().to_string())
    };
    for observed in ["counters", "sockets", "listeners", "softnet", "sysctls"] {
        assert_eq!(missing(observed), None, "{observed}: {all:#?}");
    }
    for source in ["processes", "packets"] {
        let how = missing(source).unwrap_or_else(|| panic!("{source} is observed: {all:#?}"));
        assert!(how.contains("root"), "{source}: {how}");
    }
    let (url, file) = (server(), folder.path().join("file.pcapng"));
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let write = format!("capture -i lo -w {}", file.display());
    for (line, code, expected) in [
        ("sockets -l", 0, "run as root"),
        ("sockets --all --processes", 0, "run as root"),
        ("conntrack", 3, "conntrack"),
        ("conntrack --list", 3, "conntrack"),
        ("--netns 1", 3, "run as root"),
        (&write, 3, "CAP_NET_RAW: run as root"),
        ("capture -i lo --analyse", 3, "CAP_NET_RAW: run as root"),
        (&format!("ping -c 1 {host}"), 0, "SYNs alone need CAP_NET_RAW"),
        ("ping --udp -c 1 127.0.0.1:9", 0, "1 sent, 1 received"),
        ("trace --numeric 127.0.0.1", 0, "UDP"),
        ("trace --tcp 127.0.0.1", 3, "CAP_NET_RAW"),
        ("trace --icmp 127.0.0.1", 3, "CAP_NET_RAW"),
        (&format!("http {url} -n 5 -c 1"), 0, "CAP_NET_RAW"),
        ("lab run fd-exhausted", 3, "needs root"),
        ("explain bufferbloat", 0, "bufferbloat"),
    ] {
        let ran = as_nobody(line);
        let shown = text(&ran.stdout) + &text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{line}: {shown}");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&shown).contains(expected), "{line}: {shown}");
    }
}
