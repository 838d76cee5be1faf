//! The frames of a capture by tshark.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

use super::frame::{Again, Frame, Verdict};

/// The fields of a frame, in the order in which they are parsed.
const FIELDS: [&str; 24] = [
    "frame.number",
    "frame.time_epoch",
    "frame.protocols",
    "tcp.stream",
    "ip.src",
    "ipv6.src",
    "tcp.srcport",
    "tcp.flags",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.len",
    "ip.len",
    "ip.hdr_len",
    "tcp.hdr_len",
    "tcp.window_size_value",
    "tcp.options.wscale.shift",
    "ip.id",
    "tcp.options.timestamp.tsval",
    "tcp.options.timestamp.tsecr",
    "tcp.analysis.retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.duplicate_ack_num",
    "tcp.analysis.zero_window",
    "tcp.analysis.initial_rtt",
];

/// All frames with TCP that ICMP does not quote.
pub(crate) fn frames(path: &Path) -> Vec<Frame> {
    let output = Command::new("tshark")
        .args(["-n", "-Y", "tcp && !icmp && !icmpv6", "-T", "fields", "-E", "occurrence=a"])
        .args(FIELDS.map(|name| ["-e", name]).concat())
        .args(["-o", "tcp.desegment_tcp_streams:FALSE", "-r"])
        .arg(path)
        // Its plugins add nothing to TCP, and take half of the time that it needs to start.
        .env("WIRESHARK_PLUGIN_DIR", "/dev/null")
        .stderr(Stdio::null())
        .output()
        .expect("tshark");
    let text = String::from_utf8_lossy(&output.stdout);
    // A frame without a stream has a truncated header.
    let whole = |line: &&str| line.split('\t').nth(3).is_some_and(|stream| !stream.is_empty());
    let lines = text.lines().filter(whole).map(|line| {
        frame(line).unwrap_or_else(|| panic!("{}: {line:?} cannot be read", path.display()))
    });
    lines.collect()
}

fn frame(line: &str) -> Option<Frame> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    let number = decimal(next()?)?;
    let time = next()?;
    let at = nanos(time)?;
    let has_time = time.split_once('.').is_some_and(|(_, fraction)| fraction.len() == 9);
    let protocols = next()?.to_string();
    // Of several IP headers, the last one before TCP: others are around it, or quoted in its data.
    let outside = protocols.split(':').take_while(|name| *name != "tcp");
    let ips: Vec<&str> = outside.filter(|name| matches!(*name, "ip" | "ipv6")).collect();
    let version = *ips.last()?;
    let place = ips.iter().filter(|name| **name == version).count() - 1;
    let of_ip = |values: &str, wanted: &str| {
        values.split(',').nth(place).filter(|_| version == wanted).map(str::to_string)
    };
    let first = |values: &str| values.split(',').next().unwrap_or_default().to_string();
    let stream = decimal(&first(next()?))?;
    let (v4, v6) = (of_ip(next()?, "ip"), of_ip(next()?, "ipv6"));
    let ip: IpAddr = v4.or(v6)?.parse().ok()?;
    let from = SocketAddr::new(ip, first(next()?).parse().ok()?);
    let flags = hexadecimal(&first(next()?))?;
    let (sequence, acknowledgement) = (decimal(&first(next()?))?, decimal(&first(next()?))?);
    let length = decimal(&first(next()?));
    let (all, header) = (of_ip(next()?, "ip"), of_ip(next()?, "ip"));
    let headers = decimal(&header.unwrap_or_default()).zip(decimal(&first(next()?)));
    // 0 where the network card segments what the kernel sends.
    let all = all.and_then(|all| decimal(&all)).filter(|all| *all > 0);
    let length_by_ip = all.zip(headers).map(|(all, (ip, tcp))| all.saturating_sub(ip + tcp));
    let window = decimal(&first(next()?))? as u16;
    let scale = decimal(&first(next()?)).map(|shift| shift.min(14) as u32);
    let id = of_ip(next()?, "ip").and_then(|id| hexadecimal(&id)).filter(|id| *id != 0);
    let timestamps = decimal(&first(next()?)).zip(decimal(&first(next()?)));
    let (retransmitted, out_of_order) = (next()?, next()?);
    let again = match (retransmitted.is_empty(), out_of_order.is_empty()) {
        (false, _) => Again::Retransmitted,
        (_, false) => Again::Reordered,
        _ => Again::No,
    };
    let (duplicate_ack, zero_window) = (!next()?.is_empty(), !next()?.is_empty());
    Some(Frame {
        number,
        at,
        has_time,
        protocols,
        stream,
        from,
        flags,
        sequence: sequence as u32,
        acknowledgement: acknowledgement as u32,
        length,
        length_by_ip,
        window,
        scale,
        id,
        timestamps: timestamps.map(|(own, echo)| (own as u32, echo as u32)),
        verdict: Verdict { again, duplicate_ack, zero_window },
        handshake: nanos(&first(next()?)),
    })
}

fn decimal(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn hexadecimal(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn nanos(text: &str) -> Option<i64> {
    let (seconds, rest) = text.split_once('.')?;
    let rest: i64 = format!("{rest:0<9}").get(..9)?.parse().ok()?;
    let whole = seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?;
    Some(if seconds.starts_with('-') { whole - rest } else { whole + rest })
}
