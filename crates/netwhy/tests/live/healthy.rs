//! Healthy hosts at full load: not one finding.

use super::host::{Host, need, need_little, pause};
use super::servers::{NGINX, fastcgi, nginx, php, php_fpm, plain_nginx};
use super::tool::watch;

const WINDOW: &str = "4s";

fn nginx_host() -> (Host, Host) {
    let (client, host) = Host::pair();
    host.set("net.core.somaxconn", "4096");
    (client, host)
}

#[test]
fn nginx_on_loopback_with_kept_connections() {
    let Some(_alone) = need(NGINX) else { return };
    let (_, host) = nginx_host();
    let _server = plain_nginx(&host, "80 backlog=4096");
    let _load = host.start("wrk -c 200 -t 2 -d 7 http://127.0.0.1/");
    pause(200);
    let report = watch(&host, WINDOW, &[]);
    report.is_healthy("nginx on loopback");
    // What only packets show needs a capture; all else is decided.
    let undecided = report.0["undecided"].as_array().expect("a list");
    let packets = serde_json::json!(["packets"]);
    assert!(undecided.iter().all(|one| one["sources"] == packets), "{:#}", report.0);
    let ruled_out = report.0["ruled_out"].as_array().expect("a list");
    let not_checked = report.0["not_checked"].as_array().expect("a list");
    // All but those that only captures of both ends show, or probes.
    let others = [model::Observation::Path, model::Observation::Probe];
    let of_host = |cause: &&diagnose::Cause| {
        let mut sources = cause.needs.iter().copied().flatten();
        sources.all(|source| !others.contains(&source.observation()))
    };
    let all = diagnose::causes::TABLE.iter().filter(of_host).count();
    assert_eq!(ruled_out.len() + undecided.len() + not_checked.len(), all);
}

#[test]
fn nginx_between_namespaces_seen_from_both_ends() {
    let Some(_alone) = need(NGINX) else { return };
    let (client, host) = nginx_host();
    let _server = plain_nginx(&host, "80 backlog=4096");
    let _load = client.start("wrk -c 400 -t 2 -d 10 http://198.18.0.2/");
    pause(200);
    watch(&host, WINDOW, &[]).is_healthy("the server");
    watch(&client, WINDOW, &[]).is_healthy("the client");
}

#[test]
fn nginx_with_a_new_connection_for_each_request() {
    let Some(_alone) = need(&["ip", "ss", "nginx", "ab"]) else {
        return;
    };
    let (client, host) = nginx_host();
    let _server = plain_nginx(&host, "80 backlog=4096");
    // Fewer than the ports of the client, so that none runs out.
    let _load = client.start("ab -q -c 50 -n 25000 -t 8 http://198.18.0.2/");
    pause(200);
    watch(&host, WINDOW, &[]).is_healthy("the server, many TIME_WAIT within limits");
    watch(&client, "2s", &[]).is_healthy("the client");
}

#[test]
fn many_short_connections_on_loopback_where_ports_are_used_again() {
    let Some(_alone) = need(&["ip", "ss", "nginx", "ab"]) else {
        return;
    };
    let (_, host) = nginx_host();
    let _server = plain_nginx(&host, "80 backlog=4096");
    let _load = host.start("ab -q -c 20 -n 200000 -t 7 http://127.0.0.1/");
    pause(1500);
    watch(&host, WINDOW, &[]).is_healthy("short connections on loopback");
}

#[test]
fn php_fpm_within_its_limits() {
    let Some(_alone) = need(NGINX) else { return };
    let Some(program) = php_fpm() else { return };
    let (_, host) = nginx_host();
    let pool = "pm = static\npm.max_children = 30\nlisten.backlog = 511";
    let php = php(&host, &program, "127.0.0.1:9000", pool, 5);
    host.wait_for_listener(9000);
    let script = php.folder.path().join("index.php");
    let http = fastcgi("127.0.0.1:9000", &script, "");
    let _nginx = nginx(&host, "worker_processes 2;", "worker_connections 4096;", &http);
    host.wait_for_listener(80);
    let _load = host.start("wrk -c 20 -t 1 -d 7 http://127.0.0.1/");
    pause(300);
    watch(&host, WINDOW, &[]).is_healthy("php-fpm within its limits");
}

fn iperf(server: &Host, client: &Host, to: &str, more: &str, what: &str) {
    let _server = server.start("iperf3 -s -1");
    server.wait_for_listener(5201);
    let _load = client.start(&format!("iperf3 -c {to} -t 8 {more}"));
    pause(500);
    watch(server, WINDOW, &[]).is_healthy(what);
    watch(client, "2s", &[]).is_healthy(what);
}

#[test]
fn bulk_on_loopback() {
    let Some(_alone) = need(&["ip", "ss", "iperf3"]) else {
        return;
    };
    let host = Host::new();
    iperf(&host, &host, "127.0.0.1", "", "iperf3 on loopback");
}

#[test]
fn bulk_between_namespaces() {
    let Some(_alone) = need(&["ip", "ss", "iperf3"]) else {
        return;
    };
    let (client, host) = Host::pair();
    iperf(&host, &client, "198.18.0.2", "", "iperf3 between namespaces");
}

#[test]
fn bulk_back_from_the_server() {
    let Some(_alone) = need(&["ip", "ss", "iperf3"]) else {
        return;
    };
    let (client, host) = Host::pair();
    iperf(&host, &client, "198.18.0.2", "-R", "iperf3, reverse");
}

#[test]
fn bulk_in_eight_streams() {
    let Some(_alone) = need(&["ip", "ss", "iperf3"]) else {
        return;
    };
    let (client, host) = Host::pair();
    iperf(&host, &client, "198.18.0.2", "-P 8", "iperf3, 8 streams");
}

#[test]
fn five_thousand_idle_connections() {
    let Some(_permit) = need_little(&["ip", "ss", "python3"]) else {
        return;
    };
    let host = Host::new();
    let _server = host.python(
        "import socket,time,resource\nresource.setrlimit(resource.RLIMIT_NOFILE,(6000,6000))\n\
         s=socket.socket()\ns.bind(('127.0.0.1',7000))\ns.listen(512)\nk=[]\n\
         while True: k.append(s.accept())",
    );
    host.wait_for_listener(7000);
    let _clients = host.python(
        "import socket,time,resource\nresource.setrlimit(resource.RLIMIT_NOFILE,(6000,6000))\n\
         k=[socket.create_connection(('127.0.0.1',7000)) for i in range(5000)]\n\
         [s.send(b'some bytes that wait') for s in k]\ntime.sleep(20)",
    );
    pause(3000);
    watch(&host, WINDOW, &[]).is_healthy("5,000 idle connections with unread bytes");
}

#[test]
fn a_pool_of_long_lived_connections() {
    let Some(_permit) = need_little(&["ip", "ss", "python3"]) else {
        return;
    };
    let host = Host::new();
    // As many connections as there are ports: the pool is full, and nobody asks for more.
    host.set("net.ipv4.ip_local_port_range", "40000 40039");
    let _server = host.python(
        "import socket\ns=socket.socket()\ns.bind(('127.0.0.1',7000))\ns.listen(64)\nk=[]\n\
         while True: k.append(s.accept())",
    );
    host.wait_for_listener(7000);
    let _pool = host.python(
        "import socket,time\n\
         k=[socket.create_connection(('127.0.0.1',7000)) for i in range(40)]\ntime.sleep(20)",
    );
    pause(500);
    watch(&host, WINDOW, &[]).is_healthy("a pool as large as the range of ports");
}
