//! `netwhy http` on real servers: figures that agree with the server's, and causes.

use std::process::Command;
use std::time::{Duration, Instant};

use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

use super::far::Far;
use super::host::{Host, ends_soon, need, need_little, output, run, signal, wait_until};
use super::servers::{NGINX, nginx, plain_nginx};
use super::tool::{Report, netwhy, report};

fn http(host: &Host, arguments: &str) -> Command {
    let mut command = netwhy();
    command.args(["http", "--netns", &host.name]).args(arguments.split_ascii_whitespace());
    command
}

fn load(host: &Host, arguments: &str) -> Report {
    report(&output(http(host, arguments).arg("--json")))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn each_request_is_in_the_servers_log_and_a_healthy_server_has_no_finding() {
    let Some(_alone) = need(NGINX) else { return };
    let (client, host) = Host::pair();
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let server = "server { listen 80 backlog=511; location / { return 200 hello; } }";
    let _server = nginx(&host, "", "", &format!("access_log {} combined; {server}", log.display()));
    host.wait_for_listener(80);
    let result = load(&client, "-c 20 -n 3000 http://198.18.0.2/some/where?x=1");
    result.is_healthy("nginx that responds at once");
    let document = &result.0;
    assert_eq!(number(&document["requests"]), 3_000, "{document:#}");
    assert_eq!(document["statuses"][0]["status"], 200);
    assert_eq!(number(&document["connections_opened"]), 20);
    assert_eq!(number(&document["latency_us"]["count"]), 3_000);
    let text = std::fs::read_to_string(&log).expect("the log");
    let lines = text.lines().filter(|line| line.contains("GET /some/where?x=1 HTTP/1.1\" 200"));
    assert_eq!(lines.count(), 3_000);
    // Without keep-alive: as many connections as requests, by the server's log too.
    let result = load(&client, "-c 20 -n 2000 --new-connections http://198.18.0.2/");
    assert_eq!(
        (number(&result.0["requests"]), number(&result.0["connections_opened"])),
        (2_000, 2_000)
    );
    let text = std::fs::read_to_string(&log).expect("the log");
    assert_eq!(text.lines().count(), 5_000);
}

#[test]
fn responses_that_wait_for_a_delayed_ack_are_explained() {
    let Some(_alone) = need(NGINX) else { return };
    let host = Host::new();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("page"), "one segment").expect("a page");
    let root = folder.path().display();
    run(Command::new("chmod").args(["-R", "a+rX", &root.to_string()]));
    let http = format!(
        "sendfile on; tcp_nodelay off; tcp_nopush off; server {{ listen 80; root {root}; }}"
    );
    let _server = nginx(&host, "", "", &http);
    host.wait_for_listener(80);
    let result = load(&host, "-c 8 -d 3s http://127.0.0.1/page");
    let finding = result.finding("delayed-ack-nagle");
    assert!(finding.0["subject"]["name"].as_str().is_some_and(|name| name.contains(":80")));
    let p50 = number(&result.0["latency_us"]["p50"]);
    assert!((38_000..60_000).contains(&p50), "{p50} µs");
    assert!(number(&result.0["phases_us"]["receive"]["p50"]) > 35_000);
}

#[test]
fn an_overflowing_listener_shows_as_retransmitted_syns() {
    let Some(_alone) = need(&["ip", "ss", "python3"]) else { return };
    let (client, host) = Host::pair();
    // It accepts few connections and pauses in between: its queue of two is full most of the time.
    let _server = host.python(
        "import socket, time\n\
         s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
         s.bind(('0.0.0.0', 80)); s.listen(2)\n\
         while True:\n\
         \x20   c, _ = s.accept(); c.settimeout(0.02)\n\
         \x20   try:\n\
         \x20       c.recv(4096)\n\
         \x20       c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')\n\
         \x20   except OSError: pass\n\
         \x20   c.close(); time.sleep(0.01)",
    );
    host.wait_for_listener(80);
    let result = load(&client, "-c 40 -d 6s --new-connections http://198.18.0.2/");
    let finding = result.finding("syn-retransmitted");
    let text = finding.0.to_string();
    assert!(text.contains("198.18.0.2:80"), "{text}");
    assert!(text.contains("run netwhy on 198.18.0.2"), "{text}");
    let late = &result.0["syn_retransmissions"][0];
    let opened = late["opened"].as_array().expect("a list");
    let opened: u64 = opened.iter().map(number).sum();
    assert!(opened + number(&late["still_connecting"]) > 5, "{late}");
    assert!(number(&late["waited_us"]) >= 1_000_000, "{late}");
}

#[test]
fn an_open_loop_keeps_its_rate_and_has_both_latencies() {
    let Some(_alone) = need(NGINX) else { return };
    let (client, host) = Host::pair();
    let _server = plain_nginx(&host, "80 backlog=511");
    let result = load(&client, "-c 20 -d 3s --rate 1000 http://198.18.0.2/");
    let requests = number(&result.0["requests"]);
    // On a busy machine the last responses may be late.
    assert!((2_900..=3_000).contains(&requests), "{requests}");
    assert!(number(&result.0["unsent"]) <= 100, "{:#}", result.0);
    assert_eq!(number(&result.0["intended_latency_us"]["count"]), requests);
}

#[test]
fn ten_thousand_connections_at_once() {
    let Some(_alone) = need(NGINX) else { return };
    let (client, host) = Host::pair();
    host.set("net.core.somaxconn", "65535");
    let _server = nginx(
        &host,
        "worker_rlimit_nofile 15000;",
        "worker_connections 14000;",
        "server { listen 80 backlog=16384; return 200 ok; }",
    );
    host.wait_for_listener(80);
    let result = load(&client, "-c 10000 -n 60000 --timeout 30s --sample 0 http://198.18.0.2/");
    let document = &result.0;
    assert_eq!(
        (number(&document["requests"]), number(&document["connections_opened"])),
        (60_000, 10_000),
        "{document:#}"
    );
    // More than open files: rejected before anything is sent.
    let refused = output(&mut http(&client, "-c 900000 http://198.18.0.2/"));
    assert_eq!(refused.status.code(), Some(2));
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("open files, and the limit is"), "{words}");
}

#[test]
fn ipv6_unix_sockets_http2_and_files_of_urls() {
    let Some(_alone) = need(NGINX) else { return };
    let host = Host::new();
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().display();
    let http = format!(
        "access_log {at}/log combined;\n\
         server {{ listen 80; listen [::1]:80; listen unix:{at}/socket; return 200 plain; }}\n\
         server {{ listen 81 http2; location / {{ return 200 two; }} }}"
    );
    let _server = nginx(&host, "", "", &http);
    host.wait_for_listener(81);
    let urls = folder.path().join("urls");
    let text = "http://127.0.0.1/one\nHEAD http://127.0.0.1/two\nhttp://[::1]/three\n";
    std::fs::write(&urls, text).expect("a file");
    let histogram = folder.path().join("latency.hdr");
    for (arguments, request) in [
        ("-n 100 http://[::1]/v6".to_string(), "GET /v6 HTTP/1.1"),
        (format!("-n 100 --unix-socket {at}/socket http://any/unix"), "GET /unix HTTP/1.1"),
        ("-n 100 --http2 --pipeline 4 http://127.0.0.1:81/two".to_string(), "GET /two HTTP/2.0"),
        ("-n 100 -b hello -H X-A:1 http://127.0.0.1/".to_string(), "POST / HTTP/1.1"),
        (format!("-n 300 --urls-file {}", urls.display()), "HEAD /two HTTP/1.1"),
        (format!("-n 100 --hdr {} http://127.0.0.1/hdr", histogram.display()), "GET /hdr HTTP/1.1"),
    ] {
        let result = load(&host, &arguments);
        assert_eq!(result.0["statuses"][0]["status"], 200, "{arguments}: {:#}", result.0);
        let requests = number(&result.0["requests"]);
        assert!(requests == 100 || requests == 300, "{arguments}: {requests}");
        let text = std::fs::read_to_string(folder.path().join("log")).expect("the log");
        let lines = text.lines().filter(|line| line.contains(request)).count();
        // Connections take the URLs in turn: each URL gets a third, give or take one a connection.
        assert!((60..=140).contains(&lines), "{arguments}: {lines} lines with {request}");
    }
    let text = std::fs::read_to_string(&histogram).expect("a log of histograms");
    let entries = IntervalLogIterator::new(text.as_bytes());
    let histograms = entries.filter(|entry| matches!(entry, Ok(LogEntry::Interval(_))));
    assert_eq!(histograms.count(), 1, "{text}");
}

#[test]
fn errors_are_reported_and_every_load_ends() {
    let Some(_permit) = need_little(&["ip", "ss", "python3"]) else { return };
    let (client, host) = Host::pair();
    let run = |arguments: &str| {
        let begun = Instant::now();
        let output = output(&mut http(&client, arguments));
        assert!(begun.elapsed() < Duration::from_secs(20), "{arguments}");
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, text) = run("http://no-such-host.invalid/");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("cannot resolve no-such-host.invalid"), "{text}");
    let (code, text) = run("-n 20 http://198.18.0.2:81/");
    assert_eq!(code, Some(3), "{text}");
    assert_eq!(
        text,
        "netwhy: cannot connect to 198.18.0.2:81: Connection refused; nothing listens there, or a \
         firewall rejects it\n"
    );
    // One line soon, not a run of two minutes.
    for more in ["", "--http2", "--no-watch", "--rate 50"] {
        let (code, text) = run(&format!("-d 2m {more} http://198.18.0.2:81/"));
        assert_eq!(code, Some(3), "{text}");
        assert!(text.starts_with("netwhy: cannot connect to 198.18.0.2:81: "), "{more}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let (code, text) = run("-d 2m http://198.19.0.1/");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("198.19.0.1:80: Network is unreachable (see: ip route get)"), "{text}");
    // No reply to SYNs until the timeout.
    host.run("ip route add blackhole 198.18.0.1");
    let (code, text) = run("-c 2 -n 2 --timeout 2s http://198.18.0.2:82/");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("2 × timeout: not connected"), "{text}");
    assert!(text.contains("does not answer SYNs"), "{text}");
}

/// Servers that never pause: port 91 with chunks of one byte, after one that lets the receive buffer grow;
/// port 92 with interim responses; port 93 with those of HTTP/2.
const ENDLESS: &str = r"
import socket, threading
def serve(port):
    s = socket.create_server(('127.0.0.1', port))
    while True: threading.Thread(target=respond, args=(s.accept()[0], port), daemon=True).start()
def respond(c, port):
    try:
        if port == 93: c.sendall(bytes(3) + b'\4' + bytes(5))
        request = c.recv(65536)
        # With HTTP/2: HEADERS of stream 1.
        while port == 93 and b'\1\5\0\0\0\1' not in request: request += c.recv(65536)
        if port == 91:
            c.sendall(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n' % (100 << 20))
            for _ in range(100): c.sendall(bytes(1 << 20))
            c.sendall(b'\r\n')
            piece = b'1\r\nx\r\n' * 50000
        if port == 92: piece = b'HTTP/1.1 100 Continue\r\n\r\n' * 5000
        if port == 93: piece = b'\0\0\5\1\4\0\0\0\1\x08\x03100' * 5000
        while True: c.sendall(piece)
    except OSError: pass
for port in 92, 93: threading.Thread(target=serve, args=(port,), daemon=True).start()
serve(91)
";

#[test]
fn a_server_that_never_pauses_delays_no_timer() {
    let Some(_alone) = need(&["ip", "python3"]) else { return };
    let host = Host::new();
    let _server = host.python(ENDLESS);
    for port in [91, 92, 93] {
        host.wait_for_listener(port);
    }
    let load = |arguments: &str| {
        let mut command = http(&host, &format!("-c 2 --no-watch --json {arguments}"));
        command.stdout(std::process::Stdio::piped()).spawn().expect("netwhy")
    };
    let ended = |mut child: std::process::Child| {
        assert_eq!(ends_soon(&mut child), Some(3));
        let text = std::io::read_to_string(child.stdout.take().expect("its output"));
        let document: Value = serde_json::from_str(&text.expect("a report")).expect("JSON");
        document["errors"].clone()
    };
    let errors = ended(load("-d 1s --timeout 300ms http://127.0.0.1:91/"));
    assert!(number(&errors["timeout_response"]) >= 2, "{errors}");
    let endless = load("-d 10m --timeout 10m http://127.0.0.1:91/");
    wait_until("it handles signals", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", endless.id()));
        let status = status.expect("its state");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
        let sigint = 1 << (rustix::process::Signal::INT.as_raw() - 1);
        u64::from_str_radix(caught.trim(), 16).expect("a mask") & sigint != 0
    });
    // By now it most likely gets chunks of one byte.
    super::host::pause(1000);
    signal(endless.id(), rustix::process::Signal::INT);
    ended(endless);
    for arguments in ["http://127.0.0.1:92/", "--http2 http://127.0.0.1:93/"] {
        let errors = ended(load(&format!("-n 4 {arguments}")));
        let why = "more than 100 interim responses (1xx)";
        assert_eq!(errors["malformed"][why], 4, "{errors}");
    }
}

#[test]
fn the_first_signal_ends_whatever_waits() {
    let Some(_permit) = need_little(&["ip", "mkfifo", "python3", "unshare"]) else { return };
    let host = Host::new();
    // A shell's background job ignores SIGINT, and so do its children until they handle it.
    let end = rustix::process::Signal::TERM;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    // A name server that gets queries and is silent.
    std::fs::write(
        path("resolv.conf"),
        "nameserver 127.0.0.1
",
    )
    .expect("a file");
    let _server = host.python(&format!(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.bind(('127.0.0.1', 53))\nname = b'\\5ready'\nwhile True:\n \
         open('{}/' + name[1:1+name[0]].decode(), 'w')\n name = s.recv(999)[12:]",
        folder.path().display()
    ));
    wait_until("no name server", || path("ready").exists());
    let program = netwhy().get_program().to_string_lossy().into_owned();
    for command in ["http http://http/", "ping ping", "trace trace", "transfer transfer"] {
        let name = command.split(' ').next().unwrap_or_default();
        let line = format!(
            "mount --bind {} /etc/resolv.conf; exec {program} {command}.test",
            path("resolv.conf").display()
        )
        .replace("http/.test", "http.test/");
        let mut child = host.command("unshare -m sh -c").arg(line).spawn().expect("netwhy");
        wait_until("it asks for the name", || path(name).exists());
        signal(child.id(), end);
        ends_soon(&mut child);
    }
    // Pipes that have a writer, and nothing in them. Each option has a pipe of its own: what other tests start
    // meanwhile may hold the writer of one for a moment longer, and to the next reader that would be its end.
    for option in ["-b @", "--ca ", "--urls-file "] {
        let pipe = path(option.trim_matches(['-', ' ', '@']));
        run(Command::new("mkfifo").arg(&pipe));
        let line = format!("{option}{} https://127.0.0.1/", pipe.display());
        let mut child = http(&host, &line).spawn().expect("netwhy");
        let mut writer = None;
        wait_until("it opens the pipe", || {
            use rustix::fs::OFlags;
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            writer = rustix::fs::open(&pipe, flags, rustix::fs::Mode::empty()).ok();
            writer.is_some()
        });
        signal(child.id(), end);
        ends_soon(&mut child);
    }
}

/// Responses begin 30 ms after the request and end 50 ms later; plain on port 80, with TLS on 443.
const SLOW: &str = r#"
[[processes]]
name = "certificate"
host = "server"
run = """
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=slow -keyout FOLDER/key -out FOLDER/certificate
exec python3 -c '
import socket, ssl, threading, time
def serve(s):
    while True: threading.Thread(target=respond, args=(s.accept()[0],)).start()
def respond(c):
    try:
        if c.getsockname()[1] == 443: c = tls.wrap_socket(c, server_side=True)
        c.recv(65536); time.sleep(0.03)
        c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 10\\r\\n\\r\\nhello"); time.sleep(0.05)
        c.sendall(b"again"); c.close()
    except OSError: pass
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain("FOLDER/certificate", "FOLDER/key")
threading.Thread(target=serve, args=(socket.create_server(("", 80)),)).start()
serve(socket.create_server(("", 443)))
'
"""
ready = { listens = 443 }
"#;

#[test]
fn phases_are_those_of_curl() {
    let Some(_alone) = need(&["ip", "curl", "openssl", "python3"]) else { return };
    let far = Far::new(SLOW);
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://198.18.0.2/");
        let mut theirs: [Vec<f64>; 4] = Default::default();
        let form = "%{time_connect} %{time_appconnect} %{time_starttransfer} %{time_total}";
        for _ in 0..5 {
            let printed = far.run("client", &format!("curl -sk -o /dev/null -w '{form}' {url}"));
            let times: Vec<f64> = printed.split(' ').map(|one| one.parse().expect("s")).collect();
            let [connected, secured, begun, ended] = times[..] else { panic!("{printed}") };
            let ready = connected.max(secured);
            for (all, time) in
                theirs.iter_mut().zip([connected, ready - connected, begun - ready, ended - begun])
            {
                all.push(time * 1e3);
            }
        }
        let arguments = "http -k -c 1 -n 5 --new-connections --sample 0 --json";
        let printed = far.run("client", &format!("{} {arguments} {url}", far.program()));
        let document: Value = serde_json::from_str(&printed).expect("a report");
        assert_eq!(number(&document["requests"]), 5, "{document:#}");
        for (phase, mut theirs) in ["connect", "tls", "first_byte", "receive"].iter().zip(theirs) {
            theirs.sort_by(f64::total_cmp);
            let p50 = &document["phases_us"][phase]["p50"];
            let ours = p50.as_f64().unwrap_or(0.0) / 1e3;
            println!("{scheme} {phase}: netwhy {ours:.1} ms, curl {:.1} ms", theirs[2]);
            // On a busy machine both may be slow.
            assert!((ours - theirs[2]).abs() < 12.0, "{scheme} {phase}: {ours} and {theirs:?} ms");
        }
    }
}

#[test]
fn memory_does_not_grow_with_the_requests() {
    let Some(_alone) = need(NGINX) else { return };
    let host = Host::new();
    let _server = plain_nginx(&host, "80 backlog=511");
    let most = |requests: u32| {
        let arguments = format!("-c 50 -n {requests} -d 5m --sample 20000 http://127.0.0.1/");
        let mut child = http(&host, &arguments);
        let child = child.arg("--json").stdout(std::process::Stdio::piped());
        let mut child = child.spawn().expect("netwhy");
        let status = format!("/proc/{}/status", child.id());
        let mut text = String::new();
        let report = std::thread::spawn({
            let mut out = child.stdout.take().expect("standard output");
            move || std::io::read_to_string(&mut out).expect("a report")
        });
        while child.try_wait().expect("its state").is_none() {
            // Its end may be between two readings.
            text = std::fs::read_to_string(&status)
                .ok()
                .filter(|text| text.contains("VmHWM"))
                .unwrap_or(text);
            super::host::pause(20);
        }
        let document: Value =
            serde_json::from_str(&report.join().expect("a reader")).expect("JSON");
        assert_eq!(number(&document["requests"]), u64::from(requests), "{document:#}");
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a figure");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("kB")
    };
    let (few, many) = (most(30_000), most(300_000));
    println!("at most {few} kB for 30,000 requests, {many} kB for 300,000");
    assert!(many < few + 4096, "{few} kB, {many} kB");
}
