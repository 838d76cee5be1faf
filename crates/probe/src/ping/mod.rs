//! Round trips of single packets: ICMP, TCP SYN, UDP.
//!
//! - [`run`]: packets to some targets, one after the other, until they are answered or silent
//! - [`way`]: what all ways to ask have in common
//! - [`raw`]: with raw sockets; [`plain`]: without rights
//! - [`load`]: downloads that fill a link meanwhile
//! - [`tally`]: what became of the packets
//! - [`times`]: the spread of their round trips

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use model::{Ping, ReplyKind};

use crate::numbered::failed;
use sys::Stop;

use crate::Error;

pub mod load;
mod plain;
pub(crate) mod raw;
mod tally;
pub mod times;
pub(crate) mod way;

use tally::{Counted, Tally};
use way::{News, Way};

/// Most targets at once.
pub const TARGETS: usize = 64;
/// Most bytes of payload.
pub const SIZE_MOST: usize = 65_000;
/// Packets a second of a flood at least, while nothing answers: what `ping -f` sends.
const FLOOD_LEAST: u32 = 100;
/// The kernel begins to stamp packets a moment after the first socket of the system asks for it.
pub(crate) const STAMPS_BEGIN: Duration = Duration::from_millis(10);
/// How long is waited at once: then [`Stop`] is looked at.
const PATIENCE: Duration = Duration::from_millis(100);

/// With what a target is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// ICMP echo requests.
    Icmp,
    /// TCP SYNs; without the right to send them, connections.
    Tcp,
    /// UDP datagrams.
    Udp,
}

/// A target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// As it was given.
    pub name: String,
    /// Its address and port; the port is of no meaning for ICMP.
    pub to: SocketAddr,
    /// With what.
    pub how: How,
    /// Bytes of payload, at most [`SIZE_MOST`].
    pub size: usize,
}

/// How to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Packets to each target; without it until stopped.
    pub count: Option<u64>,
    /// For how long packets are sent; without it until stopped.
    pub time: Option<Duration>,
    /// From one packet to a target to the next.
    pub interval: Duration,
    /// As fast as answers come, or 100 a second if that is more; at most so many a second.
    pub flood: Option<u32>,
    /// Whether routers may not fragment packets.
    pub dont_fragment: bool,
    /// Type of service, or traffic class.
    pub tos: Option<u8>,
    /// Time to live, or hop limit.
    pub hops: Option<u8>,
    /// Where packets come from.
    pub source: Option<IpAddr>,
    /// Interface by which they leave.
    pub interface: Option<String>,
    /// How long an answer is waited for.
    pub timeout: Duration,
}

impl Default for Settings {
    /// A packet a second without end, answers within a second.
    fn default() -> Self {
        Settings {
            count: None,
            time: None,
            interval: Duration::from_secs(1),
            flood: None,
            dont_fragment: false,
            tos: None,
            hops: None,
            source: None,
            interface: None,
            timeout: Duration::from_secs(1),
        }
    }
}

impl Settings {
    pub(crate) fn socket(&self, target: IpAddr) -> sys::probe_socket::Settings {
        sys::probe_socket::Settings {
            v6: target.is_ipv6(),
            with_header: false,
            tos: self.tos,
            dont_fragment: self.dont_fragment,
            source: self.source,
            interface: self.interface.clone(),
        }
    }
}

/// Something that happened, for a live line.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Which target: an index of those that were asked.
    pub target: usize,
    /// Which packet, from 1.
    pub number: u64,
    /// What.
    pub what: What,
}

/// What happened to a packet.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// It was answered, or an error came back for it.
    Answer {
        /// What came.
        kind: ReplyKind,
        /// Who sent it.
        from: IpAddr,
        /// Time to live that it arrived with.
        hops: Option<u8>,
        /// Bytes of the message.
        bytes: Option<u32>,
        /// Round trip; `None` for an error of a router, and for a second answer.
        round_trip: Option<Duration>,
        /// Whether it came after the time out.
        late: bool,
        /// Whether it is not the first one for this packet.
        duplicate: bool,
    },
    /// No answer came in time.
    Silence,
    /// It could not be sent.
    Unsent(String),
}

/// A target while it is asked.
struct Line {
    way: Box<dyn Way>,
    tally: Tally,
    next: Instant,
    last: Option<Instant>,
}

/// Asks all targets until the count, the time or `stop`; tells what happens.
///
/// # Errors
///
/// No right, no route, no such source: before anything is sent. A socket that is of no use any more.
pub fn run(
    targets: &[Asked],
    settings: &Settings,
    stop: &Stop,
    tell: &mut dyn FnMut(Event),
) -> Result<Vec<Ping>, Error> {
    check(targets, settings)?;
    let ways: Vec<_> = targets
        .iter()
        .map(|target| raw::open(target, settings, targets.len()))
        .collect::<Result<_, _>>()?;
    std::thread::sleep(STAMPS_BEGIN);
    let mut lines = Vec::with_capacity(targets.len());
    let begun = Instant::now();
    for (index, (target, (way, method))) in targets.iter().zip(ways).enumerate() {
        let result = Ping {
            target: target.name.clone(),
            address: Some(target.to.ip()),
            method,
            port: (target.how != How::Icmp).then_some(target.to.port()),
            payload_bytes: sent_size(target) as u32,
            ..Ping::default()
        };
        let tally = Tally::new(target.to.ip(), settings.timeout, result);
        // One after the other within an interval.
        let offset = settings.interval.mul_f64(index as f64 / targets.len() as f64);
        lines.push(Line { way, tally, next: begun + offset, last: None });
    }
    let until = settings.time.map(|time| begun + time);
    while !stop.is_set() {
        let now = Instant::now();
        let mut busy = false;
        for (index, line) in lines.iter_mut().enumerate() {
            line.tally.expire(now, &mut |number| {
                tell(Event { target: index, number, what: What::Silence });
            });
            line.way.forget(line.tally.oldest());
            let more = settings.count.is_none_or(|count| line.tally.next() <= count)
                && until.is_none_or(|until| now < until);
            busy |= more || line.tally.waiting() > 0;
            if more && line.due(now, settings) {
                line.send(index, settings, tell);
            }
        }
        if !busy {
            break;
        }
        wait(&lines, settings, until)?;
        for (index, line) in lines.iter_mut().enumerate() {
            line.take(index, tell)?;
        }
    }
    Ok(lines.iter().map(|line| line.tally.result(begun.elapsed())).collect())
}

/// Bytes of payload that are sent: UDP has the number of the packet in it.
fn sent_size(target: &Asked) -> usize {
    match target.how {
        How::Udp => target.size.max(wire::packet::build::MIN_PAYLOAD_BYTES),
        How::Icmp | How::Tcp => target.size,
    }
}

fn check(targets: &[Asked], settings: &Settings) -> Result<(), Error> {
    let usage = |words: String| Err(Error::Usage(words));
    if targets.is_empty() || targets.len() > TARGETS {
        return usage(format!("1 to {TARGETS} targets at once, not {}", targets.len()));
    }
    if targets.iter().any(|target| target.size > SIZE_MOST) {
        return usage(format!("a packet has at most {SIZE_MOST} bytes of payload"));
    }
    if settings.flood == Some(0) || settings.interval.is_zero() {
        return usage("a rate and an interval are more than 0".to_string());
    }
    if let Some(source) = settings.source
        && let Some(other) = targets.iter().find(|target| target.to.is_ipv6() != source.is_ipv6())
    {
        let words = format!("{source} cannot be the source of packets to {}", other.to.ip());
        return usage(words);
    }
    Ok(())
}

impl Line {
    /// Whether a packet is to be sent now.
    fn due(&self, now: Instant, settings: &Settings) -> bool {
        now >= self.due_at(settings)
    }

    /// When the next packet is to be sent.
    fn due_at(&self, settings: &Settings) -> Instant {
        match self.last {
            // Nothing answers: no faster than `ping -f` asks then.
            Some(last) if settings.flood.is_some() && self.tally.waiting() > 0 => {
                self.next.max(last + Duration::from_secs(1) / FLOOD_LEAST)
            }
            _ => self.next,
        }
    }

    fn send(&mut self, index: usize, settings: &Settings, tell: &mut dyn FnMut(Event)) {
        let number = self.tally.next();
        let begun = Instant::now();
        let done = self.way.send(number);
        if let Err(why) = &done {
            tell(Event { target: index, number, what: What::Unsent(why.clone()) });
        }
        self.tally.sent(begun, done);
        self.last = Some(begun);
        let step = match settings.flood {
            Some(rate) => Duration::from_secs(1) / rate,
            None => settings.interval,
        };
        // What was late stays late: packets are never sent in a burst.
        self.next = (self.next + step).max(begun + step / 2);
    }

    fn take(&mut self, index: usize, tell: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let Line { way, tally, .. } = self;
        way.take(&mut |news| match news {
            News::Left(number, at) => tally.left(number, at),
            News::Came(came) => {
                let (number, round_trip, late, duplicate) = match tally.came(&came) {
                    Counted::Answer { number, round_trip, .. } => {
                        (number, Some(round_trip), false, false)
                    }
                    Counted::Error { number } => (number, None, false, false),
                    Counted::Late { number, round_trip } => (number, Some(round_trip), true, false),
                    Counted::Duplicate { number } => (number, None, false, true),
                    Counted::Unknown => return,
                };
                let (kind, from, hops, bytes) = (came.kind, came.from, came.hops, came.bytes);
                let what = What::Answer { kind, from, hops, bytes, round_trip, late, duplicate };
                tell(Event { target: index, number, what });
            }
        })
    }
}

/// Waits until something comes or is to be done.
fn wait(lines: &[Line], settings: &Settings, until: Option<Instant>) -> Result<(), Error> {
    let now = Instant::now();
    let mut sockets = Vec::with_capacity(2 * lines.len());
    let mut next = now + PATIENCE;
    for line in lines {
        line.way.sockets(&mut sockets);
        let more = settings.count.is_none_or(|count| line.tally.next() <= count)
            && until.is_none_or(|until| now < until);
        if more {
            next = next.min(line.due_at(settings));
        }
        next = next.min(line.tally.deadline().unwrap_or(next));
    }
    next = next.min(until.filter(|until| *until > now).unwrap_or(next));
    sys::probe_socket::wait(&sockets, next.saturating_duration_since(now)).map_err(failed)
}

/// A number that nobody can guess, for identifiers and sequence numbers.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
