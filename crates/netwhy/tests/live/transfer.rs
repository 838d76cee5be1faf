//! `netwhy transfer` and its server: on the loopback interface of a namespace, on a long path, and with
//! peers that are wrong, hostile, silent or gone.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::far::Far;
use super::host::{Host, Program, need, need_little, output, pause, signal};
use super::tool::netwhy;

/// A listening server in a namespace, which ends with the test.
fn serve(host: &Host, more: &[&str]) -> Program {
    let mut command = netwhy();
    command.args(["transfer", "serve", "--netns", &host.name]).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a server");
    let mut line = String::new();
    let mut lines = BufReader::new(child.stderr.take().expect("standard error"));
    lines.read_line(&mut line).expect("a line");
    assert!(line.contains("listening on"), "{line}");
    // It must not block on a full pipe.
    std::thread::spawn(move || lines.read_to_string(&mut String::new()));
    Program(child)
}

/// Exit code, standard output, standard error.
fn transfer(host: &Host, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = netwhy();
    let ran = output(command.args(["transfer", "--netns", &host.name]).args(arguments));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
}

/// Text without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(host: &Host, arguments: &[&str]) -> Value {
    let (code, text, errors) = transfer(host, &[arguments, &["--json"]].concat());
    assert_eq!(code, Some(0), "{text}{errors}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}"))
}

#[test]
fn both_directions_arrive_completely_with_the_senders_statistics() {
    let Some(_alone) = need(&["ip"]) else { return };
    let host = Host::new();
    let _server = serve(&host, &[]);
    for (direction, more) in [
        ("down", &["--reconnect"][..]),
        ("up", &["--reconnect"]),
        ("down", &["--streams", "3", "--congestion", "cubic"]),
        ("up", &["--streams", "3", "--buffer", "1KiB"]),
    ] {
        let words = ["127.0.0.1", "--size", "2M", "-n", "4", "--direction", direction];
        let report = json(&host, &[&words[..], more].concat());
        let measured = &report["transfer"];
        let streams = measured["streams"].as_u64().expect("streams");
        assert_eq!(measured["completed"], 4 * streams, "{measured:#}");
        assert_eq!(measured["bytes"], 8_000_000 * streams);
        assert_eq!(measured["direction"], direction);
        let senders = measured["senders"].as_array().expect("the senders");
        assert_eq!(senders.len() as u64, streams);
        for sender in senders {
            assert_eq!(sender["written_bytes"], 8_000_000);
            assert_eq!(sender["connections"], if streams == 1 { 4 } else { 1 });
            assert_eq!(sender["starts"].as_array().map(Vec::len), Some(4));
            let samples = sender["samples"].as_array().expect("samples").len();
            assert!((1..=400).contains(&samples), "{samples}");
        }
        if more.contains(&"cubic") {
            assert_eq!(senders[0]["congestion"], "cubic");
        }
        for one in measured["transfers"].as_array().expect("transfers") {
            assert_eq!(one["connect_us"].is_null(), streams > 1 && one["number"] != 0);
            assert!(one["theory"]["total_us"].as_u64() > Some(0), "{one:#}");
        }
        assert_eq!(report["findings"].as_array().map(Vec::len), Some(0), "{report:#}");
    }
}

#[test]
fn bulk_transfers_last_as_long_as_given_and_text_fits() {
    let Some(_alone) = need(&["ip"]) else { return };
    let host = Host::new();
    let _server = serve(&host, &["--bind", "[::1]:7000"]);
    for direction in ["down", "up"] {
        let began = Instant::now();
        let words = ["[::1]:7000", "--for", "1s", "--direction", direction];
        let (code, text, errors) = transfer(&host, &words);
        assert_eq!(code, Some(0), "{text}{errors}");
        assert!(began.elapsed() < Duration::from_secs(6));
        assert!(text.contains(" 1 transfer, ") && text.contains("Gbit/s"), "{text}");
        assert!(text.contains("What the sender waited for"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn wrong_peers_are_reported_and_no_peer_hangs_a_client() {
    let Some(_permit) = need_little(&["ip", "python3"]) else { return };
    let host = Host::new();
    let fails = |arguments: &[&str], why: &str| {
        let began = Instant::now();
        let (code, text, errors) = transfer(&host, arguments);
        assert_eq!(code, Some(3), "{text}{errors}");
        assert!(errors.contains(why), "«{why}» is not in {errors}{text}");
        assert!(!errors.contains("panicked"), "{errors}");
        assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    };
    fails(&["no-such-host.invalid"], "cannot resolve no-such-host.invalid");
    fails(&["127.0.0.1:9"], "nothing listens there");
    let (code, text, _) = transfer(&host, &["http://127.0.0.1:9/"]);
    assert_eq!(code, Some(3));
    assert!(text.contains("1  127.0.0.1:9 refuses connections"), "{text}");
    assert!(words(&text).contains("nothing listens there (3 times)"), "{text}");
    // Peers of another protocol or version, silent ones, and ones that close or reset.
    for (port, why, program) in [
        (
            7001,
            "is not netwhy transfer serve",
            "c.sendall(b'SSH-2.0-OpenSSH_9.2p1 Debian\\r\\n'*9)",
        ),
        (7002, "no data for 2.0 s", "time.sleep(8)"),
        (7003, "has version 9 of the protocol", "c.sendall(b'nwxfer\\r\\n\\0\\x09'+bytes(30))"),
        (7004, "closed the connection before its greeting", "pass"),
        (
            7005,
            "refused: \\x1b[2J no",
            "c.sendall(b'nwxfer\\r\\n\\0\\1'+bytes(30))\n c.recv(999)\n \
             c.sendall(b'\\0\\1\\0\\7'+bytes(16)+b'\\x1b[2J no')",
        ),
        (7006, "reset the connection", "c.setsockopt(1,13,struct.pack('ii',1,0))"),
    ] {
        let _peer = host.python(&format!(
            "import socket,struct,time\ns=socket.socket()\ns.bind(('127.0.0.1',{port}))\n\
             s.listen(9)\nwhile True:\n c,_=s.accept()\n c.recv(32)\n {program}\n c.close()"
        ));
        host.wait_for_listener(port);
        fails(&[&format!("127.0.0.1:{port}"), "--timeout", "2s"], why);
    }
}

#[test]
fn transfers_that_servers_break_off_are_counted() {
    let Some(_permit) = need_little(&["ip", "python3"]) else { return };
    let host = Host::new();
    // Accepts a session, sends half of the bytes, and announces a report of 4 GiB.
    let liar = "import socket,threading\ns=socket.socket()\ns.bind(('127.0.0.1',7000))\n\
        s.listen(9)\ndef f(c):\n h=c.recv(32)\n if h[11]==0:\n  c.sendall(b'nwxfer\\r\\n\\0\\1'+bytes(30))\n\
        \u{20} c.recv(999)\n  c.sendall(bytes(20))\n  c.recv(8)\n  c.sendall(b'\\xff'*99)\n else:\n\
        \u{20} c.recv(99)\n  c.sendall(bytes(500000))\n c.close()\n\
        while True: threading.Thread(target=f,args=(s.accept()[0],)).start()";
    let _liar = host.python(liar);
    host.wait_for_listener(7000);
    let report = json(&host, &["127.0.0.1:7000", "--size", "1M", "-n", "9", "--timeout", "2s"]);
    let measured = &report["transfer"];
    assert_eq!(
        (&measured["started"], &measured["completed"]),
        (&3.into(), &0.into()),
        "{measured:#}"
    );
    let errors = measured["errors"].to_string();
    assert!(errors.contains("before the transfer was complete\""), "{errors}");
    assert!(errors.contains("its report of 4.0 GiB is too long"), "{errors}");

    // A web server: a complete response, a short one, an error.
    let web = "import socket\ns=socket.socket()\ns.bind(('127.0.0.1',8000))\ns.listen(9)\n\
        while True:\n c,_=s.accept()\n q=c.recv(999)\n\
        \u{20}if b'/short' in q: c.sendall(b'HTTP/1.0 200 OK\\r\\nContent-Length: 9\\r\\n\\r\\n1234')\n\
        \u{20}elif b'/whole' in q: c.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\n'+bytes(100000))\n\
        \u{20}else: c.sendall(b'HTTP/1.0 404 No\\r\\n\\r\\n')\n c.close()";
    let _web = host.python(web);
    host.wait_for_listener(8000);
    let report = json(&host, &["http://127.0.0.1:8000/whole", "-n", "3"]);
    assert_eq!(report["transfer"]["completed"], 3);
    assert_eq!(report["transfer"]["bytes"], 300_000);
    let report = json(&host, &["http://127.0.0.1:8000/short", "-n", "1"]);
    let errors = report["transfer"]["errors"].to_string();
    assert!(errors.contains("the peer closed the connection"), "{errors}");
    let (code, text, _) = transfer(&host, &["http://127.0.0.1:8000/", "-n", "1"]);
    assert_eq!(code, Some(3));
    assert!(text.contains("failed: the server responded with status 404"), "{text}");
}

#[test]
fn a_server_keeps_its_limits() {
    let Some(_permit) = need_little(&["ip", "python3"]) else { return };
    let host = Host::new();
    let server = serve(
        &host,
        &["--token", "right", "--max-time", "20s", "--max-bytes", "10M", "--max-clients", "1"],
    );
    let refused = |arguments: &[&str], why: &str| {
        let (code, text, errors) = transfer(&host, &[&["127.0.0.1"], arguments].concat());
        assert_eq!(code, Some(3), "{text}{errors}");
        assert!(errors.contains(why), "«{why}» is not in {errors}");
    };
    let right = ["--token", "right", "--for", "3s", "--size", "1M"];
    refused(&["--for", "3s"], "requires a token");
    refused(&["--for", "3s", "--token", "wrong"], "the token is wrong");
    refused(&["--for", "1m", "--token", "right"], "this server allows 20.0 s (--max-time)");
    refused(&["--for", "3s", "--token", "right", "--size", "20M"], "--max-bytes");
    let unknown = ["--for", "3s", "--token", "right", "--congestion", "no-such"];
    refused(&unknown, "cannot use the congestion control no-such");
    let report = json(&host, &[&["127.0.0.1", "-n", "2"], &right[..]].concat());
    assert_eq!(report["transfer"]["completed"], 2);
    // It sends no more than it allows, and reports that.
    let report = json(&host, &["127.0.0.1", "--token", "right", "--for", "2s"]);
    assert!(report["transfer"]["bytes"].as_u64() < Some(11_000_000), "{:#}", report["transfer"]);
    let errors = report["transfer"]["errors"].to_string();
    assert!(errors.contains("server: the limit of bytes is reached"), "{errors}");

    // Clients that send garbage or unknown sessions are disconnected and do no harm.
    let _strangers = host.python(
        "import socket,time\nk=[]\nfor i in range(200):\n s=socket.socket()\n \
         s.connect(('127.0.0.1',7717))\n k.append(s)\n try: s.sendall([b'GET / HTTP/1.0\\r\\n\\r\\n'+\
         b'x'*99,b'nwxfer\\r\\n\\0\\1\\0\\1'+b'\\xff'*20+b'\\xff'*20000][i%2])\n except OSError: pass\n\
         k=socket.create_server(('127.0.0.1',7718)),k\ntime.sleep(60)",
    );
    host.wait_for_listener(7718);
    let report = json(&host, &[&["127.0.0.1", "-n", "2"], &right[..]].concat());
    assert_eq!(report["transfer"]["completed"], 2);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("status");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kib < 100 << 10, "{kib} KiB");

    // One client at a time.
    let mut command = netwhy();
    command.args(["transfer", "--netns", &host.name, "127.0.0.1", "--token", "right"]);
    command.args(["--size", "1000", "--interval", "1s", "--for", "9s"]);
    let first = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a client");
    pause(1500);
    refused(&right, "already has 1 client");
    interrupted(first);
}

/// Silent connections, those that send one byte after the other, and those that know no token.
const STRANGERS: &str = "\
import socket,time
kept=[socket.create_connection(('127.0.0.1',7717)) for _ in range(400)]
open=b'nwxfer\\r\\n\\0\\1'+bytes(22)
kept.append(socket.create_server(('127.0.0.1',7718)))
for n in range(60):
 for c in kept[:200]:
  try: c.send(open[n%32:n%32+1])
  except OSError: pass
 try:
  c=socket.create_connection(('127.0.0.1',7717)); c.sendall(open); c.recv(40); c.sendall(bytes(96))
 except OSError: pass
 time.sleep(1)";

#[test]
fn strangers_do_not_lock_out_those_who_know_the_token() {
    let Some(_permit) = need_little(&["ip", "python3"]) else { return };
    let host = Host::new();
    let mut command = netwhy();
    command.args(["transfer", "serve", "--netns", &host.name, "--token", "right"]);
    let log = tempfile::NamedTempFile::new().expect("a file");
    command.stdin(Stdio::null()).stderr(log.reopen().expect("a file"));
    let mut server = Program(command.spawn().expect("a server"));
    host.wait_for_listener(7717);
    let _strangers = host.python(STRANGERS);
    host.wait_for_listener(7718);
    let files =
        || std::fs::read_dir(format!("/proc/{}/fd", server.id())).expect("its open files").count();
    let right = ["127.0.0.1", "--token", "right", "--size", "1M", "-n", "2", "--no-capture"];
    for direction in ["down", "up"] {
        let more = ["--direction", direction, "--streams", "8"];
        let report = json(&host, &[&right[..], &more].concat());
        assert_eq!(report["transfer"]["completed"], 16);
        assert!(files() < 200, "{}", files());
    }
    let (code, _, errors) = transfer(&host, &["127.0.0.1", "--token", "wrong", "--for", "3s"]);
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("the token is wrong"), "{errors}");
    signal(server.id(), rustix::process::Signal::INT);
    assert!(server.0.wait().expect("its end").success());
    let log = std::fs::read_to_string(log.path()).expect("its log");
    let refused = log.lines().filter(|line| line.contains(" refused")).count();
    // Ten a minute; a loaded machine may take two.
    assert!((11..=33).contains(&refused), "{log}");
    assert!(log.contains(" more refused in the last "), "{log}");
}

/// Ctrl-C ends a transfer with the result so far.
fn interrupted(client: Child) {
    signal(client.id(), rustix::process::Signal::INT);
    let began = Instant::now();
    let ended = client.wait_with_output().expect("its output");
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{text}");
    assert!(began.elapsed() < Duration::from_secs(4));
    assert!(text.contains("; interrupted") && text.contains("1 kB"), "{text}");
}

#[test]
fn a_server_ends_at_its_time_and_the_client_keeps_its_result() {
    let Some(_alone) = need(&["ip"]) else { return };
    let host = Host::new();
    let began = Instant::now();
    let mut server = serve(&host, &["--for", "2s"]);
    let (code, text, errors) = transfer(&host, &["127.0.0.1", "--for", "9s", "--timeout", "3s"]);
    assert_eq!(code, Some(0), "{text}{errors}");
    assert!(words(&text).contains("failed: the server ended the transfer 7."), "{text}");
    assert!(words(&text).contains("failed: no report from the server"), "{text}");
    assert!(server.0.wait().expect("its end").success());
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
}

/// The causes found.
fn causes(report: &Value) -> Vec<&str> {
    let all = report["findings"].as_array().expect("findings");
    all.iter().filter_map(|finding| finding["cause"].as_str()).collect()
}

#[test]
fn a_sender_that_waits_for_data_is_found_and_one_with_larger_buffers_is_not() {
    let Some(_alone) = need(&["ip"]) else { return };
    let host = Host::new();
    let _server = serve(&host, &[]);
    for direction in ["down", "up"] {
        let words = ["127.0.0.1", "--size", "500K", "-n", "2", "--source-delay", "300us"];
        let small = ["--direction", direction, "--buffer", "1KiB"];
        let report = json(&host, &[&words[..], &small].concat());
        assert_eq!(causes(&report), ["application-limited"], "{report:#}");
        let finding = &report["findings"][0];
        assert_eq!(finding["subject"]["local"], "127.0.0.1:7717");
        assert!(finding["impact"]["share"].as_f64() > Some(0.5), "{finding:#}");
        let large = ["--direction", direction, "--buffer", "1MiB"];
        let report = json(&host, &[&words[..], &large].concat());
        assert_eq!(causes(&report), [""; 0], "{report:#}");
    }
}

/// A server at the other end.
const SERVER: &str = r#"
[[processes]]
name = "serve"
host = "server"
run = "exec NETWHY transfer serve --bind ${server} --token t"
ready = { listens = 7717 }
"#;

/// Transfers, and the causes found that the connections of transfers can have.
fn over(far: &Far, arguments: &str) -> (Value, Vec<String>) {
    let fixed = "198.18.0.2 --token t --congestion cubic --bandwidth 100M --json";
    let text = far.run("client", &format!("{} transfer {fixed} {arguments}", far.program()));
    let report: Value = serde_json::from_str(&text).expect("a report");
    let own = [
        "slow-start-after-idle",
        "initial-window-small",
        "short-connections",
        "send-buffer-limited",
        "receive-window-limited",
        "application-limited",
    ];
    let found = causes(&report).into_iter().filter(|cause| own.contains(cause));
    let found = found.map(str::to_string).collect();
    (report, found)
}

#[test]
fn limits_on_a_long_path_are_found_and_theory_is_near() {
    let Some(_permit) = need_little(&["ip", "sysctl"]) else { return };
    let far = Far::new(SERVER);
    let sized = "--size 4M --interval 1500ms -n 4";
    let near = |report: &Value, rounds: &[u64]| {
        let all = report["transfer"]["transfers"].as_array().expect("transfers");
        assert_eq!(all.len(), rounds.len());
        let mut times: Vec<f64> = Vec::new();
        for (one, rounds) in all.iter().zip(rounds) {
            let figure = |of: &Value| of.as_f64().expect("a figure");
            times.push(figure(&one["duration_us"]) / figure(&one["theory"]["total_us"]));
            let theory = one["theory"]["rounds"].as_u64().expect("rounds");
            assert!(theory.abs_diff(*rounds) <= 2, "{one:#}");
        }
        times.sort_by(f64::total_cmp);
        // On a busy machine some are slow.
        assert!(times[0] > 0.97 && times[1] < 1.25, "{times:?}");
    };
    let (report, found) = over(&far, &format!("{sized} --reconnect"));
    assert_eq!(found, ["short-connections"], "{report:#}");
    near(&report, &[8, 8, 8, 8]);
    let (report, found) = over(&far, &format!("{sized} --reconnect --direction up"));
    assert_eq!(found, ["short-connections"], "{report:#}");

    far.run("server", "sysctl -qw net.ipv4.tcp_slow_start_after_idle=1");
    // The window is halved for each timeout of the idle period: a long one leaves ten segments.
    let (report, found) = over(&far, "--size 4M --interval 3s -n 4");
    assert_eq!(found, ["slow-start-after-idle"], "{report:#}");
    let slow = report["transfer"]["transfers"][3]["theory"]["slow_start_us"].as_u64();
    assert!(slow > Some(10_000), "{report:#}");
    // The sender's kernel shows it without packets, and after a shorter idle period.
    let (report, found) = over(&far, &format!("{sized} --no-capture"));
    assert_eq!(found, ["slow-start-after-idle"], "{report:#}");
    assert_eq!(report["findings"][0]["evidence"][0]["source"], "probes");

    far.run("server", "sysctl -qw net.ipv4.tcp_slow_start_after_idle=0");
    let (report, found) = over(&far, sized);
    assert_eq!(found, [""; 0], "{report:#}");
    near(&report, &[8, 1, 1, 1]);

    far.run("server", "ip route change 198.18.0.0/24 dev eth0 initcwnd 3");
    let (report, found) = over(&far, &format!("{sized} --reconnect"));
    assert_eq!(found, ["initial-window-small"], "{report:#}");
    near(&report, &[9, 9, 9, 9]);
    let first = &report["transfer"]["transfers"][0];
    assert_eq!(first["window_segments"], 3);
    far.run("server", "ip route change 198.18.0.0/24 dev eth0 initcwnd 10");

    far.run("server", "sysctl -qw 'net.ipv4.tcp_wmem=4096 16384 65536'");
    let (report, found) = over(&far, "--for 4s --buffer 16KiB");
    assert_eq!(found, ["send-buffer-limited"], "{report:#}");
    let remedy = &report["findings"][0]["remedies"][0];
    let text = remedy["text"].as_str().expect("a remedy");
    assert!(text.starts_with("on 198.18.0.2: set net.ipv4.tcp_wmem to "), "{remedy:#}");
    assert_eq!(remedy["command"]["host"], "198.18.0.2", "it is for the other host: {remedy:#}");
    far.run("server", "sysctl -qw 'net.ipv4.tcp_wmem=4096 16384 16777216'");

    far.run("client", "sysctl -qw 'net.ipv4.tcp_rmem=4096 65536 131072'");
    let (report, found) = over(&far, "--for 4s");
    assert_eq!(found, ["receive-window-limited"], "{report:#}");
    let (most, _) = report["transfer"]["senders"][0]["time_breakdown"]
        .as_array()
        .expect("a breakdown")
        .iter()
        .map(|share| (share["category"].as_str().unwrap_or_default(), share["time_us"].as_u64()))
        .max_by_key(|(_, us)| *us)
        .expect("a share");
    assert_eq!(most, "receive-window");
}
