//! A route as text: hop by hop as traceroute has it, and as a table that is redrawn.

use std::fmt::Write as _;
use std::net::IpAddr;

use model::{Hop, HopProbe, ReplyKind, Route, TraceMethod};
use text::{number, percent, wrap};

use text::figures::round_trip;

/// Columns.
const WIDTH: usize = 80;
/// Columns of a name in the table.
const NAME: usize = 27;

/// The route, hop by hop.
pub(super) fn route(route: &Route) -> String {
    let mut text = format!("{}\n", head(route));
    let mut before: &[String] = &[];
    for hop in &route.hops {
        hop_lines(hop, &mut text);
        // What changed earlier is still so here.
        for change in hop.changes.iter().filter(|change| !before.contains(change)) {
            note(&mut text, "       ", change);
        }
        before = &hop.changes;
        mpls(hop, &mut text);
    }
    end(route, &mut text);
    text
}

fn head(route: &Route) -> String {
    let address = route.address.map(|address| address.to_string()).unwrap_or_default();
    let who = if route.target.contains(&address) {
        route.target.clone()
    } else {
        format!("{} ({address})", route.target)
    };
    let port = route.port.map(|port| format!(", port {port}")).unwrap_or_default();
    let what = match route.method {
        TraceMethod::Udp => "UDP",
        TraceMethod::Tcp => "TCP SYN",
        TraceMethod::Icmp => "ICMP echo",
    };
    let flow = if route.one_flow { "one flow" } else { "each packet a flow of its own" };
    let words = format!("the way to {who}: {what}{port}, {flow}");
    wrap(&words, "", "  ", WIDTH).join("\n")
}

/// The lines of a hop: one for each router, its times behind it.
fn hop_lines(hop: &Hop, text: &mut String) {
    let start = format!("{:>3}  ", hop.ttl);
    // Neighbours of the same router share a name.
    let mut groups: Vec<(Option<IpAddr>, Vec<&HopProbe>)> = Vec::new();
    for probe in &hop.probes {
        match groups.iter_mut().find(|(from, _)| *from == probe.from) {
            Some((_, probes)) => probes.push(probe),
            None => groups.push((probe.from, vec![probe])),
        }
    }
    // Silence stands behind what was answered.
    groups.sort_by_key(|(from, _)| from.is_none());
    let stars = groups.iter().find(|(from, _)| from.is_none()).map_or(0, |(_, all)| all.len());
    let last = groups.iter().filter(|(from, _)| from.is_some()).count().saturating_sub(1);
    if groups.iter().all(|(from, _)| from.is_none()) {
        let _ = writeln!(text, "{start}{}", vec!["*"; stars.max(1)].join(" "));
        return;
    }
    let answered = groups.iter().filter_map(|(from, probes)| Some(((*from)?, probes)));
    for (index, (from, probes)) in answered.enumerate() {
        let router = hop.routers.iter().find(|router| router.address == from);
        let name = router.and_then(|router| router.name.as_deref());
        let who = name.map_or_else(|| from.to_string(), |name| format!("{name} ({from})"));
        let mut times = String::new();
        for probe in probes {
            let ms = probe.round_trip_ms.map(round_trip).unwrap_or_default();
            let mark = probe.kind.and_then(ReplyKind::mark);
            let _ = write!(times, "  {ms}{}", mark.map(|m| format!(" {m}")).unwrap_or_default());
        }
        if index == last {
            times.push_str(&"  *".repeat(stars));
        }
        if let Some(mtu) = hop.mtu.filter(|_| index == last) {
            let _ = write!(times, "  mtu {mtu}");
        }
        let start = if index == 0 { start.as_str() } else { "     " };
        let one = format!("{start}{who}{times}");
        if one.chars().count() <= WIDTH {
            let _ = writeln!(text, "{one}");
        } else {
            for line in wrap(&who, start, "       ", WIDTH) {
                let _ = writeln!(text, "{line}");
            }
            note(text, "       ", times.trim_start());
        }
        let said = probes.iter().filter_map(|probe| probe.kind).find(|kind| kind.mark().is_some());
        if let Some(kind) = said {
            note(
                text,
                "       ",
                &format!("{}: {}", kind.mark().unwrap_or("!"), kind.description()),
            );
        }
    }
}

fn mpls(hop: &Hop, text: &mut String) {
    for router in hop.routers.iter().filter(|router| !router.mpls.is_empty()) {
        let labels: Vec<String> = (router.mpls.iter())
            .map(|label| {
                format!("{} (class {}, ttl {})", label.label, label.traffic_class, label.ttl)
            })
            .collect();
        note(text, "       ", &format!("MPLS label {}", labels.join(", ")));
    }
}

/// What is said of the whole.
fn end(route: &Route, text: &mut String) {
    if let Some(mtu) = route.path_mtu {
        note(text, "", &format!("largest packet to the target: {mtu} B"));
    }
    for words in &route.notes {
        note(text, "", words);
    }
    let limited: Vec<String> = route
        .hops
        .iter()
        .filter(|hop| hop.rate_limits_replies)
        .map(|hop| hop.ttl.to_string())
        .collect();
    if !limited.is_empty() {
        let (hops, answer, limit) = match limited.len() {
            1 => ("hop", "answers", "it limits its answers"),
            _ => ("hops", "answer", "they limit their answers"),
        };
        let words = format!(
            "{hops} {} {answer} fewer packets than a hop behind: {limit}, no packet is lost there",
            limited.join(", ")
        );
        note(text, "", &words);
    }
    let last = route.hops.iter().rev().find(|hop| hop.received > 0);
    if !route.reached {
        let words = match last.and_then(|hop| Some((hop, hop.routers.first()?))) {
            Some((hop, router)) if router.kind.mark().is_some() => format!(
                "the way ends at hop {}: {} says: {}",
                hop.ttl,
                router.address,
                router.kind.description()
            ),
            Some((hop, router)) => format!(
                "the target did not answer; the last hop that did is {}, {}: what comes behind it \
                 is lost, filtered, or says nothing (another kind may get through: --tcp, --icmp)",
                hop.ttl, router.address
            ),
            None => "nothing answered: no hop, and not the target".to_string(),
        };
        note(text, "", &words);
        return;
    }
    if let Some(hop) = route.hops.last().filter(|hop| hop.received < hop.completed) {
        let share = |hop: &Hop| 1.0 - hop.received as f64 / hop.completed.max(1) as f64;
        let lost = percent(share(hop));
        let limits = hop.routers.iter().any(|router| router.kind == ReplyKind::PortUnreachable);
        if limits {
            // Most hosts send a few a second of these.
            let words = format!(
                "the target left {lost} unanswered; hosts limit how often they say that a port is \
                 unreachable: whether packets are lost, --icmp or --tcp tells"
            );
            return note(text, "", &words);
        }
        // The loss begins behind the last hop that answered more than the target does.
        let whole = route
            .hops
            .iter()
            .rposition(|before| before.completed > 0 && share(before) < share(hop) / 2.0);
        let place = match whole.and_then(|at| route.hops.get(at)) {
            Some(before) => format!("behind hop {}", before.ttl),
            None => "from the first hop on".to_string(),
        };
        let words = format!("{lost} of the packets to the target were not answered; {place}");
        note(text, "", &words);
    }
}

fn note(text: &mut String, start: &str, words: &str) {
    for line in wrap(words, start, &format!("{start}  "), WIDTH) {
        let _ = writeln!(text, "{line}");
    }
}

/// The route as a table, as mtr has it.
pub(super) fn table(route: &Route) -> String {
    let mut text = format!("{}\n", head(route));
    let _ = writeln!(
        text,
        "{:>3}  {:<NAME$} {:>5} {:>5} {:>6} {:>6} {:>6} {:>6} {:>6}",
        "hop", "who", "lost", "sent", "last", "avg", "best", "worst", "jitter"
    );
    for hop in &route.hops {
        let router = hop.routers.first();
        let who = match router {
            Some(router) => router.name.clone().unwrap_or_else(|| router.address.to_string()),
            None => "*".to_string(),
        };
        let more = hop.routers.len().saturating_sub(1);
        let who = if more > 0 { format!("{who} +{more}") } else { who };
        let who: String = who.chars().take(NAME).collect();
        let lost = match hop.completed {
            0 => "".to_string(),
            finished => percent(1.0 - hop.received as f64 / finished as f64).replace(' ', ""),
        };
        let _ = write!(
            text,
            "{:>3}  {who:<NAME$} {:>5} {:>5}",
            hop.ttl,
            if hop.rate_limits_replies { "(lim)".to_string() } else { lost },
            number(hop.sent)
        );
        if let Some(times) = hop.round_trip {
            for ms in [times.last_ms, times.mean_ms, times.min_ms, times.max_ms] {
                let _ = write!(text, " {:>6}", short(ms));
            }
            let _ = write!(text, " {:>6}", times.jitter_ms.map(short).unwrap_or_default());
        }
        text.push('\n');
    }
    text.push_str("times in milliseconds\n");
    end(route, &mut text);
    text
}

/// Milliseconds in six columns.
fn short(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 1000.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use model::{HopTimes, Router};

    use super::*;

    fn hop(distance: u8, answered: u64, finished: u64) -> Hop {
        let from: IpAddr = "2001:db8:ffff:ffff:ffff:ffff:ffff:1".parse().unwrap();
        let kind = ReplyKind::TimeExceeded;
        let probe = HopProbe { from: Some(from), kind: Some(kind), round_trip_ms: Some(1234.5) };
        let silent = HopProbe { from: None, kind: None, round_trip_ms: None };
        Hop {
            ttl: distance,
            sent: finished,
            completed: finished,
            received: answered,
            routers: vec![Router {
                address: from,
                name: Some("a-router-with-a-name-of-many-letters.example.net".to_string()),
                replies,
                kind,
                mpls: Vec::new(),
            }],
            probes: vec![probe, probe, silent],
            round_trip: Some(HopTimes { max_ms: 1234.5, ..HopTimes::default() }),
            mtu: Some(1500),
            changes: vec!["NAT: its destination 198.18.0.1 was changed to 198.18.0.9".to_string()],
            ..Hop::default()
        }
    }

    #[test]
    fn text_fits_eighty_columns() {
        let mut all = Route {
            target: "a-host-with-a-long-name.example.org".to_string(),
            hops: vec![hop(1, 3, 3), hop(2, 1, 3), hop(3, 2, 3)],
            ..Route::default()
        };
        all.hops[1].rate_limits_replies = true;
        for reached in [true, false] {
            all.reached = reached;
            for text in [route(&all), table(&all)] {
                for line in text.lines() {
                    assert!(line.chars().count() <= WIDTH, "{line}");
                }
                assert!(text.contains("hop 2 answers fewer packets"), "{text}");
            }
        }
        let text = route(&all);
        assert_eq!(text.matches("NAT: its destination").count(), 1, "{text}");
    }

    #[test]
    fn silence_is_a_star() {
        let silent = HopProbe { from: None, kind: None, round_trip_ms: None };
        let hop = Hop { ttl: 7, probes: vec![silent; 3], ..Hop::default() };
        let mut text = String::new();
        hop_lines(&hop, &mut text);
        assert_eq!(text, "  7  * * *\n");
    }
}
