//! Sends one transfer, write by write as an application with such a buffer does, and samples the TCP
//! state every few milliseconds.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::category::AppState;
use super::connection::{Connection, ConnectionError, is_not_ready};
use super::recorder::Recorder;

/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(2);
/// How long the last acknowledgements are waited for.
const MAX_TAIL: Duration = Duration::from_secs(10);

/// The error of a connection that has reached a [`ByteLimit`].
pub(super) const BYTE_LIMIT_REACHED: &str = "the limit of bytes is reached";

/// Bytes that several connections may transfer together.
#[derive(Debug)]
pub(super) struct ByteLimit {
    used: AtomicU64,
    max: u64,
}

impl ByteLimit {
    pub(super) fn new(max: u64) -> Self {
        ByteLimit { used: AtomicU64::new(0), max }
    }

    /// Counts transferred bytes.
    pub(super) fn add(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes transferred so far.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether no more may be transferred; the last piece may exceed the limit.
    pub(super) fn is_reached(&self) -> bool {
        self.used() >= self.max
    }
}

/// One transfer to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outgoing<'a> {
    /// Number in its stream, from 0.
    pub(super) number: u32,
    /// Bytes; `None`: until the time is over.
    pub(super) size: Option<u64>,
    /// When it ends at the latest.
    pub(super) until: Instant,
    /// `None`: unlimited.
    pub(super) limit: Option<&'a ByteLimit>,
    /// Time to wait for each buffer.
    pub(super) source_delay: Duration,
}

/// Sends a transfer: how many bytes the kernel took, and why it ended early, if it did.
///
/// `buffer` is the data of one write call. A transfer without a size ends at its time with `Ok`.
pub(super) fn send(
    connection: &mut Connection<'_>,
    transfer: &Outgoing<'_>,
    buffer: &[u8],
    recorder: &mut Recorder,
) -> (u64, Result<(), ConnectionError>) {
    recorder.begin_transfer(transfer.number);
    let mut sent = 0;
    let result = send_buffers(connection, transfer, buffer, recorder, &mut sent);
    recorder.sample(&connection.stream, AppState::Done, sent);
    (sent, result)
}

fn send_buffers(
    connection: &mut Connection<'_>,
    transfer: &Outgoing<'_>,
    buffer: &[u8],
    recorder: &mut Recorder,
    sent: &mut u64,
) -> Result<(), ConnectionError> {
    let mut last_progress = Instant::now();
    let mut next_sample = Instant::now();
    // The unwritten part of the current buffer.
    let mut unwritten: &[u8] = &[];
    loop {
        let left = transfer.size.map_or(u64::MAX, |size| size.saturating_sub(*sent));
        if left == 0 {
            return Ok(());
        }
        let now = Instant::now();
        if now >= transfer.until {
            return if transfer.size.is_none() { Ok(()) } else { Err(ConnectionError::Stopped) };
        }
        if transfer.limit.is_some_and(ByteLimit::is_reached) {
            return Err(ConnectionError::Failed(BYTE_LIMIT_REACHED.to_string()));
        }
        if connection.stop.is_set() {
            return Err(ConnectionError::Stopped);
        }
        if unwritten.is_empty() {
            if !transfer.source_delay.is_zero() {
                wait_for_data(connection, transfer, recorder, *sent, &mut next_sample)?;
            }
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            unwritten = buffer.get(..left).unwrap_or(buffer);
        }
        let write_start = Instant::now();
        let result = connection.stream.write(unwritten);
        let written = *result.as_ref().unwrap_or(&0);
        recorder.record_write(write_start.elapsed(), written as u64);
        let app = match result {
            Ok(0) => return Err(ConnectionError::Closed),
            Ok(_) => {
                unwritten = unwritten.get(written..).unwrap_or_default();
                *sent += written as u64;
                if let Some(limit) = transfer.limit {
                    limit.add(written as u64);
                }
                last_progress = write_start;
                AppState::Writing
            }
            Err(error) if is_not_ready(&error) => AppState::Blocked,
            Err(error) => return Err(error.into()),
        };
        let now = Instant::now();
        if now >= next_sample {
            recorder.sample(&connection.stream, app, *sent);
            next_sample = now + SAMPLE_INTERVAL;
        }
        if app == AppState::Blocked {
            let until = transfer.until.min(last_progress + connection.timeout);
            wait_for_space(connection, until, recorder, *sent, &mut next_sample)?;
            if last_progress.elapsed() >= connection.timeout {
                return Err(ConnectionError::TimedOut(connection.timeout));
            }
        }
    }
}

/// Waits until the socket takes data again.
///
/// Nothing is written before. While the last segment in the queue has not been sent, the kernel appends to
/// it whether the send buffer is full or not: a writer that tries again and again fills the buffer far
/// beyond its size. Applications wait, and are limited by it.
fn wait_for_space(
    connection: &Connection<'_>,
    until: Instant,
    recorder: &mut Recorder,
    sent: u64,
    next_sample: &mut Instant,
) -> Result<(), ConnectionError> {
    while !connection.wait(PollFlags::OUT, until.min(*next_sample))? {
        let now = Instant::now();
        if now >= until {
            break;
        }
        if now >= *next_sample {
            recorder.sample(&connection.stream, AppState::Blocked, sent);
            *next_sample = now + SAMPLE_INTERVAL;
        }
    }
    Ok(())
}

/// Waits for the next buffer, as an application that reads from a slow disk.
fn wait_for_data(
    connection: &Connection<'_>,
    transfer: &Outgoing<'_>,
    recorder: &mut Recorder,
    sent: u64,
    next_sample: &mut Instant,
) -> Result<(), ConnectionError> {
    let mut since = Instant::now();
    let until = (since + transfer.source_delay).min(transfer.until);
    loop {
        if connection.stop.is_set() {
            return Err(ConnectionError::Stopped);
        }
        let now = Instant::now();
        recorder.record_wait(now - since);
        since = now;
        if now >= *next_sample {
            recorder.sample(&connection.stream, AppState::WaitingForData, sent);
            *next_sample = now + SAMPLE_INTERVAL;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(SAMPLE_INTERVAL));
    }
}

/// Samples until all data is acknowledged, or the peer sends something.
pub(super) fn wait_for_acknowledgements(
    connection: &Connection<'_>,
    sent: u64,
    recorder: &mut Recorder,
) -> Result<(), ConnectionError> {
    let until = Instant::now() + MAX_TAIL.min(connection.timeout);
    while Instant::now() < until {
        if recorder.sample(&connection.stream, AppState::Done, sent) {
            break;
        }
        if connection.wait(PollFlags::IN, Instant::now() + SAMPLE_INTERVAL)? {
            break;
        }
    }
    recorder.end_transfer();
    Ok(())
}
