//! A collector with a watcher.

use std::any::Any;
use std::net::SocketAddr;

use model::{Packets, Side};
use wire::capture::Packet;
use wire::packet::{Tcp, decode};

use super::collector::{Collected, CollectedSegment, Collector};
use super::selection::WatchedSelection;
use super::watch::{Watch, WatchedSegment};
use crate::captured_stream::captured_stream;

impl Collector {
    /// A collector with a watcher; its evidence is of the streams that the watcher selects.
    pub fn watched_by(watch: Box<dyn Watch>) -> Self {
        let selection = Some(Box::new(WatchedSelection::new(watch)));
        Collector { selection, ..Collector::default() }
    }

    /// The watcher.
    pub fn watch_mut<W: Watch>(&mut self) -> Option<&mut W> {
        let watch: &mut dyn Any = &mut *self.selection.as_mut()?.watch;
        watch.downcast_mut()
    }

    /// Takes a packet and shows it to the watcher. Returns what it was, if it was TCP.
    pub fn take_watched(&mut self, packet: &Packet<'_>) -> Option<CollectedSegment> {
        let segment = self.take(packet)?;
        self.show(packet, &segment);
        Some(segment)
    }

    /// Shows a segment that was taken to the watcher, if it wants it.
    fn show(&mut self, packet: &Packet<'_>, segment: &CollectedSegment) -> Option<()> {
        let selection = self.selection.as_mut()?;
        if let Some(duration) = segment.event.exchange.and_then(|exchange| exchange.total()) {
            selection.add_exchange(segment.stream, duration);
        }
        if !selection.watch.wants(segment.stream) {
            return None;
        }
        let decoded = decode(packet.link, packet.bytes, packet.length).ok()?;
        let tcp = Tcp::of(&decoded.ip).ok()?;
        let source = SocketAddr::new(decoded.ip.source, tcp.source);
        let destination = SocketAddr::new(decoded.ip.destination, tcp.destination);
        let found = self.table.find([source, destination]);
        let stream = found.filter(|stream| stream.number == segment.stream)?;
        let is_client = stream.ends.client.address == source;
        selection.watch.segment(&WatchedSegment {
            packet: self.packets,
            at: packet.time_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(stream.last),
            capture_began: self.first.unwrap_or(stream.first),
            source,
            destination,
            side: if is_client { Side::Client } else { Side::Server },
            tcp: &tcp,
            event: &segment.event,
            stream,
        });
        Some(())
    }

    /// The capture is over. As [`Collector::finish`], and returns the watcher.
    pub fn finish_watched(
        mut self,
        sources: Vec<String>,
        dropped_by_capture: u64,
    ) -> (Collected, Option<Box<dyn Watch>>) {
        self.close();
        let selection = self.selection.take();
        let mut collected = self.finish(sources, dropped_by_capture);
        let Some(selection) = selection else { return (collected, None) };
        selection.selected.restrict(&mut collected.packets);
        (collected, Some(selection.watch))
    }

    /// The evidence if the capture ended now. It adds every stream that goes on: this takes time.
    pub fn snapshot(&self, sources: Vec<String>, dropped_by_capture: u64) -> Packets {
        let mut now = Collector {
            packets: self.packets,
            segments: self.segments,
            duplicate_packets: self.duplicate_packets,
            first: self.first,
            last: self.last,
            clock_check: self.clock_check,
            services: self.services.clone(),
            worst: self.worst.clone(),
            dns_queries: self.dns_queries.clone(),
            ..Collector::default()
        };
        let selection = self.selection.as_deref();
        let mut selected = selection.map(|selection| selection.selected.clone());
        for mut stream in self.table.copies() {
            stream.finish();
            if let Some((selection, selected)) = selection.zip(selected.as_mut()) {
                let captured = captured_stream(&stream, self.first.unwrap_or(stream.first));
                if !selection.add_if_selected(selected, &stream, &captured) {
                    continue;
                }
            }
            now.add_stream(&mut stream);
        }
        let mut packets = now.finish(sources, dropped_by_capture).packets;
        packets.streams = self.table.count();
        if let Some(selected) = &selected {
            selected.restrict(&mut packets);
        }
        packets
    }
}
