//! What the clients of a capture tried: a connection that fails costs something only if its client
//! waited for just that one.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};

use model::{CapturedStream, Packets, StreamEnd};

/// Addresses at which connections of one client failed within this time either way, microseconds: no
/// program waits for so many.
const MANY_FAILED: usize = 8;
const FAILED_TOGETHER_US: u64 = 30_000_000;
/// Addresses that one client tries at the same time, on ports above the well-known ones, as
/// peer-to-peer programs do: it goes on with those that answer.
const MANY_AT_ONCE: usize = 16;
const AT_ONCE_US: u64 = 1_000_000;
const WELL_KNOWN_PORTS: u16 = 1024;
/// Ports of one host that are tried without a byte of data.
const SCANNED_PORTS: usize = 4;
/// A client that has another address to try takes it this soon, microseconds; Happy Eyeballs begins
/// as much before (RFC 8305, section 5: 250 ms).
const NEXT_ADDRESS_US: u64 = 300_000;
/// Ports of protocols whose two ends both connect, and try again for as long as they run: BGP, MSDP,
/// LDP.
const PORTS_OF_PEERS: [u16; 3] = [179, 639, 646];

/// The streams of a capture by client.
pub(crate) struct Clients<'a> {
    /// In the order of their beginnings.
    streams: HashMap<IpAddr, Vec<&'a CapturedStream>>,
    /// Numbers of those that are one of many that their client only tries.
    tried: HashSet<u64>,
}

/// What became of a client whose connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AfterRefusal {
    /// It went on at once with another address or port, or its peer connected to it.
    LostNothing,
    /// A later try opened.
    OpenedLater,
    /// No later try opened.
    Failed,
}

fn has_failed(stream: &CapturedStream) -> bool {
    stream.handshake_us.is_none() && stream.roles_known && !has_data(stream)
}

fn has_data(stream: &CapturedStream) -> bool {
    stream.directions().iter().any(|direction| direction.new_bytes > 0)
}

impl<'a> Clients<'a> {
    pub(crate) fn of(packets: &'a Packets) -> Self {
        let mut streams: HashMap<IpAddr, Vec<&CapturedStream>> = HashMap::new();
        for stream in packets.worst.iter().filter(|stream| stream.roles_known) {
            streams.entry(stream.client.ip()).or_default().push(stream);
        }
        let mut tried = HashSet::new();
        for streams in streams.values_mut() {
            streams.sort_by_key(|stream| stream.first_us);
            tried.extend(only_tried(streams));
        }
        Clients { streams, tried }
    }

    fn of_client(&self, stream: &CapturedStream) -> impl Iterator<Item = &'a CapturedStream> {
        self.streams.get(&stream.client.ip()).into_iter().flatten().copied()
    }

    /// Whether a connection that failed or opened late is one of many that its client only tries: a
    /// scan, or a peer-to-peer program.
    pub(crate) fn is_one_of_many(&self, stream: &CapturedStream) -> bool {
        stream.roles_known && self.tried.contains(&stream.number)
    }

    /// Whether none of a client's connections opened.
    pub(crate) fn opened_none(&self, client: IpAddr) -> bool {
        let mut streams = self.streams.get(&client).into_iter().flatten();
        streams.all(|stream| stream.handshake_us.is_none())
    }

    /// What became of the client of a stream that was refused.
    pub(crate) fn after_refusal(&self, refused: &CapturedStream) -> AfterRefusal {
        let server = refused.server;
        let opened = |other: &&CapturedStream| other.handshake_us.is_some();
        let ended = refused.first_us.saturating_add(refused.span_us);
        let is_next = |other: &CapturedStream| {
            let alternative =
                (other.server.ip() == server.ip()) != (other.server.port() == server.port());
            alternative
                && other.first_us.saturating_add(NEXT_ADDRESS_US) >= refused.first_us
                && other.first_us <= ended.saturating_add(NEXT_ADDRESS_US)
        };
        let mut of_peer = self.streams.get(&server.ip()).into_iter().flatten().copied();
        let is_of_peer = |other: &CapturedStream| {
            refused.client.ip() != server.ip()
                && other.server == SocketAddr::new(refused.client.ip(), server.port())
        };
        if PORTS_OF_PEERS.contains(&server.port())
            || self.of_client(refused).filter(opened).any(is_next)
            || of_peer.any(|other| opened(&other) && is_of_peer(other))
        {
            return AfterRefusal::LostNothing;
        }
        let is_later =
            |other: &CapturedStream| other.server == server && other.first_us > refused.first_us;
        if self.of_client(refused).filter(opened).any(is_later) {
            AfterRefusal::OpenedLater
        } else {
            AfterRefusal::Failed
        }
    }
}

/// Numbers of a client's streams that it only tries: many fail, or many hosts are tried at once, or
/// many ports of one.
fn only_tried(streams: &[&CapturedStream]) -> HashSet<u64> {
    let has_free_port = |stream: &CapturedStream| stream.server.port() >= WELL_KNOWN_PORTS;
    let failed = |stream: &CapturedStream| has_failed(stream).then_some(stream.server);
    let peer = |stream: &CapturedStream| has_free_port(stream).then_some(stream.server.ip());
    let mut tried: HashSet<u64> = near_many(streams, FAILED_TOGETHER_US, MANY_FAILED, failed)
        .map(|stream| stream.number)
        .collect();
    let peers = near_many(streams, AT_ONCE_US, MANY_AT_ONCE, peer);
    tried.extend(peers.filter(|stream| has_free_port(stream)).map(|stream| stream.number));
    let mut ports: HashMap<IpAddr, HashSet<u16>> = HashMap::new();
    let mut used: HashSet<IpAddr> = HashSet::new();
    for stream in streams {
        ports.entry(stream.server.ip()).or_default().insert(stream.server.port());
        if has_data(stream) {
            used.insert(stream.server.ip());
        }
    }
    let is_scanned = |host: &IpAddr| {
        ports.get(host).is_some_and(|ports| ports.len() >= SCANNED_PORTS) && !used.contains(host)
    };
    let scanned = streams.iter().filter(|stream| is_scanned(&stream.server.ip()));
    tried.extend(scanned.map(|stream| stream.number));
    tried
}

/// The streams within `time` of which at least `many` different ones began, earlier or later, as
/// `what` tells them apart; `streams` are in the order of their beginnings.
fn near_many<'a, T: Copy + Eq + Hash>(
    streams: &[&'a CapturedStream],
    time: u64,
    many: usize,
    what: impl Fn(&CapturedStream) -> Option<T>,
) -> impl Iterator<Item = &'a CapturedStream> {
    let mut near: HashMap<T, usize> = HashMap::new();
    let (mut earliest, mut next) = (streams.iter().peekable(), streams.iter().peekable());
    streams.iter().copied().filter(move |stream| {
        let last = stream.first_us.saturating_add(time);
        while let Some(begins) = next.next_if(|other| other.first_us <= last) {
            if let Some(one) = what(begins) {
                *near.entry(one).or_default() += 1;
            }
        }
        let first = stream.first_us.saturating_sub(time);
        while let Some(is_over) = earliest.next_if(|other| other.first_us < first) {
            if let Some(Entry::Occupied(mut count)) = what(is_over).map(|one| near.entry(one)) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        near.len() >= many
    })
}

/// Whether a connection was opened and closed without data: nobody waited for it.
pub(crate) fn carried_nothing(stream: &CapturedStream) -> bool {
    let is_over =
        matches!(stream.end, StreamEnd::Closed | StreamEnd::HalfClosed | StreamEnd::Reset);
    stream.handshake_us.is_some() && is_over && !has_data(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{add_stream, healthy};
    use model::Evidence;

    /// Connections that fail, and connections that open.
    fn tried(failed: &[&str], opened: &[&str]) -> Evidence {
        let mut evidence = healthy();
        for (at, server) in failed.iter().chain(opened).enumerate() {
            let stream = add_stream(&mut evidence, "198.18.0.1:4000", server);
            stream.number = at as u64;
            for sent in [&mut stream.from_client, &mut stream.from_server] {
                sent.new_bytes = if at < failed.len() { 0 } else { 100 };
            }
            stream.handshake_us = (at >= failed.len()).then_some(1_000);
        }
        evidence
    }

    fn first_is_one_of_many(evidence: &Evidence) -> bool {
        let packets = evidence.packets.as_ref().unwrap();
        Clients::of(packets).is_one_of_many(&packets.worst[0])
    }

    fn servers(port: u16, count: u16, step: u16) -> Vec<String> {
        (0..count).map(|at| format!("198.18.1.{at}:{}", port + at * step)).collect()
    }

    #[test]
    fn many_addresses_are_a_scan_or_peers_and_few_are_not() {
        let many = servers(2000, 8, 100);
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(first_is_one_of_many(&tried(&many, &[])));
        assert!(!first_is_one_of_many(&tried(&many[..7], &[])));
        let peers = servers(30303, 16, 0);
        let peers: Vec<&str> = peers.iter().map(String::as_str).collect();
        assert!(first_is_one_of_many(&tried(&peers[..1], &peers[1..])));
        let web = servers(443, 16, 0);
        let web: Vec<&str> = web.iter().map(String::as_str).collect();
        assert!(!first_is_one_of_many(&tried(&web[..1], &web[1..])), "a browser");
    }

    #[test]
    fn ports_of_one_host_without_data_are_a_scan() {
        let ports = ["198.18.1.1:22", "198.18.1.1:25", "198.18.1.1:80", "198.18.1.1:443"];
        assert!(first_is_one_of_many(&tried(&ports, &[])));
        assert!(!first_is_one_of_many(&tried(&ports[..3], &ports[3..])), "one is used");
    }

    #[test]
    fn a_refused_client_goes_on_elsewhere_or_later_or_not_at_all() {
        let after = |opened: &str, at_us: u64| {
            let mut evidence = tried(&["198.18.1.1:80"], &[opened]);
            evidence.packets.as_mut().unwrap().worst[1].first_us = at_us;
            let packets = evidence.packets.as_ref().unwrap();
            Clients::of(packets).after_refusal(&packets.worst[0])
        };
        assert_eq!(after("198.18.1.2:80", 1_000), AfterRefusal::LostNothing);
        assert_eq!(after("198.18.1.1:81", 1_000), AfterRefusal::LostNothing);
        assert_eq!(after("198.18.1.2:80", 5_000_000), AfterRefusal::Failed);
        assert_eq!(after("198.18.1.2:443", 1_000), AfterRefusal::Failed, "something else");
        assert_eq!(after("198.18.1.1:80", 5_000_000), AfterRefusal::OpenedLater);
    }
}
