//! The server: serves what a client's plan says, within its limits, and nothing else.
//!
//! One thread for each of a bounded number of connections. A client that sends no valid request is
//! disconnected. Memory does not grow with what a client requests: all data is sent from one buffer, and
//! what is kept of a session is bounded.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use model::TransferDirection;
use rustix::event::PollFlags;
use socket2::{Domain, Protocol, Socket, Type};
use sys::Stop;
use text::figures::bytes_as_given;

use super::connection::{Connection, ConnectionError, set_congestion, wait};
use super::options::{MAX_BUFFER_BYTES, MAX_STREAMS};
use super::protocol::{
    Challenge, Opening, Plan, PlanReply, REPORT_REQUEST, SessionId, UNTIL_TIME_IS_OVER,
};
use super::session::{Session, lock};
use super::sysctl;
use crate::{Error, os_error_text, random};

/// How long a client has time for its opening and its plan.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Most connections that have not identified themselves yet.
const MAX_UNIDENTIFIED: usize = 32;
/// Connections of a session in addition to its streams: control, and one that closes.
const EXTRA_CONNECTIONS: usize = 2;
/// Length of the listener's accept queue.
const BACKLOG: i32 = 128;
/// Longest wait for a connection before the sessions' time is checked.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);
/// Longest wait for the report request before the session's end is checked.
const REPORT_WAIT: Duration = Duration::from_millis(200);

/// What a server allows.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Shared secret; `None`: everybody may use it.
    pub token: Option<String>,
    /// Longest session.
    pub session_time: Duration,
    /// Most bytes of a session.
    pub session_bytes: u64,
    /// Most concurrent sessions.
    pub clients: usize,
}

/// Something that happened at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A session of this client began; what it requested.
    Began(SocketAddr, String),
    /// A session of this client ended; the bytes sent and received.
    Ended(SocketAddr, u64),
    /// This client was refused, and why.
    Refused(SocketAddr, String),
}

/// A listening server.
pub struct Server {
    listener: TcpListener,
    limits: Limits,
    /// What is sent: zeros.
    buffer: Vec<u8>,
    sessions: Mutex<BTreeMap<SessionId, Arc<Session>>>,
    unidentified: AtomicUsize,
    connections: AtomicUsize,
}

impl Server {
    /// Listens on an address and port (0: a free one).
    ///
    /// # Errors
    ///
    /// Not an address of this host; the port is in use, or not permitted.
    pub fn listen(address: SocketAddr, limits: Limits) -> Result<Self, Error> {
        let listen = || -> std::io::Result<Socket> {
            let kind = Type::STREAM.nonblocking();
            let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            Ok(socket)
        };
        let listener = listen().map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::AddrInUse => "; another program listens there",
                std::io::ErrorKind::AddrNotAvailable => "; it is not an address of this host",
                _ => "",
            };
            let why = os_error_text(&error);
            Error::Failed(format!("cannot listen on {address}: {why}{hint}"))
        })?;
        Ok(Server {
            listener: listener.into(),
            limits,
            buffer: vec![0; MAX_BUFFER_BYTES as usize],
            sessions: Mutex::default(),
            unidentified: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        })
    }

    /// Its address and port.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves until the stop is set or the time is over; reports what happens.
    pub fn run(&self, stop: &Stop, time: Option<Duration>, report: &mut dyn FnMut(Event)) {
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let (events, received) = mpsc::channel();
        std::thread::scope(|scope| {
            while !stop.is_set() && until.is_none_or(|until| Instant::now() < until) {
                let next = Instant::now() + ACCEPT_WAIT;
                let _ = wait(&self.listener, PollFlags::IN, stop, next);
                received.try_iter().for_each(&mut *report);
                self.end_expired_sessions();
                let Ok((stream, peer)) = self.listener.accept() else { continue };
                if self.is_full() {
                    report(Event::Refused(peer, "too many connections".to_string()));
                    continue;
                }
                self.unidentified.fetch_add(1, Ordering::Relaxed);
                self.connections.fetch_add(1, Ordering::Relaxed);
                let events = events.clone();
                let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                    self.serve(stream, peer, stop, &events);
                    self.connections.fetch_sub(1, Ordering::Relaxed);
                });
                if thread.is_err() {
                    self.unidentified.fetch_sub(1, Ordering::Relaxed);
                    self.connections.fetch_sub(1, Ordering::Relaxed);
                }
            }
            for session in lock(&self.sessions).values() {
                session.stop.set();
            }
            stop.set();
        });
        received.try_iter().for_each(report);
    }

    /// Whether no more connections are accepted.
    fn is_full(&self) -> bool {
        let per_client = MAX_STREAMS as usize + EXTRA_CONNECTIONS;
        let max = self.limits.clients.saturating_mul(per_client).saturating_add(MAX_UNIDENTIFIED);
        self.unidentified.load(Ordering::Relaxed) >= MAX_UNIDENTIFIED
            || self.connections.load(Ordering::Relaxed) >= max
    }

    fn end_expired_sessions(&self) {
        for session in lock(&self.sessions).values() {
            if Instant::now() >= session.until {
                session.stop.set();
            }
        }
    }

    /// Serves a connection from its first byte.
    fn serve(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        stop: &Stop,
        events: &mpsc::Sender<Event>,
    ) {
        let nonblocking = stream.set_nonblocking(true).map_err(ConnectionError::from);
        let _ = stream.set_nodelay(true);
        let mut connection = Connection { stream, stop, timeout: REQUEST_TIMEOUT };
        let opening = nonblocking.and_then(|()| connection.read_array());
        let identified = || self.unidentified.fetch_sub(1, Ordering::Relaxed);
        let refuse = |reason: String| {
            let _ = events.send(Event::Refused(peer, reason));
        };
        let opening = match opening {
            Ok(bytes) => Opening::parse(&bytes),
            Err(error) => {
                identified();
                return refuse(format!("no request: {error}"));
            }
        };
        match opening {
            Ok(Opening::Control) => self.serve_control(&mut connection, peer, events),
            Ok(Opening::Data { session, stream }) => {
                identified();
                let known = lock(&self.sessions).get(&session).map(Arc::clone);
                // The identifier was sent in the clear: it is valid for its own client only.
                let own = |session: &Arc<Session>| {
                    stream < session.plan.streams && session.peer.ip() == peer.ip()
                };
                match known.filter(own) {
                    Some(session) => session.serve(connection.stream, stream, &self.buffer),
                    None => refuse("there is no such session".to_string()),
                }
            }
            Err(error) => {
                identified();
                // Tells a client of another version ours.
                let challenge = Challenge { nonce: [0; 24], token: false };
                let _ = connection.write(&challenge.bytes());
                refuse(error.to_string());
            }
        }
    }

    /// Serves a control connection: a session, from its plan to its report.
    fn serve_control(
        &self,
        connection: &mut Connection<'_>,
        peer: SocketAddr,
        events: &mpsc::Sender<Event>,
    ) {
        let accepted = self.accept_plan(connection, peer);
        self.unidentified.fetch_sub(1, Ordering::Relaxed);
        let (id, session) = match accepted {
            Ok(accepted) => accepted,
            Err(reason) => {
                let _ = connection.write(&PlanReply::Refused(reason.clone()).bytes());
                let _ = events.send(Event::Refused(peer, reason));
                return;
            }
        };
        let _ = events.send(Event::Began(peer, session.description()));
        let requested = connection.write(&PlanReply::Accepted(id).bytes()).is_ok()
            && wait_for_report_request(connection, &session)
            && connection.read_array().is_ok_and(|bytes: [u8; 8]| bytes == REPORT_REQUEST);
        if requested {
            session.wait_for_connections();
            session.stop.set();
            let _ = connection.write(&session.report());
        }
        session.stop.set();
        lock(&self.sessions).remove(&id);
        self.reset_congestion();
        let _ = events.send(Event::Ended(peer, session.limit.used()));
    }

    /// Reads a client's plan and begins its session; or the reason why it is refused.
    fn accept_plan(
        &self,
        connection: &mut Connection<'_>,
        peer: SocketAddr,
    ) -> Result<(SessionId, Arc<Session>), String> {
        let challenge = Challenge { nonce: random::bytes()?, token: self.limits.token.is_some() };
        connection.write(&challenge.bytes()).map_err(|error| error.to_string())?;
        let bytes = connection.read_array().map_err(|error| format!("no plan: {error}"))?;
        let plan = Plan::parse(&bytes, &challenge, self.limits.token.as_deref())
            .map_err(|error| error.to_string())?;
        let duration = Duration::from_millis(plan.duration_ms);
        if duration > self.limits.session_time {
            return Err(format!(
                "this server allows {} (--max-time), {} were requested: give a shorter --for",
                text::duration(self.limits.session_time),
                text::duration(duration)
            ));
        }
        let bytes = plan.size.saturating_mul(plan.count.max(1).into());
        let bytes = bytes.saturating_mul(plan.streams.into());
        if plan.size != UNTIL_TIME_IS_OVER && bytes > self.limits.session_bytes {
            return Err(format!(
                "this server allows {} (--max-bytes), {} were requested",
                bytes_as_given(self.limits.session_bytes),
                bytes_as_given(bytes)
            ));
        }
        let until = Instant::now() + duration;
        let session = Arc::new(Session::new(plan, peer, until, self.limits.session_bytes));
        let id = random::bytes()?;
        {
            let mut sessions = lock(&self.sessions);
            if sessions.len() >= self.limits.clients {
                return Err(format!(
                    "this server already has {} (--max-clients): try again later",
                    text::count(sessions.len() as u64, "client")
                ));
            }
            sessions.insert(id, Arc::clone(&session));
        }
        let congestion = &session.plan.congestion;
        if session.plan.direction == TransferDirection::Down
            && !congestion.is_empty()
            && let Err(error) = set_congestion(&self.listener, congestion)
        {
            lock(&self.sessions).remove(&id);
            return Err(format!("at the server: {error}"));
        }
        Ok((id, session))
    }

    /// Gives the listener the host's congestion control again when there are no sessions. Connections
    /// inherit the listener's, so that they use it from their first segment.
    fn reset_congestion(&self) {
        if lock(&self.sessions).is_empty()
            && let Some(name) = sysctl::congestion_control()
        {
            let _ = set_congestion(&self.listener, &name);
        }
    }
}

/// Waits until the client requests the report; `false`: it disconnected, or the time is over.
fn wait_for_report_request(connection: &Connection<'_>, session: &Session) -> bool {
    while Instant::now() < session.until && !session.stop.is_set() {
        let next = Instant::now() + REPORT_WAIT;
        match connection.wait(PollFlags::IN, next.min(session.until)) {
            Ok(true) => return true,
            Ok(false) => {}
            Err(_) => return false,
        }
    }
    // The request may still be under way.
    connection.wait(PollFlags::IN, Instant::now() + REQUEST_TIMEOUT).unwrap_or(false)
}
