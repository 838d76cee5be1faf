//! Packets to their streams.
//!
//! A stream is found by its two ends, the lower one first. Ports that are used again begin a new
//! stream; the one before is handed over, as are those for which there is no room any more.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::HashTable;
use wire::packet::{Decoded, Ip, Tcp};

use crate::Nanos;
use crate::stream::{Event, Stream};

/// So long after its end a stream is kept, for what comes late: as long as Linux's TIME_WAIT.
const LINGER: Nanos = 60_000_000_000;
/// Times beyond this, the year 2116, are those of no clock.
const LATEST: Nanos = Nanos::MAX / 2;

/// The two ends of a stream, the lower one first; those of IPv4 fit into one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    V4(u128),
    V6([u128; 2], u32),
}

/// What a packet was in its stream.
#[derive(Debug)]
pub struct Taken<'a> {
    /// The stream, with the packet in it.
    pub stream: &'a mut Stream,
    /// Who sent it.
    pub side: usize,
    /// What it was, and what it ended.
    pub event: Event,
}

/// The streams of a capture.
#[derive(Debug, Default)]
pub struct Table {
    /// Places in `streams`, by the ends.
    places: HashTable<u32>,
    streams: Vec<Stream>,
    counted: u64,
    packet: u64,
    hasher: DefaultHashBuilder,
    /// Places in `streams` of those that are over, and since when.
    over: VecDeque<(Nanos, u32)>,
    /// Places that are free.
    free: Vec<u32>,
    /// Most streams that it keeps; 0: as many as come.
    most: usize,
    /// Where streams are numbered by their first packets: those packets.
    begun: Option<Begun>,
}

/// Numbers of packets that began a stream, in ascending order: a byte or two each.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    /// What lies between each and the one before: seven bits a byte, the lowest first; the eighth is
    /// set where more follow.
    bytes: Vec<u8>,
    last: u64,
}

impl Begun {
    #[cold]
    fn push(&mut self, packet: u64) {
        let mut rest = packet.saturating_sub(self.last);
        self.last = packet;
        while rest > 0x7f {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }

    pub(crate) fn packets(&self) -> impl Iterator<Item = u64> + '_ {
        let (mut packet, mut more, mut shift) = (0, 0, 0);
        self.bytes.iter().filter_map(move |byte| {
            more |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            (byte & 0x80 == 0).then(|| {
                packet += std::mem::take(&mut more);
                shift = 0;
                packet
            })
        })
    }
}

impl Table {
    /// An empty one.
    pub fn new() -> Self {
        Table::default()
    }

    /// One that keeps at most so many streams, where [`Table::is_full`] is asked and
    /// [`Table::make_room`] called.
    pub fn at_most(streams: usize) -> Self {
        Table { most: streams, ..Table::default() }
    }

    /// One that numbers streams by their first packets: others see the rest of them.
    pub(crate) fn shared() -> Self {
        Table { begun: Some(Begun::default()), ..Table::default() }
    }

    /// The packets that began its streams so far, where streams are numbered by them.
    pub(crate) fn begun(&mut self) -> Begun {
        self.begun.take().unwrap_or_default()
    }

    /// Whether no further stream is to be taken in.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.most > 0 && self.free.is_empty() && self.streams.len() >= self.most
    }

    /// Hands over the half of the streams of which nothing came for longest. What comes of them later
    /// begins a new one. Returns how many were not over.
    pub fn make_room(&mut self, over: &mut dyn FnMut(&mut Stream)) -> u64 {
        let live = (0..self.streams.len() as u32).filter(|at| !self.streams[*at as usize].given);
        let mut live: Vec<u32> = live.collect();
        let half = live.len() / 2;
        if half < live.len() {
            live.select_nth_unstable_by_key(half, |at| {
                let stream = &self.streams[*at as usize];
                (stream.last, stream.number)
            });
        }
        live.truncate(half.max(1));
        live.sort_unstable_by_key(|at| self.streams[*at as usize].number);
        let mut open = 0;
        for place in live {
            open += u64::from(!self.streams[place as usize].is_over());
            self.give(place, over);
        }
        open
    }

    /// Hands a stream over; another one takes its place.
    fn give(&mut self, place: u32, over: &mut dyn FnMut(&mut Stream)) {
        let Some(stream) = self.streams.get_mut(place as usize) else { return };
        over(stream);
        stream.given = true;
        let hash = again(&self.hasher, stream);
        if let Ok(known) = self.places.find_entry(hash, |known| *known == place) {
            known.remove();
        }
        self.free.push(place);
    }

    /// The number in the capture of the packet that is taken next.
    pub fn number(&mut self, packet: u64) {
        self.packet = packet;
    }

    /// A packet of this stream comes soon.
    #[inline(always)]
    pub(crate) fn fetch(&self, ip: &Ip<'_>, tcp: &Tcp<'_>) {
        let (key, _) = key(ip, tcp);
        // The first that has the same hash: whether it is the right one, its memory tells.
        if let Some(place) = self.places.find(hash(&self.hasher, &key), |_| true)
            && let Some(stream) = self.streams.get(*place as usize)
        {
            sys::memory::prefetch(stream);
        }
    }

    /// Takes a packet in. `over` is given a stream that another one replaces.
    pub fn take(
        &mut self,
        decoded: &Decoded<'_>,
        tcp: &Tcp<'_>,
        at: Nanos,
        over: &mut dyn FnMut(&mut Stream),
    ) -> Taken<'_> {
        let mut event = Event::default();
        let (stream, side) = self.segment(&decoded.ip, tcp, at, over, &mut event);
        Taken { stream, side, event }
    }

    /// The same; what it was is written where whoever reads millions of them keeps it: nothing is
    /// copied. Returns its stream, and who sent it.
    #[inline(always)]
    pub(crate) fn segment(
        &mut self,
        ip: &Ip<'_>,
        tcp: &Tcp<'_>,
        at: Nanos,
        over: &mut dyn FnMut(&mut Stream),
        event: &mut Event,
    ) -> (&mut Stream, usize) {
        // Two of these can be subtracted from each other.
        let at = at.clamp(-LATEST, LATEST);
        let (key, from_low) = key(ip, tcp);
        let hash = hash(&self.hasher, &key);
        let (counted, begun, packet) = (&mut self.counted, &mut self.begun, self.packet);
        let mut fresh = || {
            let mut number = *counted;
            *counted += 1;
            if let Some(begun) = begun {
                begun.push(packet);
                number = packet;
            }
            Stream::new(number, ends(ip, tcp), from_low, at)
        };
        let streams = &mut self.streams;
        let same = |place: &u32| streams.get(*place as usize).is_some_and(|one| is(one, &key));
        let number = match self.places.find(hash, same) {
            Some(place) => *place,
            None => {
                let place = match self.free.pop() {
                    Some(place) => {
                        streams[place as usize] = fresh();
                        place
                    }
                    None => {
                        streams.push(fresh());
                        streams.len() as u32 - 1
                    }
                };
                let rehash = |place: &u32| again(&self.hasher, &streams[*place as usize]);
                self.places.insert_unique(hash, place, rehash);
                place
            }
        };
        let stream = &mut self.streams[number as usize];
        let mut side = stream.side(from_low);
        if stream.is_over_for(side, tcp) {
            over(stream);
            // Its place stays in the queue of those that are over: see `forget`.
            *stream = fresh();
            side = 0;
        }
        let ended = stream.is_over();
        let side = stream.take(&self.hasher, side, ip, tcp, at, self.packet, event);
        if !ended && stream.is_over() {
            self.over.push_back((at, number));
        }
        (stream, side)
    }

    /// Hands over the streams that ended a while ago; others take their places.
    pub fn forget(&mut self, now: Nanos, over: &mut dyn FnMut(&mut Stream)) {
        while let Some((since, place)) = self.over.front().copied() {
            if now.saturating_sub(since) < LINGER {
                break;
            }
            self.over.pop_front();
            let Some(stream) = self.streams.get(place as usize) else { continue };
            // Its ports may be in use again: then another stream has the place.
            if stream.is_over() && now.saturating_sub(stream.last) >= LINGER && !stream.given {
                self.give(place, over);
            }
        }
    }

    /// Hands over all that are left, in the order of their first packets.
    pub fn finish(mut self, over: &mut dyn FnMut(&mut Stream)) {
        let left = (0..self.streams.len()).filter(|place| !self.streams[*place].given);
        let mut left: Vec<usize> = left.collect();
        left.sort_unstable_by_key(|place| self.streams[*place].number);
        left.into_iter().for_each(|place| over(&mut self.streams[place]));
    }

    /// The stream between these two ends, whichever comes first.
    pub fn find(&self, ends: [SocketAddr; 2]) -> Option<&Stream> {
        let key = key_of(ends).0;
        let same = |place: &u32| self.streams.get(*place as usize).is_some_and(|one| is(one, &key));
        let place = self.places.find(hash(&self.hasher, &key), same)?;
        self.streams.get(*place as usize)
    }

    /// The streams that are in it.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// How many streams there were in all.
    pub fn count(&self) -> u64 {
        self.counted
    }
}

#[inline(always)]
fn hash(build: &DefaultHashBuilder, key: &Key) -> u64 {
    match key {
        Key::V4(key) => build.hash_one(key),
        Key::V6(..) => build.hash_one(key),
    }
}

#[cold]
fn again(build: &DefaultHashBuilder, stream: &Stream) -> u64 {
    hash(build, &key_of(stream.ends).0)
}

/// Whether a stream has these ends.
#[inline(always)]
fn is(stream: &Stream, key: &Key) -> bool {
    key_of(stream.ends).0 == *key
}

/// The key of a packet's stream, and whether the lower of its ends sent it.
#[inline(always)]
fn key(ip: &Ip<'_>, tcp: &Tcp<'_>) -> (Key, bool) {
    key_of(ends(ip, tcp))
}

#[inline(always)]
fn ends(ip: &Ip<'_>, tcp: &Tcp<'_>) -> [SocketAddr; 2] {
    [SocketAddr::new(ip.source, tcp.source), SocketAddr::new(ip.destination, tcp.destination)]
}

#[inline(always)]
fn key_of(ends: [SocketAddr; 2]) -> (Key, bool) {
    if let [SocketAddr::V4(a), SocketAddr::V4(b)] = ends {
        let end = |end: SocketAddrV4| u64::from(end.ip().to_bits()) << 16 | u64::from(end.port());
        let (a, b) = (end(a), end(b));
        return (Key::V4(u128::from(a.min(b)) << 64 | u128::from(a.max(b))), a <= b);
    }
    let wide = |end: SocketAddr| match end.ip() {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped().to_bits(), end.port()),
        IpAddr::V6(ip) => (ip.to_bits(), end.port()),
    };
    let (a, b) = (wide(ends[0]), wide(ends[1]));
    let (low, high) = (a.min(b), a.max(b));
    (Key::V6([low.0, high.0], u32::from(low.1) << 16 | u32::from(high.1)), a <= b)
}
