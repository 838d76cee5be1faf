//! The server: does what a client's plan says, within its limits, and nothing else.
//!
//! A thread for each connection, and a bounded number of them. A client that says nothing, or
//! something else, is dropped. Memory does not grow with what a client asks for: there is one buffer
//! of the server's own, and what is kept of a session is bounded.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use model::{TransferDirection, TransferSender};
use rustix::event::PollFlags;
use socket2::{Domain, Protocol, Socket, Type};

use super::line::{Ended, Line, set_congestion, wait};
use super::protocol::{
    Answer, Challenge, Confirmed, MOST_BUFFER, MOST_REPORT, MOST_STREAMS, Opening, Plan, REPORT,
    Request, Session as Number, UNTIL,
};
use super::record::{Recorder, merge};
use super::sender::{Budget, NO_MORE_BYTES, Sending, send, tail};
use super::{Report, sysctl};
use crate::target::plain;
use sys::Stop;

use crate::Error;

/// A client has so long to say what it wants.
const HELLO: Duration = Duration::from_secs(5);
/// A connection on which nothing moves for so long is dropped.
const SILENCE: Duration = Duration::from_secs(15);
/// Connections that have not said what they want.
const STRANGERS: usize = 32;
/// Connections of a session that are about to end, beside its streams.
const ENDING: u32 = 4;
/// Failures of a session that are told.
const FAILURES: usize = 8;
/// Bytes that are read at once.
const READ: usize = 256 << 10;

/// What a server allows.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Shared secret; `None`: anybody may.
    pub token: Option<String>,
    /// Longest session.
    pub time: Duration,
    /// Most bytes of a session.
    pub bytes: u64,
    /// Sessions at the same time.
    pub clients: usize,
}

/// What happened at a server, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A session began: who asked, and what for.
    Began(SocketAddr, String),
    /// A session ended: who asked, and the bytes that were sent and received.
    Ended(SocketAddr, u64),
    /// Somebody was refused: who, and why.
    Refused(SocketAddr, String),
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    limits: Limits,
    /// What is sent, and what no client sees anything of: zeros.
    buffer: Vec<u8>,
    sessions: Mutex<BTreeMap<Number, Arc<Session>>>,
    strangers: AtomicUsize,
    connections: AtomicUsize,
}

/// One client's session.
struct Session {
    plan: Plan,
    peer: SocketAddr,
    until: Instant,
    budget: Budget,
    open: AtomicU32,
    senders: Mutex<BTreeMap<u32, TransferSender>>,
    /// Why connections ended early; bounded.
    failures: Mutex<Vec<String>>,
    stop: Stop,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Listens on an address and port (0: any free one).
    ///
    /// # Errors
    ///
    /// The address is not one of this host, the port is taken or not allowed.
    pub fn listen(address: SocketAddr, limits: Limits) -> Result<Self, Error> {
        let open = || -> std::io::Result<Socket> {
            let kind = Type::STREAM.nonblocking();
            let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(128)?;
            Ok(socket)
        };
        let listener = open().map_err(|error| {
            let more = match error.kind() {
                std::io::ErrorKind::AddrInUse => "; another server has the port",
                std::io::ErrorKind::AddrNotAvailable => "; it is not an address of this host",
                _ => "",
            };
            Error::Failed(format!("cannot listen on {address}: {}{more}", plain(&error)))
        })?;
        Ok(Server {
            listener: listener.into(),
            limits,
            buffer: vec![0; MOST_BUFFER as usize],
            sessions: Mutex::default(),
            strangers: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves until the stop is set, or the time is over. What happens is told as it does.
    pub fn run(&self, stop: &Stop, time: Option<Duration>, tell: &mut dyn FnMut(Event)) {
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let (events, happened) = mpsc::channel();
        std::thread::scope(|scope| {
            while !stop.is_set() && until.is_none_or(|until| Instant::now() < until) {
                let next = Instant::now() + Duration::from_millis(100);
                let _ = wait(&self.listener, PollFlags::IN, stop, next);
                happened.try_iter().for_each(&mut *tell);
                self.expire();
                let Ok((stream, peer)) = self.listener.accept() else { continue };
                let most = self.limits.clients.saturating_mul(MOST_STREAMS as usize + 2);
                if self.strangers.load(Ordering::Relaxed) >= STRANGERS
                    || self.connections.load(Ordering::Relaxed) >= most + STRANGERS
                {
                    tell(Event::Refused(peer, "too many connections".to_string()));
                    continue;
                }
                self.strangers.fetch_add(1, Ordering::Relaxed);
                self.connections.fetch_add(1, Ordering::Relaxed);
                let events = events.clone();
                let started = std::thread::Builder::new().spawn_scoped(scope, move || {
                    self.serve(stream, peer, stop, &events);
                    self.connections.fetch_sub(1, Ordering::Relaxed);
                });
                if started.is_err() {
                    self.strangers.fetch_sub(1, Ordering::Relaxed);
                    self.connections.fetch_sub(1, Ordering::Relaxed);
                }
            }
            for session in locked(&self.sessions).values() {
                session.stop.set();
            }
            stop.set();
        });
        happened.try_iter().for_each(tell);
    }

    /// Ends the sessions whose time is over.
    fn expire(&self) {
        for session in locked(&self.sessions).values() {
            if Instant::now() >= session.until {
                session.stop.set();
            }
        }
    }

    /// One connection, from its first byte.
    fn serve(&self, stream: TcpStream, peer: SocketAddr, stop: &Stop, tell: &mpsc::Sender<Event>) {
        let opened = stream.set_nonblocking(true).map_err(|error| Ended::from(&error));
        let _ = stream.set_nodelay(true);
        let mut line = Line { stream, stop, patience: HELLO };
        let opening = opened.and_then(|()| line.exactly());
        let told = |words: String| {
            let _ = tell.send(Event::Refused(peer, words));
        };
        let opening = match opening {
            Ok(bytes) => Opening::parse(&bytes),
            Err(ended) => {
                self.strangers.fetch_sub(1, Ordering::Relaxed);
                return told(format!("it did not say what it wants: {ended}"));
            }
        };
        match opening {
            Ok(Opening::Control) => self.control(&mut line, peer, tell),
            Ok(Opening::Data { session, stream }) => {
                self.strangers.fetch_sub(1, Ordering::Relaxed);
                let known = locked(&self.sessions).get(&session).map(Arc::clone);
                // The number went over the line in the clear: it is of use to its own client only.
                let ours = |session: &Arc<Session>| {
                    stream < session.plan.streams && session.peer.ip() == peer.ip()
                };
                match known.filter(ours) {
                    Some(session) => self.data(line.stream, &session, stream),
                    None => told("there is no such session".to_string()),
                }
            }
            Err(bad) => {
                self.strangers.fetch_sub(1, Ordering::Relaxed);
                // Another version learns this one's.
                let ours = Challenge { nonce: [0; 24], token: false };
                let _ = line.write(&ours.bytes());
                told(bad.words());
            }
        }
    }

    /// A control connection: a session, from its plan to its report.
    fn control(&self, line: &mut Line<'_>, peer: SocketAddr, tell: &mpsc::Sender<Event>) {
        let agreed = self.agree(line, peer);
        self.strangers.fetch_sub(1, Ordering::Relaxed);
        let (number, session) = match agreed {
            Ok(agreed) => agreed,
            Err(words) => {
                let _ = line.write(&Answer::Refused(words.clone()).bytes());
                let _ = tell.send(Event::Refused(peer, words));
                return;
            }
        };
        let _ = tell.send(Event::Began(peer, words(&session.plan)));
        let asked = line.write(&Answer::Accepted(number).bytes()).is_ok()
            && until_asked(line, &session)
            && line.exactly().is_ok_and(|bytes: [u8; 8]| bytes == REPORT);
        if asked {
            // Its connections see the end of the client's, and are added up.
            let patience = Instant::now() + HELLO;
            while session.open.load(Ordering::Acquire) > 0 && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(5));
            }
            session.stop.set();
            let _ = line.write(&report(&session));
        }
        session.stop.set();
        locked(&self.sessions).remove(&number);
        self.listener_congestion();
        let _ = tell.send(Event::Ended(peer, session.budget.spent()));
    }

    /// Hears what a client wants; in words why it does not get it.
    fn agree(
        &self,
        line: &mut Line<'_>,
        peer: SocketAddr,
    ) -> Result<(Number, Arc<Session>), String> {
        let challenge = Challenge { nonce: random()?, token: self.limits.token.is_some() };
        line.write(&challenge.bytes()).map_err(|ended| ended.to_string())?;
        let bytes = line.exactly().map_err(|ended| format!("it did not say its plan: {ended}"))?;
        let plan = Plan::parse(&bytes, &challenge, self.limits.token.as_deref())
            .map_err(|bad| bad.words())?;
        let time = Duration::from_millis(plan.time_ms);
        if time > self.limits.time {
            return Err(format!(
                "this server allows {:.0} s (--max-time) and {:.0} s were asked for: --for is less",
                self.limits.time.as_secs_f64(),
                time.as_secs_f64()
            ));
        }
        let all = plan.size.saturating_mul(plan.count.max(1).into());
        let all = all.saturating_mul(plan.streams.into());
        if plan.size != UNTIL && all > self.limits.bytes {
            return Err(format!(
                "this server allows {} bytes (--max-bytes) and {all} were asked for",
                self.limits.bytes
            ));
        }
        let session = Arc::new(Session {
            peer,
            until: Instant::now() + time,
            plan,
            budget: Budget::new(self.limits.bytes),
            open: AtomicU32::new(0),
            senders: Mutex::default(),
            failures: Mutex::default(),
            stop: Stop::new(),
        });
        let number = random()?;
        {
            let mut sessions = locked(&self.sessions);
            if sessions.len() >= self.limits.clients {
                return Err(format!(
                    "this server has {} clients already (--max-clients): try again later",
                    sessions.len()
                ));
            }
            sessions.insert(number, Arc::clone(&session));
        }
        let name = &session.plan.congestion;
        if session.plan.direction == TransferDirection::Down
            && !name.is_empty()
            && let Err(error) = set_congestion(&self.listener, name)
        {
            locked(&self.sessions).remove(&number);
            return Err(format!("at the server: {error}"));
        }
        Ok((number, session))
    }

    /// The listener goes back to the host's congestion control when nobody asked for another: its
    /// connections inherit it, so that they begin with it.
    fn listener_congestion(&self) {
        if locked(&self.sessions).is_empty()
            && let Some(name) = sysctl("net/ipv4/tcp_congestion_control")
        {
            let _ = set_congestion(&self.listener, &name);
        }
    }

    /// A connection of a session.
    fn data(&self, stream: TcpStream, session: &Session, number: u32) {
        if session.open.fetch_add(1, Ordering::AcqRel) < session.plan.streams + ENDING {
            let name = &session.plan.congestion;
            let known = rustix::net::sockopt::tcp_congestion(&stream).ok();
            if !name.is_empty() && known.as_deref() != Some(&**name) {
                // Another client's was the listener's.
                let _ = set_congestion(&stream, name);
            }
            let mut line = Line { stream, stop: &session.stop, patience: SILENCE };
            let mut recorder = Recorder::new(number, &line.stream);
            match self.transfers(&mut line, session, &mut recorder) {
                Ok(()) | Err(Ended::Closed | Ended::Stopped) => {}
                Err(ended) => {
                    let mut failures = locked(&session.failures);
                    if failures.len() < FAILURES {
                        failures.push(ended.to_string());
                    }
                }
            }
            if session.plan.direction == TransferDirection::Down {
                let one = recorder.finish();
                let mut senders = locked(&session.senders);
                merge(senders.entry(number).or_default(), one);
            }
        }
        session.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// Its transfers, one after the other.
    fn transfers(
        &self,
        line: &mut Line<'_>,
        session: &Session,
        recorder: &mut Recorder,
    ) -> Result<(), Ended> {
        let buffer = &self.buffer[..(session.plan.buffer as usize).min(self.buffer.len())];
        loop {
            // The next request comes when the client's interval is over.
            if !line.ready(PollFlags::IN, session.until)? {
                return Ok(());
            }
            let request = Request::parse(&line.exactly()?);
            let open = request.size == UNTIL;
            let time = Duration::from_millis(request.time_ms.into());
            let until = if open { session.until.min(Instant::now() + time) } else { session.until };
            if session.plan.direction == TransferDirection::Up {
                let bytes = receive(line, request.size, session)?;
                line.write(&Confirmed { bytes }.bytes())?;
                continue;
            }
            let sending = Sending {
                number: request.number,
                size: (!open).then_some(request.size),
                until,
                budget: Some(&session.budget),
                source_delay: Duration::from_micros(session.plan.source_delay_us.into()),
            };
            let (sent, result) = send(line, &sending, buffer, recorder);
            result?;
            if open {
                let _ = line.stream.shutdown(std::net::Shutdown::Write);
            }
            tail(line, sent, recorder)?;
        }
    }
}

/// Reads so many bytes, or to the end of the stream.
fn receive(line: &mut Line<'_>, size: u64, session: &Session) -> Result<u64, Ended> {
    let mut buffer = vec![0; READ];
    let mut have = 0;
    while have < size {
        if session.budget.is_spent() {
            return Err(Ended::Failed(NO_MORE_BYTES.to_string()));
        }
        if Instant::now() >= session.until {
            return Err(Ended::Failed("the time of the session is over".to_string()));
        }
        let want = usize::try_from(size - have).unwrap_or(usize::MAX).min(buffer.len());
        match line.read(&mut buffer[..want])? {
            0 if size == UNTIL => break,
            0 => return Err(Ended::Closed),
            length => {
                have += length as u64;
                session.budget.spend(length as u64);
            }
        }
    }
    Ok(have)
}

/// Waits until the client asks for the report, or goes away, or the time is over.
fn until_asked(line: &Line<'_>, session: &Session) -> bool {
    while Instant::now() < session.until && !session.stop.is_set() {
        let next = Instant::now() + Duration::from_millis(200);
        match line.ready(PollFlags::IN, next.min(session.until)) {
            Ok(true) => return true,
            Ok(false) => {}
            Err(_) => return false,
        }
    }
    // The client may ask at the very end.
    line.ready(PollFlags::IN, Instant::now() + HELLO).unwrap_or(false)
}

/// The report of a session with its length before it.
fn report(session: &Session) -> Vec<u8> {
    let mut senders: Vec<TransferSender> = locked(&session.senders).values().cloned().collect();
    let after_idle = sysctl("net/ipv4/tcp_slow_start_after_idle").map(|value| value != "0");
    for sender in &mut senders {
        sender.slow_start_after_idle = after_idle;
        sender.tcp_wmem = sysctl("net/ipv4/tcp_wmem");
    }
    let mut report = Report { senders, failures: locked(&session.failures).clone() };
    let mut bytes = serde_json::to_vec(&report).unwrap_or_default();
    if bytes.len() > MOST_REPORT {
        // Many streams with many transfers: the figures of each stay.
        for sender in &mut report.senders {
            sender.samples.clear();
            sender.starts.clear();
        }
        bytes = serde_json::to_vec(&report).unwrap_or_default();
    }
    let length = u32::try_from(bytes.len()).unwrap_or(0);
    [&length.to_be_bytes()[..], &bytes].concat()
}

/// What a client asked for, in words.
fn words(plan: &Plan) -> String {
    let way = match plan.direction {
        TransferDirection::Down => "down",
        TransferDirection::Up => "up",
    };
    let size = if plan.size == UNTIL {
        format!("bulk for {} ms", plan.time_ms)
    } else {
        format!("{} bytes a transfer", plan.size)
    };
    format!("{way}, {size}, {} at once", plan.streams)
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    use ring::rand::{SecureRandom as _, SystemRandom};
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map(|()| bytes).map_err(|_| "the system gives no random numbers".to_string())
}
