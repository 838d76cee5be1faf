//! Capture files into evidence: read once, shown to who watches, written again with comments.

use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use model::{Evidence, MissingEvidence, Source};
use streams::{Collected, Collector, Seen};
use sys::capture::{Capture, ReadEnd};
use wire::capture::Packet;
use wire::packet::{Tcp, decode};

use super::annotate::Annotated;
use super::options::PcapOptions;
use super::watcher::Watcher;
use crate::failure::Failure;
use crate::packets::evidence;
use sys::Stop;

/// How often a user's wish to stop is asked for, in packets.
const GLANCE: u64 = 4096;

/// What was read so far.
pub(super) struct Read {
    pub(super) collector: Collector,
    watched: bool,
    annotated: Option<Annotated>,
    bar: ProgressBar,
    lost: u64,
    gaps: Vec<MissingEvidence>,
    pub(super) stop: Stop,
    names: Vec<String>,
    filter: Option<String>,
}

/// What a capture tells.
pub(super) struct Whole {
    pub(super) evidence: Evidence,
    /// Who watched it.
    pub(super) watcher: Option<Box<Watcher>>,
}

impl Read {
    pub(super) fn new(
        options: &PcapOptions,
        watcher: Option<Watcher>,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let filter = watcher.as_ref().and_then(|watcher| watcher.filter.as_ref());
        let filter = filter.map(|filter| filter.text().to_string());
        Ok(Read {
            watched: watcher.is_some(),
            collector: match watcher {
                Some(watcher) => Collector::watched_by(Box::new(watcher)),
                None => Collector::new(None),
            },
            annotated: None,
            bar: bar(options.follow),
            lost: 0,
            gaps: Vec::new(),
            stop: stop.clone(),
            names: options.files.iter().map(|file| file.display().to_string()).collect(),
            filter,
        })
    }

    /// One that others hand packets to.
    pub(super) fn of(names: Vec<String>, stop: &Stop) -> Self {
        Read {
            collector: Collector::new(None),
            watched: false,
            annotated: None,
            bar: bar(false),
            lost: 0,
            gaps: Vec::new(),
            stop: stop.clone(),
            names,
            filter: None,
        }
    }

    /// Takes a packet in; what it was, if it was TCP.
    pub(super) fn take(&mut self, packet: &Packet<'_>) -> Option<Seen> {
        let seen = self.collector.take(packet);
        if self.collector.packets().is_multiple_of(GLANCE) {
            self.bar.set_position(self.collector.packets());
        }
        seen
    }

    /// Writes the capture again, too.
    pub(super) fn annotate(&mut self, path: Option<&Path>) -> anyhow::Result<()> {
        self.annotated = path.map(Annotated::create).transpose()?;
        Ok(())
    }

    /// Whether several CPUs may each take a share of the streams: nobody wants to see every packet.
    pub(super) fn can_be_shared(&self) -> bool {
        !self.watched && self.annotated.is_none()
    }

    /// All files, one after the other.
    pub(super) fn one_by_one(&mut self, options: &PcapOptions) -> anyhow::Result<()> {
        for (number, file) in options.files.iter().enumerate() {
            let mut capture = open(file)?;
            let before = self.collector.packets();
            let end = self.some(&mut capture, number, None)?;
            self.ended(&capture, &end, &file.display().to_string(), before)?;
            if self.stop.is_set() {
                break;
            }
        }
        Ok(())
    }

    /// Packets of a file until it ends, for now, until the user wants to stop, or until a moment.
    pub(super) fn some(
        &mut self,
        capture: &mut Capture,
        number: usize,
        until: Option<Instant>,
    ) -> anyhow::Result<ReadEnd> {
        let observe = |error: sys::Error| Failure::Observe(error.to_string());
        if !self.watched && self.annotated.is_none() && until.is_none() {
            let (collector, bar, stop) = (&mut self.collector, &self.bar, &self.stop);
            let mut glance = collector.packets() + GLANCE;
            let end = capture.for_each_batch(|packets| {
                collector.batch(packets);
                if collector.packets() >= glance {
                    glance = collector.packets() + GLANCE;
                    bar.set_position(collector.packets());
                    if stop.is_set() {
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            });
            return Ok(end.map_err(observe)?);
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
            if self.collector.packets().is_multiple_of(GLANCE) {
                self.bar.set_position(self.collector.packets());
                if self.stop.is_set() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(end.map_err(observe)?),
        }
    }

    fn packet(&mut self, packet: &Packet<'_>, number: usize) -> anyhow::Result<()> {
        let seen = if self.watched {
            let seen = self.collector.take_watched(packet);
            let failed =
                self.collector.watch::<Watcher>().and_then(|watcher| watcher.failed.take());
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

    /// A file has come to its end: what of it was not seen.
    pub(super) fn ended(
        &mut self,
        capture: &Capture,
        end: &ReadEnd,
        name: &str,
        before: u64,
    ) -> anyhow::Result<()> {
        match end {
            ReadEnd::Complete | ReadEnd::Stopped => {}
            ReadEnd::Truncated(left) => {
                self.gap(format!("the end of {name}"), format!("{left} bytes are no packet"));
            }
            ReadEnd::Damaged(broken) if self.collector.packets() == before => {
                let text = format!("cannot read the capture {name}: {broken}");
                return Err(Failure::Observe(text).into());
            }
            ReadEnd::Damaged(broken) => {
                self.gap(format!("the rest of {name}"), format!("it is damaged: {broken}"));
            }
        }
        for interface in capture.reader().interfaces() {
            let Some(dropped) = interface.dropped.filter(|dropped| *dropped > 0) else { continue };
            let on = if interface.name.is_empty() { "an interface" } else { &interface.name };
            self.lost = self.lost.saturating_add(dropped);
            let what = format!("{} packets of {on}", text::number(dropped));
            self.gap(what, "the capture itself lost them".to_string());
        }
        for warning in capture.reader().warnings() {
            self.gap(format!("a part of {name}"), warning.to_string());
        }
        Ok(())
    }

    /// Something that could not be seen.
    pub(super) fn gap(&mut self, what: String, why: String) {
        self.gaps.push(MissingEvidence {
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
    pub(super) fn so_far(&self) -> Evidence {
        let packets = self.collector.so_far(self.names.clone(), self.lost);
        evidence(packets, self.gaps.clone(), false)
    }

    /// All is read.
    pub(super) fn finish(mut self, annotate: Option<&Path>) -> anyhow::Result<Whole> {
        self.bar.finish_and_clear();
        if let Some((annotated, path)) = self.annotated.take().zip(annotate) {
            let comments = text::number(annotated.finish()?);
            eprintln!("netwhy: wrote {} with comments on {comments} packets", path.display());
        }
        let collector = std::mem::take(&mut self.collector);
        let (collected, watch) =
            collector.finish_watched(std::mem::take(&mut self.names), self.lost);
        let Collected { mut packets, unread, other_links, .. } = collected;
        if unread > 0 {
            let what = format!("{} packets", text::number(unread));
            self.gap(what, "their headers are cut off or malformed".to_string());
        }
        if other_links > 0 {
            let what = format!("{} packets", text::number(other_links));
            self.gap(what, "their link type is not read".to_string());
        }
        packets.filter = self.filter.take();
        if packets.filter.is_none() {
            packets.selected = None;
        }
        let watcher = watch.and_then(|watch| {
            let watch: Box<dyn std::any::Any> = watch;
            watch.downcast::<Watcher>().ok()
        });
        let evidence = evidence(packets, self.gaps, self.stop.is_set());
        Ok(Whole { evidence, watcher })
    }
}

/// Whether a packet belongs to a stream that the filter selects.
fn selects(collector: &mut Collector, packet: &Packet<'_>, seen: Option<&Seen>) -> bool {
    let Some(watcher) = collector.watch::<Watcher>() else { return false };
    let decoded = decode(packet.link, packet.bytes, packet.length).ok();
    let ends = decoded.and_then(|decoded| {
        let tcp = Tcp::of(&decoded.ip).ok()?;
        Some([(decoded.ip.source, tcp.source), (decoded.ip.destination, tcp.destination)])
    });
    ends.zip(seen).is_some_and(|(ends, seen)| {
        watcher.selects_packet(seen.stream, ends.map(std::net::SocketAddr::from))
    })
}

/// Opens a capture.
pub(super) fn open(file: &Path) -> anyhow::Result<Capture> {
    Ok(Capture::open(file).map_err(|error| Failure::Observe(error.to_string()))?)
}

/// Packets so far, on a terminal.
fn bar(quiet: bool) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() && !quiet {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(None, target);
    // A fixed template: it cannot fail.
    if let Ok(style) =
        ProgressStyle::with_template("{spinner} {elapsed} {human_pos} packets, {rate}/s")
    {
        // Packets are counted in whole ones, a second too.
        let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = out.write_str(&text::number(state.per_sec() as u64));
        };
        bar.set_style(style.with_key("rate", rate));
    }
    bar
}
