//! Pings as people read them: a line for each packet, as ping users know it, and the summary.

use std::fmt::Write as _;
use std::time::Duration;

use model::{Ping, PingMethod, ReplyKind};
use probe::ping::{Event, EventKind as What, PingTarget, Protocol};
use text::figures::round_trip;
use text::{number, percent, wrap};

/// Columns.
const WIDTH: usize = 80;

/// Lines of packets.
pub(super) struct Lines {
    /// Names of the targets, where there are several.
    names: Vec<String>,
    ports: Vec<Option<u16>>,
}

impl Lines {
    pub(super) fn new(targets: &[PingTarget]) -> Self {
        let several = targets.len() > 1;
        Lines {
            names: targets
                .iter()
                .map(|target| if several { format!("{}: ", target.name) } else { String::new() })
                .collect(),
            ports: targets
                .iter()
                .map(|target| (target.protocol != Protocol::Icmp).then_some(target.to.port()))
                .collect(),
        }
    }

    /// The line of an event.
    pub(super) fn line(&self, event: &Event) -> String {
        let name = self.names.get(event.target).map_or("", String::as_str);
        let number = event.sequence;
        match &event.kind {
            What::Timeout => format!("{name}no answer: seq {number}"),
            What::SendError(why) => {
                let words = format!("{name}not sent: seq {number}, {why}");
                wrap(&words, "", "  ", WIDTH).join("\n")
            }
            What::Reply { kind, from, ttl: hops, bytes, round_trip, late, duplicate } => {
                let port = self.ports.get(event.target).copied().flatten();
                let whose = match port.filter(|_| !kind.is_error()) {
                    Some(port) => std::net::SocketAddr::new(*from, port).to_string(),
                    None => from.to_string(),
                };
                let what = match (kind, bytes) {
                    (ReplyKind::EchoReply, Some(bytes)) => format!("{bytes} B"),
                    (ReplyKind::Datagram, Some(bytes)) => format!("UDP, {bytes} B"),
                    (kind, _) => kind.description().to_string(),
                };
                let mut line = format!("{name}{what} from {whose}: seq {number}");
                if let Some(hops) = hops.filter(|_| round_trip.is_some()) {
                    let _ = write!(line, ", ttl {hops}");
                }
                if let Some(time) = round_trip {
                    let _ = write!(line, ", {}", time_of(*time));
                }
                if *late {
                    line.push_str(" (late: counts as lost)");
                }
                if *duplicate {
                    line.push_str(" (again)");
                }
                line
            }
        }
    }
}

fn time_of(time: Duration) -> String {
    round_trip(time.as_secs_f64() * 1e3)
}

/// The summary of one target.
pub(super) fn summary(ping: &Ping) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    let address = ping.address.map(|address| address.to_string()).unwrap_or_default();
    let who = if ping.target == address || ping.port.is_some_and(|_| ping.target.contains(&address))
    {
        ping.target.clone()
    } else {
        format!("{} ({address})", ping.target)
    };
    let port = match ping.port {
        Some(port) if !ping.target.ends_with(&format!(":{port}")) => format!(", port {port}"),
        _ => String::new(),
    };
    let what = format!("{who}{port}: {}, {} B of payload", method(ping.method), ping.payload_bytes);
    wrap(&what, "", "  ", WIDTH).into_iter().for_each(&mut line);
    let over = ping.sent.saturating_sub(ping.pending);
    let loss = if over > 0 { percent(ping.lost as f64 / over as f64) } else { "?".to_string() };
    let mut counts =
        format!("  sent {}, answered {}, lost {loss}", number(ping.sent), number(ping.received));
    for (count, what) in [
        (ping.pending, "still awaited"),
        (ping.late, "late"),
        (ping.duplicates, "duplicates"),
        (ping.send_errors, "not sent"),
    ] {
        if count > 0 {
            let _ = write!(counts, ", {} {what}", number(count));
        }
    }
    wrap(&counts, "", "    ", WIDTH).into_iter().for_each(&mut line);
    if let Some(why) = &ping.last_send_error {
        let words = format!("not sent: {why}");
        wrap(&words, "  ", "    ", WIDTH).into_iter().for_each(&mut line);
    }
    if let Some(times) = ping.round_trip {
        let ms = round_trip;
        line(format!(
            "  round trip min {}, avg {}, max {}",
            ms(times.min_ms),
            ms(times.mean_ms),
            ms(times.max_ms)
        ));
        let mut spread = format!(
            "             p50 {}, p90 {}, p99 {}",
            ms(times.p50_ms),
            ms(times.p90_ms),
            ms(times.p99_ms)
        );
        if let Some(jitter) = times.jitter_ms {
            let _ = write!(spread, ", jitter {}", ms(jitter));
        }
        line(spread);
    }
    // One way to answer needs no words, where it is the usual one.
    let usual = |kind: ReplyKind| kind == ReplyKind::EchoReply;
    for answers in ping.replies.iter().filter(|answers| !usual(answers.kind)).take(8) {
        let (count, kind) = (number(answers.count), answers.kind.description());
        let words = format!("answers: {count} × {kind} from {}", answers.from);
        wrap(&words, "  ", "    ", WIDTH).into_iter().for_each(&mut line);
    }
    if ping.round_trip.is_some() {
        wrap(&clock(ping), "  ", "    ", WIDTH).into_iter().for_each(&mut line);
    }
    text
}

fn clock(ping: &Ping) -> String {
    let clock = ping.clock;
    let adds = match (clock.process_overhead_p50_us, clock.process_overhead_p99_us) {
        (Some(p50), Some(p99)) => format!("p50 {p50:.0} µs, p99 {p99:.0} µs"),
        _ => String::new(),
    };
    match (clock.kernel_timed, clock.process_timed) {
        (_, 0) => format!("times by the kernel; netwhy's own clock would add {adds}"),
        (0, _) => "times by netwhy's own clock, its delays among them".to_string(),
        (kernel, process) => {
            format!("times by the kernel ({kernel}) and netwhy ({process}: these add {adds})")
        }
    }
}

/// What was sent, in words.
fn method(method: PingMethod) -> &'static str {
    match method {
        PingMethod::Icmp => "ICMP echo",
        PingMethod::TcpSyn => "TCP SYN",
        PingMethod::TcpConnect => "TCP connections (no CAP_NET_RAW for bare SYNs)",
        PingMethod::Udp => "UDP",
    }
}

#[cfg(test)]
mod tests {
    use model::{PingClock, PingReplies, PingTimes};

    use super::*;

    #[test]
    fn lines_are_as_ping_has_them() {
        let to = "198.18.0.1:80".parse().unwrap();
        let name = "198.18.0.1".to_string();
        let lines =
            Lines::new(&[PingTarget { name, to, protocol: Protocol::Icmp, payload_bytes: 56 }]);
        let kind = What::Reply {
            kind: ReplyKind::EchoReply,
            from: to.ip(),
            ttl: Some(64),
            bytes: Some(64),
            round_trip: Some(Duration::from_micros(214)),
            late: false,
            duplicate: false,
        };
        let line = lines.line(&Event { target: 0, sequence: 1, kind });
        assert_eq!(line, "64 B from 198.18.0.1: seq 1, ttl 64, 0.214 ms");
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
        let text = summary(&ping);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(text.contains("lost 0.1 %"), "{text}");
    }
}
