//! Connections whose client has not identified itself yet: a small pool, which strangers cannot keep full.
//!
//! They have no threads: one poll(2) waits for all of them and for the listener. When the pool is full,
//! the oldest connection of the address that has most of them gives way to the new one.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::is_not_ready;
use super::options::{EXTRA_CONNECTIONS, MAX_STREAMS};
use super::protocol::{Challenge, Opening, Plan, PlanReply, SessionId};
use crate::{os_error_text, random};

/// How long a client has time for its opening and its plan.
const MAX_AGE: Duration = Duration::from_secs(5);
/// Most connections, and most from one address: all connections of a session may be opened at once.
const MAX_CONNECTIONS: usize = 128;
const MAX_PER_ADDRESS: usize = MAX_STREAMS as usize + EXTRA_CONNECTIONS;
/// Sent to a client that gave way after it had requested a challenge.
const BUSY: &str = "this server is busy with connections that sent no valid plan: try again later";
/// Bytes of an IPv6 address that are of one network: a host has all addresses in it.
const V6_NETWORK_BYTES: usize = 8;

/// What a connection turned out to be.
#[derive(Debug)]
pub(super) enum Identified {
    /// It requests a session; the challenge and the plan in reply to it are not compared yet.
    Control { stream: TcpStream, peer: SocketAddr, challenge: Challenge, plan: [u8; Plan::SIZE] },
    /// It belongs to this session, if there is one.
    Data { stream: TcpStream, peer: SocketAddr, session: SessionId, number: u32 },
    /// It is closed, and why.
    Refused(SocketAddr, String),
}

/// A connection.
#[derive(Debug)]
struct Unidentified {
    stream: TcpStream,
    peer: SocketAddr,
    since: Instant,
    /// The frame that it sends now: the opening, after the challenge the plan.
    frame: [u8; Plan::SIZE],
    received: usize,
    challenge: Option<Challenge>,
}

/// What became of a connection.
enum Progress {
    Incomplete,
    Opened(Opening),
    Planned,
    Failed(String),
}

/// The connections, oldest first.
#[derive(Debug, Default)]
pub(super) struct Pool {
    connections: Vec<Unidentified>,
}

impl Pool {
    /// Waits until the listener or a connection is ready, at most for this time.
    pub(super) fn wait(&self, listener: &TcpListener, time: Duration) {
        let streams = self.connections.iter().map(|connection| &connection.stream);
        let mut sockets = vec![PollFd::new(listener, PollFlags::IN)];
        sockets.extend(streams.map(|stream| PollFd::new(stream, PollFlags::IN)));
        let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
        // A signal ends it early.
        let _ = poll(&mut sockets, Some(&time));
    }

    /// Adds a connection; one of others may have to give way to it.
    pub(super) fn add(&mut self, stream: TcpStream, peer: SocketAddr) -> Option<Identified> {
        let from = self.of(network(peer.ip()));
        let displaced = match self.connections.len() {
            _ if from >= MAX_PER_ADDRESS => self.remove_oldest_of(network(peer.ip())),
            MAX_CONNECTIONS.. => self.remove_oldest(),
            _ => None,
        };
        if let Err(error) = stream.set_nonblocking(true) {
            return Some(Identified::Refused(peer, os_error_text(&error)));
        }
        let _ = stream.set_nodelay(true);
        let (since, frame) = (Instant::now(), [0; Plan::SIZE]);
        let new = Unidentified { stream, peer, since, frame, received: 0, challenge: None };
        self.connections.push(new);
        displaced
    }

    /// How many connections are from this network.
    fn of(&self, from: IpAddr) -> usize {
        self.connections.iter().filter(|one| network(one.peer.ip()) == from).count()
    }

    /// Removes the oldest connection of the address that has most of them.
    pub(super) fn remove_oldest(&mut self) -> Option<Identified> {
        // Of several such addresses, the one whose connections are oldest.
        let addresses = self.connections.iter().rev().map(|one| network(one.peer.ip()));
        let most = addresses.max_by_key(|address| self.of(*address))?;
        self.remove_oldest_of(most)
    }

    fn remove_oldest_of(&mut self, from: IpAddr) -> Option<Identified> {
        let is = |one: &Unidentified| network(one.peer.ip()) == from;
        let index = self.connections.iter().position(is)?;
        let mut oldest = self.connections.remove(index);
        if oldest.challenge.is_some() {
            // It fits into the socket's buffer, which has nothing but the challenge.
            let _ = oldest.stream.write(&PlanReply::Refused(BUSY.to_string()).bytes());
        }
        let reason = "no valid request before newer connections needed its place";
        Some(Identified::Refused(oldest.peer, reason.to_string()))
    }

    /// Reads what has arrived: the connections that are identified now, or refused.
    pub(super) fn read(&mut self, token: bool) -> Vec<Identified> {
        let mut identified = Vec::new();
        let mut waiting = Vec::with_capacity(self.connections.len());
        for mut connection in std::mem::take(&mut self.connections) {
            match connection.progress(token) {
                Progress::Incomplete => waiting.push(connection),
                progress => identified.push(connection.identified(progress)),
            }
        }
        self.connections = waiting;
        identified
    }
}

impl Unidentified {
    /// Reads what has arrived. After the opening of a control connection, it sends the challenge.
    fn progress(&mut self, token: bool) -> Progress {
        loop {
            let size = if self.challenge.is_some() { Plan::SIZE } else { Opening::SIZE };
            while self.received < size {
                let rest = self.frame.get_mut(self.received..size).unwrap_or_default();
                match self.stream.read(rest) {
                    Ok(0) => return Progress::Failed(self.closed("it closed the connection")),
                    Ok(length) => self.received += length,
                    Err(error) if !is_not_ready(&error) => {
                        return Progress::Failed(self.closed(&os_error_text(&error)));
                    }
                    Err(_) if self.since.elapsed() >= MAX_AGE => {
                        let time = text::duration(MAX_AGE);
                        return Progress::Failed(self.closed(&format!("none within {time}")));
                    }
                    Err(_) => return Progress::Incomplete,
                }
            }
            if self.challenge.is_some() {
                return Progress::Planned;
            }
            let opening = self.frame.first_chunk().map(Opening::parse);
            match opening {
                Some(Ok(Opening::Control)) => {}
                Some(Ok(data)) => return Progress::Opened(data),
                Some(Err(error)) => {
                    // Tells a client of another version ours.
                    let challenge = Challenge { nonce: [0; 24], token: false };
                    let _ = self.stream.write(&challenge.bytes());
                    return Progress::Failed(error.to_string());
                }
                None => return Progress::Incomplete,
            }
            let challenge = match random::bytes() {
                Ok(nonce) => Challenge { nonce, token },
                Err(why) => return Progress::Failed(why),
            };
            // It fits into the socket's buffer, which is empty.
            if let Err(error) = self.stream.write(&challenge.bytes()) {
                return Progress::Failed(os_error_text(&error));
            }
            (self.challenge, self.received) = (Some(challenge), 0);
        }
    }

    /// Why there is no frame.
    fn closed(&self, why: &str) -> String {
        let frame = if self.challenge.is_some() { "plan" } else { "request" };
        format!("no {frame}: {why}")
    }

    fn identified(self, progress: Progress) -> Identified {
        let Unidentified { stream, peer, challenge, frame: plan, .. } = self;
        match (progress, challenge) {
            (Progress::Opened(Opening::Data { session, stream: number }), _) => {
                Identified::Data { stream, peer, session, number }
            }
            (Progress::Planned, Some(challenge)) => {
                Identified::Control { stream, peer, challenge, plan }
            }
            (Progress::Failed(why), _) => Identified::Refused(peer, why),
            _ => Identified::Refused(peer, "no request".to_string()),
        }
    }
}

/// The network that counts as one address: of IPv6 the first 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mut bytes = address.octets();
            bytes.iter_mut().skip(V6_NETWORK_BYTES).for_each(|byte| *byte = 0);
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that seems to come from this address, and its other end.
    fn connection(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, client)
    }

    fn peer(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 9)
    }

    #[test]
    fn a_client_that_gives_way_before_its_plan_gets_the_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut pool, (stream, mut client)) = (Pool::default(), connection(&listener));
        pool.add(stream, peer("198.18.0.1"));
        client.write_all(&Opening::Control.bytes()).unwrap();
        let begun = Instant::now();
        while pool.connections[0].challenge.is_none() && begun.elapsed() < MAX_AGE {
            pool.wait(&listener, Duration::from_millis(10));
            assert_eq!(pool.read(true).len(), 0);
        }
        assert!(pool.remove_oldest().is_some());
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).unwrap();
        let reply = reply.split_off(Challenge::SIZE);
        assert_eq!(reply, PlanReply::Refused(BUSY.to_string()).bytes());
    }

    #[test]
    fn an_address_displaces_its_own_connections_only() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut pool, mut clients) = (Pool::default(), Vec::new());
        let mut add = |pool: &mut Pool, from: &str| {
            let (stream, client) = connection(&listener);
            clients.push(client);
            match pool.add(stream, peer(from)) {
                Some(Identified::Refused(peer, _)) => Some(peer.ip().to_string()),
                Some(other) => panic!("{other:?}"),
                None => None,
            }
        };
        assert_eq!(add(&mut pool, "198.18.0.1"), None);
        let displaced: Vec<_> = (0..200).filter_map(|_| add(&mut pool, "198.18.0.2")).collect();
        assert_eq!(displaced, vec!["198.18.0.2"; 200 - MAX_PER_ADDRESS]);
        // Of one network, so from one host.
        let displaced: Vec<_> =
            (0..100).filter_map(|n| add(&mut pool, &format!("fd00::{n}"))).collect();
        assert_eq!(pool.connections.len(), MAX_CONNECTIONS);
        assert!(!displaced.contains(&"198.18.0.1".to_string()), "{displaced:?}");
        assert!(add(&mut pool, "198.18.0.3").is_some_and(|one| one != "198.18.0.1"));
        assert_eq!(pool.of(peer("198.18.0.1").ip()), 1);
    }
}
