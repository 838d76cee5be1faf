//! Queues of listeners: accept, half open.

use super::host::{Host, need, pause};
use super::servers::{NGINX, plain_nginx};
use super::tool::watch;

#[test]
fn a_short_backlog_overflows_and_a_long_one_does_not() {
    let Some(_alone) = need(NGINX) else { return };
    let host = Host::new();
    host.set("net.core.somaxconn", "4096");
    let server = plain_nginx(&host, "80 backlog=10");
    let load = host.start("wrk -c 1000 -t 2 -d 8 http://127.0.0.1/");
    pause(100);
    let report = watch(&host, "5s", &[]);
    let finding = report.only("accept-queue-overflow");
    assert_eq!(finding.local(), "0.0.0.0:80");
    finding.is_of("nginx");
    finding.says("backlog 10, given to listen()");
    finding.says("nginx.conf:");
    assert!(finding.amount() > 100.0, "{:#}", finding.0);
    drop((load, server));

    let server = plain_nginx(&host, "80 backlog=4096");
    let load = host.start("wrk -c 1000 -t 2 -d 6 http://127.0.0.1/");
    pause(100);
    watch(&host, "4s", &[]).is_healthy("backlog and somaxconn raised");
    drop((load, server));
}

#[test]
fn somaxconn_is_the_limit_when_it_is_the_smaller_one() {
    let Some(_alone) = need(NGINX) else { return };
    let host = Host::new();
    host.set("net.core.somaxconn", "8");
    let _server = plain_nginx(&host, "80 backlog=4096");
    let _load = host.start("wrk -c 1000 -t 2 -d 6 http://127.0.0.1/");
    pause(100);
    let report = watch(&host, "4s", &[]);
    let finding = report.only("accept-queue-overflow");
    finding.says("somaxconn 8 is the limit");
    let sysctl = finding.0["remedies"].as_array().expect("remedies").iter().any(|remedy| {
        remedy["change"]["name"] == "net.core.somaxconn" && remedy["reaches"] == "after-listen"
    });
    assert!(sysctl, "{:#}", finding.0["remedies"]);
}

#[test]
fn a_stopped_process_is_reported_as_stopped() {
    let Some(_alone) = need(&["ip", "ss", "python3"]) else {
        return;
    };
    let host = Host::new();
    let server = host.python(
        "import socket,time\ns=socket.socket()\ns.bind(('127.0.0.1',8080))\ns.listen(4)\n\
         while True: s.accept()",
    );
    host.wait_for_listener(8080);
    super::host::signal(server.id(), rustix::process::Signal::STOP);
    let _clients = host.python(
        "import socket,time\nc=[]\nfor i in range(40):\n s=socket.socket()\n \
         s.setblocking(False)\n s.connect_ex(('127.0.0.1',8080))\n c.append(s)\n \
         time.sleep(0.05)\ntime.sleep(8)",
    );
    let report = watch(&host, "4s", &[]);
    super::host::signal(server.id(), rustix::process::Signal::CONT);
    let finding = report.only("accept-queue-overflow");
    finding.is_of("python3");
    finding.says("is stopped (state T)");
    // Its clients, who repeat their SYN, are an effect and no finding of their own.
    let effects = finding.0["also_causes"].as_array().expect("also_causes");
    assert!(effects.iter().any(|e| e["cause"] == "syn-retransmitted"), "{:#}", finding.0);
}

#[test]
fn forged_syns_fill_the_half_open_queue() {
    let Some(_alone) = need(&["ip", "ss", "nginx", "python3"]) else {
        return;
    };
    let (client, host) = Host::pair();
    host.set("net.core.somaxconn", "128");
    // Answers to forged addresses go nowhere: the handshakes stay half open.
    host.run("ip route add 198.18.64.0/18 dev lo");
    host.set("net.ipv4.conf.all.rp_filter", "0");
    let _server = plain_nginx(&host, "80 backlog=128");
    let flood = client.python(
        "import socket,struct,random,time\n\
         s=socket.socket(socket.AF_INET,socket.SOCK_RAW,socket.IPPROTO_RAW)\n\
         def total(b):\n t=sum(struct.unpack('!%dH'%(len(b)//2),b))\n \
         t=(t>>16)+(t&0xffff)\n return ~(t+(t>>16))&0xffff\n\
         d=socket.inet_aton('198.18.0.2')\n\
         for i in range(12000):\n \
         a=socket.inet_aton('198.18.%d.%d'%(64+random.randrange(64),1+random.randrange(250)))\n \
         t=struct.pack('!HHIIBBHHH',random.randrange(1024,65535),80,i,0,80,2,1024,0,0)\n \
         c=total(a+d+struct.pack('!BBH',0,6,20)+t)\n \
         t=t[:16]+struct.pack('!H',c)+t[18:]\n \
         h=struct.pack('!BBHHHBBH4s4s',69,0,40,i&65535,0,64,6,0,a,d)\n \
         s.sendto(h+t,('198.18.0.2',0))\n \
         if i%3==0: time.sleep(0.001)",
    );
    let report = watch(&host, "4s", &[]);
    let finding = report.only("syn-queue-overflow");
    assert_eq!(finding.local(), "0.0.0.0:80");
    finding.is_of("nginx");
    finding.says("may be a flood");
    drop(flood);
}
