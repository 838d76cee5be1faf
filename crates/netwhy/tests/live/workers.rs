//! Workers and upstreams: php-fpm behind nginx, with each of its faults.

use super::host::{Host, need, pause};
use super::servers::{fastcgi, nginx, php, php_fpm};
use super::tool::watch;

const PROGRAMS: &[&str] = &["ip", "ss", "nginx", "wrk", "curl"];
const FEW: &str = "pm = static\npm.max_children = 5\nlisten.backlog = 511";
const SLOTS: &str = "worker_connections 4096;";

#[test]
fn no_local_port_is_left_towards_the_upstream() {
    let Some(_alone) = need(PROGRAMS) else { return };
    let Some(program) = php_fpm() else { return };
    let host = Host::new();
    host.set("net.core.somaxconn", "4096");
    host.set("net.ipv4.ip_local_port_range", "40000 40049");
    // More workers than ports, and requests that last: the ports run out first.
    let pool = "pm = static\npm.max_children = 80\nlisten.backlog = 4096";
    let php = php(&host, &program, "127.0.0.1:9000", pool, 50);
    host.wait_for_listener(9000);
    let script = php.folder.path().join("index.php");
    let http = fastcgi("127.0.0.1:9000", &script, "");
    let _nginx = nginx(&host, "worker_processes 1;", SLOTS, &http);
    host.wait_for_listener(80);
    // Clients of their own address, so that only the upstream's ports run out.
    let client = Host::new();
    client.wire(&host, "198.18.0.1/24", "198.18.0.2/24");
    let _load = client.start("wrk -c 100 -t 1 -d 8 http://198.18.0.2/");
    pause(300);
    let report = watch(&host, "5s", &[]);
    let finding = report.only("ephemeral-ports-exhausted");
    finding.is_of("nginx");
    assert_eq!(finding.remote(), "127.0.0.1:9000");
    finding.says("of 50 in use to 127.0.0.1:9000");
    finding.says("Cannot assign requested address");
    assert!(finding.amount() > 10.0, "{:#}", finding.0);
}

#[test]
fn a_pool_without_a_free_worker_is_named_with_the_share_of_failures() {
    let Some(_alone) = need(PROGRAMS) else { return };
    let Some(program) = php_fpm() else { return };
    let host = Host::new();
    host.set("net.core.somaxconn", "4096");
    let php = php(&host, &program, "127.0.0.1:9000", FEW, 200);
    host.wait_for_listener(9000);
    let script = php.folder.path().join("index.php");
    let http = fastcgi("127.0.0.1:9000", &script, "fastcgi_read_timeout 1s;");
    let _nginx = nginx(&host, "worker_processes 1;", SLOTS, &http);
    host.wait_for_listener(80);
    let _load = host.start("wrk -c 60 -t 1 -d 9 --timeout 5s http://127.0.0.1/");
    let _leavers = host.start_shell(
        "for i in 1 2 3 4 5 6; do (for j in 1 2 3 4 5 6 7 8 9 10 11 12; do curl -s -o /dev/null -m 0.5 http://127.0.0.1/; done) & done; wait",
    );
    pause(500);
    let report = watch(&host, "5s", &[]);
    let finding = report.only("worker-pool-exhausted");
    finding.says("5 workers, pm.max_children is 5");
    finding.says("504: ");
    finding.says("499: ");
    assert!(finding.0["impact"]["share"].as_f64().expect("share") > 0.1, "{:#}", finding.0);
    assert_eq!(finding.0["subject"]["name"], "php-fpm pool www");
    assert_eq!(finding.processes().len(), 5);
}

#[test]
fn a_pool_on_a_unix_socket_is_seen_too() {
    let Some(_alone) = need(PROGRAMS) else { return };
    let Some(program) = php_fpm() else { return };
    let host = Host::new();
    let php = php(&host, &program, "FOLDER/fpm.sock", FEW, 200);
    let socket = php.folder.path().join("fpm.sock");
    super::host::wait_until("php-fpm made no socket", || socket.exists());
    let script = php.folder.path().join("index.php");
    let upstream = format!("unix:{}", socket.display());
    let http = fastcgi(&upstream, &script, "fastcgi_read_timeout 1s;");
    let _nginx = nginx(&host, "worker_processes 1;", SLOTS, &http);
    host.wait_for_listener(80);
    let _load = host.start("wrk -c 60 -t 1 -d 8 --timeout 5s http://127.0.0.1/");
    pause(500);
    let report = watch(&host, "5s", &[]);
    let finding = report.only("worker-pool-exhausted");
    finding.says("fpm.sock");
    finding.says("504: ");
}

#[test]
fn a_process_without_files_is_named() {
    let Some(_alone) = need(PROGRAMS) else { return };
    let host = Host::new();
    host.set("net.core.somaxconn", "4096");
    let main = "worker_processes 1;\nworker_rlimit_nofile 64;";
    let http = "server { listen 80 backlog=4096; location / { return 200 x; } }";
    let _nginx = nginx(&host, main, SLOTS, http);
    host.wait_for_listener(80);
    let _load = host.start("wrk -c 300 -t 1 -d 8 http://127.0.0.1/");
    pause(500);
    let report = watch(&host, "4s", &[]);
    let finding = report.only("fd-exhausted");
    finding.is_of("nginx");
    finding.says("of 64 files open");
}

#[test]
fn two_causes_at_once_are_both_named() {
    let Some(_alone) = need(PROGRAMS) else { return };
    let Some(program) = php_fpm() else { return };
    let host = Host::new();
    host.set("net.core.somaxconn", "4096");
    let php = php(&host, &program, "127.0.0.1:9000", FEW, 200);
    host.wait_for_listener(9000);
    let script = php.folder.path().join("index.php");
    let http = fastcgi("127.0.0.1:9000", &script, "fastcgi_read_timeout 1s;");
    let _nginx = nginx(&host, "worker_processes 1;", SLOTS, &http);
    host.wait_for_listener(80);
    let _silent = host.python(super::connections::SILENT_READER);
    host.wait_for_listener(7000);
    let _writer = host.python(&super::connections::writer("127.0.0.1"));
    let _load = host.start("wrk -c 60 -t 1 -d 8 --timeout 5s http://127.0.0.1/");
    pause(500);
    let report = watch(&host, "5s", &[]);
    let mut causes = report.causes();
    causes.sort();
    assert_eq!(causes, ["receiver-stalled", "worker-pool-exhausted"], "{:#}", report.0);
}
