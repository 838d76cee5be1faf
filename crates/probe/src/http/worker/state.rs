//! The state of a worker: connections, timers, counts.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use super::super::connection::{Connection, Connections, Slot};
use super::super::origin::assign;
use super::super::schedule::Schedule;
use super::super::stats::Stats;
use super::super::thread::{LiveReporter, ThreadSetup, nanos, thread_cpu_time};
use crate::Error;

/// Event data of the timer.
pub(super) const TIMER_EVENT: u64 = u64::MAX;

/// One thread of a load. Times are nanoseconds since the start of the load.
pub(super) struct Worker {
    pub(super) setup: ThreadSetup,
    pub(super) epoll: OwnedFd,
    pub(super) connections: Connections,
    pub(super) stats: Stats,
    pub(super) reporter: LiveReporter,
    /// Open loop: when requests are due, and the timer for the next one.
    pub(super) schedule: Option<Schedule>,
    pub(super) timer: Option<OwnedFd>,
    /// Open loop: connections without a request.
    pub(super) idle: VecDeque<Slot>,
    /// Connections that wait before their next attempt, and until when.
    pub(super) backing_off: BinaryHeap<Reverse<(u64, Slot)>>,
    /// Connections with a request to write.
    pub(super) to_write: Vec<Slot>,
    /// Connections of which more may be read, as the data of their events; whether they are closed.
    pub(super) unread: Vec<(u64, bool)>,
    /// Until when connections are read before the timers are checked.
    pub(super) read_until: u64,
    /// Buffer for pipelined requests that are written together.
    pub(super) batch: Vec<u8>,
    /// When the load ends: no request is started after that.
    pub(super) end: u64,
    /// Whether the load has ended.
    pub(super) ended: bool,
    pub(super) in_flight: u64,
    /// Until when `in_flight` is recorded.
    in_flight_recorded: u64,
    /// Whether the last connection was established at once, as to the same host.
    pub(super) near: bool,
    /// Moving average of the latency.
    pub(super) recent_latency: u64,
    cpu_time_at_start: Duration,
}

impl Worker {
    pub(super) fn new(setup: ThreadSetup) -> Result<Self, Error> {
        let failed = |errno: Errno| Error::Failed(format!("cannot create an event queue: {errno}"));
        let plan = &setup.plan;
        let connections = setup.connections().map(|number| {
            let (origin, request) = assign(&setup.origins, number);
            Connection::new(origin, request)
        });
        let connections = Connections::new(connections);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        let schedule = plan.rate.map(|rate| Schedule::new(rate, setup.number, plan.threads));
        let timer = schedule.is_some().then(|| timer(&epoll)).transpose().map_err(failed)?;
        Ok(Worker {
            stats: Stats::new(plan, setup.origins.len())?,
            reporter: LiveReporter::default(),
            epoll,
            connections,
            schedule,
            timer,
            idle: VecDeque::new(),
            backing_off: BinaryHeap::new(),
            to_write: Vec::new(),
            unread: Vec::new(),
            read_until: 0,
            batch: Vec::new(),
            end: plan.duration.map_or(u64::MAX, nanos),
            ended: false,
            in_flight: 0,
            in_flight_recorded: 0,
            near: false,
            recent_latency: 0,
            cpu_time_at_start: thread_cpu_time(),
            setup,
        })
    }

    pub(super) fn now(&self) -> u64 {
        nanos(self.setup.start.elapsed())
    }

    pub(super) fn is_open_loop(&self) -> bool {
        self.schedule.is_some()
    }

    /// Records the requests in flight until now, before their number changes.
    pub(super) fn record_in_flight(&mut self, now: u64) {
        let duration = now.saturating_sub(self.in_flight_recorded);
        self.stats.record_in_flight(self.in_flight, duration);
        self.in_flight_recorded = self.in_flight_recorded.max(now);
    }

    /// Adds the counts to the live ones.
    pub(super) fn report(&mut self) {
        self.reporter.report(&self.stats, &self.setup.live);
    }

    /// CPU time of this thread.
    pub(super) fn cpu_time(&self) -> Duration {
        thread_cpu_time().saturating_sub(self.cpu_time_at_start)
    }
}

fn timer(epoll: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let data = EventData::new_u64(TIMER_EVENT);
    epoll::add(epoll, &timer, data, EventFlags::IN | EventFlags::ET)?;
    Ok(timer)
}
