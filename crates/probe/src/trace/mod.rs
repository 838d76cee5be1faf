//! The hops on the way to a host: packets to all distances at once, of one flow.
//!
//! - [`Trace`]: rounds of packets, and what they found
//! - [`way`]: how a packet is sent; [`raw`]: with raw sockets; [`plain`]: without rights
//! - [`board`]: what is known of each hop
//! - [`mtu`]: the largest packet that gets through
//! - [`names`]: names of addresses, on the side

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use model::{ReplyKind, Route, TraceMethod};

use crate::numbered::failed;
use sys::Stop;

use crate::Error;

mod board;
mod mtu;
mod names;
mod plain;
mod raw;
mod way;

use board::State;
use names::Names;
use way::{Answer, News, Unsent, Way, Which};

/// Bytes of a packet with its IP header, as traceroute has them; more where headers are longer.
const LENGTH: usize = 60;
/// Between two packets: a router that gets all at once answers few of them.
const PACE: Duration = Duration::from_micros(500);
/// How long is waited at once: then [`Stop`] is looked at.
const PATIENCE: Duration = Duration::from_millis(100);
/// Most packets that are remembered.
const REMEMBERED: usize = 32_000;
/// Distances beyond the last hop that answers to which packets are sent again.
const BEYOND: u8 = 4;
/// How long hops that are asked again are waited for, at least.
const AGAIN: Duration = Duration::from_millis(200);
/// How long names are waited for after the last answer, at least.
const NAMES: Duration = Duration::from_millis(100);

/// How to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The target as it was given.
    pub name: String,
    /// Its address and port; the port is of no meaning for ICMP.
    pub to: SocketAddr,
    /// What is sent.
    pub method: TraceMethod,
    /// First distance, 1 or more.
    pub first: u8,
    /// Last distance.
    pub last: u8,
    /// Packets to each in a round, 1 to 10.
    pub queries: u8,
    /// How long an answer is waited for.
    pub timeout: Duration,
    /// Whether the largest packet is looked for that gets through.
    pub mtu: bool,
    /// Whether names of addresses are asked for.
    pub names: bool,
    /// Type of service, or traffic class.
    pub tos: Option<u8>,
    /// Where packets come from.
    pub source: Option<IpAddr>,
    /// Interface by which they leave.
    pub interface: Option<String>,
}

impl Settings {
    /// What pings and traces have in common.
    fn ping(&self) -> crate::ping::Settings {
        crate::ping::Settings {
            tos: self.tos,
            source: self.source,
            interface: self.interface.clone(),
            timeout: self.timeout,
            ..crate::ping::Settings::default()
        }
    }

    fn check(&self) -> Result<(), Error> {
        let usage = |words: String| Err(Error::Usage(words));
        if self.first == 0 || self.first > self.last {
            return usage(format!("no hops from {} to {}", self.first, self.last));
        }
        if !(1..=10).contains(&self.queries) {
            return usage("1 to 10 packets to each hop".to_string());
        }
        match self.source {
            Some(source) if source.is_ipv6() != self.to.is_ipv6() => {
                usage(format!("{source} cannot be the source of packets to {}", self.to.ip()))
            }
            _ => Ok(()),
        }
    }
}

/// A packet.
#[derive(Debug, Clone, Copy)]
struct Packet {
    distance: u8,
    /// Whether it counts as one of the hop, or only asks whether its size gets through.
    counts: bool,
    sent: Instant,
    left: Option<Duration>,
    over: bool,
}

/// A route while it is looked for.
pub struct Trace {
    settings: Settings,
    way: Box<dyn Way>,
    begun: Instant,
    packets: VecDeque<Packet>,
    /// Number of the first of them.
    first: u64,
    hops: Vec<State>,
    names: Option<Names>,
    /// What was found of the largest packet.
    path_mtu: Option<u32>,
    notes: Vec<String>,
    /// Answers to packets that do not count: distance, what, the MTU that it names, by whom.
    sized: Vec<(u8, ReplyKind, Option<u32>, IpAddr)>,
    /// Whether packets to the target are sent one by one, and each is waited for.
    one_by_one: bool,
}

impl Trace {
    /// Opens the sockets. Without the right to raw sockets UDP goes by a socket for each packet.
    ///
    /// # Errors
    ///
    /// No route, no right, settings that cannot be.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let way: Box<dyn Way> = match raw::RawWay::open(&settings)? {
            Some(way) => Box::new(way),
            None if settings.method == TraceMethod::Udp => {
                Box::new(plain::PlainWay::new(&settings)?)
            }
            None => {
                let what = if settings.method == TraceMethod::Tcp { "TCP" } else { "ICMP" };
                return Err(Error::Failed(format!(
                    "cannot trace by {what}: it needs CAP_NET_RAW; run as root (sudo netwhy), or \
                     trace by UDP, which needs no rights: --udp"
                )));
            }
        };
        std::thread::sleep(crate::ping::STAMPS_BEGIN);
        let keeps = usize::from(settings.queries);
        Ok(Trace {
            way,
            begun: Instant::now(),
            packets: VecDeque::new(),
            first: 0,
            hops: (1..=settings.last).map(|distance| State::new(distance, keeps)).collect(),
            names: settings.names.then(Names::start),
            path_mtu: None,
            notes: Vec::new(),
            sized: Vec::new(),
            one_by_one: false,
            settings,
        })
    }

    /// Sends so many packets to each distance, nearest first, while answers come in. Distances behind
    /// the target are left out once it has answered.
    ///
    /// # Errors
    ///
    /// A packet cannot be sent.
    pub fn send(&mut self, queries: u8, stop: &Stop) -> Result<(), Error> {
        let length = self.way.usual();
        let mut distance = self.settings.first;
        while distance <= self.farthest() && !stop.is_set() {
            for _ in 0..queries {
                if let Err(unsent) = self.send_one(distance, length, true) {
                    let words = match unsent {
                        Unsent::TooLarge => {
                            format!("packets of {length} B are larger than the interface takes")
                        }
                        Unsent::Other(words) => words,
                    };
                    return Err(Error::Failed(words));
                }
                self.collect(Instant::now() + PACE, false, stop)?;
            }
            distance += 1;
        }
        Ok(())
    }

    fn send_one(&mut self, distance: u8, length: usize, counts: bool) -> Result<(), Unsent> {
        let number = self.first + self.packets.len() as u64;
        let sent = Instant::now();
        let done = self.way.send(number, distance, length);
        let over = done.is_err();
        self.packets.push_back(Packet { distance, counts, sent, left: None, over });
        if let Some(hop) = self.hops.get_mut(usize::from(distance) - 1).filter(|_| counts && !over)
        {
            hop.sent(number);
        }
        if self.packets.len() > REMEMBERED {
            self.packets.pop_front();
            self.first += 1;
        }
        done
    }

    /// The farthest distance that packets are sent to now.
    fn farthest(&self) -> u8 {
        let last = self.settings.last;
        if let Some(end) = self.end() {
            return end.min(last);
        }
        // In the first round nothing is known; later the silence behind the last hop is.
        let round_before = self.hops.last().is_some_and(|hop| hop.hop(&|_| None).sent > 0);
        if !round_before {
            return last;
        }
        let answering = self.hops.iter().rposition(State::is_answered).map_or(0, |at| at as u8 + 1);
        answering.saturating_add(BEYOND).min(last)
    }

    /// The distance at which the way ends: the target, or a router that knows no way on.
    fn end(&self) -> Option<u8> {
        let at = |is: fn(&State) -> bool| self.hops.iter().position(is).map(|at| at as u8 + 1);
        at(State::reached).or_else(|| at(State::ends))
    }

    /// Takes answers until a time; `early`: or until all packets that count are over.
    ///
    /// # Errors
    ///
    /// A socket is of no use any more.
    pub fn collect(&mut self, until: Instant, early: bool, stop: &Stop) -> Result<(), Error> {
        loop {
            self.take()?;
            let now = Instant::now();
            self.expire(now);
            if now >= until || stop.is_set() || (early && self.is_done()) {
                return Ok(());
            }
            let mut sockets = Vec::new();
            self.way.sockets(&mut sockets);
            let wait = until.saturating_duration_since(now).min(PATIENCE);
            sys::probe_socket::wait(&sockets, wait).map_err(failed)?;
        }
    }

    /// Takes answers until all packets that count are answered or their time out has passed.
    ///
    /// # Errors
    ///
    /// A socket is of no use any more.
    pub fn finish(&mut self, stop: &Stop) -> Result<(), Error> {
        let until = self.packets.back().map_or(self.begun, |packet| packet.sent);
        self.collect(until + self.settings.timeout, true, stop)?;
        self.ask_open_port_again(stop)?;
        self.ask_silent_again(stop)?;
        if let Some(names) = &mut self.names {
            let left = self.settings.timeout.saturating_sub(self.begun.elapsed());
            names.wait(left.max(NAMES), stop);
        }
        Ok(())
    }

    /// Of several SYNs of one flow an open port answers the first, and no other until that connection
    /// was reset: the others did not count, and are sent again one by one.
    fn ask_open_port_again(&mut self, stop: &Stop) -> Result<(), Error> {
        let Some(end) = self.open_port() else { return Ok(()) };
        self.one_by_one = true;
        for packet in self.packets.iter_mut().filter(|packet| packet.distance >= end) {
            packet.over = true;
        }
        let Some(hop) = self.hops.get_mut(usize::from(end) - 1) else { return Ok(()) };
        let known = hop.hop(&|_| None);
        hop.forget_silence();
        let trip = known.round_trip.map_or(0.0, |times| times.max_ms);
        for _ in 0..known.sent.saturating_sub(known.received).min(10) {
            let pause = Duration::from_secs_f64(trip.clamp(1.0, 1000.0) * 1.5 / 1e3);
            self.collect(Instant::now() + pause, false, stop)?;
            if stop.is_set() || self.send_one(end, self.way.usual(), true).is_err() {
                return Ok(());
            }
            self.collect(Instant::now() + self.settings.timeout, true, stop)?;
        }
        Ok(())
    }

    /// Hops that were silent while one behind them answered are asked once more: what waits for a
    /// neighbour to be looked up may come too late, and then all hops before the target are silent.
    fn ask_silent_again(&mut self, stop: &Stop) -> Result<(), Error> {
        let answered = || self.hops.iter().filter(|hop| hop.is_answered());
        let Some(last) = answered().map(State::distance).max() else { return Ok(()) };
        let longest = answered().filter_map(State::longest).max().unwrap_or_default();
        let queries = self.settings.queries;
        for distance in self.settings.first..last {
            if self.end().is_some_and(|end| distance >= end) || stop.is_set() {
                break;
            }
            let Some(hop) = self.hops.get_mut(usize::from(distance) - 1) else { break };
            // A hop that was asked in several rounds is silent.
            if hop.is_answered() || hop.count() > u64::from(queries) {
                continue;
            }
            hop.forget_silence();
            for _ in 0..queries {
                if self.send_one(distance, self.way.usual(), true).is_err() {
                    return Ok(());
                }
                self.collect(Instant::now() + PACE, false, stop)?;
            }
        }
        let wait = (longest * 3).max(AGAIN).min(self.settings.timeout);
        self.collect(Instant::now() + wait, true, stop)?;
        self.expire(Instant::now() + self.settings.timeout);
        Ok(())
    }

    /// Where the target is, if it took a connection.
    fn open_port(&self) -> Option<u8> {
        let end = self.end().filter(|_| self.settings.method == TraceMethod::Tcp)?;
        self.hops.get(usize::from(end) - 1).filter(|hop| hop.is_open()).map(|_| end)
    }

    /// Whether all packets are over that were sent no farther than the way goes.
    fn is_done(&self) -> bool {
        let mut end = self.end().unwrap_or(u8::MAX);
        // Those to an open port are not waited for: they are sent again, one by one.
        if self.open_port().is_some() && !self.one_by_one {
            end -= 1;
        }
        self.packets.iter().all(|packet| packet.over || packet.distance > end)
    }

    fn take(&mut self) -> Result<(), Error> {
        let mut news = Vec::new();
        self.way.take(&mut |one| news.push(one))?;
        for one in news {
            match one {
                News::Left(number, at) => {
                    let index = number.checked_sub(self.first).map(|index| index as usize);
                    if let Some(packet) = index.and_then(|index| self.packets.get_mut(index)) {
                        packet.left.get_or_insert(at);
                    }
                }
                News::Came(answer) => self.came(&answer),
            }
        }
        if let Some(names) = &mut self.names {
            names.take();
        }
        Ok(())
    }

    fn came(&mut self, answer: &Answer) {
        let Some(index) = self.which(answer.which) else { return };
        let Some(packet) = self.packets.get_mut(index).filter(|packet| !packet.over) else {
            return;
        };
        packet.over = true;
        let by_process = answer.at.process.saturating_duration_since(packet.sent);
        let by_kernel = answer
            .at
            .kernel
            .zip(packet.left)
            .and_then(|(came, left)| came.checked_sub(left).filter(|time| *time <= by_process));
        let (distance, counts) = (packet.distance, packet.counts);
        let time = by_kernel.unwrap_or(by_process);
        let number = self.first + index as u64;
        if !counts {
            if self.sized.len() < REMEMBERED {
                self.sized.push((distance, answer.kind, answer.mtu, answer.from));
            }
            return;
        }
        let to = self.settings.to.ip();
        if let Some(hop) = self.hops.get_mut(usize::from(distance) - 1) {
            hop.answered(number, answer, time, to);
        }
        if let Some(names) = &mut self.names {
            names.ask(answer.from);
        }
    }

    /// Which packet an answer is for.
    fn which(&self, which: Which) -> Option<usize> {
        match which {
            Which::Low(low) => Some(usize::from(low.wrapping_sub(self.first as u16))),
            Which::AtTarget => {
                // The nearest that waits behind the farthest hop that is none.
                let hops = self.hops.iter().rposition(|hop| hop.is_answered() && !hop.reached());
                let behind = hops.map_or(0, |at| at + 1);
                let waits = |packet: &Packet| !packet.over && usize::from(packet.distance) > behind;
                self.packets.iter().position(waits)
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        let mut oldest = None;
        for (index, packet) in self.packets.iter_mut().enumerate() {
            if packet.over {
                continue;
            }
            if now.saturating_duration_since(packet.sent) < self.settings.timeout {
                oldest = Some(index);
                break;
            }
            packet.over = true;
            let counts = packet.counts;
            let hop = self.hops.get_mut(usize::from(packet.distance) - 1);
            if let Some(hop) = hop.filter(|_| counts) {
                hop.silent();
            }
        }
        let before = oldest.unwrap_or(self.packets.len());
        self.way.forget(self.first + before as u64);
        self.packets.drain(..before);
        self.first += before as u64;
    }

    /// The route as it is known now.
    pub fn route(&self) -> Route {
        let name = |address| self.names.as_ref().and_then(|names| names.get(address));
        let end = self.end();
        let answering = self.hops.iter().rposition(State::is_answered).map_or(0, |at| at + 1);
        // Silence behind the last hop that answers is one line.
        let shown = end.map_or(answering + 1, usize::from).min(self.hops.len());
        let from = usize::from(self.settings.first - 1).min(shown);
        let mut hops: Vec<_> = self.hops[from..shown].iter().map(|hop| hop.hop(&name)).collect();
        board::mark_limited(&mut hops);
        Route {
            target: self.settings.name.clone(),
            address: Some(self.settings.to.ip()),
            method: self.settings.method,
            port: (self.settings.method != TraceMethod::Icmp).then_some(self.settings.to.port()),
            duration_ms: self.begun.elapsed().as_secs_f64() * 1e3,
            one_flow: self.way.is_one_flow(),
            reached: self.hops.iter().any(State::reached),
            hops,
            path_mtu: self.path_mtu,
            notes: self.notes.clone(),
        }
    }
}

/// Looks for a route once.
///
/// # Errors
///
/// As [`Trace::open`] and [`Trace::send`].
pub fn run(settings: Settings, stop: &Stop) -> Result<Route, Error> {
    let (queries, mtu) = (settings.queries, settings.mtu);
    let mut trace = Trace::open(settings)?;
    trace.send(queries, stop)?;
    trace.finish(stop)?;
    if mtu {
        trace.find_mtu(stop)?;
    }
    let mut route = trace.route();
    if stop.is_set() {
        route.notes.push("interrupted: answers may have been on their way".to_string());
    }
    Ok(route)
}
