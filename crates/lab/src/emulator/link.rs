//! The thread of a link: reads both TAP devices, sends the frames that are due, sleeps until the
//! next.

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use sys::tap::{MAX_FRAME_BYTES, Tap};
use sys::{Error, ErrorKind};

use super::counters::Counters;
use super::pipe::Pipe;
use super::profile::{Direction, Profile};

/// Maximum frames that one direction reads, or sends, before the other direction continues.
const BATCH_FRAMES: usize = 32;
/// How often the counters are published while the link is busy.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(5);
/// Nice value of the thread, if permitted: it must run when a packet is due, whatever else runs.
const THREAD_NICE: i32 = -20;

/// A link between two TAP devices. Dropping it stops it and closes the devices.
#[derive(Debug)]
pub struct Link {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    wake: OwnedFd,
    /// There is something in `commands`.
    has_commands: AtomicBool,
    commands: Mutex<Commands>,
    counters: Mutex<[Counters; 2]>,
    failure: Mutex<Option<Error>>,
}

/// What the thread is to do.
#[derive(Debug, Default)]
struct Commands {
    stop: bool,
    profiles: [Option<Profile>; 2],
}

impl Link {
    /// Joins two devices. Time zero of both timelines is now; the seeds of the two directions
    /// are derived from `seed`.
    ///
    /// # Errors
    ///
    /// The system provides no thread or no event descriptor.
    pub fn start(
        name: &str,
        a: Tap,
        b: Tap,
        forward: Direction,
        reverse: Direction,
        seed: u64,
    ) -> sys::Result<Link> {
        let failed = |errno| Error::from_errno("start the link", name, errno);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
        let shared = Arc::new(Shared {
            wake,
            has_commands: AtomicBool::new(false),
            commands: Mutex::default(),
            counters: Mutex::default(),
            failure: Mutex::default(),
        });
        let pipes = [Pipe::new(forward, seed), Pipe::new(reverse, seed ^ 0x5bd1_e995_9d1b_54a5)];
        let worker = Worker {
            taps: [a, b],
            pipes,
            shared: Arc::clone(&shared),
            clock: Instant::now(),
            buffer: vec![0; MAX_FRAME_BYTES],
            published_at: Duration::ZERO,
        };
        let thread = std::thread::Builder::new()
            .name(format!("link {name}"))
            .spawn(move || worker.run())
            .map_err(|error| {
                Error::new("start the link", name, error.to_string(), ErrorKind::Other)
            })?;
        Ok(Link { shared, thread: Some(thread) })
    }

    /// The counters of both directions, forward (a to b) and reverse, at most some milliseconds old.
    pub fn counters(&self) -> [Counters; 2] {
        lock(&self.shared.counters).clone()
    }

    /// Replaces profiles now; `None` leaves a direction as it is. Later changes of its timeline
    /// still apply.
    pub fn set_profiles(&self, forward: Option<Profile>, reverse: Option<Profile>) {
        self.send_command(|commands| {
            for (command, new) in commands.profiles.iter_mut().zip([forward, reverse]) {
                if new.is_some() {
                    *command = new;
                }
            }
        });
    }

    /// Why the link ended by itself, if it did: one of its devices is gone.
    pub fn failure(&self) -> Option<Error> {
        lock(&self.shared.failure).clone()
    }

    /// Stops the link. Frames in transit are lost.
    pub fn stop(self) {}

    fn send_command(&self, change: impl FnOnce(&mut Commands)) {
        change(&mut lock(&self.shared.commands));
        self.shared.has_commands.store(true, Ordering::Release);
        // It fails only when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.send_command(|commands| commands.stop = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread owns. The first pipe goes from the first device to the second, the other back.
struct Worker {
    taps: [Tap; 2],
    pipes: [Pipe; 2],
    shared: Arc<Shared>,
    clock: Instant,
    buffer: Vec<u8>,
    published_at: Duration,
}

impl Worker {
    fn run(mut self) {
        // Timers of ordinary threads may fire 50 µs late. The link works without either setting.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let _ = rustix::process::setpriority_process(None, THREAD_NICE);
        if let Err(error) = self.forward_until_stopped() {
            *lock(&self.shared.failure) = Some(error);
        }
        self.publish();
    }

    fn forward_until_stopped(&mut self) -> sys::Result<()> {
        let mut readable = [true; 2];
        loop {
            if self.shared.has_commands.swap(false, Ordering::Acquire)
                && self.apply_commands().is_break()
            {
                return Ok(());
            }
            if self.forward(readable)? {
                if self.clock.elapsed().saturating_sub(self.published_at) > PUBLISH_INTERVAL {
                    self.publish();
                }
                // A device that became readable meanwhile must not wait until the other is idle.
                readable = [true; 2];
            } else {
                self.publish();
                readable = self.wait()?;
            }
        }
    }

    /// Reads and sends one batch in each direction; whether there may be more.
    fn forward(&mut self, [read_a, read_b]: [bool; 2]) -> sys::Result<bool> {
        let Worker { taps: [a, b], pipes: [forward, reverse], clock, buffer, .. } = self;
        let mut busy = false;
        for (from, to, pipe, readable) in [(&*a, &*b, forward, read_a), (&*b, &*a, reverse, read_b)]
        {
            busy |= readable && read_batch(from, pipe, clock, buffer)?;
            busy |= send_batch(to, pipe, clock)?;
        }
        Ok(busy)
    }

    /// Waits for frames, commands or the next departure. Returns which devices are readable.
    fn wait(&self) -> sys::Result<[bool; 2]> {
        let next = self.pipes.iter().filter_map(Pipe::next_due).min();
        let timeout = next.map(|due| {
            let wait = due.saturating_sub(self.clock.elapsed());
            Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        let [a, b] = &self.taps;
        let mut files = [
            PollFd::new(a, PollFlags::IN),
            PollFd::new(b, PollFlags::IN),
            PollFd::from_borrowed_fd(self.shared.wake.as_fd(), PollFlags::IN),
        ];
        match poll(&mut files, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                return Err(Error::from_errno("wait for", "the devices of a link", errno));
            }
        }
        // A device that is gone is readable too: reading reports the error.
        let readable = |file: &PollFd<'_>| {
            file.revents().intersects(PollFlags::IN | PollFlags::ERR | PollFlags::HUP)
        };
        let [a, b, wake] = &files;
        if !wake.revents().is_empty() {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.shared.wake, &mut count);
        }
        Ok([readable(a), readable(b)])
    }

    /// Carries out the commands; breaks when the link is to stop.
    fn apply_commands(&mut self) -> ControlFlow<()> {
        let commands = std::mem::take(&mut *lock(&self.shared.commands));
        let now = self.clock.elapsed();
        for (pipe, profile) in self.pipes.iter_mut().zip(commands.profiles) {
            if let Some(profile) = profile {
                pipe.set_profile(now, profile);
            }
        }
        if commands.stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn publish(&mut self) {
        let mut counters = lock(&self.shared.counters);
        for (pipe, counters) in self.pipes.iter().zip(counters.iter_mut()) {
            pipe.counters_into(counters);
        }
        drop(counters);
        self.published_at = self.clock.elapsed();
    }
}

/// Reads frames from a device into its pipe; whether there may be more.
fn read_batch(
    from: &Tap,
    pipe: &mut Pipe,
    clock: &Instant,
    buffer: &mut [u8],
) -> sys::Result<bool> {
    for _ in 0..BATCH_FRAMES {
        let Some(length) = from.recv(buffer)? else { return Ok(false) };
        let frame = buffer.get(..length).unwrap_or_default();
        if let Some(icmp_error) = pipe.offer(clock.elapsed(), frame) {
            from.send(icmp_error)?;
        }
    }
    Ok(true)
}

/// Sends the frames of a pipe that are due to its far end; whether there may be more.
fn send_batch(to: &Tap, pipe: &mut Pipe, clock: &Instant) -> sys::Result<bool> {
    let mut now = clock.elapsed();
    for _ in 0..BATCH_FRAMES {
        let Some(departure) = pipe.due(now) else { return Ok(false) };
        let delivered = to.send(departure.frame())?;
        now = clock.elapsed();
        pipe.sent(departure, now, delivered);
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
