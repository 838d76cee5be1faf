//! The network of a scenario on paper: interfaces, addresses and routes of every host.
//!
//! Links that meet in a switch are one network; any other link is one of its own. Network `n` has
//! 198.18.n.0/24 and fd00:0:0:n::/64, its members are numbered from 1 in the order in which the
//! file names them. Hosts reach other networks through routers, by the fewest of them.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::{Error, Result};
use crate::scenario::Scenario;
use crate::scenario::types::Role;

/// Networks that there is room for in 198.18.0.0/16.
const NETWORKS: usize = 250;

/// The network on paper.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Wires, in the order of the file.
    pub(crate) wires: Vec<[Interface; 2]>,
    /// Routes of each host.
    pub(crate) routes: BTreeMap<String, Vec<Route>>,
}

/// One end of a wire.
#[derive(Debug, Clone)]
pub(crate) struct Interface {
    /// Host or switch.
    pub(crate) host: String,
    /// Name of the interface there: `eth0`.
    pub(crate) name: String,
    /// `None` on a switch.
    pub(crate) address: Option<Address>,
    network: usize,
}

/// Addresses of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
}

/// A route to another network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) to: String,
    pub(crate) via: IpAddr,
}

impl Address {
    fn new(network: usize, member: usize) -> Self {
        Address {
            v4: Ipv4Addr::new(198, 18, network as u8, member as u8),
            v6: Ipv6Addr::new(0xfd00, 0, 0, network as u16, 0, 0, 0, member as u16),
        }
    }
}

impl Plan {
    /// Draws the plan.
    pub(crate) fn of(scenario: &Scenario) -> Result<Self> {
        let networks = networks(scenario);
        let role = |host: &str| scenario.hosts.get(host).map(|h| h.is).unwrap_or_default();
        // How many interfaces each host has, and how many members each network.
        let mut interfaces: BTreeMap<String, usize> = BTreeMap::new();
        let mut members: BTreeMap<usize, usize> = BTreeMap::new();
        let mut next = |host: &str, network: usize| {
            let number = interfaces.entry(host.to_string()).or_default();
            let name = format!("eth{number}");
            *number += 1;
            let address = (role(host) != Role::Switch).then(|| {
                let member = members.entry(network).or_default();
                *member += 1;
                Address::new(network, *member)
            });
            Interface { host: host.to_string(), name, address, network }
        };
        let ends = scenario.links.iter().zip(networks);
        let wires: Vec<[Interface; 2]> = ends
            .map(|(link, n)| link.between.each_ref().map(|end| next(end.get_ref(), n)))
            .collect();
        if members.len() > NETWORKS || members.values().any(|count| *count > NETWORKS) {
            return Err(Error::new("more networks or hosts in one than there is room for (250)"));
        }
        let routes = routes(&wires, &role);
        Ok(Plan { wires, routes })
    }

    /// The address of a host: on its first link, or on the one to a peer. None without a link.
    pub(crate) fn address(&self, host: &str, peer: Option<&str>) -> Option<Address> {
        let ends = self.wires.iter().flat_map(|[a, b]| [(a, b), (b, a)]);
        let mut own = ends.filter(|(here, there)| {
            here.host == host && peer.is_none_or(|peer| there.host == peer)
        });
        own.next().and_then(|(here, _)| here.address)
    }
}

/// The network of each link: links that meet in a switch share one.
fn networks(scenario: &Scenario) -> Vec<usize> {
    let is_switch = |name: &str| scenario.hosts.get(name).is_some_and(|h| h.is == Role::Switch);
    let mut of: Vec<usize> = (0..scenario.links.len()).collect();
    // As often as there are links: chains of switches are that long at most.
    for _ in 0..scenario.links.len() {
        for a in 0..scenario.links.len() {
            for b in 0..a {
                let meet = scenario.links[a].between.iter().any(|host| {
                    is_switch(host.get_ref())
                        && scenario.links[b].between.iter().any(|h| h.get_ref() == host.get_ref())
                });
                if meet {
                    let least = of[a].min(of[b]);
                    (of[a], of[b]) = (least, least);
                }
            }
        }
    }
    of
}

/// Routes of every host to networks that it is not part of, through the fewest routers.
fn routes(wires: &[[Interface; 2]], role: &dyn Fn(&str) -> Role) -> BTreeMap<String, Vec<Route>> {
    let ends: Vec<&Interface> =
        wires.iter().flatten().filter(|end| end.address.is_some()).collect();
    let mut routes: BTreeMap<String, Vec<Route>> = BTreeMap::new();
    for start in &ends {
        if routes.contains_key(&start.host) {
            continue;
        }
        let mut found = Vec::new();
        let mut seen: Vec<usize> =
            ends.iter().filter(|e| e.host == start.host).map(|e| e.network).collect();
        // Networks to look at, each with the router through which it is reached.
        let mut queue: VecDeque<(usize, Option<Address>)> =
            seen.iter().map(|network| (*network, None)).collect();
        while let Some((network, via)) = queue.pop_front() {
            let routers = ends
                .iter()
                .filter(|e| e.network == network && e.host != start.host)
                .filter(|e| role(&e.host) == Role::Router);
            for router in routers {
                let first = via.or(router.address);
                for next in ends.iter().filter(|e| e.host == router.host) {
                    if seen.contains(&next.network) {
                        continue;
                    }
                    seen.push(next.network);
                    queue.push_back((next.network, first));
                    if let Some(via) = first {
                        let n = next.network;
                        found.push(Route { to: format!("198.18.{n}.0/24"), via: via.v4.into() });
                        found
                            .push(Route { to: format!("fd00:0:0:{n:x}::/64"), via: via.v6.into() });
                    }
                }
            }
        }
        routes.insert(start.host.clone(), found);
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(hosts: &str, links: &[[&str; 2]]) -> Plan {
        let links: String = links
            .iter()
            .map(|[a, b]| format!("[[links]]\nbetween = [\"{a}\", \"{b}\"]\n"))
            .collect();
        let text = format!(
            "title=\"t\"\nabout=\"a\"\nkind=\"healthy\"\n{hosts}\n{links}\n\
             [workload]\nhost=\"a\"\nrun=\"x\"\nreads=\"lines\"\nfigure=\"y\"\nlasts=\"1s\"\n\
             [[observe]]\nhost=\"a\"\n"
        );
        Plan::of(&toml::from_str(&text).unwrap()).unwrap()
    }

    #[test]
    fn a_router_joins_two_networks() {
        let plan =
            plan("[hosts]\na = {}\nb = {}\ngw = { is = \"router\" }", &[["a", "gw"], ["gw", "b"]]);
        let v4 = |host, peer| plan.address(host, peer).unwrap().v4.to_string();
        assert_eq!(v4("a", None), "198.18.0.1");
        assert_eq!(v4("gw", None), "198.18.0.2");
        assert_eq!(v4("gw", Some("b")), "198.18.1.1");
        assert_eq!(v4("b", None), "198.18.1.2");
        let a: Vec<_> = plan.routes["a"].iter().map(|r| format!("{} {}", r.to, r.via)).collect();
        assert_eq!(a, ["198.18.1.0/24 198.18.0.2", "fd00:0:0:1::/64 fd00::2"]);
        assert_eq!(plan.routes["gw"], []);
        assert_eq!(plan.wires[1][0].name, "eth1");
    }

    #[test]
    fn hosts_at_one_switch_share_a_network_and_no_host_forwards() {
        let plan = plan(
            "[hosts]\na = {}\nb = {}\nc = {}\nd = {}\nsw = { is = \"switch\" }",
            &[["a", "sw"], ["b", "sw"], ["c", "sw"], ["c", "d"]],
        );
        let v4 = |host| plan.address(host, None).unwrap().v4.to_string();
        assert_eq!([v4("a"), v4("b"), v4("c")], ["198.18.0.1", "198.18.0.2", "198.18.0.3"]);
        assert_eq!(plan.address("c", Some("d")).unwrap().v4.to_string(), "198.18.3.1");
        assert!(plan.routes["a"].is_empty(), "c is no router");
        assert!(plan.address("sw", None).is_none());
    }
}
