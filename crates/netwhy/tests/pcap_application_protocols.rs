//! Application protocols in a capture, compared with tshark and curl: HTTP/1 requests and statuses, TLS
//! server names and handshakes, DNS; with a real nginx in its own network namespace.

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

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use host::{Host, need, output, run};
use servers::{Server, nginx};
use tool::{netwhy, report, watch};
use tools::{Running, tshark};

/// An HTTP server that takes 300 ms to answer.
const SLOW: &str = "import http.server,time\nclass H(http.server.BaseHTTPRequestHandler):\n \
    protocol_version='HTTP/1.1'\n def do_GET(self):\n  time.sleep(.3)\n  self.send_response(200)\n  \
    self.send_header('Content-Length','0')\n  self.end_headers()\n \
    def log_message(self,*a): pass\n\
    http.server.ThreadingHTTPServer(('127.0.0.1',9000),H).serve_forever()";

/// A name server at 127.0.0.53, and one at 127.0.0.54 that never answers.
const NAMES: &str = "import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
    s.bind(('127.0.0.53',53))\nt=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
    t.bind(('127.0.0.54',53))\nl=socket.create_server(('127.0.0.53',53))\nwhile True:\n \
    q,who=s.recvfrom(512)\n s.sendto(q[:2]+b'\\x81\\x83'+q[4:],who)";
/// Sends each query to 127.0.0.54, and after 1.2 s to 127.0.0.53.
const ASKS: &str = "import socket,sys\nfor n in range(int(sys.argv[1])):\n \
    s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n s.settimeout(1.2)\n name=b'n%d'%n\n \
    for kind in (1,28):\n  for to in ('127.0.0.54','127.0.0.53'):\n   \
    q=bytes([n,kind])+b'\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0'+bytes([len(name)])+name+\\\n   \
    b'\\x07example\\0'+bytes([0,kind,0,1])\n   s.sendto(q,(to,53))\n   try: s.recv(512); break\n   \
    except OSError: pass";

fn web(host: &Host, folder: &Path) -> Server {
    let (key, certificate) = (folder.join("key"), folder.join("certificate"));
    run(Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=shop.example", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate));
    let http = format!(
        "server {{ listen 80; listen 443 ssl; ssl_protocols TLSv1.2 TLSv1.3;\n \
         ssl_certificate {}; ssl_certificate_key {};\n \
         location /gone {{ return 410; }} }}",
        certificate.display(),
        key.display()
    );
    let server = nginx(host, "worker_processes 1;", "", &http);
    for port in [80, 443] {
        host.wait_for_listener(port);
    }
    server
}

/// Captures on the loopback while this runs.
fn capture_during(host: &Host, path: PathBuf, run: impl FnOnce()) -> PathBuf {
    let mut command = netwhy();
    for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
        command.env_remove(name);
    }
    command.args(["capture", "--netns", &host.name, "-i", "lo", "-w"]).arg(&path);
    let running = Running::spawn(&mut command, "capturing on");
    run();
    host::pause(300);
    host::signal(running.id(), rustix::process::Signal::INT);
    let (code, printed) = running.wait();
    assert_eq!(code, Some(0), "{printed}");
    path
}

/// The rows of a table of a capture, by the names of the columns.
fn rows(path: &Path, table: &str) -> Vec<BTreeMap<String, String>> {
    let text = run(netwhy().arg("pcap").arg(path).args(["--csv", "-", "--table", table]));
    let mut lines = text.lines();
    let names: Vec<String> = lines.next().expect("names").split(',').map(Into::into).collect();
    // No cell of these captures has a comma.
    let row = |line: &str| names.iter().cloned().zip(line.split(',').map(Into::into)).collect();
    lines.map(row).collect()
}

/// The fields of the packets that a tshark filter selects, sorted lines.
fn fields(path: &Path, filter: &str, names: &[&str]) -> Vec<String> {
    // tshark may expect another protocol on a client's port.
    let mut arguments =
        vec!["-d", "tcp.port==9000,http", "-Y", filter, "-T", "fields", "-E", "separator= "];
    arguments.extend(names.iter().flat_map(|name| ["-e", name]));
    let mut lines: Vec<String> = tshark(path, &arguments).lines().map(Into::into).collect();
    lines.sort();
    lines
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[test]
fn http_requests_and_statuses_are_those_of_tshark() {
    let Some(_alone) = need(&["ip", "ss", "nginx", "curl", "openssl", "tshark", "python3"]) else {
        return;
    };
    let (host, folder) = (Host::new(), tempfile::tempdir().expect("a folder"));
    let _web = web(&host, folder.path());
    let _slow = host.python(SLOW);
    host.wait_for_listener(9000);
    let path = capture_during(&host, folder.path().join("http.pcapng"), || {
        // The first connection has several exchanges.
        let at = "http://127.0.0.1";
        host.run(&format!(
            "curl -s -o /dev/null {at}/ -o /dev/null {at}/gone?why=1 -o /dev/null {at}/missing \
             -o /dev/null {at}/index.html"
        ));
        host.run(&format!("curl -s -I {at}/index.html"));
        host.run(&format!("curl -s -o /dev/null -d a=b {at}/gone"));
        for number in 0..4 {
            let url = format!("http://127.0.0.1:9000/report/{number}?a={number}");
            host.run(&format!("curl -s -o /dev/null {url} -o /dev/null http://127.0.0.1:9000/all"));
        }
    });
    let exchanges = rows(&path, "exchanges");
    let columns = |names: [&str; 3]| {
        let lines = exchanges.iter().map(|row| names.map(|name| row[name].clone()).join(" "));
        sorted(lines.collect())
    };
    let requests = columns(["stream", "http_method", "http_target"]);
    let wanted =
        fields(&path, "http.request", &["tcp.stream", "http.request.method", "http.request.uri"]);
    assert_eq!(requests, wanted);
    assert_eq!(wanted.len(), 14);
    let lines = exchanges.iter().map(|row| format!("{} {}", row["stream"], row["http_status"]));
    let wanted = fields(&path, "http.response", &["tcp.stream", "http.response.code"]);
    assert_eq!(sorted(lines.collect()), wanted);

    let report = report(&output(netwhy().args(["pcap", "--json"]).arg(&path)));
    let finding = report.only("server-think-time");
    assert_eq!(finding.local(), "127.0.0.1:9000");
    finding.says("\nGET /all: 4 ");
    finding.says("\nGET /report/");
    let service = |port: u16| {
        let all = report.0["packets"]["services"].as_array().expect("services");
        let server = format!("127.0.0.1:{port}");
        all.iter().find(|one| one["server"] == *server).expect("the service").clone()
    };
    let statuses = |port| service(port)["statuses"].clone();
    assert_eq!(
        statuses(80),
        serde_json::json!([
            {"status": 200, "count": 3}, {"status": 404, "count": 1}, {"status": 410, "count": 2}
        ])
    );
    assert_eq!(statuses(9000), serde_json::json!([{"status": 200, "count": 8}]));
    assert_eq!(service(80).get("slow_requests"), None, "nginx answers immediately");
    let text = run(netwhy().arg("pcap").arg(&path).args(["--stream", "port 9000"]));
    assert!(text.contains("GET /report/") && text.contains("HTTP: status 200 (2 times)"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn tls_names_and_handshakes_are_those_of_tshark_and_curl() {
    let Some(_alone) = need(&["ip", "ss", "nginx", "curl", "openssl", "tshark"]) else { return };
    let (host, folder) = (Host::new(), tempfile::tempdir().expect("a folder"));
    let _web = web(&host, folder.path());
    let mut handshakes_us = Vec::new();
    let path = capture_during(&host, folder.path().join("tls.pcapng"), || {
        let times = "-w %{time_connect},%{time_appconnect}";
        for words in ["--tlsv1.3", "--tls-max 1.2", "--tlsv1.3"] {
            let url = "https://shop.example/ --resolve shop.example:443:127.0.0.1";
            let text = host.run(&format!("curl -s -k -o /dev/null {times} {words} {url}"));
            let (connected, ready) = text.split_once(',').expect("two times");
            let us = |text: &str| text.parse::<f64>().expect("seconds") * 1e6;
            handshakes_us.push(us(ready) - us(connected));
        }
        // This client does not trust the certificate and ends the handshake.
        let refused =
            "curl -s -o /dev/null https://other.example/ --resolve other.example:443:127.0.0.1";
        assert!(!output(&mut host.command(refused)).status.success());
    });
    let streams = rows(&path, "streams");
    let lines = streams.iter().map(|row| format!("{} {}", row["stream"], row["tls_server_name"]));
    let names = ["tcp.stream", "tls.handshake.extensions_server_name"];
    let wanted = fields(&path, "tls.handshake.type==1", &names);
    assert_eq!(sorted(lines.collect()), wanted);
    assert_eq!(wanted.len(), 4);
    for (number, curl_us) in handshakes_us.into_iter().enumerate() {
        let us: f64 = streams[number]["tls_handshake_us"].parse().expect("a time");
        // curl includes creating its keys before the ClientHello, and verifying the certificate.
        let is_plausible = us <= curl_us + 1_000.0 && us >= curl_us / 5.0;
        assert!(is_plausible, "stream {number}: {us} us, curl {curl_us} us");
    }
    // In TLS 1.3 the client's alert is encrypted, so the outcome of the handshake is not known.
    assert_eq!(streams[3]["tls_server_name"], "other.example");
    let text = run(netwhy().arg("pcap").arg(&path).args(["--stream", "0"]));
    assert!(text.contains("TLS to shop.example: handshake "), "{text}");
}

#[test]
fn unanswered_dns_queries_are_those_of_tshark() {
    let Some(_alone) = need(&["ip", "ss", "tshark", "python3"]) else { return };
    let (host, folder) = (Host::new(), tempfile::tempdir().expect("a folder"));
    let _names = host.python(NAMES);
    host.wait_for_listener(53);
    let (asks, two) = (folder.path().join("asks.py"), folder.path().join("names.pcapng"));
    std::fs::write(&asks, ASKS).expect("a program");
    let path = capture_during(&host, two, || {
        host.run(&format!("python3 {} 2", asks.display()));
    });
    let report = report(&output(netwhy().args(["pcap", "--json"]).arg(&path)));
    let finding = report.only("dns-slow");
    assert_eq!(finding.remote(), "127.0.0.54:53");
    finding.says("4 of 4 queries not answered");
    finding.says(".example");
    let all = report.0["packets"]["resolvers"].as_array().expect("name servers");
    let sum = |name: &str| all.iter().map(|one| one[name].as_u64().expect("a number")).sum::<u64>();
    let count = |filter: &str| fields(&path, filter, &["frame.number"]).len() as u64;
    assert_eq!(sum("queries"), count("dns.flags.response==0"));
    assert_eq!(sum("answers"), count("dns.flags.response==1"));
    let answered = count("dns.response_to");
    assert_eq!(sum("unanswered"), sum("queries") - answered);
    let lost = sum("lost_us");
    assert!((4_800_000..6_500_000).contains(&lost), "four times 1.2 s: {lost}");

    // Live, with all other observers.
    let _client = host.start(&format!("python3 {} 9", asks.display()));
    let live = watch(&host, "5s", &["--capture"]);
    assert_eq!(live.only("dns-slow").remote(), "127.0.0.54:53");
    let other = watch(&host, "3s", &["--capture", "--port", "80"]);
    other.is_healthy("DNS is not in this focus");
}
