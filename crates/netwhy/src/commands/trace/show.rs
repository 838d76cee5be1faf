//! A route hop by hop, as traceroute(8) prints it.

use std::net::IpAddr;

use model::{Hop, HopProbe, ReplyKind, Route};
use text::figures::round_trip;
use text::{columns, sanitize, wrap};

use super::notes::{heading, notes};
use crate::output;

/// Indent of lines that belong to the hop above.
const HOP_INDENT: &str = "       ";

/// The route and its notes.
pub(super) fn text(route: &Route) -> String {
    let mut lines = wrap(&heading(route), "", "  ", output::columns());
    let mut known_changes: &[String] = &[];
    for hop in &route.hops {
        lines.extend(hop_lines(hop));
        // Changes of an earlier hop are not repeated.
        for change in hop.changes.iter().filter(|change| !known_changes.contains(change)) {
            lines.extend(detail(change));
        }
        known_changes = &hop.changes;
        lines.extend(mpls_lines(hop));
    }
    for note in notes(route) {
        lines.extend(wrap(&note, "", "  ", output::columns()));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// A line that belongs to the hop above.
fn detail(text: &str) -> Vec<String> {
    wrap(text, HOP_INDENT, &format!("{HOP_INDENT}  "), output::columns())
}

/// The packets of a hop that one router replied to.
struct Replies<'a> {
    from: IpAddr,
    probes: Vec<&'a HopProbe>,
}

/// The lines of a hop: one for each router, with its round-trip times.
fn hop_lines(hop: &Hop) -> Vec<String> {
    let mut routers: Vec<Replies<'_>> = Vec::new();
    for probe in &hop.probes {
        let Some(from) = probe.from else { continue };
        match routers.iter_mut().find(|known| known.from == from) {
            Some(known) => known.probes.push(probe),
            None => routers.push(Replies { from, probes: vec![probe] }),
        }
    }
    let start = format!("{:>3}  ", hop.ttl);
    let lost = hop.probes.iter().filter(|probe| probe.from.is_none()).count();
    let Some(last) = routers.len().checked_sub(1) else {
        return vec![format!("{start}{}", vec!["*"; lost.max(1)].join(" "))];
    };
    let mut lines = Vec::new();
    for (index, replies) in routers.iter().enumerate() {
        let mut times = times(replies);
        if index == last {
            times.extend(std::iter::repeat_n("*".to_string(), lost));
            times.extend(hop.mtu.map(|mtu| format!("mtu {mtu}")));
        }
        let router = router_name(hop, replies.from);
        let start = if index == 0 { start.as_str() } else { "     " };
        let line = format!("{start}{router}  {}", times.join("  "));
        if columns(&line) <= output::columns() {
            lines.push(line);
        } else {
            lines.extend(wrap(&router, start, HOP_INDENT, output::columns()));
            lines.extend(detail(&times.join("  ")));
        }
        let kinds = replies.probes.iter().filter_map(|probe| probe.kind);
        let mut annotated = kinds.filter_map(|kind| Some((kind.annotation()?, kind)));
        if let Some((annotation, kind)) = annotated.next() {
            lines.extend(detail(&format!("{annotation}: {}", kind.description())));
        }
    }
    lines
}

/// The round-trip times of a router, with traceroute's annotations.
fn times(replies: &Replies<'_>) -> Vec<String> {
    let time = |probe: &&HopProbe| {
        let time = probe.round_trip_ms.map(round_trip).unwrap_or_default();
        match probe.kind.and_then(ReplyKind::annotation) {
            Some(annotation) => format!("{time} {annotation}"),
            None => time,
        }
    };
    replies.probes.iter().map(time).collect()
}

/// Name and address of a router.
fn router_name(hop: &Hop, address: IpAddr) -> String {
    let router = hop.routers.iter().find(|router| router.address == address);
    match router.and_then(|router| router.name.as_deref()) {
        Some(name) => format!("{} ({address})", sanitize::line(name)),
        None => address.to_string(),
    }
}

/// The MPLS labels of a hop.
fn mpls_lines(hop: &Hop) -> Vec<String> {
    let mut lines = Vec::new();
    for router in hop.routers.iter().filter(|router| !router.mpls.is_empty()) {
        let label = |label: &model::MplsLabel| {
            format!("{} (class {}, ttl {})", label.label, label.traffic_class, label.ttl)
        };
        let labels: Vec<String> = router.mpls.iter().map(label).collect();
        lines.extend(detail(&format!("MPLS label {}", labels.join(", "))));
    }
    lines
}

/// A route of three hops with long names, for tests.
#[cfg(test)]
pub(super) fn test_route() -> Route {
    use model::{HopTimes, Router};

    let hop = |ttl, received, completed| {
        let address: IpAddr = "2001:db8:ffff:ffff:ffff:ffff:ffff:1".parse().unwrap();
        let (from, kind) = (Some(address), ReplyKind::TimeExceeded);
        let probe = HopProbe { from, kind: Some(kind), round_trip_ms: Some(1234.5) };
        let lost = HopProbe { from: None, kind: None, round_trip_ms: None };
        Hop {
            ttl,
            sent: completed,
            completed,
            received,
            routers: vec![Router {
                address,
                name: Some("a-router-with-a-name-of-many-letters.example.net".to_string()),
                replies: received,
                kind,
                mpls: Vec::new(),
            }],
            probes: vec![probe, probe, lost],
            round_trip: Some(HopTimes { max_ms: 1234.5, ..HopTimes::default() }),
            mtu: Some(1500),
            changes: vec!["NAT: destination 198.18.0.1 changed to 198.18.0.9".to_string()],
            ..Hop::default()
        }
    };
    let mut route = Route {
        target: "a-host-with-a-long-name.example.org".to_string(),
        hops: vec![hop(1, 3, 3), hop(2, 1, 3), hop(3, 2, 3)],
        ..Route::default()
    };
    route.hops[1].rate_limits_replies = true;
    route
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fits_eighty_columns() {
        let mut route = test_route();
        for reached in [true, false] {
            route.reached = reached;
            let text = text(&route);
            for line in text.lines() {
                assert!(line.chars().count() <= output::columns(), "{line}");
            }
            assert!(text.contains("hop 2 replies to fewer packets"), "{text}");
            assert_eq!(text.matches("NAT: destination").count(), 1, "{text}");
        }
    }

    #[test]
    fn a_hop_without_a_reply_has_stars() {
        let lost = HopProbe { from: None, kind: None, round_trip_ms: None };
        let hop = Hop { ttl: 7, probes: vec![lost; 3], ..Hop::default() };
        assert_eq!(hop_lines(&hop), ["  7  * * *"]);
    }

    #[test]
    fn names_of_routers_cannot_act_on_a_terminal() {
        let mut route = test_route();
        route.hops[0].routers[0].name = Some("a\x1b[2Jb".to_string());
        assert!(text(&route).contains("a\\x1b[2Jb (2001:"), "{}", text(&route));
    }
}
