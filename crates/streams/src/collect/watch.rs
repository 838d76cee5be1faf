//! Whoever wants to see more of a capture than its evidence: packets with the stream that they belong
//! to, streams as they end; and who may say which streams the evidence is of.
//!
//! Nothing of this is on the way of a packet unless somebody watches.

use std::any::Any;
use std::fmt::Debug;
use std::net::SocketAddr;

use hashbrown::HashMap;
use model::{CapturedStream, Packets};
use wire::capture::Packet;
use wire::packet::{Tcp, decode};

use super::{Collected, Collector, Seen, server};
use crate::histogram::Histogram;
use crate::stream::{Event, Stream};
use crate::{Nanos, facts};

/// A packet of a stream, and the stream with the packet in it.
#[derive(Debug)]
pub struct Passed<'a> {
    /// Number of the packet in the capture, from 1.
    pub packet: u64,
    /// When it passed.
    pub at: Nanos,
    /// When the first packet of the capture passed.
    pub began: Nanos,
    /// Who sent it, and who was to have it.
    pub ends: [SocketAddr; 2],
    /// The same as a side of the stream.
    pub side: usize,
    /// The segment.
    pub tcp: &'a Tcp<'a>,
    /// What it was in its stream, and what it ended.
    pub event: &'a Event,
    /// Its stream.
    pub stream: &'a Stream,
}

/// Who watches.
pub trait Watch: Any + Debug + Send {
    /// Whether packets of this stream are wanted.
    fn wants(&self, stream: u64) -> bool;

    /// A packet that was wanted.
    fn packet(&mut self, passed: &Passed<'_>);

    /// Whether a stream belongs into the evidence, if it is over now.
    fn selects(&self, stream: &Stream, told: &CapturedStream) -> bool;

    /// A stream is over, or the capture is. `began` is the time of the first packet of the capture.
    fn over(&mut self, stream: &Stream, told: &CapturedStream, began: Nanos, selected: bool);
}

/// Who watches, and the turns of the streams that are selected.
#[derive(Debug)]
pub(super) struct Watching {
    watch: Box<dyn Watch>,
    /// Times of turns of streams that are not over, by their step: which of them are selected is
    /// known when they are.
    open: HashMap<u64, Vec<(u8, u32)>>,
    /// The same of streams that were selected, by service.
    times: HashMap<SocketAddr, Histogram>,
    selected: u64,
}

impl Watching {
    fn turn(&mut self, stream: u64, whole: Nanos) {
        let mut one = Histogram::default();
        one.add(whole);
        let step = one.0.iter().position(|count| *count > 0).unwrap_or(0) as u8;
        let steps = self.open.entry(stream).or_default();
        match steps.iter_mut().find(|(known, _)| *known == step) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => steps.push((step, 1)),
        }
    }

    /// A stream is over: whether it is selected. Its last turn is counted too.
    fn over(&mut self, stream: &Stream, told: &CapturedStream, began: Nanos) -> bool {
        let steps = self.open.remove(&told.number).unwrap_or_default();
        let selected = self.watch.selects(stream, told);
        self.watch.over(stream, told, began, selected);
        if !selected {
            return false;
        }
        self.selected += 1;
        add(&mut self.times, &steps, stream);
        true
    }
}

fn add(times: &mut HashMap<SocketAddr, Histogram>, steps: &[(u8, u32)], stream: &Stream) {
    let times = times.entry(server(stream)).or_default();
    for (step, more) in steps {
        if let Some(count) = times.0.get_mut(usize::from(*step)) {
            *count = count.saturating_add(*more);
        }
    }
    if let Some(whole) = stream.last_turn().and_then(|turn| turn.whole()) {
        times.add(whole);
    }
}

impl Collector {
    /// One that somebody watches; the evidence is of the streams that they select.
    pub fn watched_by(watch: Box<dyn Watch>) -> Self {
        let (open, times) = Default::default();
        let watching = Watching { watch, open, times, selected: 0 };
        Collector { watching: Some(Box::new(watching)), ..Collector::default() }
    }

    /// Who watches.
    pub fn watch<W: Watch>(&mut self) -> Option<&mut W> {
        let watch: &mut dyn Any = &mut *self.watching.as_mut()?.watch;
        watch.downcast_mut()
    }

    /// Takes a packet in and shows it to who watches; what it was, if it was TCP.
    pub fn take_watched(&mut self, packet: &Packet<'_>) -> Option<Seen> {
        let seen = self.take(packet)?;
        let Some(watching) = &mut self.watching else { return Some(seen) };
        if let Some(whole) = seen.event.turn.and_then(|turn| turn.whole()) {
            watching.turn(seen.stream, whole);
        }
        if !watching.watch.wants(seen.stream) {
            return Some(seen);
        }
        let decoded = decode(packet.link, packet.bytes, packet.length).ok()?;
        let tcp = Tcp::of(&decoded.ip).ok()?;
        let ends = [
            SocketAddr::new(decoded.ip.source, tcp.source),
            SocketAddr::new(decoded.ip.destination, tcp.destination),
        ];
        let stream = self.table.find(ends).filter(|stream| stream.number == seen.stream)?;
        let passed = Passed {
            packet: self.packets,
            at: packet.time_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(stream.last),
            began: self.first.unwrap_or(stream.first),
            ends,
            side: usize::from(stream.ends[0] != ends[0]),
            tcp: &tcp,
            event: &seen.event,
            stream,
        };
        watching.watch.packet(&passed);
        Some(seen)
    }

    /// A stream is over: whether it is selected.
    pub(super) fn watch_over(&mut self, stream: &Stream) -> bool {
        let began = self.first.unwrap_or(stream.first);
        let Some(watching) = &mut self.watching else { return true };
        let told = facts::of(stream, began);
        let selected = watching.over(stream, &told, began);
        if !selected {
            let copies = stream.directions.each_ref().map(|one| u64::from(one.counts.copies));
            self.captured_twice += copies.iter().sum::<u64>();
        }
        selected
    }

    /// The capture is over; who watched it comes back. As [`Collector::finish`] else.
    pub fn finish_watched(
        mut self,
        from: Vec<String>,
        lost_by_capture: u64,
    ) -> (Collected, Option<Box<dyn Watch>>) {
        self.close();
        let watching = self.watching.take();
        let mut collected = self.finish(from, lost_by_capture);
        let Some(watching) = watching else { return (collected, None) };
        let Watching { watch, times, selected, .. } = *watching;
        only(&mut collected.packets, selected, &times);
        (collected, Some(watch))
    }

    /// What would be told if the capture ended now. Streams that go on are looked at one by one:
    /// this takes time with every one of them.
    pub fn so_far(&self, from: Vec<String>, lost_by_capture: u64) -> Packets {
        let mut now = Collector {
            packets: self.packets,
            segments: self.segments,
            captured_twice: self.captured_twice,
            first: self.first,
            last: self.last,
            places: self.places.clone(),
            services: self.services.clone(),
            worst: self.worst.clone(),
            lookups: self.lookups.clone(),
            ..Collector::default()
        };
        let watching = self.watching.as_ref();
        let mut watched = watching.map(|watching| (watching.selected, watching.times.clone()));
        for stream in self.table.streams().iter().filter(|stream| !stream.given) {
            let mut stream = stream.clone();
            stream.finish();
            if let Some((watching, (selected, times))) = watching.zip(watched.as_mut()) {
                let told = facts::of(&stream, self.first.unwrap_or(stream.first));
                if !watching.watch.selects(&stream, &told) {
                    continue;
                }
                *selected += 1;
                let steps = watching.open.get(&told.number).map_or(&[][..], Vec::as_slice);
                add(times, steps, &stream);
            }
            now.add(&mut stream);
        }
        let mut packets = now.finish(from, lost_by_capture).packets;
        packets.streams = self.table.count();
        if let Some((selected, times)) = &watched {
            only(&mut packets, *selected, times);
        }
        packets
    }
}

/// Evidence of the streams that were selected alone.
fn only(packets: &mut Packets, selected: u64, times: &HashMap<SocketAddr, Histogram>) {
    packets.selected = Some(selected);
    // Names are no streams: a filter of these is none of them.
    packets.resolvers.clear();
    // Those of which no stream was selected.
    packets.services.retain(|service| service.streams > 0);
    for service in &mut packets.services {
        let times = times.get(&service.server);
        service.exchange_p50_us = times.and_then(|times| times.quantile(0.5));
        service.exchange_p99_us = times.and_then(|times| times.quantile(0.99));
    }
}
