//! `netwhy trace`: a chain of routers, compared with traceroute; changed headers; the path MTU.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use super::host::{Host, ends_soon, need, need_little, output};
use super::tool::netwhy;

/// Hosts in a chain: the first traces, the last is the target, those between are routers.
struct Chain(Vec<Host>);

impl Chain {
    /// 198.18.K.1 and .2, fd00:K::1 and ::2 are the ends of link K, from 1.
    fn new(hosts: usize) -> Self {
        let all: Vec<Host> = (0..hosts).map(|_| Host::new()).collect();
        for host in &all {
            host.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
            // New addresses are usable at once.
            host.run("sysctl -qw net.ipv6.conf.default.accept_dad=0");
            // Linux routers send six ICMP errors, then one a second; a test needs more.
            host.run("sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0");
        }
        for (index, pair) in all.windows(2).enumerate() {
            let [left, right] = pair else { continue };
            let link = index + 1;
            left.run(&format!("ip link add right type veth peer name left netns {}", right.name));
            for (host, name, end) in [(left, "right", 1), (right, "left", 2)] {
                // A link that has just come up loses neighbour solicitations, and IPv6 retries after a
                // second: neighbours are permanent from the start.
                host.run(&format!("ip link set {name} address 02:00:00:00:{link:02x}:{end:02x}"));
                host.run(&format!("ip addr add 198.18.{link}.{end}/24 dev {name}"));
                host.run(&format!("ip addr add fd00:{link}::{end}/64 dev {name} nodad"));
                host.run(&format!("ip link set {name} up"));
                let other = 3 - end;
                for neighbour in [format!("198.18.{link}.{other}"), format!("fd00:{link}::{other}")]
                {
                    host.run(&format!(
                        "ip neigh add {neighbour} lladdr 02:00:00:00:{link:02x}:{other:02x} \
                         dev {name} nud permanent"
                    ));
                }
            }
        }
        let links = hosts - 1;
        for (index, host) in all.iter().enumerate() {
            for link in 1..=links {
                // The links of a host need no route; all others are in one of two directions.
                let via = if link > index + 1 {
                    (index + 1, 2)
                } else if link < index {
                    (index, 1)
                } else {
                    continue;
                };
                host.run(&format!(
                    "ip route add 198.18.{link}.0/24 via 198.18.{}.{}",
                    via.0, via.1
                ));
                host.run(&format!("ip route add fd00:{link}::/64 via fd00:{}::{}", via.0, via.1));
            }
        }
        Chain(all)
    }

    fn trace(&self, more: &[&str]) -> (i32, String, String) {
        let mut command = netwhy();
        command.args(["trace", "--netns", &self.0[0].name]).args(more);
        let done = output(&mut command);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
    }

    fn route(&self, more: &[&str]) -> Value {
        let (_, text, errors) = self.trace(&[&["--json", "-n"], more].concat());
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {errors}"));
        value["route"].clone()
    }
}

/// Text without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The most frequent router of each hop.
fn hops(route: &Value) -> Vec<String> {
    let hops = route["hops"].as_array().expect("hops");
    let router = |hop: &Value| hop["routers"][0]["address"].as_str().unwrap_or("*").to_string();
    hops.iter().map(router).collect()
}

#[test]
fn hops_are_those_of_traceroute() {
    let Some(_alone) = need(&["ip", "traceroute", "python3"]) else {
        return;
    };
    let chain = Chain::new(5);
    let _server = chain.0[4].python(
        "import socket\ns = socket.create_server(('', 80))\nwhile True: s.accept()[0].close()",
    );
    chain.0[4].wait_for_listener(80);
    let theirs = chain.0[0].run("traceroute -n -q 3 198.18.4.2");
    let line = |line: &str| -> Option<(String, f64)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((words.get(1)?.to_string(), words.get(2)?.parse().ok()?))
    };
    let theirs: Vec<(String, f64)> = theirs.lines().skip(1).filter_map(line).collect();
    let expected: Vec<String> = theirs.iter().map(|(router, _)| router.clone()).collect();
    assert_eq!(expected, ["198.18.1.2", "198.18.2.2", "198.18.3.2", "198.18.4.2"]);
    for (more, target) in [
        (&[][..], "198.18.4.2"),
        (&["--icmp"], "198.18.4.2"),
        (&[], "198.18.4.2:80"),
        (&[], "198.18.4.2:81"),
    ] {
        let begun = std::time::Instant::now();
        let route = chain.route(&[more, &[target]].concat());
        assert!(begun.elapsed().as_millis() < 3000, "{:?}", begun.elapsed());
        assert_eq!(hops(&route), expected, "{target} {more:?}");
        assert_eq!(route["reached"], true);
        assert_eq!(route["one_flow"], true);
        for (hop, theirs) in route["hops"].as_array().expect("hops").iter().zip(&theirs) {
            assert_eq!((&hop["sent"], &hop["received"]), (&3.into(), &3.into()), "{hop:#}");
            let ours = hop["round_trip"]["p50_ms"].as_f64().expect("a round trip");
            // On a busy machine either may be slow.
            assert!((ours - theirs.1).abs() < 20.0, "{ours} and {theirs:?}");
        }
    }
    for more in [&["fd00:4::2"][..], &["--icmp", "fd00:4::2"], &["[fd00:4::2]:81"]] {
        let route = chain.route(more);
        assert_eq!(hops(&route), ["fd00:1::2", "fd00:2::2", "fd00:3::2", "fd00:4::2"], "{more:?}");
    }
    // As text, within 80 columns.
    let (code, text, _) = chain.trace(&["-n", "198.18.4.2"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("\n  4  198.18.4.2  "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_silent_hop_is_no_loss_where_later_hops_reply() {
    let Some(_permit) = need_little(&["ip", "iptables"]) else {
        return;
    };
    let chain = Chain::new(5);
    // The first packets are lost, as during neighbour discovery: the hops are probed again.
    chain.0[1].run(
        "iptables -t mangle -A PREROUTING -p udp -m ttl --ttl-lt 3 -m quota --quota 360 -j DROP",
    );
    let route = chain.route(&["198.18.4.2"]);
    assert_eq!(hops(&route), ["198.18.1.2", "198.18.2.2", "198.18.3.2", "198.18.4.2"], "{route:#}");
    for hop in route["hops"].as_array().expect("hops") {
        assert_eq!(
            (&hop["sent"], &hop["completed"], &hop["received"]),
            (&3.into(), &3.into(), &3.into())
        );
    }
    chain.0[2].run("iptables -A OUTPUT -p icmp --icmp-type time-exceeded -j DROP");
    let (code, text, _) = chain.trace(&["-n", "-W", "500ms", "198.18.4.2"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("\n  2  * * *\n"), "{text}");
    assert!(words(&text).contains("no packet is lost there"), "{text}");
    let route = chain.route(&["--watch=500ms", "-c", "4", "198.18.4.2"]);
    let limited: Vec<bool> = route["hops"]
        .as_array()
        .expect("hops")
        .iter()
        .map(|h| h["rate_limits_replies"] == true)
        .collect();
    assert_eq!(limited, [false, true, false, false], "{route:#}");
    assert_eq!(route["hops"][3]["sent"], 4, "{route:#}");
    // A target that does not reply, and one behind a filter that reports it.
    chain.0[4].run("iptables -A INPUT -j DROP");
    let begun = std::time::Instant::now();
    let (code, text, _) = chain.trace(&["-n", "198.18.4.2"]);
    assert!(begun.elapsed().as_millis() < 6000, "{:?}", begun.elapsed());
    assert_eq!(code, 1, "{text}");
    assert!(words(&text).contains("the last hop that did is 3, 198.18.3.2"), "{text}");
    chain.0[3].run("iptables -A FORWARD -j REJECT --reject-with icmp-admin-prohibited");
    let (code, text, _) = chain.trace(&["-n", "198.18.4.2"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains(" !X") && text.contains("prohibited by a filter"), "{text}");
    for (more, words) in [
        (&["no-such-host.invalid"][..], "cannot resolve no-such-host.invalid"),
        (&["198.19.0.1"], "no route"),
        (&["--source", "198.18.0.99", "198.18.4.2"], "cannot send from"),
    ] {
        let (code, _, errors) = chain.trace(more);
        assert_eq!(code, 3, "{more:?}: {errors}");
        assert!(errors.contains(words), "{more:?}: {errors}");
    }
}

#[test]
fn branches_of_a_path_are_not_mixed() {
    let Some(_alone) = need(&["ip"]) else {
        return;
    };
    // The first router balances flows over two others, by their ports.
    let chain = Chain::new(4);
    let other = Host::new();
    let [_, first, _, last] = chain.0.as_slice() else { panic!("four hosts") };
    other.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv4.icmp_ratelimit=0");
    first.run("sysctl -qw net.ipv4.fib_multipath_hash_policy=1");
    for (host, end, link) in [(first, 1, 8), (last, 1, 9)] {
        host.run(&format!("ip link add branch type veth peer name w{link} netns {}", other.name));
        host.run(&format!("ip addr add 198.18.{link}.{end}/24 dev branch"));
        other.run(&format!("ip addr add 198.18.{link}.2/24 dev w{link}"));
        host.run("ip link set branch up");
        other.run(&format!("ip link set w{link} up"));
    }
    other.run("ip route add 198.18.1.0/24 via 198.18.8.1");
    other.run("ip route add 198.18.3.0/24 via 198.18.9.1");
    last.run("ip route add 198.18.8.0/24 via 198.18.9.2");
    chain.0[0].run("ip route add 198.18.8.0/24 via 198.18.1.2");
    chain.0[0].run("ip route add 198.18.9.0/24 via 198.18.1.2");
    first.run("ip route add 198.18.9.0/24 via 198.18.8.2");
    first.run("ip route replace 198.18.3.0/24 nexthop via 198.18.2.2 nexthop via 198.18.8.2");
    for name in ["all", "default", "branch", "left"] {
        let _ = output(&mut last.command(&format!("sysctl -qw net.ipv4.conf.{name}.rp_filter=0")));
    }
    for more in [&[][..], &["--tcp"]] {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..16 {
            let route = chain.route(&[more, &["-q", "6", "-W", "500ms", "198.18.3.2"]].concat());
            let hop = &route["hops"][1];
            assert_eq!(hop["routers"].as_array().map(Vec::len), Some(1), "{route:#}");
            assert_eq!(hop["received"], 6, "{hop:#}");
            seen.insert(hops(&route)[1].clone());
        }
        // Each flow takes one branch; different flows take either.
        assert_eq!(seen.len(), 2, "{more:?}: {seen:?}");
    }
}

#[test]
fn changed_headers_and_small_mtus_are_located() {
    let Some(_alone) = need(&["ip", "nft", "iptables"]) else {
        return;
    };
    let chain = Chain::new(5);
    let router = &chain.0[2];
    let change = |rule: &str| {
        router.command("nft add table ip change").status().expect("nft");
        let status = router.command("nft").arg(format!("add {rule}")).status().expect("nft");
        assert!(status.success(), "{rule}");
    };
    change("chain ip change passing { type filter hook forward priority 0; }");
    change("rule ip change passing ip dscp set cs3");
    let route = chain.route(&["--tos", "0x10", "198.18.4.2"]);
    assert_eq!(route["hops"][1]["changes"].as_array().map(Vec::len), Some(0), "{route:#}");
    let words = route["hops"][2]["changes"][0].as_str().expect("a change");
    assert_eq!(words, "type of service changed from 0x10 to 0x60");
    router.run("nft delete table ip change");
    // A stateless NAT: routers after it quote what they received.
    chain.0[1].run("ip route add 198.18.77.0/24 via 198.18.2.2");
    chain.0[0].run("ip route add 198.18.77.0/24 via 198.18.1.2");
    change("chain ip change coming { type filter hook prerouting priority -300; }");
    change("rule ip change coming ip daddr 198.18.77.7 notrack ip daddr set 198.18.4.2");
    for more in [&[][..], &["--icmp"], &["--tcp"]] {
        let route = chain.route(&[more, &["-W", "500ms", "198.18.77.7"]].concat());
        let words = route["hops"][2]["changes"].to_string();
        assert!(words.contains("NAT: destination 198.18.77.7 changed to 198.18.4.2"), "{route:#}");
    }
    router.run("nft delete table ip change");
    // The link after hop 2 has a smaller MTU.
    router.run("ip link set right mtu 1400");
    chain.0[3].run("ip link set left mtu 1400");
    for more in [&["198.18.4.2"][..], &["--icmp", "198.18.4.2"], &["198.18.4.2:81"], &["fd00:4::2"]]
    {
        let route = chain.route(&[&["--mtu"], more].concat());
        let mtus: Vec<u64> = route["hops"]
            .as_array()
            .expect("hops")
            .iter()
            .filter_map(|h| h["mtu"].as_u64())
            .collect();
        assert_eq!(mtus, [1500, 1500, 1400, 1400], "{more:?} {route:#}");
        assert_eq!(route["path_mtu"], 1400, "{more:?}");
        assert!(route["notes"][0].as_str().is_some_and(|note| note.contains("hop 2")), "{route:#}");
    }
    // ping names the router and the MTU, by ICMP, and by the kernel's error queue for UDP.
    for (more, from) in [
        (&["198.18.4.2"][..], "198.18.2.2"),
        (&["--udp", "198.18.4.2"], "198.18.2.2"),
        (&["198.18.4.2:81"], "198.18.2.2"),
        (&["fd00:4::2"], "fd00:2::2"),
    ] {
        let ping = |with: &[&str]| {
            let mut command = netwhy();
            command.args(["ping", "--netns", &chain.0[0].name, "-c", "2", "-i", "50ms", "--df"]);
            let done = output(command.args(["-s", "1400"]).args(with).args(more));
            String::from_utf8_lossy(&done.stdout).into_owned()
        };
        let document: Value = serde_json::from_str(&ping(&["--json"])).expect("JSON");
        let mtu = &document["pings"][0]["mtu"];
        assert_eq!((&mtu["mtu"], &mtu["from"]), (&1400.into(), &from.into()), "{document:#}");
        let text = self::words(&ping(&[]));
        assert!(text.contains(&format!("from {from}: seq 1, MTU 1400 B")), "{text}");
        let summary = format!("MTU 1400 B: {from} reports it for its next link; -s ");
        assert!(text.contains(&summary), "{text}");
    }
    // And no router reports it.
    router.run("iptables -A OUTPUT -p icmp --icmp-type fragmentation-needed -j DROP");
    let route = chain.route(&["--mtu", "-W", "300ms", "198.18.4.2"]);
    assert_eq!(route["path_mtu"], 1400, "{route:#}");
    assert!(route["notes"].to_string().contains("black hole"), "{route:#}");
}

#[test]
fn rounds_are_printed_as_they_come_until_their_reader_goes_away() {
    let Some(_permit) = need_little(&["ip"]) else { return };
    let host = Host::new();
    let watch = ["trace", "--netns", &host.name, "-n", "--watch=200ms", "127.0.0.1"];
    let done = output(netwhy().args(watch).args(["-c", "2", "--json-lines"]));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["round", "round", "summary"], "{text}");
    assert_eq!(lines[1]["route"]["hops"][0]["sent"], 2, "{text}");
    assert_eq!(lines[2]["route"]["reached"], true, "{text}");
    for more in [&[][..], &["--json-lines"]] {
        let mut command = netwhy();
        let child = command.args(watch).args(more).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("netwhy");
        let mut line = String::new();
        let mut reader = BufReader::new(child.stdout.take().expect("standard output"));
        reader.read_line(&mut line).expect("a line");
        assert!(!line.is_empty());
        drop(reader);
        assert_eq!(ends_soon(&mut child), Some(0), "{more:?}");
    }
}

#[test]
fn without_rights_udp_traces_the_route() {
    let Some(_alone) = need(&["ip", "setpriv"]) else {
        return;
    };
    let chain = Chain::new(4);
    let copy = std::path::Path::new("/tmp").join(format!("netwhy-trace-{}", std::process::id()));
    std::fs::copy(netwhy().get_program(), &copy).expect("a copy");
    let nobody = |more: &[&str]| {
        let line = format!(
            "setpriv --reuid=65534 --regid=65534 --clear-groups {} trace -n",
            copy.display()
        );
        let done = output(chain.0[0].command(&line).args(more));
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
    };
    let text = nobody(&["198.18.3.2"]);
    assert!(text.contains("a flow for each packet"), "{text}");
    for hop in ["  1  198.18.1.2  ", "  2  198.18.2.2  ", "  3  198.18.3.2  "] {
        assert!(text.contains(hop), "{text}");
    }
    let text = nobody(&["fd00:3::2"]);
    for hop in ["  1  fd00:1::2  ", "  2  fd00:2::2  ", "  3  fd00:3::2  "] {
        assert!(text.contains(hop), "{text}");
    }
    let text = nobody(&["198.18.3.2:80"]);
    assert!(text.contains("CAP_NET_RAW") && text.contains("--udp"), "{text}");
    std::fs::remove_file(&copy).expect("to remove the copy");
}
