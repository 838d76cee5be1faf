//! The client: a thread for each stream, one transfer after the other.

use std::time::{Duration, Instant};

use model::{
    OneTransfer, Transfer, TransferDirection, TransferError, TransferPeer, TransferSender,
};
use sys::Stop;

use super::compare::compare_with_theory;
use super::connection::{Connection, ConnectionError, connect};
use super::control::Control;
use super::http;
use super::options::{Options, Progress};
use super::protocol::{Confirmation, Opening, SessionId, TransferRequest, UNTIL_TIME_IS_OVER};
use super::recorder::{Recorder, add_connection};
use super::sender::{Outgoing, send, wait_for_acknowledgements};
use crate::Error;

/// Consecutive failures after which a stream gives up.
const MAX_FAILURES: u32 = 3;
/// Pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Longest duration of a transfer with a size.
const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);
/// How long after the end of its time a transfer without a size may still receive data.
const MAX_OVERTIME: Duration = Duration::from_secs(5);
/// A transfer without a size that ends earlier than this before its time was broken off.
const EARLY_END: Duration = Duration::from_millis(300);
/// Bytes of a read.
const READ_BYTES: usize = 256 << 10;
/// Shortest time over which the rate of arrival is measured; of a transfer that is over before.
const RATE_INTERVAL: Duration = Duration::from_millis(50);
const MIN_RATE_INTERVAL: Duration = Duration::from_millis(1);
/// Longest wait before the stop is checked again.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// Runs the transfers; with the result so far when the stop is set.
///
/// # Errors
///
/// The peer cannot be reached, is no server of this protocol version, or refuses. Failures of single
/// transfers are counted in [`Transfer::errors`].
pub fn run(options: &Options, stop: &Stop, progress: &Progress) -> Result<Transfer, Error> {
    let control = match options.url {
        None => Some(Control::open(options, stop)?),
        Some(_) => None,
    };
    let start = Instant::now();
    let client = Client {
        options,
        stop,
        progress,
        session: control.as_ref().map(|control| control.session),
        start,
        end: options.duration.map(|duration| start + duration),
    };
    let streams = client.run_streams();
    let mut all = Transfer {
        peer: options.peer.clone(),
        address: Some(options.address),
        direction: options.direction,
        peer_kind: if options.url.is_some() { TransferPeer::Http } else { TransferPeer::Netwhy },
        size_bytes: options.size.filter(|_| options.url.is_none()),
        interval_ms: options.interval.map(|interval| interval.as_millis() as u64),
        reconnect: options.reconnect,
        streams: options.streams,
        interrupted: stop.is_set(),
        ..Transfer::default()
    };
    if control.is_some() {
        all.buffer_bytes = Some(options.buffer_bytes.into());
        let delay = options.source_delay.as_micros() as u64;
        all.source_delay_us = (delay > 0).then_some(delay);
    }
    let receive_rate = streams.iter().map(|stream| stream.best_receive_rate).sum();
    for stream in streams {
        stream.add_to(&mut all);
    }
    all.transfers.sort_by_key(|one| (one.at_us, one.stream));
    all.transfers.truncate(Transfer::MAX_TRANSFERS_KEPT);
    let first = all.transfers.first().map_or(0, |one| one.at_us);
    all.transfers.iter_mut().for_each(|one| one.at_us -= first);
    all.duration_us =
        all.transfers.iter().map(|one| one.at_us + one.duration_us).max().unwrap_or(0);
    if let Some(control) = control {
        add_report(&mut all, control);
    }
    compare_with_theory(&mut all, options, receive_rate);
    Ok(all)
}

/// Adds the server's report.
fn add_report(all: &mut Transfer, control: Control<'_>) {
    match control.report() {
        Ok(report) => {
            for failure in report.failures {
                TransferError::add(&mut all.errors, &format!("server: {failure}"), 1);
            }
            if all.direction == TransferDirection::Down {
                all.senders = report.senders;
            }
        }
        Err(error) => {
            let message = format!("no report from the server: {error}");
            TransferError::add(&mut all.errors, &message, 1);
        }
    }
}

/// What the threads of the streams share.
struct Client<'a> {
    options: &'a Options,
    stop: &'a Stop,
    progress: &'a Progress,
    session: Option<SessionId>,
    start: Instant,
    end: Option<Instant>,
}

/// The result of a stream.
#[derive(Default)]
struct StreamResult {
    started: u64,
    completed: u64,
    bytes: u64,
    transfers: Vec<OneTransfer>,
    errors: Vec<TransferError>,
    /// Statistics as the sender.
    sender: Option<TransferSender>,
    /// Best rate at which data arrived, bytes a second; 0: none.
    best_receive_rate: f64,
}

impl StreamResult {
    fn add_to(self, all: &mut Transfer) {
        all.started += self.started;
        all.completed += self.completed;
        all.bytes = all.bytes.saturating_add(self.bytes);
        for error in self.errors {
            TransferError::add(&mut all.errors, &error.message, error.count);
        }
        all.senders.extend(self.sender);
        all.transfers.extend(self.transfers);
    }

    /// Takes in the statistics of a connection that is over, if it sent anything.
    fn close(&mut self, connection: &mut Option<OpenConnection<'_>>) {
        if let Some(connection) = connection.take() {
            let sender = connection.recorder.finish();
            if sender.writes > 0 {
                add_connection(self.sender.get_or_insert_default(), sender);
            }
        }
    }
}

/// An open connection, and when it was last used.
struct OpenConnection<'a> {
    connection: Connection<'a>,
    last_used: Option<Instant>,
    recorder: Recorder,
}

/// Measures the rate at which the data of a transfer arrives.
struct RateMeter {
    since: Instant,
    bytes: u64,
    is_measured: bool,
}

impl RateMeter {
    fn new() -> Self {
        RateMeter { since: Instant::now(), bytes: 0, is_measured: false }
    }

    /// Starts over, at the first byte.
    fn restart(&mut self, now: Instant, bytes: u64) {
        (self.since, self.bytes) = (now, bytes);
    }

    /// So many bytes have arrived: the rate, if the interval is over.
    fn rate(&mut self, now: Instant, bytes: u64, interval: Duration) -> Option<f64> {
        let elapsed = now - self.since;
        if elapsed < interval {
            return None;
        }
        let rate = bytes.saturating_sub(self.bytes) as f64 / elapsed.as_secs_f64();
        self.restart(now, bytes);
        self.is_measured = true;
        Some(rate)
    }
}

impl<'a> Client<'a> {
    /// Runs all streams.
    fn run_streams(&self) -> Vec<StreamResult> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.options.streams)
                .map(|number| {
                    std::thread::Builder::new().spawn_scoped(scope, move || self.stream(number))
                })
                .collect();
            let mut streams = Vec::new();
            for thread in threads {
                match thread {
                    Ok(thread) => streams.extend(thread.join().ok()),
                    Err(error) => {
                        let mut failed = StreamResult::default();
                        let message = format!("cannot start a thread: {error}");
                        TransferError::add(&mut failed.errors, &message, 1);
                        streams.push(failed);
                    }
                }
            }
            streams
        })
    }

    /// Runs one stream.
    fn stream(&self, stream: u32) -> StreamResult {
        let options = self.options;
        let mut result = StreamResult::default();
        let mut connection: Option<OpenConnection<'a>> = None;
        let mut failures = 0;
        let mut buffer = match options.direction {
            TransferDirection::Up => vec![0; options.buffer_bytes as usize],
            TransferDirection::Down => vec![0; READ_BYTES],
        };
        for number in 0..options.count.unwrap_or(u32::MAX) {
            let due =
                options.interval.map_or(self.start, |interval| self.start + interval * number);
            if !self.sleep_until(due) {
                break;
            }
            let start = Instant::now();
            let mut one = OneTransfer {
                stream,
                number,
                at_us: (start - self.start).as_micros() as u64,
                ..OneTransfer::default()
            };
            result.started += 1;
            let ended = self.transfer(&mut connection, &mut one, &mut result, start, &mut buffer);
            one.duration_us = start.elapsed().as_micros() as u64;
            one.completed = ended.is_ok();
            result.bytes = result.bytes.saturating_add(one.bytes);
            if let Some(connection) = &mut connection {
                connection.last_used = Some(Instant::now());
            }
            match ended {
                Ok(()) => {
                    result.completed += 1;
                    self.progress.add_completed();
                    failures = 0;
                }
                Err(message) => {
                    if !self.stop.is_set() && !self.is_over() {
                        TransferError::add(&mut result.errors, &message, 1);
                    }
                    failures += 1;
                }
            }
            if result.transfers.len() < Transfer::MAX_TRANSFERS_KEPT {
                result.transfers.push(one);
            }
            if options.reconnect || failures > 0 {
                result.close(&mut connection);
            }
            if failures >= MAX_FAILURES {
                break;
            }
            if failures > 0 && !self.sleep_until(Instant::now() + RETRY_PAUSE) {
                break;
            }
            if options.size.is_none() && options.url.is_none() {
                break;
            }
        }
        result.close(&mut connection);
        result
    }

    /// Whether the time is over.
    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Time until the end; `None`: there is no end.
    fn time_left(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Sleeps until a time; `false`: the stop was set, or the time is over.
    fn sleep_until(&self, due: Instant) -> bool {
        loop {
            if self.stop.is_set() || self.is_over() {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(MAX_WAIT));
        }
    }

    /// One transfer, on the open connection or on a new one.
    fn transfer(
        &self,
        open: &mut Option<OpenConnection<'a>>,
        one: &mut OneTransfer,
        result: &mut StreamResult,
        start: Instant,
        buffer: &mut [u8],
    ) -> Result<(), String> {
        let options = self.options;
        let mut first_bytes = Vec::new();
        let connection = match open {
            Some(open) => {
                one.idle_us = open.last_used.map(|used| (start - used).as_micros() as u64);
                open
            }
            None => {
                let connection = self.connect(one)?;
                if let Some(session) = self.session {
                    first_bytes.extend(Opening::Data { session, stream: one.stream }.bytes());
                }
                open.insert(connection)
            }
        };
        if let Some(url) = &options.url {
            let keep_open = self.http_transfer(url, connection, one, result, start, buffer)?;
            if !keep_open {
                result.close(open);
            }
            return Ok(());
        }
        let duration_ms =
            self.time_left().map_or(0, |left| u32::try_from(left.as_millis()).unwrap_or(u32::MAX));
        let size = options.size.unwrap_or(UNTIL_TIME_IS_OVER);
        let request = TransferRequest { size, number: one.number, duration_ms };
        first_bytes.extend(request.bytes());
        let OpenConnection { connection, recorder, .. } = connection;
        connection.write(&first_bytes).map_err(|error| self.error_text(error))?;
        match options.direction {
            TransferDirection::Down => self.download(connection, one, result, start, buffer),
            TransferDirection::Up => self.upload(connection, recorder, one, start, buffer),
        }
    }

    fn connect(&self, one: &mut OneTransfer) -> Result<OpenConnection<'a>, String> {
        let options = self.options;
        let congestion = options.congestion.as_deref();
        let congestion = congestion.filter(|_| options.direction == TransferDirection::Up);
        let (connection, handshake) =
            connect(options.address, congestion, options.timeout, self.stop)
                .map_err(|error| error.to_string())?;
        one.connect_us = Some(handshake.as_micros() as u64);
        let recorder = Recorder::new(one.stream, &connection.stream);
        Ok(OpenConnection { connection, last_used: None, recorder })
    }

    fn error_text(&self, error: ConnectionError) -> String {
        if error == ConnectionError::Closed && self.session.is_some() {
            "the server closed the connection before the transfer was complete".to_string()
        } else {
            error.to_string()
        }
    }

    /// A transfer from an HTTP server; whether the connection stays open.
    fn http_transfer(
        &self,
        url: &http::Url,
        open: &mut OpenConnection<'a>,
        one: &mut OneTransfer,
        result: &mut StreamResult,
        start: Instant,
        buffer: &mut [u8],
    ) -> Result<bool, String> {
        let connection = &mut open.connection;
        let text = |error| self.error_text(error);
        connection.write(&http::request(url, !self.options.reconnect)).map_err(text)?;
        let body = http::read_head(connection).map_err(text)?;
        one.first_byte_us = Some((body.response_start - start).as_micros() as u64);
        one.bytes = body.length.map_or(body.read_bytes, |length| body.read_bytes.min(length));
        self.receive(connection, one, body.length, start, buffer, result).map_err(text)?;
        Ok(body.keep_alive)
    }

    /// A transfer from netwhy transfer serve.
    fn download(
        &self,
        connection: &mut Connection<'_>,
        one: &mut OneTransfer,
        result: &mut StreamResult,
        start: Instant,
        buffer: &mut [u8],
    ) -> Result<(), String> {
        let size = self.options.size;
        let received = self.receive(connection, one, size, start, buffer, result);
        received.map_err(|error| self.error_text(error))?;
        match self.time_left().filter(|left| size.is_none() && *left > EARLY_END) {
            Some(left) => {
                Err(format!("the server ended the transfer {} too early", text::duration(left)))
            }
            None => Ok(()),
        }
    }

    /// A transfer to netwhy transfer serve.
    fn upload(
        &self,
        connection: &mut Connection<'_>,
        recorder: &mut Recorder,
        one: &mut OneTransfer,
        start: Instant,
        buffer: &[u8],
    ) -> Result<(), String> {
        let text = |error| self.error_text(error);
        let size = self.options.size;
        let outgoing = Outgoing {
            number: one.number,
            size,
            until: self.end.unwrap_or_else(|| Instant::now() + MAX_DURATION),
            limit: None,
            source_delay: self.options.source_delay,
        };
        let (sent, ended) = send(connection, &outgoing, buffer, recorder);
        self.progress.add_bytes(sent);
        one.bytes = sent;
        ended.map_err(text)?;
        if size.is_none() {
            let _ = connection.stream.shutdown(std::net::Shutdown::Write);
        }
        wait_for_acknowledgements(connection, sent, recorder).map_err(text)?;
        let confirmation = Confirmation::parse(connection.read_array().map_err(text)?);
        one.first_byte_us = Some(start.elapsed().as_micros() as u64);
        if confirmation.received_bytes != sent {
            return Err(format!(
                "{sent} bytes were sent, and {} received",
                confirmation.received_bytes
            ));
        }
        Ok(())
    }

    /// Receives a transfer: this many bytes, or to the end of the connection.
    fn receive(
        &self,
        connection: &mut Connection<'_>,
        one: &mut OneTransfer,
        size: Option<u64>,
        start: Instant,
        buffer: &mut [u8],
        result: &mut StreamResult,
    ) -> Result<(), ConnectionError> {
        let mut meter = RateMeter::new();
        meter.restart(Instant::now(), one.bytes);
        // A server that does not end the transfer does not prolong it.
        let last = self.end.map(|end| end + MAX_OVERTIME);
        while size.is_none_or(|size| one.bytes < size) {
            if last.is_some_and(|last| Instant::now() >= last) {
                return Err(ConnectionError::Stopped);
            }
            let left = size.map_or(u64::MAX, |size| size - one.bytes);
            let read = connection.read_up_to(left, buffer)? as u64;
            if read == 0 {
                return if size.is_none() { Ok(()) } else { Err(ConnectionError::Closed) };
            }
            let now = Instant::now();
            if one.first_byte_us.is_none() {
                one.first_byte_us = Some((now - start).as_micros() as u64);
                meter.restart(now, one.bytes);
            }
            one.bytes += read;
            self.progress.add_bytes(read);
            if let Some(rate) = meter.rate(now, one.bytes, RATE_INTERVAL) {
                result.best_receive_rate = result.best_receive_rate.max(rate);
            }
        }
        if !meter.is_measured
            && let Some(rate) = meter.rate(Instant::now(), one.bytes, MIN_RATE_INTERVAL)
        {
            result.best_receive_rate = result.best_receive_rate.max(rate);
        }
        Ok(())
    }
}
