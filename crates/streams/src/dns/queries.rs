//! The DNS queries of a capture, and the look-ups that they belong to.
//!
//! A look-up is all queries of one client for one name until it has an answer: of several types at
//! once (A and AAAA), and to several servers one after the other. The time from an unanswered query to
//! its retry is lost on the server that did not answer. Queries between name servers do not count:
//! many of them are never answered, and no client waits for them.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hashbrown::HashMap;
use model::{ReplyKind, Resolver};
use wire::packet::icmp::Quoted;
use wire::packet::{Ip, Tcp, Udp, udp};
use wire::payload::dns::{self, Message};

use super::name_server::NameServer;
use crate::time::Nanos;

/// Bytes of a header of UDP.
const UDP_HEADER: usize = 8;
/// Port of name servers.
pub(crate) const DNS_PORT: u16 = 53;
/// Most look-ups that are pending at once.
pub(super) const MAX_PENDING: usize = 16_384;
/// Queries that find no room between two searches for look-ups of long ago.
const REFUSED_BEFORE_SEARCH: u64 = MAX_PENDING as u64 / 8;
/// Most queries of one look-up that are kept.
const MAX_QUERIES: usize = 8;
/// Most servers that are counted.
const MAX_SERVERS: usize = 1024;
/// Most servers that are reported.
const MAX_SERVERS_REPORTED: usize = 16;
/// After this time no client waits any more.
const MAX_LOOKUP_TIME: Nanos = 60_000_000_000;
/// A query this soon after the last one is no retry: several servers are queried at once, or it is a
/// duplicate packet of the capture.
const MIN_RETRY_TIME: Nanos = 100_000_000;
/// An answer that takes this long is slow: resolvers give up after 5 s, users before.
const MIN_SLOW_TIME: Nanos = 1_000_000_000;
/// One that takes this long is late: where most do, each request that looks up a name is.
const MIN_LATE_TIME: Nanos = 300_000_000;
/// The same for a name that the server answered a short time before: what it has in its cache takes no longer
/// than the way there, and users notice what takes longer than this.
const MIN_LATE_AGAIN_TIME: Nanos = 100_000_000;
/// That time: the names of content delivery networks, which change most often, stay valid for 20 s or more.
const MAX_CACHED_TIME: Nanos = 20_000_000_000;
/// Most names whose last answer is remembered.
const MAX_ANSWERED: usize = 4096;
/// A query that comes again after this time is a new one: the client had given up. Resolvers ask again
/// after 1 to 5 s, and wait no more than 8 s for the last answer.
const MAX_WAIT_TIME: Nanos = 10_000_000_000;
/// A resolver that has not retried a query by then has its answer, or has given up (`RES_TIMEOUT` is
/// 5 s): an answer that was not captured is not counted.
const MAX_RETRY_TIME: Nanos = 6_000_000_000;
/// Response codes of a server that failed or refused (RFC 1035, 4.1.1).
const SERVFAIL: u8 = 2;
const REFUSED: u8 = 5;

/// The DNS queries of a capture.
#[derive(Debug, Default, Clone)]
pub(crate) struct DnsQueries {
    servers: HashMap<SocketAddr, NameServer>,
    /// By client and name.
    pub(super) open: HashMap<(IpAddr, Vec<u8>), Lookup>,
    /// Time that a client lost before this moment has been added up, whatever the name: it looks up
    /// several at once.
    waited_until: HashMap<IpAddr, Nanos>,
    /// When a server last answered for a name and type; bounded.
    answered: HashMap<(SocketAddr, u16, Vec<u8>), Nanos>,
    /// Queries that found no room.
    pub(crate) refused: u64,
    /// When look-ups of long ago were last searched for, and how many had been refused before.
    searched: Option<(Nanos, u64)>,
    /// Look-ups that were visited by these searches.
    #[cfg(test)]
    pub(super) visited: usize,
}

/// A name that a client looks up.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    queries: Vec<Query>,
}

#[derive(Debug, Clone, Copy)]
struct Query {
    server: SocketAddr,
    id: u16,
    kind: u16,
    at: Nanos,
    /// Whether it was answered or retried.
    is_over: bool,
}

impl Query {
    fn is_of(&self, server: SocketAddr, message: &Message<'_>) -> bool {
        (self.server, self.id, self.kind) == (server, message.id, message.query_type)
    }
}

fn is_failure(message: &Message<'_>) -> bool {
    matches!(message.response_code, SERVFAIL | REFUSED)
}

impl DnsQueries {
    /// Takes a datagram, if it is one of DNS.
    pub(crate) fn take_datagram(&mut self, ip: &Ip<'_>, at: Nanos) {
        let Ok(udp) = Udp::of(ip) else { return };
        if udp.source != DNS_PORT && udp.destination != DNS_PORT {
            return;
        }
        if let Some(message) = dns::message(udp.payload) {
            self.take(ip, udp.source, udp.destination, &message, at);
        }
    }

    /// Takes an error of ICMP: that nobody listens is an answer, too.
    #[cold]
    pub(crate) fn take_error(&mut self, quoted: &Quoted<'_>, kind: ReplyKind, at: Nanos) {
        let Some((ports, rest)) = quoted.transport.split_first_chunk::<UDP_HEADER>() else {
            return;
        };
        let port = u16::from_be_bytes([ports[2], ports[3]]);
        if kind != ReplyKind::PortUnreachable
            || quoted.protocol != udp::PROTOCOL
            || port != DNS_PORT
        {
            return;
        }
        if let Some(query) = dns::message(rest).filter(|message| !message.is_response) {
            let refusal = Message { response_code: REFUSED, ..query };
            self.answer(quoted.source, (quoted.destination, DNS_PORT).into(), &refusal, at);
        }
    }

    /// Takes new data of a stream of DNS. Of a message in several segments, the first one has what
    /// matters.
    #[cold]
    pub(crate) fn take_segment(&mut self, ip: &Ip<'_>, tcp: &Tcp<'_>, at: Nanos) {
        let mut rest = tcp.payload;
        while let Some((message, next)) = dns::tcp_message(rest) {
            self.take(ip, tcp.source, tcp.destination, &message, at);
            rest = next;
        }
    }

    fn take(
        &mut self,
        ip: &Ip<'_>,
        source: u16,
        destination: u16,
        message: &Message<'_>,
        at: Nanos,
    ) {
        match message.is_response {
            false if destination == DNS_PORT && message.recursion_desired => {
                self.query(ip.source, (ip.destination, DNS_PORT).into(), message, at);
            }
            true if source == DNS_PORT => {
                self.answer(ip.destination, (ip.source, DNS_PORT).into(), message, at);
            }
            _ => {}
        }
    }

    /// Adds a server if there is room. Returns whether it is there.
    fn ensure_server(&mut self, server: SocketAddr) -> bool {
        if !self.servers.contains_key(&server) {
            if self.servers.len() >= MAX_SERVERS {
                return false;
            }
            self.servers.insert(server, NameServer::default());
        }
        true
    }

    pub(super) fn query(
        &mut self,
        client: IpAddr,
        server: SocketAddr,
        message: &Message<'_>,
        at: Nanos,
    ) {
        // Nobody has to answer.
        let is_for_all = server.ip().is_multicast() || server.ip() == Ipv4Addr::BROADCAST;
        if is_for_all || !self.ensure_server(server) {
            return;
        }
        let key = key(client, message);
        if self.open.len() >= MAX_PENDING && !self.open.contains_key(&key) {
            self.forget_old(at);
            if self.open.len() >= MAX_PENDING {
                self.refused += 1;
                return;
            }
        }
        let lookup = self.open.entry(key).or_insert_with(|| Lookup { queries: Vec::new() });
        let is_duplicate = |query: &Query| {
            query.is_of(server, message) && at.saturating_sub(query.at) < MIN_RETRY_TIME
        };
        if lookup.queries.iter().any(is_duplicate) {
            return;
        }
        if let Some(server) = self.servers.get_mut(&server) {
            server.queries += 1;
        }
        lookup.retry(&mut self.servers, &mut self.waited_until, message, client, at);
        if lookup.queries.len() >= MAX_QUERIES {
            lookup.queries.remove(0);
        }
        let (id, kind) = (message.id, message.query_type);
        lookup.queries.push(Query { server, id, kind, at, is_over: false });
    }

    pub(super) fn answer(
        &mut self,
        client: IpAddr,
        server: SocketAddr,
        message: &Message<'_>,
        at: Nanos,
    ) {
        if !self.ensure_server(server) {
            return;
        }
        let key = key(client, message);
        let Some(lookup) = self.open.get_mut(&key) else { return };
        let mut queries = lookup.queries.iter_mut().rev();
        let Some(query) = queries.find(|query| query.is_of(server, message)) else { return };
        // A query that was retried meanwhile has been counted.
        let counts = !std::mem::replace(&mut query.is_over, true);
        let asked_at = query.at;
        if counts && let Some(found) = self.servers.get_mut(&server) {
            let (server, is_cached) =
                (found, note_answer(&mut self.answered, server, message, asked_at, at));
            let time = at.saturating_sub(asked_at);
            server.answers += 1;
            server.failures += u64::from(is_failure(message));
            server.answer_times.add(time);
            if time >= if is_cached { MIN_LATE_AGAIN_TIME } else { MIN_LATE_TIME } {
                let lost = lose(&mut self.waited_until, client, asked_at, at);
                if time >= MIN_SLOW_TIME {
                    server.slow += 1;
                    server.add_wait(lost, time, message, client);
                } else {
                    server.late_again += u64::from(time < MIN_LATE_TIME);
                    server.late += u64::from(time >= MIN_LATE_TIME);
                    server.add_late(lost, time, message, client);
                }
            }
        }
        // After a failure the client queries the next server: that is no retry.
        if lookup.queries.iter().all(|query| query.is_over) && !is_failure(message) {
            self.open.remove(&key);
        }
    }

    /// Forgets look-ups of long ago, if that is due: it visits all of them, which each query pays an
    /// equal part of.
    fn forget_old(&mut self, now: Nanos) {
        let is_due = self.searched.is_none_or(|(at, refused)| {
            now.saturating_sub(at) >= MAX_LOOKUP_TIME
                || self.refused - refused >= REFUSED_BEFORE_SEARCH
        });
        if !is_due {
            return;
        }
        self.searched = Some((now, self.refused));
        #[cfg(test)]
        {
            self.visited += self.open.len();
        }
        self.open.retain(|_, lookup| {
            let last = lookup.queries.last().map_or(Nanos::MIN, |query| query.at);
            now.saturating_sub(last) < MAX_LOOKUP_TIME
        });
    }

    /// The servers for which clients waited longest; the capture ended at this time.
    pub(crate) fn resolvers(&self, end: Nanos) -> Vec<Resolver> {
        let (mut servers, mut waited_until) = (self.servers.clone(), self.waited_until.clone());
        let mut open: Vec<_> = self.open.iter().collect();
        open.sort_by(|a, b| a.0.cmp(b.0));
        for ((client, name), lookup) in open {
            lookup.clone().end(&mut servers, &mut waited_until, name, *client, end);
        }
        let mut resolvers: Vec<Resolver> =
            servers.iter().map(|(address, server)| server.resolver(*address)).collect();
        resolvers.sort_by_key(|one| (Reverse((one.lost_us, one.queries)), one.server));
        resolvers.truncate(MAX_SERVERS_REPORTED);
        resolvers
    }
}

impl Lookup {
    /// The client sends the query once more: the servers that it queried before did not answer.
    fn retry(
        &mut self,
        servers: &mut HashMap<SocketAddr, NameServer>,
        waited_until: &mut HashMap<IpAddr, Nanos>,
        message: &Message<'_>,
        client: IpAddr,
        at: Nanos,
    ) {
        let mut queries = std::mem::take(&mut self.queries);
        for query in &mut queries {
            let waited = at.saturating_sub(query.at);
            if query.is_over || query.kind != message.query_type || waited < MIN_RETRY_TIME {
                continue;
            }
            query.is_over = true;
            if waited > MAX_WAIT_TIME {
                continue;
            }
            let lost = lose(waited_until, client, query.at, at);
            if let Some(server) = servers.get_mut(&query.server) {
                server.unanswered += 1;
                server.add_wait(lost, waited, message, client);
            }
        }
        self.queries = queries;
    }

    /// The capture ends: queries that have been open for longer than an answer may take are unanswered.
    fn end(
        self,
        servers: &mut HashMap<SocketAddr, NameServer>,
        waited_until: &mut HashMap<IpAddr, Nanos>,
        name: &[u8],
        client: IpAddr,
        at: Nanos,
    ) {
        for query in self.queries {
            let waited = at.saturating_sub(query.at);
            if query.is_over || !(MIN_SLOW_TIME..MAX_RETRY_TIME).contains(&waited) {
                continue;
            }
            let lost = lose(waited_until, client, query.at, at);
            let message = Message {
                id: query.id,
                is_response: false,
                recursion_desired: true,
                response_code: 0,
                name,
                query_type: query.kind,
            };
            if let Some(server) = servers.get_mut(&query.server) {
                server.unanswered += 1;
                server.add_wait(lost, waited, &message, client);
            }
        }
    }
}

/// A client loses the time from one moment to a later one. Returns how much of it was not lost already.
fn lose(until: &mut HashMap<IpAddr, Nanos>, client: IpAddr, from: Nanos, to: Nanos) -> Nanos {
    let has_room = until.len() < MAX_PENDING || until.contains_key(&client);
    let known = until.get(&client).copied().unwrap_or(Nanos::MIN);
    if has_room {
        until.insert(client, known.max(to));
    }
    to.saturating_sub(from.max(known)).max(0)
}

/// A server answers, after it was asked at `asked_at`. Whether it had answered the same question a short
/// time before that, so that its cache had the answer, if it has a cache.
fn note_answer(
    answered: &mut HashMap<(SocketAddr, u16, Vec<u8>), Nanos>,
    server: SocketAddr,
    message: &Message<'_>,
    asked_at: Nanos,
    at: Nanos,
) -> bool {
    if is_failure(message) {
        return false;
    }
    let key = (server, message.query_type, message.name.to_ascii_lowercase());
    if let Some(before) = answered.get_mut(&key) {
        let age = asked_at.saturating_sub(*before);
        *before = at;
        return (0..=MAX_CACHED_TIME).contains(&age);
    }
    if answered.len() >= MAX_ANSWERED {
        answered.clear();
    }
    answered.insert(key, at);
    false
}

/// Names are compared without regard to case (RFC 4343).
fn key(client: IpAddr, message: &Message<'_>) -> (IpAddr, Vec<u8>) {
    (client, message.name.to_ascii_lowercase())
}
