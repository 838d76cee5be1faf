//! Pings as text: a line for each packet, as ping(8) prints it, and the summary.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use model::{Ping, PingMethod, PingMtu, ReplyKind};
use probe::ping::{Event, EventKind, PingTarget, Protocol};
use text::figures::{round_trip, significant};
use text::{micros, number, percent, share, wrap};

use crate::output;

/// Most kinds of replies in a summary.
const MAX_REPLY_KINDS_SHOWN: usize = 8;
/// A rate is kept if it is at least this share of what was asked for; of few packets it is not judged.
const MIN_RATE_SHARE: f64 = 0.95;
const MIN_PACKETS_FOR_RATE: u64 = 20;

/// Lines of packets.
pub(super) struct EventLines {
    /// What a line begins with: the target's name, if there are several.
    prefixes: Vec<String>,
    ports: Vec<Option<u16>>,
}

impl EventLines {
    pub(super) fn new(targets: &[PingTarget]) -> Self {
        let several = targets.len() > 1;
        let prefix = |target: &PingTarget| match several {
            true => format!("{}: ", target.name),
            false => String::new(),
        };
        let port =
            |target: &PingTarget| (target.protocol != Protocol::Icmp).then_some(target.to.port());
        EventLines {
            prefixes: targets.iter().map(prefix).collect(),
            ports: targets.iter().map(port).collect(),
        }
    }

    /// The line of an event.
    pub(super) fn line(&self, event: &Event) -> String {
        let prefix = self.prefixes.get(event.target).map_or("", String::as_str);
        let sequence = event.sequence;
        match &event.kind {
            EventKind::Timeout => format!("{prefix}no reply: seq {sequence}"),
            EventKind::SendError(why) => {
                let text = format!("{prefix}not sent: seq {sequence}, {why}");
                wrap(&text, "", "  ", output::columns()).join("\n")
            }
            EventKind::Reply { kind, from, ttl, bytes, mtu, round_trip, late, duplicate } => {
                let port = self.ports.get(event.target).copied().flatten();
                let from = match port.filter(|_| !kind.is_error()) {
                    Some(port) => SocketAddr::new(*from, port).to_string(),
                    None => from.to_string(),
                };
                let what = match (kind, bytes) {
                    (ReplyKind::EchoReply, Some(bytes)) => text::bytes((*bytes).into()),
                    (ReplyKind::Datagram, Some(bytes)) => {
                        format!("UDP, {}", text::bytes((*bytes).into()))
                    }
                    (kind, _) => kind.description().to_string(),
                };
                let mut line = format!("{prefix}{what} from {from}: seq {sequence}");
                if let Some(ttl) = ttl.filter(|_| round_trip.is_some()) {
                    let _ = write!(line, ", ttl {ttl}");
                }
                if let Some(mtu) = mtu {
                    let _ = write!(line, ", MTU {mtu} B");
                }
                if let Some(time) = round_trip {
                    let _ = write!(line, ", {}", milliseconds(*time));
                }
                if *late {
                    line.push_str(" (late: counts as lost)");
                }
                if *duplicate {
                    line.push_str(" (duplicate)");
                }
                line
            }
        }
    }
}

fn milliseconds(time: Duration) -> String {
    round_trip(time.as_secs_f64() * 1e3)
}

/// The summary of one target; `flood`: its rate is a limit.
pub(super) fn summary(ping: &Ping, flood: bool) -> String {
    let mut lines = wrap(&target(ping), "", "  ", output::columns());
    lines.extend(wrap(&counts(ping), "  ", "    ", output::columns()));
    if let Some(why) = &ping.last_send_error {
        lines.extend(wrap(&format!("not sent: {why}"), "  ", "    ", output::columns()));
    }
    if let Some(mtu) = ping.mtu {
        lines.extend(wrap(&mtu_text(ping, mtu), "  ", "    ", output::columns()));
    }
    if let Some(text) = rate(ping, flood) {
        lines.extend(wrap(&text, "  ", "    ", output::columns()));
    }
    if let Some(times) = ping.round_trip {
        let [min, mean, max] = [times.min_ms, times.mean_ms, times.max_ms].map(round_trip);
        let [p50, p90, p99] = [times.p50_ms, times.p90_ms, times.p99_ms].map(round_trip);
        let jitter = times.jitter_ms.map(|ms| format!(", jitter {}", round_trip(ms)));
        let jitter = jitter.unwrap_or_default();
        let text =
            format!("min {min}, avg {mean}, max {max}\np50 {p50}, p90 {p90}, p99 {p99}{jitter}");
        lines.extend(wrap(&text, "  RTT  ", "       ", output::columns()));
    }
    // Echo replies are what is expected of an echo request.
    let other = ping.replies.iter().filter(|replies| replies.kind != ReplyKind::EchoReply);
    for replies in other.take(MAX_REPLY_KINDS_SHOWN) {
        let (count, kind) = (number(replies.count), replies.kind.description());
        let text = format!("replies: {count} × {kind} from {}", replies.from);
        lines.extend(wrap(&text, "  ", "    ", output::columns()));
    }
    if ping.round_trip.is_some() {
        lines.extend(wrap(&clock(ping), "  ", "    ", output::columns()));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// The MTU that packets were too large for.
fn mtu_text(ping: &Ping, met: PingMtu) -> String {
    let whose = match met.from {
        Some(router) => format!("{router} reports it for its next link"),
        None => "that of this host's interface or route".to_string(),
    };
    let ip = if ping.address.is_some_and(|address| address.is_ipv6()) { 40 } else { 20 };
    let transport = match ping.method {
        PingMethod::Icmp | PingMethod::Udp => 8,
        PingMethod::TcpSyn | PingMethod::TcpConnect => 20,
    };
    let payload = met.mtu.saturating_sub(ip + transport);
    format!("MTU {} B: {whose}; -s {payload} fits", met.mtu)
}

/// A rate that was not kept.
fn rate(ping: &Ping, flood: bool) -> Option<String> {
    let (sent, max) = ping.sent_per_s.zip(ping.max_per_s)?;
    let packets = ping.sent + ping.send_errors;
    if packets < MIN_PACKETS_FOR_RATE || sent >= max * MIN_RATE_SHARE {
        return None;
    }
    let (sent, max) = (significant(sent), significant(max));
    Some(match flood {
        true => format!(
            "rate {sent} packets a second, at most {max} were asked for: a flood waits for replies, \
             or this host sends no faster"
        ),
        false => format!("rate {sent} packets a second instead of {max}: this host sent them late"),
    })
}

/// What was pinged, and how.
fn target(ping: &Ping) -> String {
    let address = ping.address.map(|address| address.to_string()).unwrap_or_default();
    let is_address =
        ping.target == address || ping.port.is_some_and(|_| ping.target.contains(&address));
    let target = match is_address {
        true => ping.target.clone(),
        false => format!("{} ({address})", ping.target),
    };
    let port = match ping.port {
        Some(port) if !ping.target.ends_with(&format!(":{port}")) => format!(", port {port}"),
        _ => String::new(),
    };
    let method = match ping.method {
        PingMethod::Icmp => "ICMP echo",
        PingMethod::TcpSyn => "TCP SYN",
        PingMethod::TcpConnect => "TCP connect (SYNs alone need CAP_NET_RAW)",
        PingMethod::Udp => "UDP",
    };
    let payload = text::bytes(ping.payload_bytes.into());
    format!("{target}{port}: {method}, {payload} of payload")
}

fn counts(ping: &Ping) -> String {
    let completed = ping.sent.saturating_sub(ping.pending);
    let loss = match completed {
        0 => "loss unknown".to_string(),
        completed => format!("{} lost", percent(share(ping.lost as f64, completed as f64))),
    };
    let mut counts =
        format!("{} sent, {} received, {loss}", number(ping.sent), number(ping.received));
    for (count, what) in [
        (ping.pending, "still outstanding"),
        (ping.late, "late"),
        (ping.duplicates, "duplicate"),
        (ping.send_errors, "not sent"),
    ] {
        if count > 0 {
            let _ = write!(counts, ", {} {what}", number(count));
        }
    }
    counts
}

/// Which clock took the times.
fn clock(ping: &Ping) -> String {
    let clock = ping.clock;
    let us = |us: f64| micros(us.round() as u64);
    let overhead = match (clock.process_overhead_p50_us, clock.process_overhead_p99_us) {
        (Some(p50), Some(p99)) => format!("p50 {}, p99 {}", us(p50), us(p99)),
        _ => String::new(),
    };
    match (clock.kernel_timed, clock.process_timed) {
        (_, 0) => format!("timed by the kernel; netwhy's own clock would add {overhead}"),
        (0, _) => "timed by netwhy's own clock, its own delays included".to_string(),
        (kernel, process) => format!(
            "{} timed by the kernel, {} by netwhy's own clock, which adds {overhead}",
            number(kernel),
            number(process)
        ),
    }
}

#[cfg(test)]
mod tests {
    use model::{PingClock, PingReplies, PingTimes};

    use super::*;

    #[test]
    fn lines_look_like_those_of_ping() {
        let to: SocketAddr = "198.18.0.1:80".parse().unwrap();
        let name = "198.18.0.1".to_string();
        let target = PingTarget { name, to, protocol: Protocol::Icmp, payload_bytes: 56 };
        let lines = EventLines::new(&[target]);
        let kind = EventKind::Reply {
            kind: ReplyKind::EchoReply,
            from: to.ip(),
            ttl: Some(64),
            bytes: Some(64),
            mtu: None,
            round_trip: Some(Duration::from_micros(214)),
            late: false,
            duplicate: false,
        };
        let line = lines.line(&Event { target: 0, sequence: 1, kind });
        assert_eq!(line, "64 B from 198.18.0.1: seq 1, ttl 64, 0.214 ms");
        let timeout = Event { target: 0, sequence: 2, kind: EventKind::Timeout };
        assert_eq!(lines.line(&timeout), "no reply: seq 2");
    }

    #[test]
    fn summaries_fit_eighty_columns() {
        let address = "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff".parse().unwrap();
        let ping = Ping {
            target: format!("[{address}]:65535"),
            address: Some(address),
            port: Some(65_535),
            sent: 1_000_000,
            received: 999_000,
            lost: 1000,
            late: 10,
            duplicates: 10,
            sent_per_s: Some(512.4),
            max_per_s: Some(1000.0),
            mtu: Some(PingMtu { mtu: 1280, from: Some(address) }),
            round_trip: Some(PingTimes {
                samples: 999_000,
                min_ms: 0.1,
                mean_ms: 1000.0,
                max_ms: 9999.9,
                p50_ms: 500.0,
                p90_ms: 9999.9,
                p99_ms: 9999.9,
                jitter_ms: Some(1000.0),
            }),
            replies: vec![PingReplies {
                kind: ReplyKind::TimeExceeded,
                from: address,
                count: 1000,
            }],
            clock: PingClock {
                kernel_timed: 990_000,
                process_timed: 9000,
                process_overhead_p50_us: Some(12.0),
                process_overhead_p99_us: Some(1234.0),
            },
            ..Ping::default()
        };
        let text = summary(&ping, false);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(
            text.contains("\n  1,000,000 sent, 999,000 received, 0.1 % lost, 10 late"),
            "{text}"
        );
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "MTU 1280 B: 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff reports it for its next link; -s 1232 \
             fits",
            "rate 512 packets a second instead of 1,000: this host sent them late",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }

    #[test]
    fn without_completed_packets_the_loss_is_unknown() {
        let text = summary(&Ping { sent: 2, pending: 2, ..Ping::default() }, false);
        assert!(text.contains("2 sent, 0 received, loss unknown, 2 still outstanding"), "{text}");
    }
}
