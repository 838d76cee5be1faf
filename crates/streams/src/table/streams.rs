//! The streams of a capture.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::HashTable;
use model::Side;
use wire::packet::tcp::Flags;
use wire::packet::{Decoded, Ip, PlainEnds, PlainSegment, Tcp};

use super::first_packets::FirstPackets;
use super::key::{Key, ends_of, key_of};
use super::known::KnownSockets;
use super::ping_pongs::PingPongs;
use super::recent::RecentPlaces;
use crate::stream::{PingPong, SegmentEvent, ServiceIndex, Stream, Taken, v4_pair};
use crate::time::{LATEST, Nanos};

/// A stream is kept this long after its end, for late packets: as long as Linux's TIME_WAIT.
const LINGER_TIME: Nanos = 60_000_000_000;

/// A segment that was taken into its stream.
#[derive(Debug)]
pub struct StreamSegment<'a> {
    /// The stream, the segment included.
    pub stream: &'a mut Stream,
    /// Its sender.
    pub side: Side,
    /// What it was, and what it ended.
    pub event: SegmentEvent,
}

/// The streams of a capture.
#[derive(Debug, Default)]
pub struct Table {
    /// Places in `streams`, by the ends.
    places: HashTable<u32>,
    streams: Vec<Stream>,
    /// Places of the streams of the latest packets.
    recent: RecentPlaces,
    /// Streams in ping-pong: what they have there is not in `streams` yet.
    ping_pongs: PingPongs,
    /// Streams so far.
    count: u64,
    /// Number of the packet that is taken next.
    packet: u64,
    hasher: DefaultHashBuilder,
    /// Places of the streams that ended, and since when.
    ended: VecDeque<(Nanos, u32)>,
    /// Places that are free.
    free: Vec<u32>,
    /// Most streams that it keeps; 0: any number.
    max_streams: usize,
    /// Where streams are numbered by their first packets: those.
    first_packets: Option<FirstPackets>,
    /// Connections that were open before the capture, where sockets showed them.
    known: Option<Box<KnownSockets>>,
}

/// Where the stream of a segment is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Located {
    key: Key,
    hash: u64,
    /// Whether its sender is the end with the lower address.
    from_lower: bool,
}

/// The stream at a place of the hash table.
#[inline(always)]
#[expect(
    clippy::indexing_slicing,
    reason = "the hash table holds places of streams only, and streams are replaced, never removed"
)]
fn stream_at(streams: &mut [Stream], place: u32) -> &mut Stream {
    &mut streams[place as usize]
}

impl Table {
    /// An empty table.
    pub fn new() -> Self {
        Table::default()
    }

    /// Limits it to so many streams, 0 to any number: its user asks [`Table::is_full`] and calls
    /// [`Table::evict_oldest`].
    pub fn limit(&mut self, max_streams: usize) {
        self.max_streams = max_streams;
    }

    /// Connections that were open before the first packet.
    pub(crate) fn know(&mut self, sockets: KnownSockets) {
        self.known = Some(Box::new(sockets));
    }

    /// A table that numbers streams by their first packets: other tables have the rest of them.
    pub(crate) fn shard() -> Self {
        Table { first_packets: Some(FirstPackets::default()), ..Table::default() }
    }

    /// Takes the packets that began its streams, where streams are numbered by them.
    pub(crate) fn take_first_packets(&mut self) -> FirstPackets {
        self.first_packets.take().unwrap_or_default()
    }

    /// Bytes of the numbers of these packets.
    pub(crate) fn first_packets_bytes(&self) -> usize {
        self.first_packets.as_ref().map_or(0, FirstPackets::bytes)
    }

    /// Whether there is no room for another stream.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.streams.len() >= self.max_streams && self.max_streams > 0 && self.free.is_empty()
    }

    /// Hands over the half of the streams that have been idle for longest. Their later packets begin
    /// new streams. Returns how many of them were not over.
    pub fn evict_oldest(&mut self, evict: &mut dyn FnMut(&mut Stream)) -> u64 {
        self.end_ping_pongs();
        let mut live: Vec<(Nanos, u64, u32)> = self
            .streams
            .iter()
            .zip(0..)
            .filter(|(stream, _)| !stream.is_evicted)
            .map(|(stream, place)| (stream.last, stream.number, place))
            .collect();
        let half = live.len() / 2;
        if half < live.len() {
            live.select_nth_unstable(half);
        }
        live.truncate(half.max(1));
        live.sort_unstable_by_key(|(_, number, _)| *number);
        let mut open = 0;
        for (_, _, place) in live {
            let is_over = self.streams.get(place as usize).is_some_and(Stream::is_over);
            open += u64::from(!is_over);
            self.evict(place, evict);
        }
        open
    }

    /// Hands a stream over; its place is free.
    fn evict(&mut self, place: u32, evict: &mut dyn FnMut(&mut Stream)) {
        let Some(stream) = self.streams.get_mut(place as usize) else { return };
        evict(stream);
        stream.forget();
        let hash = hash_of(stream, &self.hasher);
        if let Ok(known) = self.places.find_entry(hash, |known| *known == place) {
            known.remove();
        }
        self.free.push(place);
    }

    /// Sets the number in the capture of the packet that is taken next.
    pub fn set_packet(&mut self, packet: u64) {
        self.packet = packet;
    }

    /// Where the stream of a segment is looked for.
    #[inline(always)]
    pub(crate) fn locate(&self, ip: &Ip<'_>, tcp: &Tcp<'_>) -> Located {
        let (key, from_lower) = key_of(ends_of(ip, tcp));
        Located { key, hash: key.hash(&self.hasher), from_lower }
    }

    /// The same for a plain segment.
    #[inline(always)]
    pub(crate) fn locate_plain(&self, segment: &PlainSegment<'_>) -> Located {
        let (source, destination) = (segment.source(), segment.destination());
        let key = Key::V4(v4_pair(source, destination));
        let from_lower = source <= destination;
        Located { key, hash: key.hash(&self.hasher), from_lower }
    }

    /// Takes a segment that is as the next message of a stream in ping-pong. Returns what it ended, and
    /// where that is counted; `None`: it is none, and [`Table::take_located`] takes it.
    #[inline(always)]
    pub(crate) fn take_message(
        &mut self,
        segment: &PlainSegment<'_>,
        at: Nanos,
    ) -> Option<(Taken, ServiceIndex)> {
        let (_, is_request, entry) = self.ping_pongs.find(segment.ends())?;
        let stream = self.streams.get_mut(entry.place as usize)?;
        #[cfg(test)]
        let compared = crate::stream::ping_pong_tests::Compared::begin(stream, &entry.messages);
        let taken = entry.messages.take(stream, segment, is_request, at)?;
        #[cfg(test)]
        compared.compare((segment, at, self.packet), stream, &entry.messages, taken);
        Some((taken, entry.messages.service))
    }

    /// Begins to take messages of the stream whose packet was taken last in ping-pong, if there is room.
    #[inline(never)]
    pub(crate) fn begin_ping_pong(&mut self, at: &Located) {
        let place = self.recent.get(at.hash);
        let Some([low, high]) = at.key.v4_ends() else { return };
        let from_lower = PlainEnds::new(low, high);
        if self.ping_pongs.has_room(from_lower)
            && let Some(stream) = self.streams.get_mut(place as usize)
            && let Some(messages) = stream.begin_ping_pong()
        {
            let is_lower = messages.is_lower_requester();
            let requests = if is_lower { from_lower } else { from_lower.reversed() };
            self.ping_pongs.add(requests, place, messages);
        }
    }

    /// Ends the ping-pong of a stream, if it is in it.
    #[inline(always)]
    fn end_ping_pong(&mut self, at: &Located) {
        if let Some([low, high]) = at.key.v4_ends()
            && let Some((number, ..)) = self.ping_pongs.find(PlainEnds::new(low, high))
        {
            let removed = self.ping_pongs.remove(number);
            self.take_back(removed);
        }
    }

    /// Ends the ping-pong of all streams.
    fn end_ping_pongs(&mut self) {
        while let Some(removed) = self.ping_pongs.pop() {
            self.take_back(Some(removed));
        }
    }

    /// A stream takes back what its messages in ping-pong have changed.
    #[cold]
    fn take_back(&mut self, removed: Option<(u32, PingPong)>) {
        if let Some((place, messages)) = removed
            && let Some(stream) = self.streams.get_mut(place as usize)
        {
            stream.end_ping_pong(messages);
        }
    }

    /// Fetches the stream of a segment that is taken soon into the cache.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: &Located) {
        // The first stream with the same hash: only its memory says whether it is the right one.
        if let Some(place) = self.places.find(at.hash, |_| true)
            && let Some(stream) = self.streams.get(*place as usize)
        {
            sys::memory::prefetch(stream);
        }
    }

    /// Takes a segment. `evict` is given a stream whose ports another one uses again.
    pub fn take(
        &mut self,
        decoded: &Decoded<'_>,
        tcp: &Tcp<'_>,
        at: Nanos,
        evict: &mut dyn FnMut(&mut Stream),
    ) -> StreamSegment<'_> {
        let mut event = SegmentEvent::default();
        let located = self.locate(&decoded.ip, tcp);
        let (stream, side) = self.take_located(&located, &decoded.ip, tcp, at, evict, &mut event);
        StreamSegment { stream, side, event }
    }

    /// Takes a segment, and writes what it was to `event`: a caller that reads millions of them
    /// keeps one, and nothing is copied. Returns its stream and its sender.
    #[inline(always)]
    pub(crate) fn take_located(
        &mut self,
        located: &Located,
        ip: &Ip<'_>,
        tcp: &Tcp<'_>,
        at: Nanos,
        evict: &mut dyn FnMut(&mut Stream),
        event: &mut SegmentEvent,
    ) -> (&mut Stream, Side) {
        self.end_ping_pong(located);
        let at = at.clamp(-LATEST, LATEST);
        let Located { key, hash, from_lower } = *located;
        let (count, first_packets, packet) =
            (&mut self.count, &mut self.first_packets, self.packet);
        let mut new_stream = || {
            let mut number = *count;
            *count += 1;
            if let Some(first_packets) = first_packets {
                first_packets.push(packet);
                number = packet;
            }
            let [sender, receiver] = ends_of(ip, tcp);
            Stream::new(number, sender, receiver, from_lower, at)
        };
        let streams = &mut self.streams;
        let is_same =
            |place: &u32| streams.get(*place as usize).is_some_and(|one| has_key(one, &key));
        let found = Some(self.recent.get(hash)).filter(is_same);
        let place = match found.or_else(|| self.places.find(hash, is_same).copied()) {
            Some(place) => place,
            None => {
                let place = match self.free.pop() {
                    Some(place) => {
                        *stream_at(streams, place) = new_stream();
                        place
                    }
                    None => {
                        reserve(streams, self.max_streams);
                        streams.push(new_stream());
                        streams.len() as u32 - 1
                    }
                };
                let rehash = |place: &u32| {
                    streams.get(*place as usize).map_or(0, |stream| hash_of(stream, &self.hasher))
                };
                self.places.insert_unique(hash, place, rehash);
                if let Some(known) = &mut self.known {
                    known.tell(stream_at(streams, place), tcp.flags.all(Flags::SYN));
                }
                place
            }
        };
        self.recent.set(hash, place);
        let stream = stream_at(streams, place);
        let mut side = stream.side(from_lower);
        if stream.is_reopened_by(side, tcp) {
            evict(stream);
            // Its place stays among those that ended: see `forget_ended`.
            *stream = new_stream();
            side = Side::Client;
        }
        let was_over = stream.is_over();
        let side = stream.take(side, ip, tcp, at, self.packet, event);
        if !was_over && stream.is_over() {
            self.ended.push_back((at, place));
        }
        (stream, side)
    }

    /// Whether there are streams that ended a while ago. Those in ping-pong that are idle make room for others.
    pub(crate) fn has_ended(&mut self, now: Nanos) -> bool {
        while let Some(removed) = self.ping_pongs.remove_idle(now) {
            self.take_back(Some(removed));
        }
        self.ended.front().is_some_and(|(since, _)| now.saturating_sub(*since) >= LINGER_TIME)
    }

    /// Hands over the streams that ended a while ago; their places are free.
    pub fn forget_ended(&mut self, now: Nanos, evict: &mut dyn FnMut(&mut Stream)) {
        while let Some((since, place)) = self.ended.front().copied() {
            if now.saturating_sub(since) < LINGER_TIME {
                break;
            }
            self.ended.pop_front();
            let Some(stream) = self.streams.get(place as usize) else { continue };
            // Its ports may be in use again: then another stream has the place.
            let is_idle = now.saturating_sub(stream.last) >= LINGER_TIME;
            if stream.is_over() && is_idle && !stream.is_evicted {
                self.evict(place, evict);
            }
        }
    }

    /// Hands over all streams that are left, in the order of their first packets.
    pub fn finish(mut self, evict: &mut dyn FnMut(&mut Stream)) {
        self.end_ping_pongs();
        let mut left: Vec<&mut Stream> =
            self.streams.iter_mut().filter(|stream| !stream.is_evicted).collect();
        left.sort_unstable_by_key(|stream| stream.number);
        left.into_iter().for_each(evict);
    }

    /// The stream between these two ends, in any order.
    pub fn find(&self, ends: [SocketAddr; 2]) -> Option<&Stream> {
        let (key, _) = key_of(ends);
        let is_same =
            |place: &u32| self.streams.get(*place as usize).is_some_and(|one| has_key(one, &key));
        let place = self.places.find(key.hash(&self.hasher), is_same)?;
        self.streams.get(*place as usize)
    }

    /// The same, to change it.
    #[cold]
    pub(crate) fn find_mut(&mut self, ends: [SocketAddr; 2]) -> Option<&mut Stream> {
        self.end_ping_pongs();
        let (key, _) = key_of(ends);
        let is_same =
            |place: &u32| self.streams.get(*place as usize).is_some_and(|one| has_key(one, &key));
        let place = *self.places.find(key.hash(&self.hasher), is_same)?;
        self.streams.get_mut(place as usize)
    }

    /// The streams that are in it. What those in ping-pong have counted there is not in them yet.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Copies of the streams that are in it, with all that is known of them.
    pub(crate) fn copies(&self) -> impl Iterator<Item = Stream> + '_ {
        let in_ping_pong: HashMap<u32, &PingPong> = self.ping_pongs.iter().collect();
        let streams = self.streams.iter().zip(0..).filter(|(stream, _)| !stream.is_evicted);
        streams.map(move |(stream, place)| {
            let mut stream = stream.clone();
            if let Some(messages) = in_ping_pong.get(&place) {
                stream.end_ping_pong(PingPong::clone(messages));
            }
            stream
        })
    }

    /// Number of all streams so far.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Makes room for another stream, but not for more than there may be.
#[inline]
fn reserve(streams: &mut Vec<Stream>, max_streams: usize) {
    let length = streams.len();
    if length == streams.capacity() && length < max_streams && max_streams < 2 * length {
        streams.reserve_exact(max_streams - length);
    }
}

#[cold]
fn hash_of(stream: &Stream, build: &DefaultHashBuilder) -> u64 {
    key_of(stream.addresses()).0.hash(build)
}

/// Whether a stream is the one with this key; one that was evicted has none.
#[inline(always)]
fn has_key(stream: &Stream, key: &Key) -> bool {
    let is_same = match key {
        Key::V4(ends) => stream.v4_ends() == *ends,
        Key::V6(..) => key_of(stream.addresses()).0 == *key,
    };
    is_same && !stream.is_evicted
}
