//! Packets diagnosed while they are captured: `netwhy capture --analyse` and `netwhy --capture`, with
//! real programs in their own network namespaces.
//!
//! The tests need root and Debian's packages (`tools/setup test`); a test without prints why it is skipped.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

#[path = "live/host.rs"]
#[allow(dead_code)]
mod host;
#[path = "live/servers.rs"]
#[allow(dead_code)]
mod servers;
#[path = "live/tool.rs"]
#[allow(dead_code)]
mod tool;
#[path = "capture/tools.rs"]
#[allow(dead_code)]
mod tools;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Command;

use host::{Host, Program, need, output, pause};
use serde_json::Value;
use servers::{NGINX, Server, nginx, plain_nginx};
use tool::{Report, netwhy, report, watch};
use tools::Running;

/// Accepts a connection on port 7000 and stops reading after the first bytes.
const SILENT_READER: &str = "import socket,time\ns=socket.socket()\ns.bind(('0.0.0.0',7000))\n\
    s.listen(8)\na,_=s.accept()\na.recv(1000)\ntime.sleep(60)";
/// Writes to port 7000 of this host as long as it can.
const WRITER: &str = "import socket,time\ns=socket.socket()\ns.connect(('127.0.0.1',7000))\n\
    s.settimeout(60)\ntry:\n while True: s.send(b'x'*65536)\nexcept Exception: pass\ntime.sleep(60)";

/// A server whose responses are two small segments, and clients that keep their connections.
fn small_writes(host: &Host, nodelay: &str) -> (Server, Program) {
    host.set("net.core.somaxconn", "4096");
    let http = format!(
        "sendfile on; tcp_nopush off; tcp_nodelay {nodelay}; server {{ listen 80 backlog=4096; }}"
    );
    let server = nginx(host, "worker_processes 1;", "worker_connections 4096;", &http);
    host.wait_for_listener(80);
    let load = host.start("wrk -c 20 -t 1 -d 40 http://127.0.0.1/index.html");
    pause(300);
    (server, load)
}

/// Starts `netwhy capture --analyse` in a host, which captures when this returns.
fn analyse(host: &Host, arguments: &[&str]) -> Running {
    let mut command = netwhy();
    for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
        command.env_remove(name);
    }
    command.args(["capture", "--netns", &host.name, "--analyse"]).args(arguments);
    Running::spawn(&mut command, "capturing on")
}

/// Waits for its end: standard output, exit code, and what it printed to standard error.
fn rest(mut running: Running) -> (String, Option<i32>, String) {
    let mut text = String::new();
    running.output().read_to_string(&mut text).expect("standard output");
    let (code, printed) = running.wait();
    (text, code, printed)
}

fn json(text: &str) -> Report {
    Report(serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

fn needs_packets(report: &Report) -> usize {
    let undecided = report.0["undecided"].as_array().expect("a list");
    undecided.iter().filter(|one| one["needs"] == "packets").count()
}

fn missing_packets(report: &Report) -> Vec<&Value> {
    let all = report.0["missing_evidence"].as_array().expect("a list");
    all.iter().filter(|missing| missing["source"] == "packets").collect()
}

#[test]
fn a_finding_is_printed_while_capturing_and_in_the_report() {
    let Some(_alone) = need(NGINX) else { return };
    let host = Host::new();
    let _load = small_writes(&host, "off");
    // The test ends it; --for is for the case that nothing is found.
    let mut capture = analyse(&host, &["-i", "any", "--for", "40s"]);
    let id = capture.id();
    let mut lines = BufReader::new(capture.output());
    let mut live = String::new();
    while !live.contains("delayed-ack-nagle") {
        let more = lines.read_line(&mut live).expect("standard output");
        assert!(more > 0, "it ended early: {live}");
    }
    assert!(!live.contains("exchanges on"), "the report comes at the end: {live}");
    host::signal(id, rustix::process::Signal::INT);
    let mut text = String::new();
    lines.read_to_string(&mut text).expect("standard output");
    let (code, printed) = capture.wait();
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.contains("packets analysed in") && printed.contains("dropped by the kernel"),
        "{printed}"
    );
    let report = text.split_once("interface any: ").expect("a report").1;
    assert!(report.contains("\n1  Small writes wait"), "{text}");
    assert!(report.contains("netwhy capture -i any -w again.pcapng"), "{text}");
    assert!(!text.contains("interrupted"), "{text}");
    let findings = live.lines().chain(text.lines()).filter(|line| line.contains(" UTC +"));
    assert_eq!(findings.count(), 1, "once: {live}{text}");
    for line in live.lines().chain(text.lines()) {
        assert!(line.chars().count() <= 80 || line.contains("again.pcapng"), "{line}");
    }
}

#[test]
fn the_written_file_has_the_same_finding() {
    let Some(_alone) = need(&["ip", "python3"]) else { return };
    let (here, there) = Host::wired();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("refused.pcapng").display().to_string();
    let _client = here.python(
        "import socket,time\nwhile True:\n try: socket.create_connection(('198.18.0.2',7000),1)\n \
         except OSError: pass\n time.sleep(0.02)",
    );
    let device = there.device();
    let arguments = ["-i", &device, "-w", &path, "--json", "--fail-on", "warning", "--for", "4s"];
    let (text, code, printed) = rest(analyse(&there, &[&arguments[..], &["tcp"]].concat()));
    assert_eq!(code, Some(1), "a finding, and --fail-on: {printed}");
    let live = json(&text);
    let finding = live.only("connection-refused");
    assert_eq!(finding.local(), "198.18.0.2:7000");
    // Standard output is the report alone.
    assert!(printed.contains("connection-refused") && printed.contains(" UTC +"), "{printed}");
    assert!(printed.contains(&format!("in {path}")), "{printed}");
    let file = report(&output(netwhy().args(["pcap", "--json", &path])));
    file.only("connection-refused");
    for figure in ["packets", "segments", "streams", "span_us", "sources"] {
        assert_eq!(live.0["packets"][figure], file.0["packets"][figure], "{figure}");
    }
    // The commands of the finding name the file.
    assert!(live.0["findings"][0]["checks"].to_string().contains(&path), "{:#}", live.0);
}

#[test]
fn a_healthy_capture_has_no_finding() {
    let Some(_alone) = need(NGINX) else { return };
    let host = Host::new();
    let _load = small_writes(&host, "on");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.json");
    let arguments = ["-i", "any", "--for", "3s", "--fail-on", "info", "--json", "--output"];
    let path = path.display().to_string();
    let (text, code, printed) = rest(analyse(&host, &[&arguments[..], &[&path]].concat()));
    let written = std::fs::read_to_string(&path).expect("a report");
    json(&written).is_healthy("nginx on loopback, by its packets");
    assert_eq!((&text[..], code), ("", Some(0)), "{printed}");
    // The loopback has each packet twice, sent and received: one of them is left out.
    assert_eq!(json(&written).0["packets"]["duplicate_packets"], 0);
}

#[test]
fn packets_of_the_window_show_causes_that_the_host_does_not() {
    let Some(_alone) = need(NGINX) else { return };
    let host = Host::new();
    let load = small_writes(&host, "off");
    assert!(needs_packets(&watch(&host, "1s", &[])) > 5, "these need packets");
    let report = watch(&host, "3s", &["--capture"]);
    let finding = report.only("delayed-ack-nagle");
    assert_eq!(finding.local(), "127.0.0.1:80");
    assert_eq!(needs_packets(&report), 0, "{:#}", report.0["undecided"]);
    assert!(report.0["packets"]["packets"].as_u64() > Some(100), "{:#}", report.0["packets"]);
    let of_lo = watch(&host, "3s", &["--capture", "--interface", "lo", "--port", "80"]);
    of_lo.only("delayed-ack-nagle");
    // Packets of other ports are not in focus.
    let other = watch(&host, "2s", &["--capture", "--port", "81"]);
    other.is_healthy("another port");
    assert_eq!(other.0["packets"]["packets"], 0);
    drop(load);

    let _load = small_writes(&host, "on");
    let report = watch(&host, "3s", &["--capture"]);
    report.is_healthy("responses without delay");
    assert!(report.0["packets"]["segments"].as_u64() > Some(1000), "{:#}", report.0["packets"]);
    assert_eq!(report.0["packets"]["duplicate_packets"], 0);
}

#[test]
fn a_cause_seen_in_sockets_and_packets_is_named_once() {
    let Some(_alone) = need(&["ip", "ss", "python3", "nginx", "wrk", "iptables"]) else { return };
    let host = Host::new();
    let reader = host.python(SILENT_READER);
    host.wait_for_listener(7000);
    let writer = host.python(WRITER);
    // Window probes back off: there are few in the window.
    pause(500);
    let report = watch(&host, "5s", &["--capture"]);
    let finding = report.only("receiver-stalled");
    assert_eq!(finding.0["subject"]["processes"][0]["pid"], reader.id());
    drop((reader, writer));

    // Retransmitted SYNs, and requests that the full queue dropped, are its consequences.
    let _server = plain_nginx(&host, "80 backlog=10");
    let _load = host.start("wrk -c 1000 -t 2 -d 12 http://127.0.0.1/");
    pause(100);
    let report = watch(&host, "5s", &["--capture"]);
    let queue = report.only("accept-queue-overflow");
    let also_causes = queue.0["also_causes"].to_string();
    assert!(
        also_causes.contains("syn-retransmitted") || also_causes.contains("packet-loss"),
        "{also_causes}"
    );
}

#[test]
fn lost_syns_in_sockets_and_packets_are_named_once() {
    let Some(_alone) = need(&["ip", "ss", "python3", "iptables"]) else { return };
    let (here, there) = Host::wired();
    there.run("iptables -A INPUT -p tcp --dport 7000 --syn -j DROP");
    let client = here.python(
        "import socket,time\nc=[]\nfor i in range(20):\n s=socket.socket()\n s.setblocking(False)\n \
         s.connect_ex(('198.18.0.2',7000))\n c.append(s)\ntime.sleep(30)",
    );
    let report = watch(&here, "5s", &["--capture"]);
    let finding = report.only("syn-retransmitted");
    assert_eq!(finding.remote(), "198.18.0.2:7000");
    assert_eq!(finding.0["subject"]["processes"][0]["pid"], client.id());
}

#[test]
fn without_the_right_to_capture_everything_else_is_observed() {
    let Some(_alone) = need(&["ip", "setpriv"]) else { return };
    let host = Host::new();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"]);
    command.arg(netwhy().get_program());
    command.args(["--netns", &host.name, "--capture", "--for", "500ms"]);
    let as_json =
        report(&output(Command::new(command.get_program()).args(command.get_args()).arg("--json")));
    let missing = missing_packets(&as_json);
    assert_eq!(missing.len(), 1, "{:#}", as_json.0["missing_evidence"]);
    assert_eq!(missing[0]["why"], "capturing needs CAP_NET_RAW");
    assert_eq!(missing[0]["how_to_observe"], "run as root");
    assert!(as_json.0["packets"].is_null());
    as_json.is_healthy("an idle host");
    let text = output(&mut command);
    assert_eq!(text.status.code(), Some(0));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let unwrapped = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains("capturing needs CAP_NET_RAW"), "{text}");
    assert!(unwrapped.contains("To observe it: run as root"), "{text}");
}

#[test]
fn saved_evidence_has_the_packets() {
    let Some(_alone) = need(NGINX) else { return };
    let host = Host::new();
    let _load = small_writes(&host, "off");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("evidence").display().to_string();
    let arguments = ["record", "--netns", &host.name, "--capture", "--for", "2s", "-o", &path];
    host::run(netwhy().args(arguments));
    report(&output(netwhy().args(["diagnose", "--json", &path]))).only("delayed-ack-nagle");
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let Some(_alone) = need(&["ip"]) else { return };
    let host = Host::new();
    for (arguments, expected) in [
        (&["capture", "-i", "lo"][..], "--write"),
        (&["capture", "-i", "lo", "-w", "x", "--json"], "needs --analyse"),
        (&["capture", "-i", "lo", "-w", "x", "--fail-on", "info"], "needs --analyse"),
        (&["capture", "-i", "lo", "-w", "-", "--analyse"], "--output"),
        (&["capture", "-i", "lo", "--analyse", "--file-size", "1M"], "need -w"),
        (&["capture", "-i", "eth7", "--analyse"], "there are: lo, and any"),
        (&["--capture", "--interface", "eth7"], "there are: lo, and any"),
        (&["--capture", "--interface", "lo", "--interface", "lo"], "given twice"),
        (&["--capture", "--pid", "1"], "--port or --peer"),
        (&["--interface", "lo"], "--capture"),
    ] {
        let printed =
            output(netwhy().args(arguments).args(["--for", "300ms", "--netns", &host.name]));
        assert_eq!(printed.status.code(), Some(2), "{arguments:?}");
        let printed = String::from_utf8_lossy(&printed.stderr).into_owned();
        assert!(printed.contains(expected), "{arguments:?}: {printed}");
    }
    let output = output(netwhy().args([
        "capture",
        "-i",
        "lo",
        "--analyse",
        "--for",
        "300ms",
        "--netns",
        &host.name,
        "--output",
        "/no/such/folder/x",
    ]));
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(printed.contains("cannot write /no/such/folder/x: no such file"), "{printed}");
    assert_eq!(output.status.code(), Some(2));
}
