//! Packets as they come to findings: `netwhy capture --analyse`, `netwhy --capture`.

use std::collections::HashSet;
use std::io::Write as _;
use std::time::Instant;

use model::{Evidence, MissingEvidence, Packets, Source};
use streams::Collector;
use sys::packet_ring::Counts;
use wire::capture::Packet;
use wire::capture::write::Flags;

use super::capture_loop::{Sink, Source as Interface};
use super::evidence::evidence;
use super::live_findings::{EVERY, SHARE, TOLD, line};

/// Most bytes of each packet, where nobody wants its data: the headers of TCP over IPv6, in VXLAN over
/// IPv6.
pub(crate) const HEADERS: u32 = 192;
/// How often it is asked whether it is time to look for findings, in packets.
const GLANCE: u64 = 4096;
/// Streams in memory: some 130 MB, whatever comes.
const STREAMS: usize = 1 << 16;

/// What is made of the packets.
pub(crate) struct Analysis {
    collector: Collector,
    /// What the packets come from, as the report has it.
    from: Vec<String>,
    interfaces: Vec<(String, Counts)>,
    told: Option<Told>,
    /// What makes it lose fewer packets.
    fewer: &'static str,
}

/// Findings that were told while packets came.
struct Told {
    findings: HashSet<(String, String)>,
    next: Instant,
    packets: u64,
    to_stderr: bool,
}

impl Analysis {
    /// Of the packets of these interfaces. `file` is where they are written too.
    pub(crate) fn new(sources: &[Interface], file: Option<String>, fewer: &'static str) -> Self {
        let names = || sources.iter().map(|source| source.ring.name().to_string());
        let from = names().map(|name| format!("{}{name}", Packets::INTERFACE_PREFIX));
        Analysis {
            collector: Collector::with_max_streams(STREAMS),
            from: file.map_or_else(|| from.collect(), |file| vec![file]),
            interfaces: names().map(|name| (name, Counts::default())).collect(),
            told: None,
            fewer,
        }
    }

    /// Tells findings as they appear, each once.
    pub(crate) fn tell(&mut self, to_stderr: bool) {
        let next = Instant::now() + EVERY;
        self.told = Some(Told { findings: HashSet::new(), next, packets: 0, to_stderr });
    }

    /// Packets so far.
    pub(crate) fn packets(&self) -> u64 {
        self.collector.packets()
    }

    fn lost(&self) -> u64 {
        self.interfaces.iter().map(|(_, counts)| counts.dropped).sum()
    }

    fn look(&mut self) -> anyhow::Result<()> {
        let lost = self.lost();
        let Some(told) = &mut self.told else { return Ok(()) };
        let began = Instant::now();
        if began < told.next {
            return Ok(());
        }
        let packets = self.collector.packets();
        if packets > told.packets {
            told.packets = packets;
            let packets = self.collector.snapshot(self.from.clone(), lost);
            let evidence = evidence(packets, Vec::new(), false);
            told.fresh(&evidence)?;
        }
        told.next = Instant::now() + EVERY.max(began.elapsed() * SHARE);
        Ok(())
    }

    /// All packets came: the evidence, and what of them was not seen.
    pub(crate) fn finish(self) -> anyhow::Result<(Packets, Vec<MissingEvidence>)> {
        if let Some(told) = self.told.as_ref().filter(|told| !told.findings.is_empty()) {
            told.tell("\n")?;
        }
        let lost = self.lost();
        let seen = self.collector.finish(self.from, lost);
        let packets = seen.packets;
        let mut gaps = Vec::new();
        let mut gap = |what: String, why: String, closes_with: Option<&str>| {
            let closes_with = closes_with.map(str::to_string);
            gaps.push(MissingEvidence {
                capability: model::Capability::Available,
                source: Source::Packets,
                what,
                why,
                how_to_observe: closes_with,
            });
        };
        for (name, counts) in self.interfaces.iter().filter(|(_, counts)| counts.dropped > 0) {
            let of = counts.received;
            let what = format!(
                "{} of {} packets of {name}",
                text::number(counts.dropped),
                text::number(of)
            );
            gap(what, "the ring was full: dropped by the kernel".to_string(), Some(self.fewer));
        }
        for (count, why) in [
            (seen.undecodable, "their headers are cut off or malformed"),
            (seen.unsupported_links, "their link type is not read"),
        ] {
            if count > 0 {
                gap(format!("{} packets", text::number(count)), why.to_string(), None);
            }
        }
        if seen.evicted > 0 {
            let why = format!(
                "{} came, of which {} fit into memory: those of which nothing\ncame for longest \
                 counted as over, {} of them open",
                text::number(packets.streams),
                text::number(STREAMS as u64),
                text::number(seen.evicted)
            );
            gap("streams as a whole".to_string(), why, Some(self.fewer));
        }
        Ok((packets, gaps))
    }
}

impl Sink for Analysis {
    fn counted(&mut self, interface: usize, counts: Counts) {
        if let Some((_, known)) = self.interfaces.get_mut(interface) {
            *known = counts;
        }
    }

    fn packet(&mut self, packet: &Packet<'_>, _: Flags) -> anyhow::Result<()> {
        let _ = self.collector.take_by_ref(packet);
        if self.collector.packets().is_multiple_of(GLANCE) { self.look() } else { Ok(()) }
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        self.look()
    }
}

impl Told {
    /// Tells what is new.
    fn fresh(&mut self, evidence: &Evidence) -> anyhow::Result<()> {
        for finding in diagnose::diagnose(evidence).findings {
            // How many streams it hits, and so its name, changes as they come; the server does not.
            let subject = &finding.subject;
            let on =
                subject.local.map_or_else(|| subject.name.clone(), |server| server.to_string());
            let key = (finding.cause.clone(), on);
            if self.findings.len() < TOLD && self.findings.insert(key) {
                self.tell(&line(&finding, evidence))?;
            }
        }
        Ok(())
    }

    fn tell(&self, line: &str) -> anyhow::Result<()> {
        if self.to_stderr {
            // Nobody may be there to read it.
            let _ = std::io::stderr().write_all(line.as_bytes());
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes())?;
        Ok(out.flush()?)
    }
}
