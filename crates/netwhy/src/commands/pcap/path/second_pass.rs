//! The second pass: both captures at once, packet by packet, in the order of one clock.

use std::ops::ControlFlow;
use std::path::Path as FilePath;

use model::{Path, PathCapture, Side};
use streams::path::{CaptureSummary, Merge, PacketFingerprint};
use streams::{Collector, Ends, Nanos};
use sys::Stop;
use sys::capture::Capture;

use super::super::reader::open;
use super::first_pass::LIMITS;
use crate::failure::Failure;

/// Packets between two checks for Ctrl-C.
const PACKETS_PER_CHECK: u64 = 4096;

pub(super) fn compare(
    [client_file, server_file]: [&FilePath; 2],
    summaries: Ends<CaptureSummary>,
    captures: [PathCapture; 2],
    stop: &Stop,
) -> anyhow::Result<Path> {
    let Some(mut merge) = Merge::of(&summaries) else {
        return Err(Failure::Observe(nothing_in_common(&summaries, &captures)).into());
    };
    drop(summaries);
    let mut client = Segments::open(client_file, Side::Client, stop)?;
    let mut server = Segments::open(server_file, Side::Server, stop)?;
    let mut taken = 0u64;
    loop {
        client.fill(&merge)?;
        server.fill(&merge)?;
        let first = match (client.next_at(), server.next_at()) {
            (None, None) => break,
            (Some(_), None) => &mut client,
            (None, Some(_)) => &mut server,
            (Some(at_client), Some(at_server)) if at_server < at_client => &mut server,
            (Some(_), Some(_)) => &mut client,
        };
        if let Some((_, fingerprint)) = first.next.take() {
            merge.take(first.end, fingerprint);
        }
        taken += 1;
        if taken.is_multiple_of(PACKETS_PER_CHECK) && stop.is_set() {
            break;
        }
    }
    Ok(merge.finish(captures))
}

fn nothing_in_common(summaries: &Ends<CaptureSummary>, captures: &[PathCapture; 2]) -> String {
    let [client, server] = captures;
    let mut text = format!(
        "cannot compare {} and {}: they have no TCP stream in common",
        client.file, server.file
    );
    for ((summary, capture), option) in summaries.iter().zip(captures).zip(["client", "server"]) {
        let streams = text::count(summary.streams(), "stream");
        text.push_str(&format!("\n  {option}: {streams} in {}", capture.file));
        if let Some([client, server]) = summary.example() {
            text.push_str(&format!(", such as {client} > {server}"));
        }
    }
    text.push_str(
        "\nBoth must show the same connections at the same time. Streams are matched by their \
         addresses and ports;\nbehind NAT by their first sequence numbers, or by three packets; not \
         behind a proxy,\nwhich opens connections of its own.",
    );
    text
}

/// The segments of one capture.
struct Segments {
    end: Side,
    capture: Capture,
    collector: Collector,
    /// The next segment, and when it was captured by the client's clock.
    next: Option<(Nanos, PacketFingerprint)>,
    last: Nanos,
    is_over: bool,
}

impl Segments {
    fn open(file: &FilePath, end: Side, stop: &Stop) -> anyhow::Result<Self> {
        let (capture, collector) = (open(file, stop)?, Collector::new(None).limited(LIMITS));
        Ok(Segments { end, capture, collector, next: None, last: 0, is_over: false })
    }

    fn next_at(&self) -> Option<Nanos> {
        self.next.as_ref().map(|(at, _)| *at)
    }

    /// Reads up to the next segment.
    fn fill(&mut self, merge: &Merge) -> anyhow::Result<()> {
        let Segments { collector, next, last, end, .. } = self;
        if next.is_some() || self.is_over {
            return Ok(());
        }
        let read = self.capture.for_each_packet(|packet| {
            let Some(seen) = collector.take(&packet) else { return ControlFlow::Continue(()) };
            let fingerprint = PacketFingerprint::of(&packet, collector.packets(), &seen, *last);
            let Some(fingerprint) = fingerprint else { return ControlFlow::Continue(()) };
            *last = fingerprint.at;
            *next = Some((merge.time(*end, fingerprint.at), fingerprint));
            ControlFlow::Break(())
        });
        read.map_err(|error| Failure::Observe(error.to_string()))?;
        // At the end of the file, at damage, at Ctrl-C.
        self.is_over = self.next.is_none();
        Ok(())
    }
}
