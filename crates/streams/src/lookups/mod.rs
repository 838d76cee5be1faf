//! Names that were looked up (DNS over UDP and TCP), and how long each server let its clients wait.
//!
//! A look-up is all that one client asks for one name until it has an answer: of several kinds at once
//! (IPv4 and IPv6), and of several servers one after the other. The time from a query that was not
//! answered to the one that repeats it is lost on the server that did not answer. Queries of servers
//! among each other do not count: many of theirs are never answered, and nobody waits.

use std::net::{IpAddr, SocketAddr};

use hashbrown::HashMap;
use model::{Resolver, SlowLookup};
use wire::packet::{Ip, Tcp, Udp};
use wire::payload::dns::{self, Message};

use crate::Nanos;
use crate::histogram::Histogram;

/// Port of the name servers.
pub(crate) const PORT: u16 = 53;
/// Look-ups that are open at once, and their queries.
const OPEN: usize = 16_384;
const QUERIES: usize = 8;
/// Servers that are told apart; and told.
const SERVERS: usize = 1024;
const TOLD: usize = 16;
/// After so long nobody waits any more.
const FORGOTTEN: Nanos = 60_000_000_000;
/// A query that comes so soon after the last is not its repetition: several servers are asked at once,
/// or the same packet was captured twice.
const AT_ONCE: Nanos = 100_000_000;
/// Answers that come later are slow: resolvers give up after 5 s, users before.
const SLOW: Nanos = 1_000_000_000;
/// A resolver that has not repeated a query by then has its answer, or has given up (`RES_TIMEOUT` is
/// 5 s): what was not captured is not counted.
const REPEATS: Nanos = 6_000_000_000;

/// What was asked of name servers in a capture.
#[derive(Debug, Default, Clone)]
pub struct Lookups {
    servers: Vec<(SocketAddr, Server)>,
    places: HashMap<SocketAddr, usize>,
    open: HashMap<(IpAddr, Vec<u8>), Lookup>,
}

/// One server.
#[derive(Debug, Default, Clone)]
struct Server {
    queries: u64,
    answers: u64,
    failures: u64,
    unanswered: u64,
    slow: u64,
    lost: Nanos,
    times: Histogram,
    worst: Option<(Nanos, SlowLookup)>,
}

/// A name that a client asks for.
#[derive(Debug, Clone)]
struct Lookup {
    queries: Vec<Query>,
    /// Up to here its time is lost, and has been added up.
    lost_until: Nanos,
}

#[derive(Debug, Clone, Copy)]
struct Query {
    server: usize,
    id: u16,
    kind: u16,
    at: Nanos,
    /// Answered, or repeated.
    over: bool,
}

impl Lookups {
    /// A datagram, if it is one of DNS.
    pub(crate) fn take(&mut self, ip: &Ip<'_>, at: Nanos) {
        let Ok(udp) = Udp::of(ip) else { return };
        if udp.source != PORT && udp.destination != PORT {
            return;
        }
        if let Some(message) = dns::message(udp.payload) {
            self.message(ip, [udp.source, udp.destination], &message, at);
        }
    }

    /// New data of a stream, if it is one of DNS. Of a message that is cut into several segments the
    /// first has what matters.
    #[cold]
    pub(crate) fn segment(&mut self, ip: &Ip<'_>, tcp: &Tcp<'_>, at: Nanos) {
        let mut rest = tcp.payload;
        while let Some((message, next)) = dns::tcp_message(rest) {
            self.message(ip, [tcp.source, tcp.destination], &message, at);
            rest = next;
        }
    }

    fn message(&mut self, ip: &Ip<'_>, ports: [u16; 2], message: &Message<'_>, at: Nanos) {
        let [source, destination] = ports;
        match message.is_response {
            _ if !message.recursion_desired => {}
            false if destination == PORT => {
                self.query(ip.source, (ip.destination, PORT).into(), message, at);
            }
            true if source == PORT => {
                self.answer(ip.destination, (ip.source, PORT).into(), message, at);
            }
            _ => {}
        }
    }

    fn server(&mut self, server: SocketAddr) -> Option<usize> {
        if let Some(place) = self.places.get(&server) {
            return Some(*place);
        }
        if self.servers.len() >= SERVERS {
            return None;
        }
        self.places.insert(server, self.servers.len());
        self.servers.push((server, Server::default()));
        Some(self.servers.len() - 1)
    }

    fn query(&mut self, client: IpAddr, server: SocketAddr, message: &Message<'_>, at: Nanos) {
        let Some(server) = self.server(server) else { return };
        let key = key(client, message);
        if self.open.len() >= OPEN && !self.open.contains_key(&key) {
            self.forget(at);
            if self.open.len() >= OPEN {
                return;
            }
        }
        let Lookups { servers, open, .. } = self;
        let lookup = open
            .entry(key)
            .or_insert_with(|| Lookup { queries: Vec::new(), lost_until: Nanos::MIN });
        let twice = |query: &Query| {
            (query.server, query.id, query.kind) == (server, message.id, message.query_type)
                && at.saturating_sub(query.at) < AT_ONCE
        };
        if lookup.queries.iter().any(twice) {
            return;
        }
        servers[server].1.queries += 1;
        lookup.repeated(servers, message, client, at);
        if lookup.queries.len() >= QUERIES {
            lookup.queries.remove(0);
        }
        let (id, kind) = (message.id, message.query_type);
        lookup.queries.push(Query { server, id, kind, at, over: false });
    }

    fn answer(&mut self, client: IpAddr, server: SocketAddr, message: &Message<'_>, at: Nanos) {
        let Some(server) = self.server(server) else { return };
        let key = key(client, message);
        let Lookups { servers, open, .. } = self;
        let Some(lookup) = open.get_mut(&key) else { return };
        let asked = |query: &&mut Query| {
            (query.server, query.id, query.kind) == (server, message.id, message.query_type)
        };
        let Some(query) = lookup.queries.iter_mut().rev().find(asked) else { return };
        let told = &mut servers[server].1;
        // One that was repeated meanwhile has been counted.
        let first = !query.over;
        query.over = true;
        let (asked, took) = (query.at, at.saturating_sub(query.at));
        if first {
            told.answers += 1;
            told.failures += u64::from(matches!(message.response_code, 2 | 5));
            told.times.add(took);
            if took >= SLOW {
                told.slow += 1;
                let from = asked.max(lookup.lost_until);
                told.waited(at.saturating_sub(from).max(0), took, message, client);
                lookup.lost_until = lookup.lost_until.max(at);
            }
        }
        // After a failure the next server is asked: that is no repetition.
        if lookup.queries.iter().all(|query| query.over) && !matches!(message.response_code, 2 | 5)
        {
            open.remove(&key);
        }
    }

    /// Look-ups of long ago.
    fn forget(&mut self, now: Nanos) {
        self.open.retain(|_, lookup| {
            let last = lookup.queries.last().map_or(Nanos::MIN, |query| query.at);
            now.saturating_sub(last) < FORGOTTEN
        });
    }

    /// What is told; the capture ended at this time.
    pub(crate) fn told(&self, end: Nanos) -> Vec<Resolver> {
        let mut servers = self.servers.clone();
        let mut open: Vec<_> = self.open.iter().collect();
        open.sort_by(|a, b| a.0.cmp(b.0));
        for ((client, name), lookup) in open {
            // Who waits at the end for longer than an answer may take has waited in vain.
            let waits = |query: &&Query| {
                !query.over && (SLOW..REPEATS).contains(&end.saturating_sub(query.at))
            };
            let mut lost_until = lookup.lost_until;
            for query in lookup.queries.iter().filter(waits) {
                let server = &mut servers[query.server].1;
                server.unanswered += 1;
                let lost = end.saturating_sub(query.at.max(lost_until)).max(0);
                let message = Message {
                    id: query.id,
                    is_response: false,
                    recursion_desired: true,
                    response_code: 0,
                    name,
                    query_type: query.kind,
                };
                server.waited(lost, end.saturating_sub(query.at), &message, *client);
                lost_until = lost_until.max(end);
            }
        }
        let mut told: Vec<Resolver> =
            servers.iter().map(|(server, sums)| resolver(*server, sums)).collect();
        told.sort_by_key(|one| (std::cmp::Reverse((one.lost_us, one.queries)), one.server));
        told.truncate(TOLD);
        told
    }
}

impl Lookup {
    /// A client asks again: whom it asked before did not answer.
    fn repeated(
        &mut self,
        servers: &mut [(SocketAddr, Server)],
        message: &Message<'_>,
        client: IpAddr,
        at: Nanos,
    ) {
        for query in &mut self.queries {
            let waited = at.saturating_sub(query.at);
            if query.over || query.kind != message.query_type || waited < AT_ONCE {
                continue;
            }
            query.over = true;
            let server = &mut servers[query.server].1;
            server.unanswered += 1;
            let lost = at.saturating_sub(query.at.max(self.lost_until)).max(0);
            server.waited(lost, waited, message, client);
            self.lost_until = self.lost_until.max(at);
        }
    }
}

impl Server {
    /// A client waited for it.
    fn waited(&mut self, lost: Nanos, waited: Nanos, message: &Message<'_>, client: IpAddr) {
        self.lost = self.lost.saturating_add(lost);
        if self.worst.as_ref().is_none_or(|(most, _)| waited > *most) {
            let us = micros(waited);
            self.worst = Some((waited, SlowLookup { name: message.text(), client, waited_us: us }));
        }
    }
}

fn resolver(server: SocketAddr, sums: &Server) -> Resolver {
    Resolver {
        server,
        queries: sums.queries,
        answers: sums.answers,
        failures: sums.failures,
        unanswered: sums.unanswered,
        slow: sums.slow,
        answer_p50_us: sums.times.quantile(0.5),
        answer_p99_us: sums.times.quantile(0.99),
        lost_us: micros(sums.lost),
        worst: sums.worst.as_ref().map(|(_, worst)| worst.clone()),
    }
}

fn key(client: IpAddr, message: &Message<'_>) -> (IpAddr, Vec<u8>) {
    (client, message.name.to_ascii_lowercase())
}

fn micros(nanos: Nanos) -> u64 {
    u64::try_from(nanos / 1_000).unwrap_or(0)
}

#[cfg(test)]
mod tests;
