//! Faults of connections: readers that stop, sockets that are never closed, SYNs that are lost.

use super::host::{Host, need, need_little, pause};
use super::tool::watch;

const PROGRAMS: &[&str] = &["ip", "ss", "python3", "iptables"];

/// Accepts on port 7000 and reads nothing after the first bytes.
pub(crate) const SILENT_READER: &str = "import socket,time\ns=socket.socket()\n\
    s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\ns.bind(('0.0.0.0',7000))\ns.listen(8)\n\
    a,_=s.accept()\na.recv(1000)\ntime.sleep(30)";

/// Writes to port 7000 for as long as it can.
pub(crate) fn writer(to: &str) -> String {
    format!(
        "import socket,time\ns=socket.socket()\ns.connect(('{to}',7000))\ns.settimeout(30)\n\
         try:\n while True: s.send(b'x'*65536)\nexcept Exception: pass\ntime.sleep(30)"
    )
}

#[test]
fn a_reader_that_stops_is_named_when_both_ends_are_here() {
    let Some(_permit) = need_little(PROGRAMS) else { return };
    let host = Host::new();
    let reader = host.python(SILENT_READER);
    host.wait_for_listener(7000);
    let _writer = host.python(&writer("127.0.0.1"));
    pause(1000);
    let report = watch(&host, "4s", &[]);
    let finding = report.only("receiver-stalled");
    assert_eq!(finding.0["subject"]["processes"][0]["pid"], reader.id());
    assert_eq!(finding.local(), "127.0.0.1:7000");
    assert_eq!(finding.amount(), 1.0);
    // The focus keeps it, or leaves it out.
    let port = watch(&host, "2s", &["--port", "7000"]);
    port.only("receiver-stalled");
    watch(&host, "2s", &["--port", "7001"]).is_healthy("another port");
}

#[test]
fn a_remote_reader_is_named_from_the_sender_and_from_its_own_host() {
    let Some(_permit) = need_little(PROGRAMS) else { return };
    let (here, there) = Host::pair();
    let _reader = there.python(SILENT_READER);
    there.wait_for_listener(7000);
    let _writer = here.python(&writer("198.18.0.2"));
    pause(1000);
    let report = watch(&here, "4s", &[]);
    let finding = report.only("receiver-stalled");
    assert_eq!(finding.0["subject"]["name"], "the reader at 198.18.0.2:7000");
    assert_eq!(finding.remote(), "198.18.0.2:7000");
    let report = watch(&there, "3s", &[]);
    let finding = report.only("receiver-stalled");
    finding.is_of("python3");
    assert_eq!(finding.local(), "198.18.0.2:7000");
}

#[test]
fn sockets_that_are_never_closed_are_a_leak() {
    let Some(_permit) = need_little(PROGRAMS) else { return };
    let host = Host::new();
    let server = host.python(
        "import socket\ns=socket.socket()\ns.bind(('127.0.0.1',7000))\ns.listen(64)\nk=[]\n\
         while True: k.append(s.accept())",
    );
    host.wait_for_listener(7000);
    let _clients = host.python(
        "import socket,time\nfor i in range(300):\n s=socket.create_connection(('127.0.0.1',7000))\n \
         s.send(b'x')\n s.close()\n time.sleep(0.03)",
    );
    pause(500);
    let report = watch(&host, "4s", &[]);
    let finding = report.only("close-wait-leak");
    assert_eq!(finding.0["subject"]["processes"][0]["pid"], server.id());
    finding.says("most on local port 7000");
    assert!(finding.amount() > 20.0);
}

#[test]
fn syns_that_are_dropped_on_the_way_are_named_with_destination_and_process() {
    let Some(_permit) = need_little(PROGRAMS) else { return };
    let (here, there) = Host::pair();
    there.run("iptables -A INPUT -p tcp --dport 7000 --syn -j DROP");
    let _server = there.python(SILENT_READER);
    there.wait_for_listener(7000);
    let client = here.python(
        "import socket,time\nc=[]\nfor i in range(20):\n s=socket.socket()\n s.setblocking(False)\n \
         s.connect_ex(('198.18.0.2',7000))\n c.append(s)\ntime.sleep(20)",
    );
    let report = watch(&here, "4s", &[]);
    let finding = report.only("syn-retransmitted");
    assert_eq!(finding.remote(), "198.18.0.2:7000");
    assert_eq!(finding.0["subject"]["processes"][0]["pid"], client.id());
    assert_eq!(finding.amount(), 20.0);
}

#[test]
fn time_wait_above_its_limit_is_named() {
    let Some(_alone) = need(&["ip", "ss", "nginx", "ab"]) else {
        return;
    };
    let host = Host::new();
    host.set("net.core.somaxconn", "4096");
    host.set("net.ipv4.tcp_max_tw_buckets", "200");
    let _server = super::servers::plain_nginx(&host, "80 backlog=4096");
    let _load = host.start("ab -q -c 20 -n 60000 -t 6 http://127.0.0.1/");
    pause(300);
    let report = watch(&host, "3s", &[]);
    let finding = report.only("time-wait-overflow");
    finding.says("tcp_max_tw_buckets is 200");
    assert!(finding.amount() > 100.0);
}

/// Responses of 600 and 700 bytes, on a port above that of the client: only sockets show which end
/// listens, and that a segment of 700 bytes is a small one.
#[test]
fn small_writes_on_connections_that_were_open_before_are_named_at_both_ends() {
    let Some(_permit) = need_little(PROGRAMS) else { return };
    let (here, there) = Host::pair();
    let _server = there.python(
        "import socket,threading\ns=socket.socket()\ns.bind(('0.0.0.0',61000))\ns.listen(8)\n\
         def serve(c):\n while c.recv(4096):\n  c.send(b'h'*600)\n  c.send(b'b'*700)\n\
         while True: threading.Thread(target=serve,args=(s.accept()[0],)).start()",
    );
    there.wait_for_listener(61000);
    let _client = here.python(
        "import socket,time\ns=socket.create_connection(('198.18.0.2',61000))\n\
         while True:\n s.send(b'q'*80)\n n=0\n while n<1300: n+=len(s.recv(4096))\n time.sleep(0.005)",
    );
    // The first acknowledgements of a connection are not delayed.
    pause(1500);
    for host in [&here, &there] {
        let report = watch(host, "2s", &["--capture"]);
        let finding = report.finding("delayed-ack-nagle");
        assert_eq!(finding.local(), "198.18.0.2:61000");
        let name = finding.0["subject"]["name"].as_str().expect("a name");
        assert!(name.starts_with("198.18.0.2:61000 (sender)"), "{name}");
        let stream = &report.0["packets"]["worst"][0];
        assert_eq!(stream["roles_known"], false, "no handshake was captured");
        assert_eq!(stream["server"], "198.18.0.2:61000");
        assert!(stream["from_server"]["window_scale"].is_u64(), "{stream}");
    }
}
