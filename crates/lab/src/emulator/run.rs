//! The thread of a link: reads both TAP devices, sends what is due, waits for the next.

use std::num::NonZeroU64;
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

/// Most frames that one direction reads, or sends, before the other has its turn.
const BATCH: usize = 32;
/// How often the counters are published while there is no rest.
const PUBLISH: Duration = Duration::from_millis(5);
/// Nice value of the thread, if it may: it must run when a packet is due, whatever else does.
const NICE: i32 = -20;

/// A link between two TAP devices. It stops when dropped, and closes the devices.
#[derive(Debug)]
pub struct Link {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    wake: OwnedFd,
    /// There is something in `orders`.
    ordered: AtomicBool,
    orders: Mutex<Orders>,
    counters: Mutex<[Counters; 2]>,
    trouble: Mutex<Option<Error>>,
}

/// What the thread is to do.
#[derive(Debug, Default)]
struct Orders {
    stop: bool,
    profiles: [Option<Profile>; 2],
}

impl Link {
    /// Joins two devices. Time zero of both timelines is now; the seeds of the two directions
    /// are drawn from `seed`.
    ///
    /// # Errors
    ///
    /// The system gives no thread or no event descriptor.
    pub fn start(
        name: &str,
        a: Tap,
        b: Tap,
        forth: Direction,
        back: Direction,
        seed: u64,
    ) -> sys::Result<Link> {
        let told = |errno| Error::from_errno("start the link", name, errno);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(told)?;
        let shared = Arc::new(Shared {
            wake,
            ordered: AtomicBool::new(false),
            orders: Mutex::default(),
            counters: Mutex::default(),
            trouble: Mutex::default(),
        });
        let pipes = [Pipe::new(forth, seed), Pipe::new(back, seed ^ 0x5bd1_e995_9d1b_54a5)];
        let worker = Worker {
            taps: [a, b],
            pipes,
            shared: Arc::clone(&shared),
            start: Instant::now(),
            buffer: vec![0; MAX_FRAME_BYTES],
            published: Duration::ZERO,
        };
        let thread = std::thread::Builder::new()
            .name(format!("link {name}"))
            .spawn(move || worker.run())
            .map_err(|error| {
                Error::new("start the link", name, error.to_string(), ErrorKind::Other)
            })?;
        Ok(Link { shared, thread: Some(thread) })
    }

    /// What each direction did so far: forth (a to b), back. At most some milliseconds old.
    pub fn counters(&self) -> [Counters; 2] {
        lock(&self.shared.counters).clone()
    }

    /// Changes profiles now; `None` leaves a direction as it is. Later times of its timeline stay.
    pub fn set(&self, forth: Option<Profile>, back: Option<Profile>) {
        self.order(|orders| {
            for (order, new) in orders.profiles.iter_mut().zip([forth, back]) {
                if new.is_some() {
                    *order = new;
                }
            }
        });
    }

    /// Why the link ended by itself, if it did: one of its devices is gone.
    pub fn trouble(&self) -> Option<Error> {
        lock(&self.shared.trouble).clone()
    }

    /// Stops the link. What is under way is lost.
    pub fn stop(self) {}

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut lock(&self.shared.orders));
        self.shared.ordered.store(true, Ordering::Release);
        // It fails only when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.order(|orders| orders.stop = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread owns. `pipes[0]` goes from `taps[0]` to `taps[1]`, `pipes[1]` back.
struct Worker {
    taps: [Tap; 2],
    pipes: [Pipe; 2],
    shared: Arc<Shared>,
    start: Instant,
    buffer: Vec<u8>,
    published: Duration,
}

/// Whether the link goes on.
enum Go {
    On,
    Stop,
}

impl Worker {
    fn run(mut self) {
        // Timers of ordinary threads may be 50 µs late. Neither is needed to work at all.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let _ = rustix::process::setpriority_process(None, NICE);
        if let Err(error) = self.turns() {
            *lock(&self.shared.trouble) = Some(error);
        }
        self.publish();
    }

    fn turns(&mut self) -> sys::Result<()> {
        let mut readable = [true; 2];
        loop {
            if self.shared.ordered.swap(false, Ordering::Acquire)
                && let Go::Stop = self.obey()
            {
                return Ok(());
            }
            let mut busy = false;
            for (side, readable) in readable.into_iter().enumerate() {
                busy |= readable && self.read(side)?;
                busy |= self.send(side)?;
            }
            let now = self.now();
            if busy {
                if now.saturating_sub(self.published) > PUBLISH {
                    self.publish();
                }
                // A device that became readable meanwhile must not wait for the other to rest.
                readable = [true; 2];
            } else {
                self.publish();
                readable = self.wait()?;
            }
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Takes frames from one side; whether there may be more.
    fn read(&mut self, side: usize) -> sys::Result<bool> {
        for _ in 0..BATCH {
            let Some(length) = self.taps[side].recv(&mut self.buffer)? else {
                return Ok(false);
            };
            let now = self.start.elapsed();
            if let Some(answer) = self.pipes[side].offer(now, &self.buffer[..length]) {
                self.taps[side].send(answer)?;
            }
        }
        Ok(true)
    }

    /// Sends what is due from one side to the other; whether there may be more.
    fn send(&mut self, side: usize) -> sys::Result<bool> {
        let mut now = self.now();
        for _ in 0..BATCH {
            let Some(departure) = self.pipes[side].due(now) else { return Ok(false) };
            let taken = self.taps[1 - side].send(departure.frame())?;
            now = self.now();
            self.pipes[side].sent(departure, now, taken);
        }
        Ok(true)
    }

    /// Waits for frames, orders or the next departure. Which sides can be read.
    fn wait(&self) -> sys::Result<[bool; 2]> {
        let next = self.pipes.iter().filter_map(Pipe::next_due).min();
        let timeout = next.map(|due| {
            let wait = due.saturating_sub(self.now());
            Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        let mut files = [
            PollFd::new(&self.taps[0], PollFlags::IN),
            PollFd::new(&self.taps[1], PollFlags::IN),
            PollFd::from_borrowed_fd(self.shared.wake.as_fd(), PollFlags::IN),
        ];
        match poll(&mut files, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                return Err(Error::from_errno("wait for", "the devices of a link", errno));
            }
        }
        // A device that is gone is readable too: reading says so.
        let readable = |file: &PollFd<'_>| {
            file.revents().intersects(PollFlags::IN | PollFlags::ERR | PollFlags::HUP)
        };
        let sides = [readable(&files[0]), readable(&files[1])];
        if !files[2].revents().is_empty() {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.shared.wake, &mut count);
        }
        Ok(sides)
    }

    fn obey(&mut self) -> Go {
        let orders = std::mem::take(&mut *lock(&self.shared.orders));
        let now = self.now();
        for (pipe, profile) in self.pipes.iter_mut().zip(orders.profiles) {
            if let Some(profile) = profile {
                pipe.set(now, profile);
            }
        }
        if orders.stop { Go::Stop } else { Go::On }
    }

    fn publish(&mut self) {
        let mut counters = lock(&self.shared.counters);
        for (pipe, counters) in self.pipes.iter().zip(counters.iter_mut()) {
            pipe.counters_into(counters);
        }
        drop(counters);
        self.published = self.now();
    }
}

#[cfg(test)]
mod tests;
