//! Sends packets to several targets at once, one target after the other within each interval.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use model::{Ping, PingMethod, PingMtu};
use sys::Stop;

use super::event::{Event, EventKind};
use super::icmp_echo::EchoMethod;
use super::method::{MethodEvent, NotSent, ProbeMethod};
use super::settings::{MIN_FLOOD_RATE, PingTarget, Protocol, Settings};
use super::tcp_connect::ConnectMethod;
use super::tcp_syn::SynMethod;
use super::tracker::{Outcome, PacketTracker};
use super::udp::UdpMethod;
use crate::socket::TIMESTAMPING_STARTUP;
use crate::{Error, route};

/// Longest wait before [`Stop`] is checked again.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// A target that is being pinged.
struct Pinger {
    method: Box<dyn ProbeMethod>,
    tracker: PacketTracker,
    /// When the next packet is due.
    next_due: Instant,
    /// When the first and the last packet were sent.
    first_sent: Option<Instant>,
    last_sent: Option<Instant>,
    to: SocketAddr,
}

/// Pings all targets until the count, the duration or `stop`; reports each packet.
///
/// # Errors
///
/// Before anything is sent: not permitted, no route, no such source address. Later: a socket cannot be
/// used any more.
pub fn run(
    targets: &[PingTarget],
    settings: &Settings,
    stop: &Stop,
    report: &mut dyn FnMut(Event),
) -> Result<Vec<Ping>, Error> {
    settings.check(targets)?;
    let methods: Vec<_> = targets
        .iter()
        .map(|target| open(target, settings, targets.len()))
        .collect::<Result<_, _>>()?;
    std::thread::sleep(TIMESTAMPING_STARTUP);
    let mut pingers = Vec::with_capacity(targets.len());
    let start = Instant::now();
    for (index, (target, (method, method_name))) in targets.iter().zip(methods).enumerate() {
        let result = Ping {
            target: target.name.clone(),
            address: Some(target.to.ip()),
            method: method_name,
            port: (target.protocol != Protocol::Icmp).then_some(target.to.port()),
            payload_bytes: target.sent_payload_bytes() as u32,
            ..Ping::default()
        };
        let tracker = PacketTracker::new(target.to.ip(), settings.timeout, result);
        // Targets share the interval evenly.
        let offset = settings.interval.mul_f64(index as f64 / targets.len() as f64);
        let (next_due, to) = (start + offset, target.to);
        pingers.push(Pinger { method, tracker, next_due, first_sent: None, last_sent: None, to });
    }
    let end = settings.duration.map(|duration| start + duration);
    while !stop.is_set() {
        let now = Instant::now();
        let mut busy = false;
        for (index, pinger) in pingers.iter_mut().enumerate() {
            pinger.tracker.expire(now, &mut |sequence| {
                report(Event { target: index, sequence, kind: EventKind::Timeout });
            });
            pinger.method.forget_before(pinger.tracker.oldest_outstanding());
            let more = pinger.sends_more(now, settings, end);
            busy |= more || pinger.tracker.outstanding() > 0;
            if more && now >= pinger.due(settings) {
                pinger.send(index, settings, report);
            }
        }
        if !busy {
            break;
        }
        wait(&pingers, settings, end)?;
        for (index, pinger) in pingers.iter_mut().enumerate() {
            pinger.poll(index, report)?;
        }
    }
    Ok(pingers.iter().map(|pinger| pinger.result(start.elapsed(), settings)).collect())
}

/// Opens the sockets for a target; `targets`: how many are pinged.
fn open(
    target: &PingTarget,
    settings: &Settings,
    targets: usize,
) -> Result<(Box<dyn ProbeMethod>, PingMethod), Error> {
    Ok(match target.protocol {
        Protocol::Icmp => (Box::new(EchoMethod::open(target, settings)?), PingMethod::Icmp),
        Protocol::Tcp => match SynMethod::open(target, settings, targets)? {
            Some(method) => (Box::new(method), PingMethod::TcpSyn),
            None => (Box::new(ConnectMethod::new(target.to, settings)?), PingMethod::TcpConnect),
        },
        Protocol::Udp => (Box::new(UdpMethod::open(target, settings)?), PingMethod::Udp),
    })
}

impl Pinger {
    /// Whether packets are still to be sent.
    fn sends_more(&self, now: Instant, settings: &Settings, end: Option<Instant>) -> bool {
        settings.count.is_none_or(|count| self.tracker.next_number() <= count)
            && end.is_none_or(|end| now < end)
    }

    /// When the next packet is to be sent.
    fn due(&self, settings: &Settings) -> Instant {
        match self.last_sent {
            // Without replies a flood is no faster than `ping -f`.
            Some(last) if settings.flood.is_some() && self.tracker.outstanding() > 0 => {
                self.next_due.max(last + Duration::from_secs(1) / MIN_FLOOD_RATE)
            }
            _ => self.next_due,
        }
    }

    fn send(&mut self, index: usize, settings: &Settings, report: &mut dyn FnMut(Event)) {
        let sequence = self.tracker.next_number();
        let now = Instant::now();
        let result = self.method.send(sequence).map_err(|error| self.why(error, settings));
        if let Err(why) = &result {
            let kind = EventKind::SendError(why.clone());
            report(Event { target: index, sequence, kind });
        }
        self.tracker.sent(now, result);
        self.first_sent.get_or_insert(now);
        self.last_sent = Some(now);
        let spacing = settings.spacing();
        // A delay is not made up for by a burst.
        self.next_due = (self.next_due + spacing).max(now + spacing / 2);
    }

    /// Why a packet was not sent, with the MTU that it exceeds.
    fn why(&mut self, error: NotSent, settings: &Settings) -> String {
        let known = error.too_large.then(|| route::mtu(self.to, &settings.socket(self.to.ip())));
        match known.flatten() {
            Some(mtu) => {
                self.tracker.record_mtu(PingMtu { mtu, from: None });
                let to = self.to.ip();
                format!(
                    "cannot send to {to}: larger than the MTU of the interface, {mtu} B (see: ip link)"
                )
            }
            None => error.why,
        }
    }

    fn result(&self, elapsed: Duration, settings: &Settings) -> Ping {
        let packets = self.tracker.next_number().saturating_sub(2);
        let time = self.first_sent.zip(self.last_sent).map(|(first, last)| last - first);
        let time = time.filter(|time| packets > 0 && !time.is_zero());
        Ping {
            sent_per_s: time.map(|time| packets as f64 / time.as_secs_f64()),
            max_per_s: Some(1.0 / settings.spacing().as_secs_f64().max(1e-9)),
            ..self.tracker.result(elapsed)
        }
    }

    fn poll(&mut self, index: usize, report: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let Pinger { method, tracker, .. } = self;
        method.poll(&mut |event| match event {
            MethodEvent::Sent(number, at) => tracker.kernel_sent(number, at),
            MethodEvent::Reply(reply) => {
                let (sequence, round_trip, late, duplicate) = match tracker.reply(&reply) {
                    Outcome::Received { number, round_trip, .. } => {
                        (number, Some(round_trip), false, false)
                    }
                    Outcome::RouterError { number } => (number, None, false, false),
                    Outcome::Late { number, round_trip } => (number, Some(round_trip), true, false),
                    Outcome::Duplicate { number } => (number, None, false, true),
                    Outcome::Unknown => return,
                };
                let (kind, from, ttl, bytes) = (reply.kind, reply.from, reply.ttl, reply.bytes);
                let mtu = reply.mtu;
                let kind =
                    EventKind::Reply { kind, from, ttl, bytes, mtu, round_trip, late, duplicate };
                report(Event { target: index, sequence, kind });
            }
        })
    }
}

/// Waits until a reply arrives, a packet is due or a timeout passes.
fn wait(pingers: &[Pinger], settings: &Settings, end: Option<Instant>) -> Result<(), Error> {
    let now = Instant::now();
    let mut sockets = Vec::with_capacity(2 * pingers.len());
    let mut until = now + MAX_WAIT;
    for pinger in pingers {
        pinger.method.sockets(&mut sockets);
        if pinger.sends_more(now, settings, end) {
            until = until.min(pinger.due(settings));
        }
        until = until.min(pinger.tracker.next_timeout().unwrap_or(until));
    }
    until = until.min(end.filter(|end| *end > now).unwrap_or(until));
    sys::probe_socket::wait(&sockets, until.saturating_duration_since(now))?;
    Ok(())
}
