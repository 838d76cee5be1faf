//! Sends rounds of packets to all hops at once, and collects the replies.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use model::{ReplyKind, Route, TraceMethod};
use sys::Stop;

use super::hop::{HopState, mark_rate_limits};
use super::method::{MethodEvent, NotSent, ProbeMethod, Reply, ReplyTo};
use super::names::Names;
use super::one_flow::OneFlow;
use super::settings::Settings;
use super::unprivileged::UnprivilegedUdp;
use crate::Error;
use crate::socket::TIMESTAMPING_STARTUP;

/// Time between two packets: routers limit the rate of their ICMP replies.
pub(super) const PACKET_INTERVAL: Duration = Duration::from_micros(500);
/// Longest wait before [`Stop`] is checked again.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Most packets that are remembered: fewer than half of the numbers that 16 bits distinguish.
const MAX_PACKETS: usize = 32_000;
/// Hops after the last one that replied to which later rounds still send packets.
const HOPS_AFTER_LAST_REPLY: u8 = 4;
/// Shortest wait for hops that are probed again.
const MIN_RETRY_WAIT: Duration = Duration::from_millis(200);
/// Shortest wait for names after the last reply.
const MIN_NAME_WAIT: Duration = Duration::from_millis(100);
/// Most retries of SYNs to an open port.
const MAX_SYN_RETRIES: u64 = 10;

/// A packet.
#[derive(Debug, Clone, Copy)]
struct Packet {
    ttl: u8,
    purpose: Purpose,
    sent: Instant,
    /// When the kernel sent it.
    kernel_sent: Option<Duration>,
    /// It got a reply, timed out, or could not be sent.
    completed: bool,
}

/// What a packet is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To measure the hop: it counts in the result.
    Hop,
    /// To find out whether its size gets through.
    Size,
}

/// The reply to a packet that was sent for its size.
#[derive(Debug, Clone, Copy)]
pub(super) struct SizeReply {
    pub(super) ttl: u8,
    pub(super) kind: ReplyKind,
    /// MTU of the next link in the reply.
    pub(super) mtu: Option<u32>,
    pub(super) from: IpAddr,
}

/// A route that is being traced.
pub struct Tracer {
    pub(super) settings: Settings,
    pub(super) method: Box<dyn ProbeMethod>,
    start: Instant,
    packets: VecDeque<Packet>,
    /// Number of the first of them.
    first: u64,
    pub(super) hops: Vec<HopState>,
    names: Option<Names>,
    pub(super) path_mtu: Option<u32>,
    pub(super) notes: Vec<String>,
    pub(super) size_replies: Vec<SizeReply>,
    /// Whether SYNs to the target's open port are sent one at a time.
    one_syn_at_a_time: bool,
}

impl Tracer {
    /// Opens the sockets. Without the right to raw sockets only UDP works, with a socket for each
    /// packet.
    ///
    /// # Errors
    ///
    /// No route, not permitted, unusable settings.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let method: Box<dyn ProbeMethod> = match OneFlow::open(&settings)? {
            Some(method) => Box::new(method),
            None if settings.method == TraceMethod::Udp => {
                Box::new(UnprivilegedUdp::new(&settings)?)
            }
            None => {
                let protocol = if settings.method == TraceMethod::Tcp { "TCP" } else { "ICMP" };
                return Err(Error::Failed(format!(
                    "cannot trace with {protocol}: it needs CAP_NET_RAW; run as root (sudo netwhy), \
                     or use UDP, which needs no rights: --udp"
                )));
            }
        };
        std::thread::sleep(TIMESTAMPING_STARTUP);
        let max_latest = usize::from(settings.queries);
        Ok(Tracer {
            method,
            start: Instant::now(),
            packets: VecDeque::new(),
            first: 0,
            hops: (1..=settings.max_ttl).map(|ttl| HopState::new(ttl, max_latest)).collect(),
            names: settings.resolve_names.then(Names::start),
            path_mtu: None,
            notes: Vec::new(),
            size_replies: Vec::new(),
            one_syn_at_a_time: false,
            settings,
        })
    }

    /// Sends `queries` packets to each hop, nearest first, while replies are received. Once the target
    /// has replied, no packets go to later hops.
    ///
    /// # Errors
    ///
    /// A packet cannot be sent.
    pub fn send_round(&mut self, queries: u8, stop: &Stop) -> Result<(), Error> {
        let length = self.method.default_length();
        let mut ttl = self.settings.first_ttl;
        while ttl <= self.last_ttl() && !stop.is_set() {
            for _ in 0..queries {
                if let Err(error) = self.send(ttl, length, Purpose::Hop) {
                    return Err(Error::Failed(match error {
                        NotSent::TooLarge => {
                            format!("packets of {length} B are larger than the interface's MTU")
                        }
                        NotSent::Failed(why) => why,
                    }));
                }
                self.collect(Instant::now() + PACKET_INTERVAL, stop)?;
            }
            ttl += 1;
        }
        Ok(())
    }

    /// Sends one packet.
    pub(super) fn send(&mut self, ttl: u8, length: usize, purpose: Purpose) -> Result<(), NotSent> {
        let number = self.first + self.packets.len() as u64;
        let sent = Instant::now();
        let result = self.method.send(number, ttl, length);
        let completed = result.is_err();
        self.packets.push_back(Packet { ttl, purpose, sent, kernel_sent: None, completed });
        if purpose == Purpose::Hop
            && result.is_ok()
            && let Some(hop) = hop_at(&mut self.hops, ttl)
        {
            hop.record_sent(number);
        }
        if self.packets.len() > MAX_PACKETS {
            self.packets.pop_front();
            self.first += 1;
        }
        result
    }

    /// The TTL of the last hop to which packets are sent now.
    fn last_ttl(&self) -> u8 {
        let max_ttl = self.settings.max_ttl;
        if let Some(end) = self.end() {
            return end.min(max_ttl);
        }
        // In the first round nothing is known yet; later ones leave out the silence after the last
        // hop that replied.
        let is_first_round = self.hops.last().is_none_or(|hop| hop.sent() == 0);
        if is_first_round {
            return max_ttl;
        }
        self.last_replied().saturating_add(HOPS_AFTER_LAST_REPLY).min(max_ttl)
    }

    /// The TTL of the last hop that replied; 0: none.
    pub(super) fn last_replied(&self) -> u8 {
        self.hops.iter().rev().find(|hop| hop.has_replied()).map_or(0, HopState::ttl)
    }

    /// The TTL at which the route ends: at the target, or at a router with no route onwards.
    pub(super) fn end(&self) -> Option<u8> {
        let first = |is: fn(&HopState) -> bool| self.hops.iter().find(|hop| is(hop));
        first(HopState::is_reached).or_else(|| first(HopState::is_end)).map(HopState::ttl)
    }

    /// Collects replies until a time.
    ///
    /// # Errors
    ///
    /// A socket cannot be used any more.
    pub fn collect(&mut self, until: Instant, stop: &Stop) -> Result<(), Error> {
        self.collect_while(until, stop, |_| true)
    }

    /// Collects replies until a time, or until no packet is outstanding.
    pub(super) fn collect_outstanding(&mut self, until: Instant, stop: &Stop) -> Result<(), Error> {
        self.collect_while(until, stop, Self::is_any_outstanding)
    }

    fn collect_while(
        &mut self,
        until: Instant,
        stop: &Stop,
        go_on: fn(&Self) -> bool,
    ) -> Result<(), Error> {
        loop {
            self.poll()?;
            let now = Instant::now();
            self.expire(now);
            if now >= until || stop.is_set() || !go_on(self) {
                return Ok(());
            }
            let mut sockets = Vec::new();
            self.method.sockets(&mut sockets);
            let wait = until.saturating_duration_since(now).min(MAX_WAIT);
            sys::probe_socket::wait(&sockets, wait)?;
        }
    }

    /// Collects replies until all packets got one or timed out; probes silent hops once more, and waits
    /// for names.
    ///
    /// # Errors
    ///
    /// A socket cannot be used any more.
    pub fn finish(&mut self, stop: &Stop) -> Result<(), Error> {
        let last_sent = self.packets.back().map_or(self.start, |packet| packet.sent);
        self.collect_outstanding(last_sent + self.settings.timeout, stop)?;
        self.retry_open_port(stop)?;
        self.retry_silent_hops(stop)?;
        if let Some(names) = &mut self.names {
            let left = self.settings.timeout.saturating_sub(self.start.elapsed());
            names.wait(left.max(MIN_NAME_WAIT), stop);
        }
        Ok(())
    }

    /// An open port replies to the first SYN of a flow only, until that connection is reset: the other
    /// SYNs do not count, and are retried one at a time.
    fn retry_open_port(&mut self, stop: &Stop) -> Result<(), Error> {
        let Some(end) = self.open_port() else { return Ok(()) };
        self.one_syn_at_a_time = true;
        for packet in self.packets.iter_mut().filter(|packet| packet.ttl >= end) {
            packet.completed = true;
        }
        let Some(hop) = hop_at(&mut self.hops, end) else { return Ok(()) };
        let retries = hop.unanswered().min(MAX_SYN_RETRIES);
        let longest = hop.max_round_trip().unwrap_or_default();
        hop.forget_unanswered();
        // The kernel's reset has then arrived at the target.
        let pause = longest.clamp(Duration::from_millis(1), Duration::from_secs(1)).mul_f64(1.5);
        for _ in 0..retries {
            self.collect(Instant::now() + pause, stop)?;
            let length = self.method.default_length();
            if stop.is_set() || self.send(end, length, Purpose::Hop).is_err() {
                return Ok(());
            }
            self.collect_outstanding(Instant::now() + self.settings.timeout, stop)?;
        }
        Ok(())
    }

    /// Probes hops that were silent while a later one replied once more: packets that waited for
    /// neighbour discovery may be dropped, which silences all hops before the target.
    fn retry_silent_hops(&mut self, stop: &Stop) -> Result<(), Error> {
        let last = self.last_replied();
        if last == 0 {
            return Ok(());
        }
        let longest = self.hops.iter().filter_map(HopState::max_round_trip).max();
        let queries = self.settings.queries;
        for ttl in self.settings.first_ttl..last {
            if self.end().is_some_and(|end| ttl >= end) || stop.is_set() {
                break;
            }
            let Some(hop) = hop_at(&mut self.hops, ttl) else { break };
            // A hop that stays silent in several rounds is silent.
            if hop.has_replied() || hop.sent() > u64::from(queries) {
                continue;
            }
            hop.forget_unanswered();
            for _ in 0..queries {
                if self.send(ttl, self.method.default_length(), Purpose::Hop).is_err() {
                    return Ok(());
                }
                self.collect(Instant::now() + PACKET_INTERVAL, stop)?;
            }
        }
        let wait = (longest.unwrap_or_default() * 3).max(MIN_RETRY_WAIT);
        self.collect_outstanding(Instant::now() + wait.min(self.settings.timeout), stop)?;
        self.expire(Instant::now() + self.settings.timeout);
        Ok(())
    }

    /// The TTL of the target, if its port accepted a connection.
    fn open_port(&self) -> Option<u8> {
        let end = self.end().filter(|_| self.settings.method == TraceMethod::Tcp)?;
        self.hops.iter().find(|hop| hop.ttl() == end && hop.is_port_open()).map(HopState::ttl)
    }

    /// Whether packets to hops of the route are outstanding.
    fn is_any_outstanding(&self) -> bool {
        let mut end = self.end().unwrap_or(u8::MAX);
        // SYNs to an open port are not waited for: they are retried one at a time.
        if self.open_port().is_some() && !self.one_syn_at_a_time {
            end -= 1;
        }
        self.packets.iter().any(|packet| !packet.completed && packet.ttl <= end)
    }

    fn poll(&mut self) -> Result<(), Error> {
        let mut events = Vec::new();
        self.method.poll(&mut |event| events.push(event))?;
        for event in events {
            match event {
                MethodEvent::Sent(number, at) => {
                    let index = number.checked_sub(self.first).map(|index| index as usize);
                    if let Some(packet) = index.and_then(|index| self.packets.get_mut(index)) {
                        packet.kernel_sent.get_or_insert(at);
                    }
                }
                MethodEvent::Reply(reply) => self.record_reply(&reply),
            }
        }
        if let Some(names) = &mut self.names {
            names.poll();
        }
        Ok(())
    }

    fn record_reply(&mut self, reply: &Reply) {
        let Some(index) = self.packet_of(reply.to) else { return };
        let packet = self.packets.get_mut(index).filter(|packet| !packet.completed);
        let Some(packet) = packet else { return };
        packet.completed = true;
        let process_time = reply.at.process.saturating_duration_since(packet.sent);
        // The kernel's times, unless its clock was set in between.
        let kernel_time = reply.at.kernel.zip(packet.kernel_sent).and_then(|(received, sent)| {
            received.checked_sub(sent).filter(|time| *time <= process_time)
        });
        let (ttl, purpose) = (packet.ttl, packet.purpose);
        if purpose == Purpose::Size {
            if self.size_replies.len() < MAX_PACKETS {
                let Reply { kind, mtu, from, .. } = *reply;
                self.size_replies.push(SizeReply { ttl, kind, mtu, from });
            }
            return;
        }
        let number = self.first + index as u64;
        let round_trip = kernel_time.unwrap_or(process_time);
        if let Some(hop) = hop_at(&mut self.hops, ttl) {
            hop.record_reply(number, reply, round_trip, self.settings.to.ip());
        }
        if let Some(names) = &mut self.names {
            names.request(reply.from);
        }
    }

    /// Index of the packet that a reply belongs to.
    fn packet_of(&self, to: ReplyTo) -> Option<usize> {
        match to {
            ReplyTo::Number(low) => Some(usize::from(low.wrapping_sub(self.first as u16))),
            ReplyTo::AnyAtTarget => {
                // The oldest outstanding packet that went farther than the last router.
                let router = |hop: &&HopState| hop.has_replied() && !hop.is_reached();
                let last_router = self.hops.iter().rev().find(router).map_or(0, HopState::ttl);
                self.packets.iter().position(|packet| !packet.completed && packet.ttl > last_router)
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        let mut oldest_outstanding = None;
        for (index, packet) in self.packets.iter_mut().enumerate() {
            if packet.completed {
                continue;
            }
            if now.saturating_duration_since(packet.sent) < self.settings.timeout {
                oldest_outstanding = Some(index);
                break;
            }
            packet.completed = true;
            if packet.purpose == Purpose::Hop
                && let Some(hop) = hop_at(&mut self.hops, packet.ttl)
            {
                hop.record_timeout();
            }
        }
        let completed = oldest_outstanding.unwrap_or(self.packets.len());
        self.packets.drain(..completed);
        self.first += completed as u64;
        self.method.forget_before(self.first);
    }

    /// The route as it is known now.
    pub fn route(&self) -> Route {
        let name = |address| self.names.as_ref().and_then(|names| names.get(address));
        // Without an end: one silent hop after the last that replied.
        let last = self.end().unwrap_or_else(|| self.last_replied().saturating_add(1));
        let shown = self.settings.first_ttl..=last;
        let hops = self.hops.iter().filter(|hop| shown.contains(&hop.ttl()));
        let mut hops: Vec<_> = hops.map(|hop| hop.result(&name)).collect();
        mark_rate_limits(&mut hops);
        Route {
            target: self.settings.name.clone(),
            address: Some(self.settings.to.ip()),
            method: self.settings.method,
            port: (self.settings.method != TraceMethod::Icmp).then_some(self.settings.to.port()),
            duration_ms: self.start.elapsed().as_secs_f64() * 1e3,
            one_flow: self.method.is_one_flow(),
            reached: self.hops.iter().any(HopState::is_reached),
            hops,
            path_mtu: self.path_mtu,
            notes: self.notes.clone(),
        }
    }
}

/// The hop of a TTL, from 1.
fn hop_at(hops: &mut [HopState], ttl: u8) -> Option<&mut HopState> {
    hops.get_mut(usize::from(ttl).checked_sub(1)?)
}
