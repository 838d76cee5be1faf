//! One thread of a load with HTTP/2: connections with several concurrent streams each.
//!
//! The protocol is implemented by the `h2` crate; the figures are the same as with HTTP/1.1. Stream
//! errors are reported by their error code (RFC 9113, section 7).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, ResponseFuture, SendRequest};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet, LocalSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::failure::Failure;
use super::origin::{Address, Origin, assign};
use super::paced::Paced;
use super::response::{MAX_HEAD_BYTES, MAX_INTERIM_RESPONSES, TOO_MANY_INTERIM};
use super::schedule::Schedule;
use super::stats::{RequestTimes, Stats};
use super::thread::{LiveReporter, ThreadSetup, nanos, thread_cpu_time};
use crate::Error;

/// Interval of the live counts, and longest wait before the stop is checked.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);
/// First and longest back-off after a failed connection.
const FIRST_BACK_OFF: Duration = Duration::from_millis(10);
const MAX_BACK_OFF: Duration = Duration::from_secs(1);
/// The protocol's name in ALPN.
const ALPN_HTTP2: &[u8] = b"h2";

/// Runs this thread's part of the load.
pub(super) fn run(setup: ThreadSetup) -> Result<Stats, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Error::Failed(format!("cannot create an event queue: {error}")))?;
    LocalSet::new().block_on(&runtime, load(setup))
}

/// What all connections of this thread share. Times are nanoseconds since the start of the load.
struct Shared {
    setup: ThreadSetup,
    tls: Option<TlsConnector>,
    stats: RefCell<Stats>,
    schedule: RefCell<Option<Schedule>>,
    /// When the load ends: no request is started after that.
    end: u64,
    in_flight: Cell<u64>,
    /// Until when `in_flight` is recorded.
    in_flight_recorded: Cell<u64>,
}

impl Shared {
    fn now(&self) -> u64 {
        nanos(self.setup.start.elapsed())
    }

    /// Records the requests in flight until now, before their number changes.
    fn record_in_flight(&self, now: u64) {
        let duration = now.saturating_sub(self.in_flight_recorded.get());
        self.stats.borrow_mut().record_in_flight(self.in_flight.get(), duration);
        self.in_flight_recorded.set(self.in_flight_recorded.get().max(now));
    }

    /// Whether no request is started any more.
    fn has_ended(&self) -> bool {
        self.setup.stop.is_set() || self.now() >= self.end || self.setup.limit.is_reached()
    }

    /// Waits until a request may start: `Some(due)`, in an open loop when it was due; `None`: there is
    /// none any more.
    async fn next_request(&self) -> Option<Option<u64>> {
        if self.has_ended() {
            return None;
        }
        let due = match self.schedule.borrow_mut().as_mut() {
            Some(schedule) if schedule.next_due() >= self.end => return None,
            Some(schedule) => Some(schedule.take()),
            None => None,
        };
        if let Some(due) = due {
            sleep(Duration::from_nanos(due.saturating_sub(self.now()))).await;
        }
        (!self.setup.stop.is_set() && self.setup.limit.take()).then_some(due)
    }

    /// A request starts.
    fn begin(&self, now: u64) {
        self.record_in_flight(now);
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// A request ends.
    fn end(&self, now: u64) {
        self.record_in_flight(now);
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
    }

    /// A request fails.
    fn fail(&self, failure: &Failure) {
        let now = self.now();
        self.end(now);
        self.stats.borrow_mut().record_failure(now, failure);
    }
}

async fn load(setup: ThreadSetup) -> Result<Stats, Error> {
    let cpu_time_at_start = thread_cpu_time();
    let plan = &setup.plan;
    let tls = setup.tls.as_ref().map(|config| {
        let mut config = rustls::ClientConfig::clone(config);
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
        TlsConnector::from(Arc::new(config))
    });
    let stats = Stats::new(plan, setup.origins.len())?;
    let schedule = plan.rate.map(|rate| Schedule::new(rate, setup.number, plan.threads));
    let is_open_loop = schedule.is_some();
    let shared = Rc::new(Shared {
        tls,
        stats: RefCell::new(stats),
        schedule: RefCell::new(schedule),
        end: plan.duration.map_or(u64::MAX, nanos),
        in_flight: Cell::new(0),
        in_flight_recorded: Cell::new(0),
        setup,
    });
    let mut connections = JoinSet::new();
    for number in shared.setup.connections() {
        connections.spawn_local(connection(Rc::clone(&shared), number));
    }
    let linger = nanos(shared.setup.linger());
    let mut reporter = LiveReporter::default();
    loop {
        let all_ended = async { while connections.join_next().await.is_some() {} };
        let ended = timeout(REPORT_INTERVAL, all_ended).await;
        reporter.report(&shared.stats.borrow(), &shared.setup.live);
        let lingered = shared.now() >= shared.end.saturating_add(linger);
        if ended.is_ok() || shared.setup.stop.is_set() || lingered {
            break;
        }
    }
    // Requests that are still in flight count as unfinished.
    connections.abort_all();
    let now = shared.now();
    let end = if is_open_loop { now.min(shared.end) } else { now };
    shared.record_in_flight(now);
    while connections.join_next().await.is_some() {}
    let empty = Stats::new(&shared.setup.plan, shared.setup.origins.len())?;
    let mut stats = shared.stats.replace(empty);
    stats.unfinished = shared.in_flight.get();
    stats.unsent = match &*shared.schedule.borrow() {
        Some(schedule) if !shared.setup.limit.is_reached() => schedule.overdue(end),
        _ => 0,
    };
    stats.elapsed = Duration::from_nanos(end);
    stats.cpu_time = thread_cpu_time().saturating_sub(cpu_time_at_start);
    Ok(stats)
}

/// One connection, opened again whenever it ends.
async fn connection(shared: Rc<Shared>, number: usize) {
    let origins = Arc::clone(&shared.setup.origins);
    let (origin, first_request) = assign(&origins, number);
    let mut failures = 0_u32;
    while !shared.has_ended() {
        let start = shared.now();
        let connected =
            timeout(shared.setup.plan.timeout, connect(&shared, origins.get(origin))).await;
        // The driver closes the connection when it is dropped, whatever the server still sends.
        let (sender, _driver) = match connected.unwrap_or(Err(Failure::ConnectTimeout)) {
            Ok(connected) => connected,
            Err(failure) => {
                // The request that it was opened for has failed.
                if !shared.setup.limit.take() {
                    return;
                }
                if let Failure::Connect(errno) = failure {
                    shared.setup.first.failed(errno);
                }
                shared.begin(start);
                shared.fail(&failure);
                sleep(back_off(&mut failures)).await;
                continue;
            }
        };
        let before = shared.stats.borrow().requests;
        let mut streams = JoinSet::new();
        for stream in 0..shared.setup.plan.pipeline as usize {
            let (shared, sender) = (Rc::clone(&shared), sender.clone());
            streams.spawn_local(requests(shared, sender, origin, first_request + stream, start));
        }
        drop(sender);
        while streams.join_next().await.is_some() {}
        if shared.stats.borrow().requests > before {
            failures = 0;
        } else {
            // It brought no response: the next one has to wait.
            sleep(back_off(&mut failures)).await;
        }
    }
}

fn back_off(failures: &mut u32) -> Duration {
    let back_off = FIRST_BACK_OFF * (1 << (*failures).min(7));
    *failures = failures.saturating_add(1);
    back_off.min(MAX_BACK_OFF)
}

async fn connect(
    shared: &Shared,
    origin: &Origin,
) -> Result<(SendRequest<Bytes>, Driver), Failure> {
    let failed =
        |error: std::io::Error| Failure::Connect(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    let Address::Tcp(address) = &origin.address else {
        return Err(Failure::Connect(Errno::INVAL));
    };
    let start = shared.now();
    let socket = TcpStream::connect(address).await.map_err(failed)?;
    socket.set_nodelay(true).map_err(failed)?;
    let connected = shared.now();
    shared.stats.borrow_mut().record_connect(start, connected);
    shared.setup.first.established();
    let (Some(name), Some(tls)) = (&origin.tls, &shared.tls) else {
        return handshake(socket).await;
    };
    let secure = tls.connect(name.clone(), socket).await;
    let secure = secure.map_err(|error| Failure::Tls(error.to_string()))?;
    shared.stats.borrow_mut().record_handshake(connected, shared.now());
    if secure.get_ref().1.alpn_protocol() != Some(ALPN_HTTP2) {
        return Err(Failure::Tls("the server does not offer HTTP/2 (ALPN)".to_string()));
    }
    handshake(secure).await
}

/// The task that reads and writes a connection; it ends when this is dropped.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts HTTP/2 on a socket.
async fn handshake(
    socket: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> Result<(SendRequest<Bytes>, Driver), Failure> {
    let mut builder = Builder::new();
    builder.max_header_list_size(MAX_HEAD_BYTES as u32).enable_push(false);
    let (sender, driver) = builder.handshake(Paced::new(socket)).await.map_err(failure)?;
    let driver = tokio::task::spawn_local(async move { drop(driver.await) });
    Ok((sender, Driver(driver)))
}

/// The requests of one stream after the other, until the load or the connection ends.
async fn requests(
    shared: Rc<Shared>,
    mut sender: SendRequest<Bytes>,
    origin: usize,
    first: usize,
    connect_start: u64,
) {
    let origins = Arc::clone(&shared.setup.origins);
    let requests = &origins.get(origin).requests;
    let body = Bytes::from(shared.setup.plan.body.clone());
    let mut connect_start = Some(connect_start);
    let mut index = first % requests.len();
    while let Some(due) = shared.next_request().await {
        let now = shared.now();
        // The first one on a connection waited for the connection too.
        let start = connect_start.take().filter(|_| due.is_none()).unwrap_or(now);
        shared.begin(start);
        let head = requests.get(index).head.clone();
        index = requests.next_index(index);
        let exchange = exchange(&shared, &mut sender, head, body.clone());
        match timeout(shared.setup.plan.timeout, exchange).await {
            Ok(Ok(Exchanged { status, first_sent, last_sent, first_received })) => {
                let last_received = shared.now();
                shared.end(last_received);
                let times = RequestTimes {
                    due,
                    start,
                    first_sent,
                    last_sent,
                    first_received,
                    last_received,
                };
                shared.stats.borrow_mut().record_response(times, status);
            }
            Ok(Err(failure)) => return shared.fail(&failure),
            Err(_) => return shared.fail(&Failure::ResponseTimeout),
        }
    }
}

/// A request and the response to it.
struct Exchanged {
    status: u16,
    first_sent: u64,
    last_sent: u64,
    first_received: u64,
}

async fn exchange(
    shared: &Shared,
    sender: &mut SendRequest<Bytes>,
    head: http::Request<()>,
    body: Bytes,
) -> Result<Exchanged, Failure> {
    std::future::poll_fn(|context| sender.poll_ready(context)).await.map_err(failure)?;
    let first_sent = shared.now();
    let (mut response, mut stream) = sender.send_request(head, body.is_empty()).map_err(failure)?;
    if !body.is_empty() {
        stream.send_data(body, true).map_err(failure)?;
    }
    let last_sent = shared.now();
    let mut interim = 0;
    let response =
        std::future::poll_fn(|context| final_response(&mut response, &mut interim, context));
    let response = response.await?;
    let first_received = shared.now();
    let status = response.status().as_u16();
    let mut body = response.into_body();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(failure)?;
        shared.stats.borrow_mut().record_bytes(shared.now(), piece.len());
        body.flow_control().release_capacity(piece.len()).map_err(failure)?;
    }
    Ok(Exchanged { status, first_sent, last_sent, first_received })
}

/// The response after interim ones, which are counted.
fn final_response(
    response: &mut ResponseFuture,
    interim: &mut u32,
    context: &mut Context<'_>,
) -> Poll<Result<http::Response<RecvStream>, Failure>> {
    while let Poll::Ready(Some(one)) = response.poll_informational(context) {
        *interim += 1;
        if let Err(error) = one {
            return Poll::Ready(Err(failure(error)));
        }
        if *interim > MAX_INTERIM_RESPONSES {
            return Poll::Ready(Err(Failure::Malformed(TOO_MANY_INTERIM)));
        }
    }
    std::pin::Pin::new(response).poll(context).map_err(failure)
}

fn failure(error: h2::Error) -> Failure {
    if let Some(io) = error.get_io() {
        return match Errno::from_io_error(io) {
            Some(errno) => Failure::Read(errno),
            None => Failure::ClosedBeforeResponse,
        };
    }
    if error.is_go_away() && error.is_remote() {
        return Failure::ClosedBeforeResponse;
    }
    match error.reason() {
        Some(reason) => Failure::Malformed(reason_text(reason)),
        None => Failure::ClosedBeforeResponse,
    }
}

fn reason_text(reason: h2::Reason) -> &'static str {
    match reason {
        h2::Reason::REFUSED_STREAM => "REFUSED_STREAM",
        h2::Reason::CANCEL => "CANCEL",
        h2::Reason::INTERNAL_ERROR => "INTERNAL_ERROR",
        h2::Reason::ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
        h2::Reason::PROTOCOL_ERROR => "PROTOCOL_ERROR: is this HTTP/2?",
        h2::Reason::FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR: is this HTTP/2?",
        h2::Reason::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
        h2::Reason::HTTP_1_1_REQUIRED => "HTTP_1_1_REQUIRED",
        _ => "another HTTP/2 error",
    }
}
