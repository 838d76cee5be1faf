//! One thread of a load: its connections, its timers, its loop.
//!
//! Edge-triggered events, written to at once: an answer costs a read, and the next request a write.
//! Nothing is asked of the kernel in between.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::connection::{Connection, Stage, Under};
use super::failure::Failure;
use super::figures::{Figures, Late};
use super::plan::{Budget, Plan};
use super::schedule::Schedule;
use super::site::Site;
use super::{LINGER, Live};
use sys::Stop;

use crate::Error;

/// Bytes read at once.
const READ: usize = 64 << 10;
/// Events taken at once.
const EVENTS: usize = 512;
/// Longest sleep: how late a stop is seen.
const TICK: Duration = Duration::from_millis(100);
/// A server that said it would close has so long.
const FAREWELL: Duration = Duration::from_secs(1);
/// Fewer events at a time than this, of at least as many requests under way, are worth a nap: a
/// sixteenth of the latency, within bounds in nanoseconds.
const GATHER: usize = 32;
const NAP_PART: u64 = 16;
const SHORTEST_NAP: u64 = 10_000;
const LONGEST_NAP: u64 = 100_000;
/// The event of the timer.
const TIMER: u64 = u64::MAX;

/// What a thread needs.
pub(super) struct Setup {
    pub(super) number: u32,
    pub(super) plan: Plan,
    pub(super) sites: Arc<Vec<Site>>,
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
    pub(super) budget: Budget,
    pub(super) begun: Instant,
    pub(super) stop: Stop,
    pub(super) live: Arc<Live>,
}

/// Makes this thread's part of the load.
pub(super) fn run(setup: Setup) -> Result<Figures, Error> {
    let unmade = |errno: Errno| Error::Failed(format!("cannot wait for sockets (epoll): {errno}"));
    let mut worker = Worker::new(setup).map_err(unmade)?;
    worker.work().map_err(unmade)?;
    Ok(worker.end())
}

pub(super) struct Worker {
    pub(super) plan: Plan,
    pub(super) sites: Arc<Vec<Site>>,
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
    pub(super) budget: Budget,
    pub(super) begun: Instant,
    pub(super) stop: Stop,
    pub(super) live: Arc<Live>,
    pub(super) epoll: OwnedFd,
    pub(super) connections: Vec<Connection>,
    pub(super) figures: Figures,
    /// Open loop.
    pub(super) schedule: Option<Schedule>,
    pub(super) timer: Option<OwnedFd>,
    /// Open loop: connections without a request.
    pub(super) free: VecDeque<u32>,
    /// Connections that rest, and until when.
    pub(super) resting: BinaryHeap<Reverse<(u64, u32)>>,
    /// Connections with a request to send.
    pub(super) to_send: Vec<u32>,
    /// Bytes of requests that go out together.
    pub(super) together: Vec<u8>,
    /// No more requests begin at this time, nanoseconds.
    pub(super) until: u64,
    /// Nothing more is begun.
    pub(super) over: bool,
    /// Requests under way, and since when they are so many.
    pub(super) in_flight: u64,
    pub(super) counted: u64,
    /// Whether a connection to this server was made at once, as on the same host.
    pub(super) near: bool,
    /// Latency of late, nanoseconds.
    pub(super) recent: u64,
    pub(super) told: (u64, u64, u64),
    pub(super) cpu: Duration,
}

impl Worker {
    fn new(setup: Setup) -> Result<Self, Errno> {
        let Setup { number, plan, sites, tls, budget, begun, stop, live } = setup;
        let share = |all: u32, of: u32| all / of + u32::from(number < all % of);
        let connections = (0..share(plan.connections, plan.threads))
            .map(|at| {
                let at = (at * plan.threads + number) as usize;
                let (site, next) = super::site::place(&sites, at);
                Connection::new(site, next as u32)
            })
            .collect();
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let schedule = plan.rate.map(|rate| Schedule::new(rate, number, plan.threads));
        let mut timer = None;
        if schedule.is_some() {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let made = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            epoll::add(&epoll, &made, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
            timer = Some(made);
        }
        let until = plan.time.map_or(u64::MAX, nanos);
        let mut figures = Figures::of_thread(plan.rate.is_some());
        figures.repeats.resize_with(sites.len(), Default::default);
        Ok(Worker {
            figures,
            plan,
            sites,
            tls,
            budget,
            begun,
            stop,
            live,
            epoll,
            connections,
            schedule,
            timer,
            free: VecDeque::new(),
            resting: BinaryHeap::new(),
            to_send: Vec::new(),
            together: Vec::new(),
            until,
            over: false,
            in_flight: 0,
            counted: 0,
            near: false,
            recent: 0,
            told: (0, 0, 0),
            cpu: thread_cpu(),
        })
    }

    pub(super) fn now(&self) -> u64 {
        nanos(self.begun.elapsed())
    }

    fn work(&mut self) -> Result<(), Errno> {
        // Naps are shorter than the 50 µs by which the kernel may round them; if it does, so be it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut buffer = vec![0; READ];
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        let mut now = self.now();
        for slot in 0..self.connections.len() {
            match self.schedule {
                Some(_) => self.free_or_again(slot, now),
                None => self.again(slot, now),
            }
        }
        // A sweep looks at all connections: often enough for the timeout, seldom enough for many.
        let sweep_every = nanos(self.plan.timeout / 20).clamp(10_000_000, 500_000_000);
        let (mut sweep, mut tick) = (now + sweep_every, now);
        let linger = nanos(LINGER.min(self.plan.timeout));
        loop {
            now = self.now();
            if !self.over && (now >= self.until || self.stop.is_set()) {
                self.over = true;
                self.until = self.until.min(now);
            }
            let done = self.in_flight == 0 && (self.over || self.budget.is_empty());
            let left = self.over && (self.schedule.is_none() || now >= self.until + linger);
            if done || left || (self.over && self.stop.is_set()) {
                return Ok(());
            }
            if now >= tick {
                tick = now + nanos(TICK);
                self.tell();
            }
            if now >= sweep {
                sweep = now + sweep_every;
                self.sweep(now);
            }
            self.wake(now);
            let next = self.issue(now);
            self.send();
            self.nap(events.len());
            events.clear();
            let rested = self.resting.peek().map_or(u64::MAX, |Reverse((until, _))| *until);
            self.wait(next.min(sweep).min(tick).min(rested), now, &mut events)?;
            for event in &events {
                let data = event.data.u64();
                if data != TIMER {
                    self.event(data, event.flags, &mut buffer);
                }
            }
        }
    }

    /// Sends what has been begun on open connections, in one go: reading one answer after the other
    /// and then writing one request after the other costs less than taking turns.
    fn send(&mut self) {
        let mut slots = std::mem::take(&mut self.to_send);
        for slot in slots.drain(..) {
            let connection = &self.connections[slot as usize];
            if connection.stage == Stage::Open && connection.under.len() > connection.written {
                let now = self.now();
                self.write(slot as usize, now);
            }
        }
        // A connection that failed over it has nothing more to send: the list is as it was.
        self.to_send = slots;
    }

    /// Closed loop: lets answers gather for a small part of what they take anyway. A thread that
    /// sleeps and wakes for each answer costs more CPU than the answer, here and at the server, which
    /// then has its requests one by one. `last`: how many events came the last time.
    fn nap(&self, last: usize) {
        if self.schedule.is_some() || last >= GATHER || self.in_flight < GATHER as u64 {
            return;
        }
        let nap = (self.recent / NAP_PART).min(LONGEST_NAP);
        if nap >= SHORTEST_NAP {
            // A signal may end it early.
            let _ = rustix::thread::nanosleep(&Timespec { tv_sec: 0, tv_nsec: nap as i64 });
        }
    }

    /// Waits for events, until a time.
    fn wait(&mut self, until: u64, now: u64, events: &mut Vec<Event>) -> Result<(), Errno> {
        let until = if self.over { until } else { until.min(self.until) };
        let left = until.saturating_sub(now);
        let mut timeout = left.div_ceil(1_000_000);
        if let Some(timer) = self.timer.as_ref().filter(|_| left > 0 && left < 10_000_000) {
            // Milliseconds are too coarse for what is due.
            let at = Timespec { tv_sec: 0, tv_nsec: left as i64 };
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            let spec = Itimerspec { it_interval: never, it_value: at };
            timerfd_settime(timer, TimerfdTimerFlags::empty(), &spec)?;
            timeout = 10;
        }
        let timeout = Timespec {
            tv_sec: (timeout / 1_000) as i64,
            tv_nsec: (timeout % 1_000 * 1_000_000) as i64,
        };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Open loop: sends what is due. When the next one is.
    fn issue(&mut self, now: u64) -> u64 {
        loop {
            let due = match &self.schedule {
                Some(schedule) if !self.over => schedule.due(),
                _ => return u64::MAX,
            };
            if due > now {
                return due;
            }
            // Without a free connection it waits for one: its time counts from when it was due.
            if due >= self.until || self.free.is_empty() || !self.budget.take() {
                return u64::MAX;
            }
            let Some(slot) = self.free.pop_front() else { return u64::MAX };
            self.connections[slot as usize].free = false;
            let due = self.schedule.as_mut().map(Schedule::give);
            self.begin(slot as usize, due, now);
        }
    }

    /// Closed loop: the next request of a connection, if there is to be one.
    pub(super) fn again(&mut self, slot: usize, now: u64) {
        if self.schedule.is_some() {
            return;
        }
        while self.connections[slot].under.len() < self.plan.pipeline as usize {
            if self.over || now >= self.until || !self.budget.take() {
                break;
            }
            if !self.begin(slot, None, now) {
                break;
            }
        }
    }

    /// A request begins; false if the connection failed over it.
    fn begin(&mut self, slot: usize, due: Option<u64>, now: u64) -> bool {
        self.account(now);
        self.in_flight += 1;
        let connection = &mut self.connections[slot];
        let requests = self.sites[connection.site].requests.len() as u32;
        let request = connection.next;
        connection.next = if request + 1 >= requests { 0 } else { request + 1 };
        connection.under.push_back(Under { request, due, begun: now, sending: 0, sent: 0 });
        match connection.stage {
            Stage::Closed => self.connect(slot, now),
            Stage::Open if connection.under.len() == connection.written + 1 => {
                self.to_send.push(slot as u32);
                true
            }
            _ => true,
        }
    }

    pub(super) fn account(&mut self, now: u64) {
        self.figures.area += u128::from(self.in_flight) * u128::from(now - self.counted.min(now));
        self.counted = self.counted.max(now);
    }

    /// Connections that rested long enough.
    fn wake(&mut self, now: u64) {
        while let Some(Reverse((until, slot))) = self.resting.peek().copied() {
            if until > now {
                break;
            }
            self.resting.pop();
            self.connections[slot as usize].stage = Stage::Closed;
            self.free_or_again(slot as usize, now);
        }
    }

    /// Requests that wait for too long.
    fn sweep(&mut self, now: u64) {
        let timeout = nanos(self.plan.timeout);
        for slot in 0..self.connections.len() {
            let connection = &self.connections[slot];
            let since = match connection.waits_since() {
                Some(since) => since,
                None => continue,
            };
            match connection.stage {
                Stage::Ending if now.saturating_sub(since) >= nanos(FAREWELL) => {
                    self.renew(slot, now);
                }
                Stage::Connecting | Stage::Securing if now.saturating_sub(since) >= timeout => {
                    self.failed(slot, Failure::TimeoutConnect);
                }
                Stage::Open if now.saturating_sub(since) >= timeout => {
                    self.failed(slot, Failure::TimeoutAnswer);
                }
                _ => {}
            }
        }
    }

    fn tell(&mut self) {
        let figures = &self.figures;
        let all = (figures.requests, figures.bytes, figures.errors_count);
        let (requests, bytes, errors) = self.told;
        self.live.add(all.0 - requests, all.1 - bytes, all.2 - errors);
        self.told = all;
    }

    fn end(mut self) -> Figures {
        let now = self.now();
        // What lasts beyond the end only waits for answers.
        let end = if self.schedule.is_some() { now.min(self.until) } else { now };
        self.account(now);
        self.tell();
        self.figures.unfinished = self.in_flight;
        for slot in 0..self.connections.len() {
            self.late(slot, Late::Unopened, now);
        }
        let stopped = if self.stop.is_set() { now } else { self.until };
        self.figures.unsent = match &self.schedule {
            Some(schedule) if !self.budget.is_empty() => schedule.late(stopped.min(end)),
            _ => 0,
        };
        self.figures.elapsed = Duration::from_nanos(end);
        self.figures.cpu = thread_cpu().saturating_sub(self.cpu);
        self.figures
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
