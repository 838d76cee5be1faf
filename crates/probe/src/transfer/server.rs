//! The server: serves what a client's plan says, within its limits, and nothing else.
//!
//! A connection waits in the pool of `unidentified` ones until its client has sent a valid request; only
//! then it has a thread, of which there is a bounded number. Memory does not grow with what a client
//! requests: all data is sent from one buffer, and what is kept of a session is bounded.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::Scope;
use std::time::{Duration, Instant};

use model::TransferDirection;
use rustix::event::PollFlags;
use socket2::{Domain, Protocol, Socket, Type};
use sys::Stop;
use text::figures::bytes_as_given;

use super::connection::{Connection, set_congestion};
use super::event::Event;
use super::options::{EXTRA_CONNECTIONS, MAX_BUFFER_BYTES, MAX_STREAMS};
use super::protocol::{Challenge, Plan, PlanReply, REPORT_REQUEST, SessionId, UNTIL_TIME_IS_OVER};
use super::refusals::Refusals;
use super::session::{Session, lock};
use super::sysctl;
use super::unidentified::{Identified, Pool};
use crate::{Error, os_error_text, random};

/// How long a client has time for a frame.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Length of the listener's accept queue.
const BACKLOG: i32 = 128;
/// Longest wait for connections before the sessions' time is checked.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);
/// Most connections that are accepted before those in the pool are read.
const MAX_ACCEPTED: usize = 32;
/// Pause when no more files can be opened.
const OPEN_FILES_WAIT: Duration = Duration::from_millis(100);
/// Why a connection has no thread.
const TOO_MANY: &str = "too many connections";
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

/// A listening server.
pub struct Server {
    listener: TcpListener,
    limits: Limits,
    /// What is sent: zeros.
    buffer: Vec<u8>,
    sessions: Mutex<BTreeMap<SessionId, Arc<Session>>>,
    /// Connections that have a thread.
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
        let mut refusals = Refusals::default();
        std::thread::scope(|scope| {
            let mut pool = Pool::default();
            while !stop.is_set() && until.is_none_or(|until| Instant::now() < until) {
                pool.wait(&self.listener, ACCEPT_WAIT);
                self.end_expired_sessions();
                let displaced = self.accept(&mut pool);
                let identified = pool.read(self.limits.token.is_some());
                for identified in displaced.into_iter().chain(identified) {
                    self.serve(scope, identified, stop, &events);
                }
                refusals.report(&mut received.try_iter(), Instant::now(), report);
            }
            for session in lock(&self.sessions).values() {
                session.stop.set();
            }
            stop.set();
        });
        refusals.report(&mut received.try_iter(), Instant::now(), report);
        refusals.finish(Instant::now(), report);
    }

    /// Accepts connections into the pool; those that had to give way to them.
    fn accept(&self, pool: &mut Pool) -> Vec<Identified> {
        let mut displaced = Vec::new();
        for _ in 0..MAX_ACCEPTED {
            match self.listener.accept() {
                Ok((stream, peer)) => displaced.extend(pool.add(stream, peer)),
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                    // The connection stays in the accept queue, which would be ready again at once.
                    match pool.remove_oldest() {
                        Some(oldest) => displaced.push(oldest),
                        None => std::thread::sleep(OPEN_FILES_WAIT),
                    }
                    break;
                }
                Err(_) => break,
            }
        }
        displaced
    }

    fn end_expired_sessions(&self) {
        for session in lock(&self.sessions).values() {
            if Instant::now() >= session.until {
                session.stop.set();
            }
        }
    }

    /// Serves a connection in a thread of its own, or refuses it.
    fn serve<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        identified: Identified,
        stop: &'scope Stop,
        events: &mpsc::Sender<Event>,
    ) {
        let refuse = |peer: SocketAddr, reason: String| {
            let _ = events.send(Event::Refused(peer, reason));
        };
        match identified {
            Identified::Refused(peer, reason) => refuse(peer, reason),
            Identified::Control { stream, peer, challenge, plan } => {
                let mut connection = Connection { stream, stop, timeout: REQUEST_TIMEOUT };
                match self.accept_plan(&plan, &challenge, peer) {
                    Ok((id, session)) => {
                        let (events, removed) = (events.clone(), id);
                        let serve = move || {
                            self.serve_control(&mut connection, id, &session, &events);
                        };
                        if !self.spawn(scope, serve) {
                            lock(&self.sessions).remove(&removed);
                            refuse(peer, TOO_MANY.to_string());
                        }
                    }
                    Err(reason) => {
                        // It fits into the socket's buffer: it does not wait.
                        let _ = connection.write(&PlanReply::Refused(reason.clone()).bytes());
                        refuse(peer, reason);
                    }
                }
            }
            Identified::Data { stream, peer, session, number } => {
                let known = lock(&self.sessions).get(&session).map(Arc::clone);
                // The identifier was sent in the clear: it is valid for its own client only.
                let own = |session: &Arc<Session>| {
                    number < session.plan.streams && session.peer.ip() == peer.ip()
                };
                let Some(session) = known.filter(own) else {
                    return refuse(peer, "there is no such session".to_string());
                };
                let serve = move || session.serve(stream, number, &self.buffer);
                if !self.spawn(scope, serve) {
                    refuse(peer, TOO_MANY.to_string());
                }
            }
        }
    }

    /// Serves an identified connection in a thread; `false`: there are too many.
    fn spawn<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        serve: impl FnOnce() + Send + 'scope,
    ) -> bool {
        let per_client = MAX_STREAMS as usize + EXTRA_CONNECTIONS;
        if self.connections.load(Ordering::Relaxed) >= self.limits.clients * per_client {
            return false;
        }
        self.connections.fetch_add(1, Ordering::Relaxed);
        let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
            serve();
            self.connections.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            self.connections.fetch_sub(1, Ordering::Relaxed);
        }
        thread.is_ok()
    }

    /// Serves a control connection: a session, from the reply to its plan to its report.
    fn serve_control(
        &self,
        connection: &mut Connection<'_>,
        id: SessionId,
        session: &Session,
        events: &mpsc::Sender<Event>,
    ) {
        let _ = events.send(Event::Began(session.peer, session.description()));
        let requested = connection.write(&PlanReply::Accepted(id).bytes()).is_ok()
            && wait_for_report_request(connection, session)
            && connection.read_array().is_ok_and(|bytes: [u8; 8]| bytes == REPORT_REQUEST);
        if requested {
            session.wait_for_connections();
            session.stop.set();
            let _ = connection.write(&session.report());
        }
        session.stop.set();
        lock(&self.sessions).remove(&id);
        self.reset_congestion();
        let _ = events.send(Event::Ended(session.peer, session.limit.used()));
    }

    /// Begins the session of a client's plan; or the reason why it is refused.
    fn accept_plan(
        &self,
        plan: &[u8; Plan::SIZE],
        challenge: &Challenge,
        peer: SocketAddr,
    ) -> Result<(SessionId, Arc<Session>), String> {
        let plan = Plan::parse(plan, challenge, self.limits.token.as_deref())
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
