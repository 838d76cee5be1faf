//! The command line: saved evidence, watching a command, interruption, privileges, exit codes.

use std::process::Stdio;

use super::connections::{SILENT_READER, writer};
use super::host::{Host, need_little, output, pause, signal, wait_until};
use super::tool::{netwhy, report};

/// A host with a receiver that stops reading.
fn stalled() -> (Host, Vec<super::host::Program>) {
    let host = Host::new();
    let reader = host.python(SILENT_READER);
    host.wait_for_listener(7000);
    let writer = host.python(&writer("127.0.0.1"));
    // Until the stall is as long as the rule requires.
    pause(3000);
    (host, vec![writer, reader])
}

/// netwhy in a folder of its own that all users can read, until the folder is dropped.
fn copy_for_all() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), readable).expect("to open the folder");
    let copy = folder.path().join("netwhy");
    std::fs::copy(netwhy().get_program(), &copy).expect("a copy");
    (folder, copy)
}

#[test]
fn the_user_nobody_diagnoses_saved_evidence_with_the_same_findings() {
    let Some(_permit) = need_little(&["ip", "ss", "python3", "setpriv"]) else {
        return;
    };
    let (host, _programs) = stalled();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("evidence.zst");
    let saved =
        output(netwhy().args(["record", "--for", "3s", "--netns", &host.name, "-o"]).arg(&file));
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    // An existing file is refused before the window begins.
    let refused = output(netwhy().args(["record", "--for", "3s", "-o"]).arg(&file));
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--force"));

    let live = report(&output(netwhy().arg("diagnose").arg(&file).arg("--json")));
    live.only("receiver-stalled");
    let bytes = std::fs::read(&file).expect("the file");
    let mut nobody = std::process::Command::new("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    // The user nobody may not reach the binary and the file: it gets a copy and standard input.
    let (_copies, copy) = copy_for_all();
    nobody.arg(&copy).args(["diagnose", "-", "--json"]);
    let mut child = nobody
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("setpriv");
    std::io::Write::write_all(&mut child.stdin.take().expect("input"), &bytes).expect("to write");
    let theirs = child.wait_with_output().expect("output");
    assert_eq!(report(&theirs).0, live.0);

    for (damage, expected) in [
        (bytes[..bytes.len() / 2].to_vec(), "copy it again"),
        (b"#!/bin/sh\n".to_vec(), "not evidence"),
        (b"{\"schema_version\": 99, \"netwhy_version\": \"9.9\"}".to_vec(), "use a newer netwhy"),
    ] {
        let bad = folder.path().join("bad.zst");
        std::fs::write(&bad, damage).expect("to write");
        let refused = output(netwhy().arg("diagnose").arg(&bad));
        assert_eq!(refused.status.code(), Some(3));
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains(expected) && error.contains("bad.zst"), "{error}");
    }
    let missing = output(netwhy().args(["diagnose", "/nowhere/at.all"]));
    assert_eq!(missing.status.code(), Some(3));
}

#[test]
fn fail_on_sets_the_exit_code() {
    let Some(_permit) = need_little(&["ip", "ss", "python3"]) else {
        return;
    };
    let (host, _programs) = stalled();
    let run = |more: &[&str]| {
        output(netwhy().args(["--netns", &host.name, "--for", "2s"]).args(more)).status.code()
    };
    assert_eq!(run(&[]), Some(0));
    assert_eq!(run(&["--fail-on", "critical"]), Some(1));
    assert_eq!(run(&["--fail-on", "critical", "--port", "1"]), Some(0));
}

#[test]
fn output_and_exit_code_of_a_command_are_passed_through() {
    let Some(_permit) = need_little(&["ip", "sh"]) else {
        return;
    };
    let ran = output(netwhy().args(["--", "sh", "-c", "echo hello; sleep 1; exit 7"]));
    assert_eq!(ran.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "hello\n");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("netwhy watched"));
    let missing = output(netwhy().args(["--", "no-such-program-anywhere"]));
    assert_eq!(missing.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot run"));
}

#[test]
fn ctrl_c_ends_the_window_with_a_report() {
    let Some(_permit) = need_little(&["ip", "ss", "python3"]) else {
        return;
    };
    let (host, _programs) = stalled();
    let mut command = netwhy();
    command.args(["--netns", &host.name, "--for", "60s", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netwhy");
    pause(2500);
    signal(child.id(), rustix::process::Signal::INT);
    let output = child.wait_with_output().expect("output");
    assert_eq!(output.status.code(), Some(0));
    let report = report(&output);
    report.only("receiver-stalled");
    assert_eq!(report.0["window"]["interrupted"], true);
    assert!(report.0["window"]["duration_ms"].as_u64().expect("duration") < 10_000);
}

#[test]
fn without_root_missing_evidence_is_reported() {
    let Some(_permit) = need_little(&["ip", "ss", "python3", "setpriv"]) else {
        return;
    };
    let (host, _programs) = stalled();
    let (_copies, copy) = copy_for_all();
    let copy = copy.display();
    let as_nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all";
    let ran = output(&mut host.command(&format!("{as_nobody} {copy} --for 3s --json")));
    assert_eq!(ran.status.code(), Some(0));
    let report = report(&ran);
    // Sockets are observed, but not their processes.
    report.only("receiver-stalled");
    let all = report.0["missing_evidence"].as_array().expect("missing_evidence");
    for source in ["processes", "kernel-log"] {
        let missing = all.iter().find(|missing| missing["source"] == source);
        let missing = missing.unwrap_or_else(|| panic!("{source} is not missing: {all:#?}"));
        let how_to_observe = missing["how_to_observe"].as_str().expect("a text");
        assert!(how_to_observe.contains("root"), "{missing:#}");
    }
}

#[test]
fn invalid_arguments_are_refused_with_a_reason() {
    let Some(_permit) = need_little(&["ip"]) else { return };
    for (arguments, code, expected) in [
        (&["explain", "accept-queue-overlow"][..], 2, "did you mean accept-queue-overflow?"),
        (&["--netns", "no-such-namespace"], 2, "no namespace has that name"),
        (&["--netns", "999999999"], 2, "no process has that id"),
        (&["--for", "0s"], 2, "between 200ms and 24h"),
        (&["--port", "70000"], 2, "--port"),
        (&["sockets", "--state", "open"], 2, "unknown TCP state open"),
        (&["conntrack", "--state", "open"], 2, "unknown connection-tracking state"),
        (&["conntrack", "--protocol", "xyz"], 2, "unknown protocol xyz"),
    ] {
        let refused = output(netwhy().args(arguments));
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let Some(_permit) = need_little(&["ip", "sh"]) else {
        return;
    };
    let program = netwhy().get_program().to_owned();
    let line = format!("{} explain | head -1; exit ${{PIPESTATUS[0]}}", program.to_string_lossy());
    let ran = output(std::process::Command::new("bash").args(["-c", &line]));
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn sockets_and_conntrack_show_what_ss_and_conntrack_show() {
    let Some(_permit) = need_little(&["ip", "ss", "python3", "conntrack", "iptables"]) else {
        return;
    };
    let host = Host::new();
    host.run("iptables -A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT");
    let _server = host.python(SILENT_READER);
    host.wait_for_listener(7000);
    let _writer = host.python(&writer("127.0.0.1"));
    wait_until("no connection", || host.run("ss -Htn dport = :7000").contains("ESTAB"));
    let show = |arguments: &[&str]| {
        let shown = output(netwhy().args(arguments).args(["--netns", &host.name]));
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        String::from_utf8_lossy(&shown.stdout).into_owned()
    };
    let ours = show(&["sockets", "-p"]).lines().filter(|l| l.starts_with("ESTAB")).count();
    let theirs = host.run("ss -Htn").lines().count();
    assert_eq!(ours, theirs);
    assert!(show(&["sockets", "-p", "--port", "7000"]).contains("python3("));
    assert!(show(&["sockets", "--state", "listen"]).contains("0.0.0.0:7000"));
    let groups = show(&["sockets", "--group-by", "process"]);
    assert!(groups.contains("python3("), "{groups}");
    let top = show(&["sockets", "--sort", "recv-queue", "--top", "1", "--json"]);
    assert_eq!(top.lines().count(), 1);
    let socket: serde_json::Value = serde_json::from_str(&top).expect("JSON");
    assert_eq!(socket["local"], "127.0.0.1:7000");
    assert!(socket["tcp"]["bytes_received"].as_u64().expect("a figure") > 0);

    let listed = show(&["conntrack", "--list", "--protocol", "tcp"]);
    assert!(listed.contains("ESTABLISHED src=127.0.0.1 dst=127.0.0.1"), "{listed}");
    let theirs = host.run("conntrack -L -p tcp");
    assert_eq!(listed.lines().count(), theirs.lines().count());
    let grouped = show(&["conntrack", "--group-by", "state"]);
    assert!(grouped.contains("ESTABLISHED"), "{grouped}");
}

/// A listener with a backlog of 2 that accepts nothing.
const SLEEPING_LISTENER: &str = "
import socket, time
listener = socket.socket()
listener.bind((\"0.0.0.0\", 7100))
listener.listen(2)
time.sleep(600)
";

/// Ten connections to it, which nobody accepts.
const CLIENTS: &str = "
import socket, time
clients = [socket.socket() for _ in range(10)]
for client in clients:
    client.setblocking(False)
    client.connect_ex((\"127.0.0.1\", 7100))
time.sleep(600)
";

#[test]
fn listeners_are_listed_with_queue_limit_drops_and_process() {
    let Some(_permit) = need_little(&["ip", "ss", "python3"]) else {
        return;
    };
    let host = Host::new();
    let listener = host.python(SLEEPING_LISTENER);
    host.wait_for_listener(7100);
    let _clients = host.python(CLIENTS);
    // One more than the limit, as the kernel counts.
    let theirs = || host.run("ss -Hltn sport = :7100");
    wait_until("the queue is not full", || {
        theirs().split_whitespace().collect::<Vec<_>>().starts_with(&["LISTEN", "3", "2"])
    });
    let list = |arguments: &[&str]| {
        let shown = output(netwhy().args(["sockets", "--netns", &host.name]).args(arguments));
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        String::from_utf8_lossy(&shown.stdout).into_owned()
    };
    // The SYNs that do not fit are retransmitted, and dropped, after a second.
    wait_until("nothing was dropped", || {
        let shown = list(&["-l", "--port", "7100"]);
        let row = shown.lines().nth(1).unwrap_or_else(|| panic!("no listener: {shown}"));
        let fields: Vec<&str> = row.split_whitespace().collect();
        let process = format!("python3({})", listener.id());
        assert_eq!(fields[..3], ["LISTEN", "3", "2"], "{shown}");
        assert_eq!(fields[4..], ["0.0.0.0:7100", &process], "{shown}");
        fields[3].parse::<u64>().expect("a number") > 0
    });
    assert_eq!(list(&["-l"]).lines().count(), 2, "no other socket is listed");
    let first = list(&["-l", "--sort", "drops", "--top", "1", "--json"]);
    let first: serde_json::Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(first["local"], "0.0.0.0:7100");
    assert!(first["memory"]["drops"].as_u64() > Some(0), "{first}");
    let all = list(&["--all"]);
    assert!(all.contains("LISTEN") && all.contains("ESTAB"), "{all}");
}

#[test]
fn findings_are_printed_while_the_window_runs() {
    let Some(_permit) = need_little(&["ip", "ss", "python3"]) else {
        return;
    };
    let (host, _programs) = stalled();
    let run = output(netwhy().args(["--netns", &host.name, "--for", "8s", "--json-lines"]));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    let lines: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).collect::<Vec<_>>();
    let (findings, reports) = (of("finding"), of("report"));
    assert_eq!((findings.len(), reports.len()), (1, 1), "{printed}");
    assert_eq!(findings[0]["cause"], "receiver-stalled");
    assert_eq!(reports[0]["findings"][0]["cause"], "receiver-stalled");
    let time = |line: &serde_json::Value| line["time_unix_us"].as_i64().expect("a time");
    assert!(time(findings[0]) < time(reports[0]), "before the window ends");
}
