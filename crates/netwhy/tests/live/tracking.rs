//! Connection tracking: a limit that is one for the whole machine.

use std::fs::File;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::FlockOperation;
use test_support::{Reason, skip};

use super::host::{Host, need, pause};
use super::servers::plain_nginx;
use super::tool::watch;

const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
/// Held while the limit is changed, by whatever test on this machine.
const LOCK: &str = "/run/netwhy/conntrack.lock";
/// The limit as it was: a test that is killed leaves it behind for the next one.
const BEFORE: &str = "/run/netwhy/conntrack.before";

/// The limit changed, and put back however the test ends.
struct Limit {
    _lock: File,
    before: String,
}

impl Limit {
    fn set(value: &str) -> Self {
        let folder = Path::new(LOCK).parent().expect("a folder");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).expect("a folder");
        let lock = File::create(LOCK).expect("a lock");
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).expect("the lock");
        let before = std::fs::read_to_string(BEFORE)
            .or_else(|_| std::fs::read_to_string(MAX))
            .expect("the limit");
        std::fs::write(BEFORE, &before).expect("to remember the limit");
        let limit = Limit { _lock: lock, before };
        std::fs::write(MAX, value).expect("to set the limit");
        limit
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        if std::fs::write(MAX, self.before.trim()).is_ok() {
            let _ = std::fs::remove_file(BEFORE);
        }
    }
}

#[test]
fn a_full_table_on_a_gateway_is_named_with_source_and_states() {
    let Some(_alone) = need(&["ip", "ss", "nginx", "ab", "iptables", "sysctl"]) else {
        return;
    };
    if !Path::new(MAX).exists() {
        skip(&Reason::Kernel("has no connection tracking (modprobe nf_conntrack)".to_string()));
        return;
    }
    let (client, router, server) = (Host::new(), Host::new(), Host::new());
    client.wire(&router, "198.18.1.2/24", "198.18.1.1/24");
    router.wire(&server, "198.18.2.1/24", "198.18.2.2/24");
    client.run("ip route add default via 198.18.1.1");
    server.run("ip route add default via 198.18.2.1");
    router.set("net.ipv4.ip_forward", "1");
    server.set("net.core.somaxconn", "4096");
    router.run(
        "iptables -t nat -A PREROUTING -p tcp --dport 8080 -j DNAT --to-destination 198.18.2.2:80",
    );
    let _server = plain_nginx(&server, "80 backlog=4096");
    let limit = Limit::set("1000");
    let load = client.start("ab -q -c 500 -n 200000 -t 7 -r -s 2 http://198.18.1.1:8080/");
    pause(500);
    let report = watch(&router, "5s", &[]);
    drop((load, limit));
    let finding = report.only("conntrack-table-full");
    finding.says("198.18.1.2");
    finding.says("TIME_WAIT");
    finding.says("of 1,000 entries");
    assert!(finding.amount() > 0.0);
    assert_eq!(finding.0["severity"], "critical");
    let now = std::fs::read_to_string(MAX).expect("the limit");
    assert_ne!(now.trim(), "1000", "the limit was put back");
}
