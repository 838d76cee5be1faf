//! Sends one transfer, write by write as an application with a buffer of that size does, and asks
//! the kernel every few milliseconds how it goes.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::held::Doing;
use super::line::{Ended, Line, later};
use super::record::Recorder;

/// Time between two questions to the kernel.
const EVERY: Duration = Duration::from_millis(2);
/// How long the acknowledgements of the last bytes are awaited, beyond the time to the next request.
const TAIL: Duration = Duration::from_secs(10);

/// What is said when a budget is spent.
pub(super) const NO_MORE_BYTES: &str = "the limit of bytes is reached";

/// Bytes that several connections may move together.
#[derive(Debug)]
pub(super) struct Budget {
    spent: AtomicU64,
    most: u64,
}

impl Budget {
    /// So many, and none of them spent.
    pub(super) fn new(most: u64) -> Self {
        Budget { spent: AtomicU64::new(0), most }
    }

    pub(super) fn spend(&self, bytes: u64) {
        self.spent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Whether none are left; the last piece may go beyond.
    pub(super) fn is_spent(&self) -> bool {
        self.spent() >= self.most
    }
}

/// One transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sending<'a> {
    /// Number in its stream, from 0.
    pub(super) number: u32,
    /// Bytes; `None`: until the time is over.
    pub(super) size: Option<u64>,
    /// When it ends, finished or not.
    pub(super) until: Instant,
    /// What it may spend; `None`: as much as it wants.
    pub(super) budget: Option<&'a Budget>,
    /// Time to get each buffer.
    pub(super) source_delay: Duration,
}

/// Sends it: how many bytes the kernel took, and why it went no further, if it did not.
///
/// `buffer` is what one write call sends. A transfer without a size ends in time with `Ok`.
pub(super) fn send(
    line: &mut Line<'_>,
    sending: &Sending<'_>,
    buffer: &[u8],
    recorder: &mut Recorder,
) -> (u64, Result<(), Ended>) {
    recorder.begin(sending.number);
    let mut sent = 0;
    let result = write_all(line, sending, buffer, recorder, &mut sent);
    recorder.sample(&line.stream, Doing::Done, sent);
    (sent, result)
}

fn write_all(
    line: &mut Line<'_>,
    sending: &Sending<'_>,
    buffer: &[u8],
    recorder: &mut Recorder,
    sent: &mut u64,
) -> Result<(), Ended> {
    let mut progress = Instant::now();
    let mut next = Instant::now();
    // What is left of the buffer that is being written.
    let mut piece: &[u8] = &[];
    loop {
        let left = sending.size.map_or(u64::MAX, |size| size - (*sent).min(size));
        if left == 0 {
            return Ok(());
        }
        let now = Instant::now();
        if now >= sending.until {
            return if sending.size.is_none() { Ok(()) } else { Err(Ended::Stopped) };
        }
        if sending.budget.is_some_and(Budget::is_spent) {
            return Err(Ended::Failed(NO_MORE_BYTES.to_string()));
        }
        if line.stop.is_set() {
            return Err(Ended::Stopped);
        }
        if piece.is_empty() {
            if !sending.source_delay.is_zero() {
                get(line, sending, recorder, *sent, &mut next)?;
            }
            let length = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            piece = &buffer[..length];
        }
        let began = Instant::now();
        let wrote = line.stream.write(piece);
        recorder.wrote(began.elapsed(), *wrote.as_ref().unwrap_or(&0) as u64);
        let doing = match wrote {
            Ok(0) => return Err(Ended::Closed),
            Ok(length) => {
                piece = &piece[length..];
                *sent += length as u64;
                if let Some(budget) = sending.budget {
                    budget.spend(length as u64);
                }
                progress = began;
                Doing::Writing
            }
            Err(error) if later(&error) => Doing::Blocked,
            Err(error) => return Err(Ended::from(&error)),
        };
        let now = Instant::now();
        if now >= next {
            recorder.sample(&line.stream, doing, *sent);
            next = now + EVERY;
        }
        if doing == Doing::Blocked {
            line.ready(PollFlags::OUT, next.min(sending.until))?;
            if progress.elapsed() >= line.patience {
                return Err(Ended::Silent(line.patience));
            }
        }
    }
}

/// Gets the next buffer, which takes its time, as from a slow store.
fn get(
    line: &Line<'_>,
    sending: &Sending<'_>,
    recorder: &mut Recorder,
    sent: u64,
    next: &mut Instant,
) -> Result<(), Ended> {
    let mut since = Instant::now();
    let until = (since + sending.source_delay).min(sending.until);
    loop {
        if line.stop.is_set() {
            return Err(Ended::Stopped);
        }
        let now = Instant::now();
        recorder.got(now - since);
        since = now;
        if now >= *next {
            recorder.sample(&line.stream, Doing::Getting, sent);
            *next = now + EVERY;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(EVERY));
    }
}

/// Asks the kernel on until all is acknowledged, or the peer has something to say.
pub(super) fn tail(line: &Line<'_>, sent: u64, recorder: &mut Recorder) -> Result<(), Ended> {
    let until = Instant::now() + TAIL.min(line.patience);
    while Instant::now() < until {
        if recorder.sample(&line.stream, Doing::Done, sent) {
            break;
        }
        if line.ready(PollFlags::IN, Instant::now() + EVERY)? {
            break;
        }
    }
    recorder.end();
    Ok(())
}
