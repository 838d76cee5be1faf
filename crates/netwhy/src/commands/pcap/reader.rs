//! Reads capture files: packets into evidence, to a watcher, into an annotated copy.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use indicatif::ProgressBar;
use model::{Evidence, MissingEvidence, Source};
use streams::{Collected, CollectedSegment, Collector, MemoryLimits};
use sys::Stop;
use sys::capture::{Capture, ReadEnd};
use wire::capture::Packet;
use wire::packet::{Tcp, decode};

use super::annotate::Annotated;
use super::options::PcapOptions;
use super::watcher::Watcher;
use crate::failure::Failure;
use crate::{output, progress};
use session::packets::{beyond_memory, evidence};

/// Packets between two updates of the progress line and two checks for Ctrl-C.
const PACKETS_PER_CHECK: u64 = 4096;

/// What to do about a capture with more streams than fit into memory.
const HOW_TO_FIT: &str = "give it more memory (--memory 2G), or analyse a part of it, by time (editcap -i 60 FILE PART) or by address (tcpdump -r \
                          FILE -w PART host ADDRESS)";

/// A capture that is being read.
pub(super) struct CaptureReader {
    pub(super) collector: Collector,
    limits: MemoryLimits,
    is_watched: bool,
    annotated: Option<Annotated>,
    progress: ProgressBar,
    dropped_by_capture: u64,
    missing: Vec<MissingEvidence>,
    pub(super) stop: Stop,
    names: Vec<String>,
    filter: Option<String>,
}

/// A capture that was read.
pub(super) struct Finished {
    pub(super) evidence: Evidence,
    pub(super) watcher: Option<Box<Watcher>>,
}

impl CaptureReader {
    /// Reads the files of the options, with a watcher if there is one.
    pub(super) fn new(options: &PcapOptions, watcher: Option<Watcher>, stop: &Stop) -> Self {
        let filter = watcher.as_ref().and_then(|watcher| watcher.filter.as_ref());
        let filter = filter.map(|filter| filter.text().to_string());
        let names = options.files.iter().map(|file| file.display().to_string()).collect();
        let progress = progress_bar(!options.follow);
        let mut reader = CaptureReader::with_progress(names, options.limits(), stop, progress);
        reader.filter = filter;
        if let Some(watcher) = watcher {
            reader.is_watched = true;
            reader.collector = Collector::watched_by(Box::new(watcher)).limited(reader.limits);
        }
        reader
    }

    /// Reads no files: the caller hands over the packets.
    pub(super) fn without_files(names: Vec<String>, limits: MemoryLimits, stop: &Stop) -> Self {
        CaptureReader::with_progress(names, limits, stop, progress_bar(true))
    }

    fn with_progress(
        names: Vec<String>,
        limits: MemoryLimits,
        stop: &Stop,
        progress: ProgressBar,
    ) -> Self {
        CaptureReader {
            collector: Collector::new(None).limited(limits),
            limits,
            is_watched: false,
            annotated: None,
            progress,
            dropped_by_capture: 0,
            missing: Vec::new(),
            stop: stop.clone(),
            names,
            filter: None,
        }
    }

    /// Analyses a packet; returns what it is in its stream, if it is TCP.
    pub(super) fn take(&mut self, packet: &Packet<'_>) -> Option<CollectedSegment> {
        let seen = self.collector.take(packet);
        if self.collector.packets().is_multiple_of(PACKETS_PER_CHECK) {
            self.progress.set_position(self.collector.packets());
        }
        seen
    }

    /// Also writes an annotated copy.
    pub(super) fn annotate(&mut self, path: Option<&Path>, overwrites: bool) -> anyhow::Result<()> {
        self.annotated = path.map(|path| Annotated::create(path, overwrites)).transpose()?;
        Ok(())
    }

    /// Whether several threads may read, each a share of the streams: only if nothing else needs every
    /// packet.
    pub(super) fn can_be_parallel(&self) -> bool {
        !self.is_watched && self.annotated.is_none()
    }

    /// Reads all files, one after the other.
    pub(super) fn read_files(&mut self, options: &PcapOptions) -> anyhow::Result<()> {
        for (number, file) in options.files.iter().enumerate() {
            let mut capture = open(file, &self.stop)?;
            let packets_before = self.collector.packets();
            let end = self.read(&mut capture, number, None)?;
            self.file_ended(&capture, &end, &file.display().to_string(), packets_before)?;
            if self.stop.is_set() || self.collector.has_too_many_streams() {
                break;
            }
        }
        Ok(())
    }

    /// Reads a file until it ends for now, until Ctrl-C, or until a moment.
    pub(super) fn read(
        &mut self,
        capture: &mut Capture,
        number: usize,
        until: Option<Instant>,
    ) -> anyhow::Result<ReadEnd> {
        let failure = |error: sys::Error| Failure::Observe(error.to_string());
        if self.can_be_parallel() && until.is_none() {
            return Ok(self.read_batches(capture).map_err(failure)?);
        }
        let mut failed = None;
        let end = capture.for_each_packet(|packet| {
            if let Err(error) = self.packet(&packet, number) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return ControlFlow::Break(());
            }
            if self.collector.packets().is_multiple_of(PACKETS_PER_CHECK) {
                self.progress.set_position(self.collector.packets());
                if self.stop.is_set() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(end.map_err(failure)?),
        }
    }

    /// The fast way, when only the evidence is needed.
    fn read_batches(&mut self, capture: &mut Capture) -> sys::Result<ReadEnd> {
        let (collector, progress, stop) = (&mut self.collector, &self.progress, &self.stop);
        let mut next_check = collector.packets() + PACKETS_PER_CHECK;
        capture.for_each_batch(|packets| {
            collector.take_batch(packets);
            if collector.packets() >= next_check {
                next_check = collector.packets() + PACKETS_PER_CHECK;
                progress.set_position(collector.packets());
                if stop.is_set() || collector.has_too_many_streams() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })
    }

    /// Forgets what was read.
    pub(super) fn begin_again(&mut self) {
        self.collector = Collector::new(None).limited(self.limits);
        (self.dropped_by_capture, self.missing) = (0, Vec::new());
    }

    fn packet(&mut self, packet: &Packet<'_>, number: usize) -> anyhow::Result<()> {
        let seen = if self.is_watched {
            let seen = self.collector.take_watched(packet);
            let failed =
                self.collector.watch_mut::<Watcher>().and_then(|watcher| watcher.failed.take());
            if let Some(error) = failed {
                return Err(error);
            }
            seen
        } else {
            self.collector.take(packet)
        };
        if let Some(annotated) = &mut self.annotated
            && (self.filter.is_none() || selects(&mut self.collector, packet, seen.as_ref()))
        {
            annotated.add(number, packet, seen)?;
        }
        Ok(())
    }

    /// Notes what of a file could not be read, and what the capture itself dropped.
    pub(super) fn file_ended(
        &mut self,
        capture: &Capture,
        end: &ReadEnd,
        name: &str,
        packets_before: u64,
    ) -> anyhow::Result<()> {
        match end {
            ReadEnd::Complete | ReadEnd::Stopped => {}
            ReadEnd::Truncated(left) => {
                let why =
                    format!("its last {} are no whole packet", text::count(*left as u64, "byte"));
                self.not_observed(format!("the end of {name}"), why);
            }
            ReadEnd::Damaged(broken) if self.collector.packets() == packets_before => {
                let text = format!("cannot read the capture {name}: {broken}");
                return Err(Failure::Observe(text).into());
            }
            ReadEnd::Damaged(broken) => {
                self.not_observed(
                    format!("the rest of {name}"),
                    format!("it is damaged: {broken}"),
                );
            }
        }
        for interface in capture.reader().interfaces() {
            let Some(dropped) = interface.dropped.filter(|dropped| *dropped > 0) else { continue };
            let on = if interface.name.is_empty() { "an interface" } else { &interface.name };
            self.dropped_by_capture = self.dropped_by_capture.saturating_add(dropped);
            let what = format!("{} of {on}", text::count(dropped, "packet"));
            self.not_observed(what, "the capture dropped them".to_string());
        }
        for warning in capture.reader().warnings() {
            self.not_observed(format!("a part of {name}"), warning.to_string());
        }
        Ok(())
    }

    /// Notes missing evidence.
    pub(super) fn not_observed(&mut self, what: String, why: String) {
        self.missing.push(MissingEvidence {
            capability: model::Capability::Available,
            source: Source::Packets,
            what,
            why,
            how_to_observe: None,
        });
    }

    /// Packets so far.
    pub(super) fn packets(&self) -> u64 {
        self.collector.packets()
    }

    /// The evidence as if the capture had ended now.
    pub(super) fn evidence_so_far(&self) -> Evidence {
        let packets = self.collector.snapshot(self.names.clone(), self.dropped_by_capture);
        evidence(packets, self.missing.clone(), false)
    }

    /// Ends the analysis, and the annotated copy at this path.
    pub(super) fn finish(mut self, annotated_path: Option<&Path>) -> anyhow::Result<Finished> {
        self.progress.finish_and_clear();
        if let Some((annotated, path)) = self.annotated.take().zip(annotated_path) {
            let commented = text::count(annotated.finish()?, "packet");
            let path = path.display().to_string();
            let path = text::sanitize::line(&path);
            output::note(&format!("netwhy: wrote {path} with comments on {commented}"));
        }
        let collector = std::mem::take(&mut self.collector);
        let (collected, watch) =
            collector.finish_watched(std::mem::take(&mut self.names), self.dropped_by_capture);
        for (what, why) in beyond_memory(&collected) {
            self.not_observed(what, why);
            if let Some(missing) = self.missing.last_mut() {
                missing.how_to_observe = Some(HOW_TO_FIT.to_string());
            }
        }
        let Collected { mut packets, undecodable, unsupported_links, .. } = collected;
        if undecodable > 0 {
            let why = "their headers are truncated or malformed".to_string();
            self.not_observed(text::count(undecodable, "packet"), why);
        }
        if unsupported_links > 0 {
            let why = "netwhy does not read their link type".to_string();
            self.not_observed(text::count(unsupported_links, "packet"), why);
        }
        packets.filter = self.filter.take();
        if packets.filter.is_none() {
            packets.selected = None;
        }
        let watcher = watch.and_then(|watch| {
            let watch: Box<dyn std::any::Any> = watch;
            watch.downcast::<Watcher>().ok()
        });
        let evidence = evidence(packets, self.missing, self.stop.is_set());
        Ok(Finished { evidence, watcher })
    }
}

/// Whether a packet belongs to a stream that the filter selects.
fn selects(
    collector: &mut Collector,
    packet: &Packet<'_>,
    seen: Option<&CollectedSegment>,
) -> bool {
    let Some(watcher) = collector.watch_mut::<Watcher>() else { return false };
    let decoded = decode(packet.link, packet.bytes, packet.length).ok();
    let ends = decoded.and_then(|decoded| {
        let tcp = Tcp::of(&decoded.ip).ok()?;
        Some([(decoded.ip.source, tcp.source), (decoded.ip.destination, tcp.destination)])
    });
    ends.zip(seen).is_some_and(|(ends, seen)| {
        watcher.selects_packet(seen.stream, ends.map(std::net::SocketAddr::from))
    })
}

/// The progress line: packets so far.
fn progress_bar(is_shown: bool) -> ProgressBar {
    progress::bar("{spinner} {elapsed} {human_pos} packets, {rate}/s", is_shown)
}

/// Opens a capture.
pub(super) fn open(file: &Path, stop: &Stop) -> anyhow::Result<Capture> {
    Ok(Capture::open_until(file, stop).map_err(|error| Failure::Observe(error.to_string()))?)
}
