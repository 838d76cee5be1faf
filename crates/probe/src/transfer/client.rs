//! The client: a thread for each stream, one transfer after the other.

use std::time::{Duration, Instant};

use model::{
    OneTransfer, Transfer, TransferDirection, TransferError, TransferPeer, TransferSender,
};

use super::compare::compare;
use super::control::Control;
use super::http;
use super::line::{Ended, Line, connect};
use super::protocol::{Confirmed, Opening, Request, Session, UNTIL};
use super::record::{Recorder, merge};
use super::sender::{Sending, send, tail};
use super::{Options, Progress};
use sys::Stop;

use crate::Error;

/// Failures of a stream one after the other, after which it gives up.
const GIVE_UP: u32 = 3;
/// Between one of them and the next try.
const AGAIN: Duration = Duration::from_millis(200);
/// How long one transfer of a size may take at most.
const MOST_TIME: Duration = Duration::from_secs(24 * 3600);
/// How long the last bytes of a transfer without a size may be on their way.
const REST: Duration = Duration::from_secs(5);
/// A transfer without a size that ends so much before its time was broken off.
const EARLY: Duration = Duration::from_millis(300);
/// Bytes that are read at once.
const READ: usize = 256 << 10;
/// Time over which the rate of arrival is taken.
const RATE_OVER: Duration = Duration::from_millis(50);
/// Longest wait in one piece.
const SLICE: Duration = Duration::from_millis(20);

/// Runs the transfers; ends with what was measured so far when the stop is set.
///
/// # Errors
///
/// The peer cannot be reached, is no server of this kind or version, or refuses. What goes wrong
/// with one of many transfers is counted in [`Transfer::errors`].
pub fn run(options: &Options, stop: &Stop, progress: &Progress) -> Result<Transfer, Error> {
    let mut control = match options.url {
        None => Some(Control::open(options, stop)?),
        Some(_) => None,
    };
    let session = control.as_ref().map(|control| control.session);
    let began = Instant::now();
    let shared = Shared {
        options,
        stop,
        progress,
        session,
        began,
        until: options.time.map(|time| began + time),
    };
    let mut streams: Vec<Stream> = Vec::new();
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..options.streams)
            .map(|number| {
                let shared = &shared;
                std::thread::Builder::new().spawn_scoped(scope, move || shared.stream(number))
            })
            .collect();
        for thread in started {
            match thread {
                Ok(thread) => streams.extend(thread.join().ok()),
                Err(error) => {
                    let mut none = Stream::default();
                    let words = format!("cannot start a thread: {error}");
                    TransferError::add(&mut none.errors, &words, 1);
                    streams.push(none);
                }
            }
        }
    });
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
    if session.is_some() {
        all.buffer_bytes = Some(options.buffer.into());
        let delay = options.source_delay.as_micros() as u64;
        all.source_delay_us = (delay > 0).then_some(delay);
    }
    let mut arrival = 0.0;
    for stream in streams {
        all.started += stream.begun;
        all.completed += stream.done;
        all.bytes = all.bytes.saturating_add(stream.bytes);
        for error in stream.errors {
            TransferError::add(&mut all.errors, &error.message, error.count);
        }
        arrival += stream.best_rate;
        all.senders.extend(stream.sender);
        all.transfers.extend(stream.transfers);
    }
    all.transfers.sort_by_key(|one| (one.at_us, one.stream));
    all.transfers.truncate(Transfer::MAX_TRANSFERS_KEPT);
    let first = all.transfers.first().map_or(0, |one| one.at_us);
    all.transfers.iter_mut().for_each(|one| one.at_us -= first);
    all.duration_us =
        all.transfers.iter().map(|one| one.at_us + one.duration_us).max().unwrap_or(0);
    if let Some(control) = control.take() {
        match control.report() {
            Ok(report) => {
                for words in report.failures {
                    TransferError::add(&mut all.errors, &format!("server: {words}"), 1);
                }
                if options.direction == TransferDirection::Down {
                    all.senders = report.senders;
                }
            }
            Err(ended) => {
                let words = format!("the server did not tell its side: {ended}");
                TransferError::add(&mut all.errors, &words, 1);
            }
        }
    }
    compare(&mut all, options, arrival);
    Ok(all)
}

/// What the threads of the streams share.
struct Shared<'a> {
    options: &'a Options,
    stop: &'a Stop,
    progress: &'a Progress,
    session: Option<Session>,
    began: Instant,
    until: Option<Instant>,
}

/// What a stream measured.
#[derive(Default)]
struct Stream {
    begun: u64,
    done: u64,
    bytes: u64,
    transfers: Vec<OneTransfer>,
    errors: Vec<TransferError>,
    sender: Option<TransferSender>,
    /// Best rate at which data arrived, bytes a second.
    best_rate: f64,
}

/// An open connection, and when it was last of use.
struct Open<'a> {
    line: Line<'a>,
    used: Option<Instant>,
    recorder: Recorder,
}

impl<'a> Shared<'a> {
    fn stream(&self, stream: u32) -> Stream {
        let options = self.options;
        let mut result = Stream::default();
        let mut open: Option<Open<'a>> = None;
        let mut failures = 0;
        let buffer = match options.direction {
            TransferDirection::Up => vec![0; options.buffer as usize],
            TransferDirection::Down => vec![0; READ],
        };
        for number in 0..options.count.unwrap_or(u32::MAX) {
            let due = options.interval.map_or(self.began, |each| self.began + each * number);
            if !self.sleep_until(due) {
                break;
            }
            let began = Instant::now();
            let mut one = OneTransfer {
                stream,
                number,
                at_us: (began - self.began).as_micros() as u64,
                ..OneTransfer::default()
            };
            result.begun += 1;
            let ended = self.transfer(&mut open, &mut one, &mut result, began, &buffer);
            one.duration_us = began.elapsed().as_micros() as u64;
            one.completed = ended.is_ok();
            result.bytes = result.bytes.saturating_add(one.bytes);
            if let Some(open) = &mut open {
                open.used = Some(Instant::now());
            }
            match ended {
                Ok(()) => {
                    result.done += 1;
                    self.progress.finish();
                    failures = 0;
                }
                Err(words) => {
                    if !self.stop.is_set() && !self.over() {
                        TransferError::add(&mut result.errors, &words, 1);
                    }
                    failures += 1;
                }
            }
            if result.transfers.len() < Transfer::MAX_TRANSFERS_KEPT {
                result.transfers.push(one);
            }
            if options.reconnect || failures > 0 {
                close(&mut open, &mut result);
            }
            if failures >= GIVE_UP {
                break;
            }
            if failures > 0 && !self.sleep_until(Instant::now() + AGAIN) {
                break;
            }
            if options.size.is_none() && options.url.is_none() {
                break;
            }
        }
        close(&mut open, &mut result);
        result
    }

    fn over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Whether it is time to go on.
    fn sleep_until(&self, due: Instant) -> bool {
        loop {
            if self.stop.is_set() || self.over() {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(SLICE));
        }
    }

    /// One transfer, on the open connection or a new one.
    fn transfer(
        &self,
        open: &mut Option<Open<'a>>,
        one: &mut OneTransfer,
        result: &mut Stream,
        began: Instant,
        buffer: &[u8],
    ) -> Result<(), String> {
        let options = self.options;
        let mut first = Vec::new();
        match open {
            Some(open) => {
                one.idle_us = open.used.map(|used| (began - used).as_micros() as u64);
            }
            None => {
                let ours = options.congestion.as_deref();
                let ours = ours.filter(|_| options.direction == TransferDirection::Up);
                let (line, took) = connect(options.address, ours, options.patience, self.stop)
                    .map_err(|error| error.to_string())?;
                one.connect_us = Some(took.as_micros() as u64);
                let recorder = Recorder::new(one.stream, &line.stream);
                if let Some(session) = self.session {
                    first.extend(Opening::Data { session, stream: one.stream }.bytes());
                }
                *open = Some(Open { line, used: None, recorder });
            }
        }
        let Some(Open { line, recorder, .. }) = open else { return Ok(()) };
        let time = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let words = |ended: Ended| {
            if ended == Ended::Closed && self.session.is_some() {
                "the server closed the connection before the transfer was over".to_string()
            } else {
                ended.to_string()
            }
        };
        if let Some(url) = &options.url {
            line.write(&http::request(url, !options.reconnect)).map_err(words)?;
            let body = http::head(line).map_err(words)?;
            one.first_byte_us = Some((body.first - began).as_micros() as u64);
            one.bytes = body.length.map_or(body.have, |length| body.have.min(length));
            let size = body.length;
            let ended = self.receive(line, one, size, began, buffer, result).map_err(words);
            if !body.keep {
                close(open, result);
            }
            return ended;
        }
        let time_ms = time.map_or(0, |time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
        let size = options.size.unwrap_or(UNTIL);
        first.extend(Request { size, number: one.number, time_ms }.bytes());
        line.write(&first).map_err(words)?;
        if options.direction == TransferDirection::Down {
            self.receive(line, one, options.size, began, buffer, result).map_err(words)?;
            // One without a size ends with its time, and not before.
            let early = self.until.map(|until| until.saturating_duration_since(Instant::now()));
            return match early.filter(|early| options.size.is_none() && *early > EARLY) {
                Some(early) => {
                    Err(format!("the server ended it {:.1} s too early", early.as_secs_f64()))
                }
                None => Ok(()),
            };
        }
        let sending = Sending {
            number: one.number,
            size: options.size,
            until: self.until.unwrap_or_else(|| Instant::now() + MOST_TIME),
            budget: None,
            source_delay: options.source_delay,
        };
        let (sent, ended) = send(line, &sending, buffer, recorder);
        self.progress.add(sent);
        one.bytes = sent;
        ended.map_err(words)?;
        if options.size.is_none() {
            let _ = line.stream.shutdown(std::net::Shutdown::Write);
        }
        tail(line, sent, recorder).map_err(words)?;
        let confirmed = Confirmed::parse(line.exactly().map_err(words)?);
        one.first_byte_us = Some(began.elapsed().as_micros() as u64);
        if confirmed.bytes != sent {
            return Err(format!("{sent} bytes were sent, {} arrived", confirmed.bytes));
        }
        Ok(())
    }

    /// Reads so many bytes, or all to the end.
    fn receive(
        &self,
        line: &mut Line<'_>,
        one: &mut OneTransfer,
        size: Option<u64>,
        began: Instant,
        buffer: &[u8],
        result: &mut Stream,
    ) -> Result<(), Ended> {
        let mut into = vec![0; buffer.len().clamp(1, READ)];
        let before = one.bytes;
        let mut mark = (Instant::now(), one.bytes);
        // Bytes that do not end do not make it last.
        let last = self.until.map(|until| until + REST);
        while size.is_none_or(|size| one.bytes < size) {
            if last.is_some_and(|last| Instant::now() >= last) {
                return Err(Ended::Stopped);
            }
            let left = size.map_or(u64::MAX, |size| size - one.bytes);
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
            let length = line.read(&mut into[..want])?;
            if length == 0 {
                return if size.is_none() { Ok(()) } else { Err(Ended::Closed) };
            }
            let now = Instant::now();
            if one.first_byte_us.is_none() {
                one.first_byte_us = Some((now - began).as_micros() as u64);
                mark = (now, one.bytes);
            }
            one.bytes += length as u64;
            self.progress.add(length as u64);
            let since = now - mark.0;
            if since >= RATE_OVER {
                let rate = (one.bytes - mark.1) as f64 / since.as_secs_f64();
                result.best_rate = result.best_rate.max(rate);
                mark = (now, one.bytes);
            }
        }
        // A transfer that was over before a rate could be taken.
        let since = mark.0.elapsed();
        if mark.1 <= before && since >= Duration::from_millis(1) {
            let rate = (one.bytes - mark.1) as f64 / since.as_secs_f64();
            result.best_rate = result.best_rate.max(rate);
        }
        Ok(())
    }
}

/// Ends a connection; what its sender saw is kept when that is this host.
fn close(open: &mut Option<Open<'_>>, result: &mut Stream) {
    if let Some(open) = open.take() {
        let one = open.recorder.finish();
        if one.writes > 0 {
            merge(result.sender.get_or_insert_default(), one);
        }
    }
}
