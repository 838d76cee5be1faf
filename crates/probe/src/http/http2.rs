//! One thread of a load that speaks HTTP/2: connections with several requests at once on each.
//!
//! The protocol is the `h2` crate's. What is measured is the same as with HTTP/1.1; errors of a
//! stream are told by their reason (RFC 9113, section 7).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use rustix::io::Errno;
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::LINGER;
use super::failure::Failure;
use super::figures::{Figures, Times};
use super::schedule::Schedule;
use super::site::{Address, Site};
use super::worker::{Setup, nanos, thread_cpu};
use crate::Error;

/// How late a stop is seen.
const TICK: Duration = Duration::from_millis(50);
/// First and longest rest after a connection that failed.
const REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Makes this thread's part of the load.
pub(super) fn run(setup: Setup) -> Result<Figures, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Error::Failed(format!("cannot wait for sockets (epoll): {error}")))?;
    let local = LocalSet::new();
    Ok(local.block_on(&runtime, load(setup)))
}

/// What all connections of this thread share.
struct Shared {
    setup: Setup,
    tls: Option<TlsConnector>,
    figures: RefCell<Figures>,
    schedule: RefCell<Option<Schedule>>,
    /// No more requests begin at this time, nanoseconds.
    until: u64,
    in_flight: Cell<u64>,
    counted: Cell<u64>,
}

impl Shared {
    fn now(&self) -> u64 {
        nanos(self.setup.begun.elapsed())
    }

    fn account(&self, now: u64) {
        let lasted = now.saturating_sub(self.counted.get());
        self.figures.borrow_mut().area += u128::from(self.in_flight.get()) * u128::from(lasted);
        self.counted.set(self.counted.get().max(now));
    }

    fn over(&self) -> bool {
        self.setup.stop.is_set() || self.now() >= self.until || self.setup.budget.is_empty()
    }

    /// Waits until a request may begin: when it was due, in an open loop; nothing when there is no
    /// more.
    async fn next(&self) -> Option<Option<u64>> {
        if self.over() {
            return None;
        }
        let due = {
            let mut schedule = self.schedule.borrow_mut();
            match schedule.as_mut() {
                Some(schedule) if schedule.due() >= self.until => return None,
                Some(schedule) => Some(schedule.give()),
                None => None,
            }
        };
        if let Some(due) = due {
            sleep(Duration::from_nanos(due.saturating_sub(self.now()))).await;
        }
        (!self.setup.stop.is_set() && self.setup.budget.take()).then_some(due)
    }

    /// A request began.
    fn begin(&self, now: u64) {
        self.account(now);
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// It ended.
    fn end(&self, now: u64) {
        self.account(now);
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
    }

    fn failed(&self, failure: &Failure) {
        let now = self.now();
        self.end(now);
        let mut figures = self.figures.borrow_mut();
        figures.failed(now);
        failure.count(&mut figures.errors);
    }
}

async fn load(setup: Setup) -> Figures {
    let cpu = thread_cpu();
    let plan = &setup.plan;
    let tls = setup.tls.as_ref().map(|config| {
        let mut config = rustls::ClientConfig::clone(config);
        config.alpn_protocols = vec![b"h2".to_vec()];
        TlsConnector::from(Arc::new(config))
    });
    let mut figures = Figures::of_thread(plan.rate.is_some());
    figures.repeats.resize_with(setup.sites.len(), Default::default);
    let schedule = plan.rate.map(|rate| Schedule::new(rate, setup.number, plan.threads));
    let share =
        plan.connections / plan.threads + u32::from(setup.number < plan.connections % plan.threads);
    let (number, threads) = (setup.number, plan.threads);
    let shared = Rc::new(Shared {
        tls,
        figures: RefCell::new(figures),
        schedule: RefCell::new(schedule),
        until: plan.time.map_or(u64::MAX, nanos),
        in_flight: Cell::new(0),
        counted: Cell::new(0),
        setup,
    });
    let mut places = JoinSet::new();
    for at in 0..share {
        let place = (at * threads + number) as usize;
        places.spawn_local(connection(Rc::clone(&shared), place));
    }
    let linger = match shared.setup.plan.rate {
        Some(_) => nanos(LINGER.min(shared.setup.plan.timeout)),
        None => 0,
    };
    let (mut told, live) = ((0, 0, 0), Arc::clone(&shared.setup.live));
    let mut tell = || {
        let figures = shared.figures.borrow();
        let all = (figures.requests, figures.bytes, figures.errors_count);
        live.add(all.0 - told.0, all.1 - told.1, all.2 - told.2);
        told = all;
    };
    loop {
        let ended = timeout(TICK, async { while places.join_next().await.is_some() {} }).await;
        tell();
        let now = shared.now();
        let patience = shared.until.saturating_add(linger);
        if ended.is_ok() || shared.setup.stop.is_set() || now >= patience {
            break;
        }
    }
    // What is under way now is counted as that, and dropped.
    places.abort_all();
    let now = shared.now();
    let end = if shared.setup.plan.rate.is_some() { now.min(shared.until) } else { now };
    shared.account(now);
    while places.join_next().await.is_some() {}
    let mut figures = shared.figures.replace(Figures::new());
    figures.unfinished = shared.in_flight.get();
    figures.unsent = match &*shared.schedule.borrow() {
        Some(schedule) if !shared.setup.budget.is_empty() => schedule.late(end),
        _ => 0,
    };
    figures.elapsed = Duration::from_nanos(end);
    figures.cpu = thread_cpu().saturating_sub(cpu);
    figures
}

/// One connection, made anew when it ends.
async fn connection(shared: Rc<Shared>, place: usize) {
    let sites = Arc::clone(&shared.setup.sites);
    let (site, next) = super::site::place(&sites, place);
    let mut failures = 0_u32;
    while !shared.over() {
        let begun = shared.now();
        let patience = shared.setup.plan.timeout;
        let made = timeout(patience, connect(&shared, &sites[site])).await;
        let sender = match made.unwrap_or(Err(Failure::TimeoutConnect)) {
            Ok(sender) => sender,
            Err(failure) => {
                // The request that it was for has failed.
                if !shared.setup.budget.take() {
                    return;
                }
                shared.begin(begun);
                shared.failed(&failure);
                sleep(rest(&mut failures)).await;
                continue;
            }
        };
        let before = shared.figures.borrow().requests;
        let mut streams = JoinSet::new();
        for number in 0..shared.setup.plan.pipeline as usize {
            let first = next + number;
            let sender = sender.clone();
            streams.spawn_local(requests(Rc::clone(&shared), sender, site, first, begun));
        }
        drop(sender);
        while streams.join_next().await.is_some() {}
        if shared.figures.borrow().requests > before {
            failures = 0;
        } else {
            // Nothing came of it: the next one must not come at once.
            sleep(rest(&mut failures)).await;
        }
    }
}

fn rest(failures: &mut u32) -> Duration {
    let rest = REST * (1 << (*failures).min(7));
    *failures = failures.saturating_add(1);
    rest.min(LONGEST_REST)
}

async fn connect(shared: &Rc<Shared>, site: &Site) -> Result<SendRequest<Bytes>, Failure> {
    let system = |error: &std::io::Error| Errno::from_io_error(error).unwrap_or(Errno::IO);
    let Address::Tcp(address) = &site.address else { return Err(Failure::Connect(Errno::INVAL)) };
    let begun = shared.now();
    let socket = TcpStream::connect(address).await.map_err(|e| Failure::Connect(system(&e)))?;
    socket.set_nodelay(true).map_err(|e| Failure::Connect(system(&e)))?;
    let now = shared.now();
    shared.figures.borrow_mut().connected(begun, now);
    let (Some(name), Some(tls)) = (&site.tls, &shared.tls) else {
        let (sender, driver) = h2::client::handshake(socket).await.map_err(|e| failure(&e))?;
        tokio::task::spawn_local(async move { drop(driver.await) });
        return Ok(sender);
    };
    let secure = tls.connect(name.clone(), socket).await;
    let secure = secure.map_err(|error| Failure::Tls(error.to_string()))?;
    shared.figures.borrow_mut().secured(now, shared.now());
    if secure.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err(Failure::Tls("the server does not offer HTTP/2 (ALPN)".to_string()));
    }
    let (sender, driver) = h2::client::handshake(secure).await.map_err(|e| failure(&e))?;
    tokio::task::spawn_local(async move { drop(driver.await) });
    Ok(sender)
}

/// Requests one after the other, until there are no more or the connection ends.
async fn requests(
    shared: Rc<Shared>,
    mut sender: SendRequest<Bytes>,
    site: usize,
    first: usize,
    connected: u64,
) {
    let sites = Arc::clone(&shared.setup.sites);
    let all = &sites[site].requests;
    let body = Bytes::from(shared.setup.plan.body.clone());
    let mut opened = Some(connected);
    let mut at = first % all.len();
    while let Some(due) = shared.next().await {
        let now = shared.now();
        // The first of a connection waited for that, too.
        let begun = opened.take().filter(|_| due.is_none()).unwrap_or(now);
        shared.begin(begun);
        let head = all[at].head.clone();
        at = (at + 1) % all.len();
        let patience = shared.setup.plan.timeout;
        let exchange = exchange(&shared, &mut sender, head, body.clone());
        match timeout(patience, exchange).await {
            Ok(Ok((status, sending, sent, first))) => {
                let last = shared.now();
                shared.end(last);
                let times = Times { due, begun, sending, sent, first, last };
                shared.figures.borrow_mut().answered(times, status);
            }
            Ok(Err(failure)) => {
                shared.failed(&failure);
                return;
            }
            Err(_) => {
                shared.failed(&Failure::TimeoutAnswer);
                return;
            }
        }
    }
}

/// One request and its answer: status, and when sending began, ended, and the answer began.
async fn exchange(
    shared: &Rc<Shared>,
    sender: &mut SendRequest<Bytes>,
    head: http::Request<()>,
    body: Bytes,
) -> Result<(u16, u64, u64, u64), Failure> {
    std::future::poll_fn(|context| sender.poll_ready(context)).await.map_err(|e| failure(&e))?;
    let sending = shared.now();
    let (answer, mut stream) =
        sender.send_request(head, body.is_empty()).map_err(|e| failure(&e))?;
    if !body.is_empty() {
        stream.send_data(body, true).map_err(|e| failure(&e))?;
    }
    let sent = shared.now();
    let answer = answer.await.map_err(|e| failure(&e))?;
    let first = shared.now();
    let status = answer.status().as_u16();
    let mut body = answer.into_body();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(|e| failure(&e))?;
        shared.figures.borrow_mut().received(shared.now(), piece.len());
        body.flow_control().release_capacity(piece.len()).map_err(|e| failure(&e))?;
    }
    Ok((status, sending, sent, first))
}

fn failure(error: &h2::Error) -> Failure {
    if let Some(io) = error.get_io() {
        return match Errno::from_io_error(io) {
            Some(errno) => Failure::Read(errno),
            None => Failure::ClosedBefore,
        };
    }
    if error.is_go_away() && error.is_remote() {
        return Failure::ClosedBefore;
    }
    match error.reason() {
        Some(reason) => Failure::Malformed(reason_words(reason)),
        None => Failure::ClosedBefore,
    }
}

fn reason_words(reason: h2::Reason) -> &'static str {
    match reason {
        h2::Reason::REFUSED_STREAM => "REFUSED_STREAM",
        h2::Reason::CANCEL => "CANCEL",
        h2::Reason::INTERNAL_ERROR => "INTERNAL_ERROR",
        h2::Reason::ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
        h2::Reason::PROTOCOL_ERROR => "PROTOCOL_ERROR: is this HTTP/2?",
        h2::Reason::FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR: is this HTTP/2?",
        h2::Reason::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
        h2::Reason::HTTP_1_1_REQUIRED => "HTTP_1_1_REQUIRED",
        _ => "an HTTP/2 error of another kind",
    }
}
