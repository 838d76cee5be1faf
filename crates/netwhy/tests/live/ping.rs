//! `netwhy ping`: what each protocol finds, and how far its times are from those of a capture.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::far::Lab;
use super::host::{Host, ends_soon, need, need_little, output, pause, signal};
use super::tool::netwhy;

/// Pings in a namespace: exit code, standard output, standard error.
fn ping(host: &Host, more: &[&str]) -> (i32, String, String) {
    let mut command = netwhy();
    command.args(["ping", "--netns", &host.name]).args(more);
    let done = output(&mut command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
}

/// The JSON of each target.
fn pings(host: &Host, more: &[&str]) -> Vec<Value> {
    let (_, printed, errors) = ping(host, &[&["--json"], more].concat());
    let value: Value = serde_json::from_str(&printed).unwrap_or_else(|e| panic!("{e}: {errors}"));
    value["pings"].as_array().expect("pings").clone()
}

/// Two namespaces, connected by IPv4 and IPv6.
fn pair() -> (Host, Host) {
    let (a, b) = Host::pair();
    for (host, address) in [(&a, "fd00:18::1/64"), (&b, "fd00:18::2/64")] {
        let link = host.run("ip -o -4 addr show");
        let name = link
            .lines()
            .find_map(|line| line.contains("198.18.0.").then(|| line.split_whitespace().nth(1)));
        let name = name.flatten().expect("an interface").to_string();
        host.run(&format!("ip addr add {address} dev {name} nodad"));
    }
    (a, b)
}

#[test]
fn each_protocol_gets_its_replies() {
    let Some(_alone) = need(&["ip", "python3"]) else {
        return;
    };
    let (a, b) = pair();
    let _server = b.python(
        "import socket\ns = socket.create_server(('::', 80), family=socket.AF_INET6, \
         dualstack_ipv6=True)\nwhile True: s.accept()[0].close()",
    );
    let _echo = b.python(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 7))\n\
         while True: s.sendto(*s.recvfrom(2048))",
    );
    b.wait_for_listener(80);
    let five = ["-c", "5", "-i", "20ms"];
    for (more, target, kind) in [
        (&[][..], "198.18.0.2", "echo-reply"),
        (&[], "fd00:18::2", "echo-reply"),
        (&[], "198.18.0.2:80", "syn-ack"),
        (&[], "[fd00:18::2]:80", "syn-ack"),
        (&[], "198.18.0.2:81", "reset"),
        (&["--udp"], "198.18.0.2", "port-unreachable"),
        (&["--udp"], "198.18.0.2:7", "datagram"),
        (&["--udp", "--source", "198.18.0.1"], "198.18.0.2:7", "datagram"),
        (&["-s", "1472", "--df"], "198.18.0.2", "echo-reply"),
    ] {
        let found = &pings(&a, &[&five, more, &[target]].concat())[0];
        let counts = ["sent", "received", "lost", "duplicates"].map(|name| found[name].as_u64());
        assert_eq!(counts, [Some(5), Some(5), Some(0), Some(0)], "{target}: {found:#}");
        assert_eq!(found["replies"][0]["kind"], kind, "{target}: {found:#}");
        // The kernel may start to time-stamp a moment later.
        let stamped = found["clock"]["kernel_timed"].as_u64();
        assert!(stamped >= Some(4), "{target}: {found:#}");
        let most = found["round_trip"]["max_ms"].as_f64().expect("a round trip");
        assert!(most > 0.0 && most < 20.0, "{target}: {found:#}");
    }
    // Several at once; the results are in the order of the targets.
    let found = pings(&a, &[&five[..], &["198.18.0.2", "198.18.0.2:80"]].concat());
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|one| one["received"] == 5), "{found:#?}");
    // As text: a line for each packet, then the summary.
    let (code, text, _) = ping(&a, &["-c", "2", "-i", "20ms", "198.18.0.2"]);
    assert_eq!(code, 0);
    assert!(text.starts_with("64 B from 198.18.0.2: seq 1, ttl 64, "), "{text}");
    assert!(text.contains("2 sent, 2 received, 0 % lost"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn losses_icmp_errors_and_unusable_targets_are_reported() {
    let Some(_permit) = need_little(&["ip", "iptables"]) else {
        return;
    };
    let (a, b) = pair();
    a.run("ip route add 198.18.7.0/24 via 198.18.0.2");
    b.run("ip route add unreachable 198.18.7.0/24");
    b.run("sysctl -qw net.ipv4.ip_forward=1");
    let found = &pings(&a, &["-c", "1", "198.18.7.1"])[0];
    assert_eq!((&found["received"], &found["lost"]), (&0.into(), &1.into()));
    assert_eq!(found["replies"][0]["kind"], "host-unreachable", "{found:#}");
    assert_eq!(found["replies"][0]["from"], "198.18.0.2", "{found:#}");
    b.run("iptables -A INPUT -p tcp --dport 90 -j DROP");
    let begun = std::time::Instant::now();
    let (code, text, _) = ping(&a, &["-c", "2", "-i", "50ms", "-W", "200ms", "198.18.0.2:90"]);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("no reply: seq 2") && text.contains("100 % lost"), "{text}");
    for (more, code, words) in [
        (&["no-such-host.invalid"][..], 3, "cannot resolve no-such-host.invalid"),
        (&["198.19.0.1"], 3, "no route"),
        (&["--source", "198.18.0.99", "198.18.0.2"], 3, "cannot send from 198.18.0.99"),
        (&["--source", "fd00:18::1", "-4", "198.18.0.2"], 2, "cannot be the source"),
        (&["--interface", "nothing0", "198.18.0.2"], 3, "nothing0"),
        (&["-i", "1ms", "198.18.0.2"], 2, "needs --count or --for"),
        (&["-s", "70000", "-c", "1", "198.18.0.2"], 2, "at most 65000"),
    ] {
        let (is, _, errors) = ping(&a, more);
        assert_eq!(is, code, "{more:?}: {errors}");
        assert!(errors.contains(words), "{more:?}: {errors}");
    }
    // Larger than the interface's MTU, and dropped by this host: an error of sending, not a loss.
    let found = &pings(&a, &["-c", "1", "--df", "-s", "1473", "198.18.0.2"])[0];
    assert_eq!((&found["send_errors"], &found["sent"]), (&1.into(), &0.into()), "{found:#}");
    a.run("iptables -A OUTPUT -p icmp -j DROP");
    let found = &pings(&a, &["-c", "1", "198.18.0.2"])[0];
    let why = found["last_send_error"].as_str().unwrap_or_default();
    assert!(why.contains("firewall of this host"), "{found:#}");
}

#[test]
fn packets_are_printed_as_they_come_until_their_reader_goes_away() {
    let Some(_permit) = need_little(&["ip"]) else { return };
    let host = Host::new();
    let (_, text, _) = ping(&host, &["-c", "2", "-i", "20ms", "--json-lines", "127.0.0.1"]);
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["reply", "reply", "summary"], "{text}");
    assert_eq!((&lines[0]["sequence"], &lines[0]["kind"]), (&1.into(), &"echo-reply".into()));
    assert!(lines[0]["round_trip_ms"].as_f64() > Some(0.0), "{text}");
    assert_eq!(lines[2]["pings"][0]["received"], 2, "{text}");
    let times: Vec<i64> = lines.iter().filter_map(|line| line["time_unix_us"].as_i64()).collect();
    assert!(times.len() == 3 && times.is_sorted(), "{text}");
    let (_, text, _) =
        ping(&host, &["-c", "1", "--json-lines", "--df", "-s", "65000", "127.0.0.1"]);
    assert!(text.starts_with("{\"type\":\"reply\""), "{text}");
    host.run("ip link set lo mtu 1400");
    let (_, text, _) = ping(&host, &["-c", "1", "--json-lines", "--df", "-s", "1400", "127.0.0.1"]);
    assert!(text.starts_with("{\"type\":\"not-sent\""), "{text}");
    assert!(text.contains("\"mtu\":{\"mtu\":1400,\"from\":null}"), "{text}");
    for more in [&[][..], &["--json-lines"]] {
        let mut command = netwhy();
        command.args(["ping", "--netns", &host.name, "-i", "200ms", "127.0.0.1"]).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("netwhy");
        let mut line = String::new();
        let mut reader = BufReader::new(child.stdout.take().expect("standard output"));
        reader.read_line(&mut line).expect("a line");
        assert!(line.contains("127.0.0.1"), "{line}");
        drop(reader);
        assert_eq!(ends_soon(&mut child), Some(0), "{more:?}");
    }
}

#[test]
fn losses_duplicates_and_late_replies_are_counted() {
    let Some(_permit) = need_little(&["ip", "nft", "python3"]) else {
        return;
    };
    let (a, b) = pair();
    let add = |rule: &str| {
        let done = b.command("nft").arg(rule).status().expect("nft");
        assert!(done.success(), "{rule}");
    };
    add("add table ip loss");
    add("add chain ip loss coming { type filter hook input priority 0; }");
    add("add rule ip loss coming numgen inc mod 4 0 drop");
    for more in [&["198.18.0.2"][..], &["198.18.0.2:81"]] {
        let all = [&["-c", "40", "-i", "5ms", "-W", "300ms"], more].concat();
        let found = &pings(&a, &all)[0];
        assert_eq!((&found["sent"], &found["lost"]), (&40.into(), &10.into()), "{found:#}");
    }
    // An echo server that replies twice.
    b.run("nft delete table ip loss");
    let _echo = b.python(
        "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.bind(('', 7))\nwhile True:\n m, w = s.recvfrom(2048)\n s.sendto(m, w)\n \
         s.sendto(m, w)\n",
    );
    pause(500);
    let found = &pings(&a, &["--udp", "-c", "5", "-i", "50ms", "198.18.0.2:7"])[0];
    // netwhy may have ended before the second reply to the last packet.
    assert!(found["duplicates"].as_u64() >= Some(4), "{found:#}");
    assert_eq!((&found["received"], &found["lost"]), (&5.into(), &0.into()), "{found:#}");
    let _late = b.python(
        "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.bind(('', 8))\nwhile True:\n m, w = s.recvfrom(2048)\n time.sleep(0.2)\n \
         s.sendto(m, w)\n",
    );
    pause(500);
    let all = ["--udp", "-c", "3", "-i", "500ms", "-W", "100ms", "198.18.0.2:8"];
    let found = &pings(&a, &all)[0];
    assert_eq!((&found["received"], &found["lost"]), (&0.into(), &3.into()), "{found:#}");
    assert!(found["late"].as_u64() >= Some(2), "{found:#}");
}

#[test]
fn a_flood_keeps_its_rate_and_ctrl_c_ends_with_a_summary() {
    let Some(_alone) = need(&["ip"]) else {
        return;
    };
    let (a, _b) = pair();
    let found = &pings(&a, &["--flood=500", "--for", "1s", "198.18.0.2"])[0];
    let sent = found["sent"].as_u64().expect("sent");
    assert!((250..=505).contains(&sent), "{found:#}");
    // Without replies: 100 a second.
    let found = &pings(&a, &["--flood", "--for", "1s", "-W", "100ms", "198.18.0.77"])[0];
    let tried = found["sent"].as_u64().unwrap_or(0) + found["send_errors"].as_u64().unwrap_or(0);
    assert!((50..=110).contains(&tried), "{found:#}");
    let mut endless = netwhy();
    endless.args(["ping", "--netns", &a.name, "-i", "50ms", "--for", "1h", "198.18.0.2"]);
    let child = endless.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netwhy");
    pause(700);
    signal(child.id(), rustix::process::Signal::INT);
    let done = child.wait_with_output().expect("its output");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(done.status.code(), Some(0), "{text}");
    assert!(text.contains("198.18.0.2: ICMP echo") && text.contains("0 % lost"), "{text}");
}

#[test]
fn without_rights_tcp_connects_and_udp_works() {
    let Some(_alone) = need(&["ip", "setpriv"]) else {
        return;
    };
    let (a, _b) = pair();
    let copy = std::path::Path::new("/tmp").join(format!("netwhy-ping-{}", std::process::id()));
    std::fs::copy(netwhy().get_program(), &copy).expect("a copy");
    let nobody = |more: &[&str]| {
        let line = format!(
            "setpriv --reuid=65534 --regid=65534 --clear-groups {} ping -c 2 -i 200ms",
            copy.display()
        );
        let done = output(a.command(&line).args(more));
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
    };
    let text = nobody(&["198.18.0.2:80"]);
    assert!(text.contains("SYNs alone need CAP_NET_RAW") && text.contains("0 % lost"), "{text}");
    let text = nobody(&["--udp", "198.18.0.2"]);
    assert!(text.contains("2 × port unreachable from 198.18.0.2"), "{text}");
    a.set("net.ipv4.ping_group_range", "1 0");
    let text = nobody(&["198.18.0.2"]);
    assert!(text.contains("CAP_NET_RAW") && text.contains("ping_group_range"), "{text}");
    a.set("net.ipv4.ping_group_range", "0 65534");
    let text = nobody(&["198.18.0.2", "fd00:18::2"]);
    assert_eq!(text.matches("0 % lost").count(), 2, "{text}");
    std::fs::remove_file(&copy).expect("to remove the copy");
}

/// When each SYN of a capture was sent, seconds, and its round-trip time, microseconds.
fn captured(text: &str) -> Vec<(f64, f64)> {
    let mut sent: HashMap<(String, u64), f64> = HashMap::new();
    let mut all = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [at, _, from, _, to, ..] = words[..] else { continue };
        let Ok(at) = at.parse::<f64>() else { continue };
        let after = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.trim_end_matches(',').parse::<u64>().ok()
        };
        match (after("seq"), after("ack")) {
            (Some(number), None) => {
                sent.insert((from.to_string(), number + 1), at);
            }
            (_, Some(number)) => {
                let key = (to.trim_end_matches(':').to_string(), number);
                all.extend(sent.remove(&key).map(|left| (left, (at - left) * 1e6)));
            }
            _ => {}
        }
    }
    all
}

/// Round-trip times of SYNs compared with those of a capture in the same namespace; printed with
/// --nocapture.
#[test]
fn times_are_those_of_a_capture() {
    let Some(_alone) = need(&["ip", "tcpdump", "hping3"]) else {
        return;
    };
    let (a, _b) = pair();
    let capture = |run: &mut dyn FnMut() -> Vec<f64>| -> (Vec<f64>, Vec<f64>) {
        let mut tcpdump = a.command("tcpdump -i any -n -S -tt --immediate-mode -l tcp port 80");
        let tcpdump = tcpdump.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let tcpdump = tcpdump.expect("tcpdump");
        pause(1000);
        let reported = run();
        pause(500);
        signal(tcpdump.id(), rustix::process::Signal::INT);
        let text = tcpdump.wait_with_output().expect("its output").stdout;
        // "at interface Out IP from.port > to.port: …": the interface is left out.
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().map(|line| {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            if words.len() > 2 {
                words.drain(1..3);
            }
            words.join(" ")
        });
        let lines: Vec<String> = lines.collect();
        let mut all = captured(&lines.join("\n"));
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        (reported, all.into_iter().map(|(_, trip)| trip).collect())
    };
    let count = "200";
    let ours = capture(&mut || {
        let (code, text, errors) = ping(&a, &["-c", count, "-i", "5ms", "198.18.0.2:80"]);
        assert_eq!(code, 0, "{errors}");
        let trip = |line: &str| line.rsplit_once(", ")?.1.strip_suffix(" ms")?.parse().ok();
        text.lines()
            .filter(|line| line.contains(": seq "))
            .filter_map(trip)
            .map(|ms: f64| ms * 1e3)
            .collect()
    });
    let theirs = capture(&mut || {
        let line = format!("hping3 -S -p 80 -c {count} -i u5000 198.18.0.2");
        let done = output(&mut a.command(&line));
        let trip = |line: &str| line.rsplit_once("rtt=")?.1.split(' ').next()?.parse().ok();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        text.lines().filter_map(trip).map(|ms: f64| ms * 1e3).collect()
    });
    let errors = |(reported, captured): &(Vec<f64>, Vec<f64>)| {
        assert_eq!((reported.len(), captured.len()), (200, 200));
        let mut all: Vec<f64> = reported.iter().zip(captured).map(|(a, b)| (a - b).abs()).collect();
        all.sort_by(f64::total_cmp);
        (all[100], all[198])
    };
    let (own, hping) = (errors(&ours), errors(&theirs));
    eprintln!(
        "error of round-trip times of SYNs against a capture, µs: netwhy p50 {:.1}, p99 {:.1}; \
         hping3 p50 {:.1}, p99 {:.1}",
        own.0, own.1, hping.0, hping.1
    );
    assert!(own.0 < 50.0, "{own:?}");
}

/// In the network of a lab scenario, which has a server and a slow link.
#[test]
fn a_limited_link_in_the_middle_is_found() {
    let Some(_alone) = need(&["ip", "nginx"]) else {
        return;
    };
    // Without the load of the scenario: the ping makes its own.
    let lab = Lab::new(Path::new("middle-link-limited"), "inner");
    let addresses = lab.run("server", "ip -o -4 addr");
    let server = addresses.split_whitespace().find(|word| word.starts_with("198.18."));
    let server = server.and_then(|word| word.split('/').next()).expect("an address").to_string();
    let vantage_point = |host: &str| format!("netns:{}", lab.pid(host));
    let mut command = netwhy();
    command.args(["ping", "--json", "--for", "3s", &server]);
    command.args([
        "--under-load",
        &format!("http://{server}/big"),
        "--from",
        &vantage_point("loader1"),
    ]);
    command.args(["--ping-from", &vantage_point("inner"), "--ping-from", &vantage_point("outer")]);
    let done = output(&mut command);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let value: Value = serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&done.stderr)));
    let verdict = &value["under_load"]["verdict"];
    assert_eq!(verdict["link"], "middle", "{:#}", value["under_load"]);
    assert_eq!(verdict["behind"], serde_json::json!([0, 1]), "{verdict:#}");
    assert_eq!(value["findings"][0]["cause"], "middle-link-limited", "{value:#}");
    let rate = verdict["wire_bits_per_s"].as_f64().expect("a rate");
    eprintln!("limited link: 40 Mbit/s; found {:.2} Mbit/s", rate / 1e6);
    assert!((rate / 40e6 - 1.0).abs() < 0.05, "{rate}");
}
