//! The heading of a route, and the notes below its hops.

use model::{Hop, ReplyKind, Route, TraceMethod};
use text::{number, percent, share};

/// The target and the packets.
pub(super) fn heading(route: &Route) -> String {
    let address = route.address.map(|address| address.to_string()).unwrap_or_default();
    let target = match route.target.contains(&address) {
        true => route.target.clone(),
        false => format!("{} ({address})", route.target),
    };
    let port = route.port.map(|port| format!(", port {port}")).unwrap_or_default();
    let method = match route.method {
        TraceMethod::Udp => "UDP",
        TraceMethod::Tcp => "TCP SYN",
        TraceMethod::Icmp => "ICMP echo",
    };
    let flow = if route.one_flow { "one flow" } else { "a flow for each packet" };
    format!("route to {target}: {method}{port}, {flow}")
}

/// The notes, one sentence each.
pub(super) fn notes(route: &Route) -> Vec<String> {
    let mut notes = Vec::new();
    let path_mtu = route.path_mtu.map(|mtu| number(mtu.into()));
    notes.extend(path_mtu.map(|mtu| format!("path MTU to the target: {mtu} B")));
    notes.extend(route.notes.iter().cloned());
    notes.extend(rate_limits(route));
    notes.extend(if route.reached { loss(route) } else { Some(end(route)) });
    notes
}

/// Hops that limit the rate of their replies.
fn rate_limits(route: &Route) -> Option<String> {
    let limited = route.hops.iter().filter(|hop| hop.rate_limits_replies);
    let limited: Vec<String> = limited.map(|hop| hop.ttl.to_string()).collect();
    match &limited[..] {
        [] => None,
        [hop] => Some(format!(
            "hop {hop} replies to fewer packets than a later hop: it limits the rate of its \
             replies, no packet is lost there"
        )),
        hops => Some(format!(
            "hops {} reply to fewer packets than a later hop: they limit the rate of their \
             replies, no packet is lost there",
            hops.join(", ")
        )),
    }
}

/// Where a route that does not reach the target ends.
fn end(route: &Route) -> String {
    let last = route.hops.iter().rev().find(|hop| hop.received > 0);
    match last.and_then(|hop| Some((hop, hop.routers.first()?))) {
        Some((hop, router)) if router.kind.annotation().is_some() => format!(
            "the route ends at hop {}: {} reports: {}",
            hop.ttl,
            router.address,
            router.kind.description()
        ),
        Some((hop, router)) => format!(
            "the target did not reply; the last hop that did is {}, {}: packets after it are lost \
             or filtered, or get no reply (another protocol may get through: --tcp, --icmp)",
            hop.ttl, router.address
        ),
        None => "no reply, neither from a hop nor from the target".to_string(),
    }
}

/// Packets to the target that were lost, and where.
fn loss(route: &Route) -> Option<String> {
    let target = route.hops.last().filter(|hop| hop.received < hop.completed)?;
    let lost = |hop: &Hop| 1.0 - share(hop.received as f64, hop.completed as f64);
    let percent = percent(lost(target));
    let is_rate_limited =
        target.routers.iter().any(|router| router.kind == ReplyKind::PortUnreachable);
    if is_rate_limited {
        // Most hosts send a few of these a second.
        return Some(format!(
            "{percent} of the packets to the target got no reply; hosts limit how often they \
             report an unreachable port: --icmp or --tcp shows whether packets are lost"
        ));
    }
    // The loss begins after the last hop with at most half of it.
    let last_without =
        route.hops.iter().rev().find(|hop| hop.completed > 0 && lost(hop) < lost(target) / 2.0);
    let from = match last_without {
        Some(hop) => format!("after hop {}", hop.ttl),
        None => "at the first hop".to_string(),
    };
    Some(format!("{percent} of the packets to the target got no reply; the loss begins {from}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_begins_after_the_last_hop_without_it() {
        let hop = |ttl, received| Hop { ttl, received, completed: 10, ..Hop::default() };
        let mut route = Route {
            reached: true,
            hops: vec![hop(1, 10), hop(2, 7), hop(3, 7)],
            ..Route::default()
        };
        let notes = |route: &Route| super::notes(route).join("\n");
        assert!(notes(&route).ends_with("got no reply; the loss begins after hop 1"));
        route.hops = vec![hop(1, 7), hop(2, 7)];
        assert!(notes(&route).starts_with("30 % of the packets"), "{}", notes(&route));
        assert!(notes(&route).ends_with("begins at the first hop"));
        route.hops = vec![hop(1, 10)];
        assert_eq!(notes(&route), "");
    }
}
