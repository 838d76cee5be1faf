//! The loop of a worker: starts what is due, waits for events.

use std::cmp::Reverse;
use std::num::NonZeroU64;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

use super::super::connection::State;
use super::super::failure::Failure;
use super::super::schedule::Schedule;
use super::super::stats::Stats;
use super::super::syn_retransmissions::SlowConnect;
use super::super::thread::{ThreadSetup, nanos};
use super::state::{TIMER_EVENT, Worker};
use crate::Error;

/// Bytes of a read.
const READ_BYTES: usize = 64 << 10;
/// Most events of one wait.
const MAX_EVENTS: usize = 512;
/// Interval of the live counts, and longest wait before the stop is checked.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// How long a server that announced to close a connection has time to do so.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Connections are checked for timeouts at this share of the timeout, within bounds, nanoseconds.
const TIMEOUT_CHECKS: u32 = 20;
const MIN_CHECK_INTERVAL_NS: u64 = 10_000_000;
const MAX_CHECK_INTERVAL_NS: u64 = 500_000_000;
/// A worker with at least this many requests in flight, which got fewer events, sleeps until more
/// responses have gathered: for a share of the latency, within bounds, nanoseconds.
const GATHER_EVENTS: usize = 32;
const GATHER_LATENCY_DIVISOR: u64 = 16;
const MIN_GATHER_NS: u64 = 10_000;
const MAX_GATHER_NS: u64 = 100_000;
/// Longest time for which connections are read before the timers are checked, nanoseconds: a server may
/// send without a pause.
const MAX_READ_NS: u64 = 20_000_000;
/// Below this the timer is used, since epoll_wait(2) counts in milliseconds; nanoseconds.
const MAX_TIMER_NS: u64 = 10_000_000;

/// Runs this thread's part of the load.
pub(crate) fn run(setup: ThreadSetup) -> Result<Stats, Error> {
    let mut worker = Worker::new(setup)?;
    let failed = |errno: Errno| Error::Failed(format!("cannot wait for sockets (epoll): {errno}"));
    worker.run().map_err(failed)?;
    Ok(worker.into_stats())
}

impl Worker {
    fn run(&mut self) -> Result<(), Errno> {
        // Sleeps are shorter than the 50 µs by which the kernel may extend them; without this
        // permission they are just longer.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut buffer = vec![0; READ_BYTES];
        let mut events: Vec<Event> = Vec::with_capacity(MAX_EVENTS);
        let mut now = self.now();
        for slot in self.connections.slots() {
            self.release(slot, now);
        }
        let timeout = self.setup.plan.timeout;
        let check_interval =
            nanos(timeout / TIMEOUT_CHECKS).clamp(MIN_CHECK_INTERVAL_NS, MAX_CHECK_INTERVAL_NS);
        let (mut next_check, mut next_report) = (now + check_interval, now);
        let linger = nanos(self.setup.linger());
        loop {
            now = self.now();
            let stopped = self.setup.stop.is_set();
            if !self.ended && (now >= self.end || stopped) {
                self.ended = true;
                self.end = self.end.min(now);
            }
            let all_done = self.in_flight == 0 && (self.ended || self.setup.limit.is_reached());
            let lingered = self.ended && now >= self.end + linger;
            if all_done || lingered || (self.ended && stopped) {
                return Ok(());
            }
            if now >= next_report {
                next_report = now + nanos(REPORT_INTERVAL);
                self.report();
            }
            if now >= next_check {
                next_check = now + check_interval;
                self.check_timeouts(now);
            }
            self.end_back_offs(now);
            let next_due = self.start_due(now);
            self.write_requests();
            self.gather_responses(events.len());
            events.clear();
            let back_off = self.backing_off.peek().map_or(u64::MAX, |Reverse((until, _))| *until);
            let until = next_due.min(next_check).min(next_report).min(back_off);
            self.wait(if self.unread.is_empty() { until } else { now }, now, &mut events)?;
            self.read_until = self.now() + MAX_READ_NS;
            for (data, closed) in std::mem::take(&mut self.unread) {
                self.read_more(data, closed, &mut buffer);
            }
            for event in &events {
                let data = event.data.u64();
                if data != TIMER_EVENT {
                    self.on_event(data, event.flags, &mut buffer);
                }
            }
        }
    }

    /// Writes the requests that were started on open connections, all in one go: that costs less than
    /// alternating between reads and writes.
    fn write_requests(&mut self) {
        let mut slots = std::mem::take(&mut self.to_write);
        for slot in slots.drain(..) {
            let connection = &self.connections[slot];
            if connection.state == State::Open && connection.has_unwritten() {
                let now = self.now();
                self.write(slot, now);
            }
        }
        // Writing adds nothing to the list; its memory is used again.
        self.to_write = slots;
    }

    /// Closed loop: sleeps for a small part of the latency, so that responses gather. A thread that
    /// wakes for each response costs more CPU than the response, here and at the server, which then
    /// gets its requests one by one. `last_events`: the number of events of the last wait.
    fn gather_responses(&self, last_events: usize) {
        let few = last_events < GATHER_EVENTS && self.in_flight >= GATHER_EVENTS as u64;
        if self.is_open_loop() || !few {
            return;
        }
        let sleep = (self.recent_latency / GATHER_LATENCY_DIVISOR).min(MAX_GATHER_NS);
        if sleep >= MIN_GATHER_NS {
            // A signal may end it early.
            let _ = rustix::thread::nanosleep(&Timespec { tv_sec: 0, tv_nsec: sleep as i64 });
        }
    }

    /// Waits for events until a time.
    fn wait(&mut self, until: u64, now: u64, events: &mut Vec<Event>) -> Result<(), Errno> {
        let until = if self.ended { until } else { until.min(self.end) };
        let left = until.saturating_sub(now);
        let mut timeout_ms = left.div_ceil(1_000_000);
        if let Some(timer) = self.timer.as_ref().filter(|_| left > 0 && left < MAX_TIMER_NS) {
            let value = Timespec { tv_sec: 0, tv_nsec: left as i64 };
            let once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let spec = Itimerspec { it_interval: once, it_value: value };
            timerfd_settime(timer, TimerfdTimerFlags::empty(), &spec)?;
            timeout_ms = MAX_TIMER_NS / 1_000_000;
        }
        let timeout = Timespec {
            tv_sec: (timeout_ms / 1_000) as i64,
            tv_nsec: (timeout_ms % 1_000 * 1_000_000) as i64,
        };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Open loop: starts the requests that are due. When the next one is due.
    fn start_due(&mut self, now: u64) -> u64 {
        loop {
            let due = match &self.schedule {
                Some(schedule) if !self.ended => schedule.next_due(),
                _ => return u64::MAX,
            };
            if due > now {
                return due;
            }
            // Without an idle connection it waits for one; its intended latency counts from `due`.
            if due >= self.end || self.idle.is_empty() || !self.setup.limit.take() {
                return u64::MAX;
            }
            let Some(slot) = self.idle.pop_front() else { return u64::MAX };
            self.connections[slot].idle = false;
            let due = self.schedule.as_mut().map(Schedule::take);
            self.start_request(slot, due, now);
        }
    }

    /// Connections whose back-off is over.
    fn end_back_offs(&mut self, now: u64) {
        while let Some(Reverse((until, slot))) = self.backing_off.peek().copied() {
            if until > now {
                break;
            }
            self.backing_off.pop();
            self.connections[slot].state = State::Closed;
            self.release(slot, now);
        }
    }

    /// Requests and connections that have waited for too long.
    fn check_timeouts(&mut self, now: u64) {
        let timeout = nanos(self.setup.plan.timeout);
        for slot in self.connections.slots() {
            let connection = &self.connections[slot];
            let Some(since) = connection.waiting_since() else { continue };
            let waited = now.saturating_sub(since);
            match connection.state {
                State::Closing if waited >= nanos(CLOSE_TIMEOUT) => self.renew(slot, now),
                State::Connecting | State::Handshaking if waited >= timeout => {
                    self.fail(slot, &Failure::ConnectTimeout);
                }
                State::Open if waited >= timeout => self.fail(slot, &Failure::ResponseTimeout),
                _ => {}
            }
        }
    }

    fn into_stats(mut self) -> Stats {
        let now = self.now();
        // The time after the end of an open loop only waits for responses.
        let end = if self.is_open_loop() { now.min(self.end) } else { now };
        self.record_in_flight(now);
        self.report();
        self.stats.unfinished = self.in_flight;
        for slot in self.connections.slots() {
            self.count_slow_connect(slot, SlowConnect::StillConnecting, now);
        }
        let stopped = if self.setup.stop.is_set() { now } else { self.end };
        self.stats.unsent = match &self.schedule {
            Some(schedule) if !self.setup.limit.is_reached() => schedule.overdue(stopped.min(end)),
            _ => 0,
        };
        self.stats.elapsed = Duration::from_nanos(end);
        self.stats.cpu_time = self.cpu_time();
        self.stats
    }
}
