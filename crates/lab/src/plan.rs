//! The addressing plan of a scenario: interfaces, addresses and routes of every host.
//!
//! Links that meet at a switch are one network; any other link is a network of its own. Network `n`
//! has 198.18.n.0/24 and fd00:0:0:n::/64; its members are numbered from 1 in the order of the file.
//! Hosts reach other networks through as few routers as possible.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::{Error, Result};
use crate::scenario::Scenario;
use crate::scenario::types::{Link, Role};

/// Maximum number of networks in 198.18.0.0/16, and of members in each.
const MAX_NETWORKS: usize = 250;

/// The addressing plan.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The two interfaces of each link, in the order of the file.
    pub(crate) wires: Vec<[Interface; 2]>,
    /// Routes of each host.
    pub(crate) routes: BTreeMap<String, Vec<Route>>,
}

/// One end of a link.
#[derive(Debug, Clone)]
pub(crate) struct Interface {
    /// Host or switch.
    pub(crate) host: String,
    /// The name of the interface: `eth0`.
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
    /// The plan of a scenario.
    pub(crate) fn of(scenario: &Scenario) -> Result<Self> {
        let networks = networks(scenario);
        let role = |host: &str| scenario.hosts.get(host).map(|h| h.role).unwrap_or_default();
        // Interfaces of each host and members of each network so far.
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
        if members.len() > MAX_NETWORKS || members.values().any(|count| *count > MAX_NETWORKS) {
            return Err(Error::new(format!(
                "too many networks, or too many hosts in one network: at most {MAX_NETWORKS} each"
            )));
        }
        let routes = routes(&wires, &role);
        Ok(Plan { wires, routes })
    }

    /// The address of a host on its first link, or on the link to a peer; `None` without one.
    pub(crate) fn address(&self, host: &str, peer: Option<&str>) -> Option<Address> {
        let ends = self.wires.iter().flat_map(|[a, b]| [(a, b), (b, a)]);
        let mut own = ends.filter(|(here, there)| {
            here.host == host && peer.is_none_or(|peer| there.host == peer)
        });
        own.next().and_then(|(here, _)| here.address)
    }
}

/// The network of each link: links that meet at a switch share the lowest number among them.
fn networks(scenario: &Scenario) -> Vec<usize> {
    let hosts = scenario.hosts.iter();
    let switches: Vec<&String> =
        hosts.filter(|(_, host)| host.role == Role::Switch).map(|(name, _)| name).collect();
    let mut networks: Vec<usize> = (0..scenario.links.len()).collect();
    // A chain of switches has at most as many links as there are: each pass extends the lowest
    // number by one switch.
    for _ in 0..scenario.links.len() {
        for switch in &switches {
            let at_switch = |link: &Link| link.between.iter().any(|end| end.get_ref() == *switch);
            let links = || scenario.links.iter().map(at_switch);
            let lowest = links().zip(&networks).filter_map(|(at, n)| at.then_some(*n)).min();
            for (at_switch, network) in links().zip(&mut networks) {
                if let (true, Some(lowest)) = (at_switch, lowest) {
                    *network = lowest;
                }
            }
        }
    }
    networks
}

/// Routes of every host to the networks it is not part of, through as few routers as possible.
fn routes(wires: &[[Interface; 2]], role: &dyn Fn(&str) -> Role) -> BTreeMap<String, Vec<Route>> {
    let ends: Vec<&Interface> =
        wires.iter().flatten().filter(|end| end.address.is_some()).collect();
    let mut routes: BTreeMap<String, Vec<Route>> = BTreeMap::new();
    for start in &ends {
        if routes.contains_key(&start.host) {
            continue;
        }
        let mut found = Vec::new();
        let mut reached: Vec<usize> =
            ends.iter().filter(|e| e.host == start.host).map(|e| e.network).collect();
        // Networks to visit, each with the first router on the route there.
        let mut queue: VecDeque<(usize, Option<Address>)> =
            reached.iter().map(|network| (*network, None)).collect();
        while let Some((network, via)) = queue.pop_front() {
            let routers = ends
                .iter()
                .filter(|e| e.network == network && e.host != start.host)
                .filter(|e| role(&e.host) == Role::Router);
            for router in routers {
                let first = via.or(router.address);
                for next in ends.iter().filter(|e| e.host == router.host) {
                    if reached.contains(&next.network) {
                        continue;
                    }
                    reached.push(next.network);
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
             [workload]\nhost=\"a\"\nrun=\"x\"\noutput=\"lines\"\nfigure=\"y\"\nduration=\"1s\"\n\
             [[observe]]\nhost=\"a\"\n"
        );
        Plan::of(&toml::from_str(&text).unwrap()).unwrap()
    }

    #[test]
    fn a_router_joins_two_networks() {
        let plan = plan(
            "[hosts]\na = {}\nb = {}\ngw = { role = \"router\" }",
            &[["a", "gw"], ["gw", "b"]],
        );
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
    fn hosts_at_a_switch_share_a_network_and_hosts_do_not_forward() {
        let plan = plan(
            "[hosts]\na = {}\nb = {}\nc = {}\nd = {}\nsw = { role = \"switch\" }",
            &[["a", "sw"], ["b", "sw"], ["c", "sw"], ["c", "d"]],
        );
        let v4 = |host| plan.address(host, None).unwrap().v4.to_string();
        assert_eq!([v4("a"), v4("b"), v4("c")], ["198.18.0.1", "198.18.0.2", "198.18.0.3"]);
        assert_eq!(plan.address("c", Some("d")).unwrap().v4.to_string(), "198.18.3.1");
        assert!(plan.routes["a"].is_empty(), "c is not a router");
        assert!(plan.address("sw", None).is_none());
    }
}
