//! Targets of the kernel: netlink messages and the text of `/proc` and `/dev/kmsg`.

use wire::netlink::{self, HEADER_BYTES, attributes, messages};
use wire::{conntrack, kmsg, ports, proc_net, proc_pid, sock_diag, unix_diag};

/// Whether one slice lies within another.
fn within(part: &[u8], whole: &[u8]) -> bool {
    part.is_empty()
        || whole.as_ptr_range().start <= part.as_ptr_range().start
            && part.as_ptr_range().end <= whole.as_ptr_range().end
}

/// The input itself, and the payloads of the messages in it: a fuzzer can reach both.
fn payloads(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let payloads = messages(bytes).filter_map(Result::ok).map(|message| message.payload);
    std::iter::once(bytes).chain(payloads)
}

pub(super) fn netlink(bytes: &[u8]) {
    let (mut count, mut over) = (0, false);
    for message in messages(bytes) {
        assert!(!over, "nothing follows an error");
        count += 1;
        let Ok(message) = message else {
            over = true;
            continue;
        };
        assert!(within(message.payload, bytes));
        assert!(message.error().is_none_or(|error| error > 0));
        message.dump_interrupted();
        let again = netlink::request(message.kind, message.flags, message.payload);
        let mut read = messages(&again);
        let Some(Ok(read)) = read.next() else { panic!("a request that cannot be parsed") };
        assert_eq!((read.kind, read.payload), (message.kind, message.payload));
    }
    assert!(count <= bytes.len() / HEADER_BYTES + 1);
    nested(bytes, 0);
}

fn nested(bytes: &[u8], depth: u8) {
    let mut count = 0;
    for (kind, value) in attributes(bytes) {
        assert!(kind & 0xc000 == 0 && within(value, bytes));
        count += 1;
        if depth < 3 {
            nested(value, depth + 1);
        }
    }
    assert!(count <= bytes.len() / 4);
}

pub(super) fn sock_diag(bytes: &[u8]) {
    for payload in payloads(bytes) {
        let Ok(record) = sock_diag::Record::parse(payload) else { continue };
        let socket = record.to_socket();
        assert_eq!(socket.local.is_ipv4(), socket.remote.is_ipv4());
        assert_eq!((socket.local, socket.remote), (record.local(), record.remote()));
        assert_eq!(socket.congestion.as_deref(), record.congestion());
        assert!(record.congestion().is_none_or(|name| !name.contains('\0')));
        let info = record.tcp_info_bytes();
        assert_eq!(socket.tcp.is_some(), !info.is_empty());
        if let Some(tcp) = &socket.tcp {
            // A field that the kernel did not write is `None`, never zero.
            assert_eq!(tcp.rto_us.is_some(), info.len() >= 12);
            assert_eq!(tcp.bytes_received.is_some(), info.len() >= 136);
            assert_eq!(tcp.snd_wnd, record.snd_wnd());
        }
        for end in 0..payload.len() {
            // A truncated record is the same socket, or refused.
            let Ok(cut) = sock_diag::Record::parse(&payload[..end]) else { continue };
            assert_eq!((cut.local(), cut.cookie()), (record.local(), record.cookie()));
        }
    }
}

pub(super) fn unix_diag(bytes: &[u8]) {
    for payload in payloads(bytes) {
        let Ok(record) = unix_diag::Record::parse(payload) else { continue };
        assert!(within(record.bound, payload));
        let name = record.name();
        let is_abstract = record.bound.first() == Some(&0);
        assert_eq!(is_abstract, record.bound.starts_with(b"\0") && name.starts_with('@'));
        assert!(is_abstract || !name.contains('\0'));
        assert!(name.len() <= record.bound.len() * 3 + 1);
    }
}

pub(super) fn conntrack(bytes: &[u8]) {
    for payload in payloads(bytes) {
        let mut statistics = 0;
        conntrack::statistics(payload, |name, value| {
            assert!(!name.is_empty() && value <= u64::from(u32::MAX));
            statistics += 1;
        });
        assert!(statistics <= payload.len() / 4);
        let Ok(entry) = conntrack::Entry::parse(payload) else { continue };
        let (original, reply) = (entry.original(), entry.reply());
        assert_eq!(original.protocol, entry.protocol());
        for tuple in [original, reply] {
            let ports = tuple.source_port.is_some() || tuple.destination_port.is_some();
            assert!(!ports || payload.len() > 12, "ports without bytes");
        }
        if let Some(state) = entry.tcp_state_name() {
            let known = (0..=u8::MAX).filter_map(conntrack::tcp_state_name);
            assert!(known.into_iter().any(|name| name == state));
        }
        let _ = (entry.original_counters(), entry.reply_counters(), entry.timeout_s());
        let _ = (entry.mark(), entry.zone(), conntrack::protocol_name(entry.protocol()));
        let _ = (entry.seen_reply(), entry.assured(), entry.source_nat(), entry.destination_nat());
    }
}

pub(super) fn proc_net(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let word = |name: &str| !name.is_empty() && !name.contains(|c: char| c.is_ascii_whitespace());
    let mut count = 0;
    proc_net::counters(&text, |protocol, name, value| {
        assert!(!protocol.contains([':', '\n']) && word(name));
        // It is parsed back.
        let mut again = None;
        let line = format!("{protocol}: {name}\n{protocol}: {value}\n");
        proc_net::counters(&line, |_, _, value| again = Some(value));
        assert_eq!(again, Some(value));
        count += 1;
    });
    proc_net::counters6(&text, |name, _| {
        assert!(word(name));
        count += 1;
    });
    assert!(count <= text.len());
    let mut statistics = 0;
    proc_net::conntrack(&text, |name, _| {
        assert!(word(name) && name != "entries");
        statistics += 1;
    });
    assert!(statistics <= text.len());
    if let Ok(cpus) = proc_net::softnet(&text) {
        assert_eq!(cpus.len(), text.lines().count());
    }
    for protocol in ["TCP", "sockets", "TCP6", "FRAG"] {
        for field in ["mem", "used", "inuse", "memory"] {
            let found = proc_net::sockstat(&text, protocol, field);
            assert!(found.is_none() || text.contains(protocol) && text.contains(field));
        }
    }
}

pub(super) fn proc_pid(bytes: &[u8]) {
    if let Ok(stat) = proc_pid::stat(bytes) {
        assert!(!stat.state.is_ascii_whitespace());
        let line = format!(
            "1 ({}) {} {} 1 1 0 -1 0 0 0 0 0 {} {} 0 0 20 0 {} 0 {} 1 1\n",
            stat.name,
            stat.state,
            stat.parent,
            stat.user_ticks,
            stat.system_ticks,
            stat.threads,
            stat.started_ticks
        );
        assert_eq!(proc_pid::stat(line.as_bytes()), Ok(stat), "it is parsed back");
    }
    if let Ok(schedstat) = proc_pid::schedstat(bytes) {
        let line = format!("{} {} 1\n", schedstat.cpu_ns, schedstat.run_delay_ns);
        assert_eq!(proc_pid::schedstat(line.as_bytes()), Ok(schedstat));
    }
    if let Ok(limits) = proc_pid::limits(bytes) {
        let soft = limits.open_files.map_or("unlimited".to_string(), |limit| limit.to_string());
        let line = format!("Max open files {soft} 1 files\n");
        assert_eq!(proc_pid::limits(line.as_bytes()), Ok(limits));
    }
    let command = proc_pid::command(bytes);
    assert!(!command.contains('\0') && command.len() <= 3 * 256);
}

pub(super) fn kmsg(bytes: &[u8]) {
    let Ok(record) = kmsg::record(bytes) else { return };
    assert!(record.priority < 8);
    let escaped: String = record
        .text
        .chars()
        .map(|c| match c {
            '\n' | '\\' => format!("\\x{:02x}", u32::from(c)),
            c => c.to_string(),
        })
        .collect();
    let syslog = u64::from(record.facility) << 3 | u64::from(record.priority);
    let line = format!("{syslog},{},{},-;{escaped}\n A=b\n", record.sequence, record.micros);
    assert_eq!(kmsg::record(line.as_bytes()), Ok(record), "it is parsed back");
}

pub(super) fn ports(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // The range, then the reserved ports, as in the two files.
    let (range, reserved) = text.split_once('\n').unwrap_or((&text, ""));
    let Ok(set) = ports::PortSet::available(range, reserved) else { return };
    let mut members = (0..=u16::MAX).filter(|port| set.contains(*port)).peekable();
    let (first, mut last, mut count) = (members.peek().copied(), None, 0);
    for member in members {
        (last, count) = (Some(member), count + 1);
    }
    assert_eq!((count, count == 0), (set.len(), set.is_empty()));
    let ends: Vec<u16> = range.split_ascii_whitespace().flat_map(str::parse).collect();
    assert!(first.is_none_or(|first| first >= ends[0]));
    assert!(last.is_none_or(|last| last <= ends[1]));
}
