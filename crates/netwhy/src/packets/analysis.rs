//! Diagnoses packets as they are captured: `netwhy capture --analyse`, `netwhy --capture`.

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
use super::live_findings::{
    DIAGNOSE_INTERVAL, MAX_LIVE_FINDINGS, MIN_DIAGNOSE_PAUSE_FACTOR, live_finding_key,
    live_finding_line,
};

/// Snap length where only headers are needed: TCP over IPv6, in VXLAN over IPv6.
pub(crate) const HEADER_SNAP_LENGTH: u32 = 192;
/// Packets between two checks whether it is time to diagnose.
const PACKETS_PER_CHECK: u64 = 4096;
/// Most streams in memory: about 130 MB.
const MAX_STREAMS: usize = 1 << 16;

/// Streams of the packets so far, and the findings that were reported.
pub(crate) struct Analysis {
    collector: Collector,
    /// Where the packets come from, as the report names it.
    sources: Vec<String>,
    interfaces: Vec<(String, Counts)>,
    live: Option<LiveFindings>,
    /// How to lose fewer packets.
    how_to_drop_fewer: &'static str,
}

/// Reports findings while packets come.
struct LiveFindings {
    /// The keys of the findings reported so far.
    reported: HashSet<(String, String)>,
    next: Instant,
    packets: u64,
    to_stderr: bool,
}

impl Analysis {
    /// Analyses the packets of these interfaces. `file` is the file to which they are written, if there
    /// is one.
    pub(crate) fn new(
        interfaces: &[Interface],
        file: Option<String>,
        how_to_drop_fewer: &'static str,
    ) -> Self {
        let names = || interfaces.iter().map(|interface| interface.ring.name().to_string());
        let sources = names().map(|name| format!("{}{name}", Packets::INTERFACE_PREFIX));
        Analysis {
            collector: Collector::with_max_streams(MAX_STREAMS),
            sources: file.map_or_else(|| sources.collect(), |file| vec![file]),
            interfaces: names().map(|name| (name, Counts::default())).collect(),
            live: None,
            how_to_drop_fewer,
        }
    }

    /// Reports findings as they appear, each once.
    pub(crate) fn report_live(&mut self, to_stderr: bool) {
        let next = Instant::now() + DIAGNOSE_INTERVAL;
        let reported = HashSet::new();
        self.live = Some(LiveFindings { reported, next, packets: 0, to_stderr });
    }

    /// Packets so far.
    pub(crate) fn packets(&self) -> u64 {
        self.collector.packets()
    }

    fn dropped(&self) -> u64 {
        self.interfaces.iter().map(|(_, counts)| counts.dropped).sum()
    }

    /// Diagnoses the packets so far, if it is time to, and reports new findings.
    fn update_live(&mut self) -> anyhow::Result<()> {
        let dropped = self.dropped();
        let Some(live) = &mut self.live else { return Ok(()) };
        let began = Instant::now();
        if began < live.next {
            return Ok(());
        }
        let packets = self.collector.packets();
        if packets > live.packets {
            live.packets = packets;
            let packets = self.collector.snapshot(self.sources.clone(), dropped);
            live.report_new(&evidence(packets, Vec::new(), false))?;
        }
        live.next =
            Instant::now() + DIAGNOSE_INTERVAL.max(began.elapsed() * MIN_DIAGNOSE_PAUSE_FACTOR);
        Ok(())
    }

    /// Ends the analysis: the packets, and what of them was not observed.
    pub(crate) fn finish(self) -> anyhow::Result<(Packets, Vec<MissingEvidence>)> {
        if let Some(live) = self.live.as_ref().filter(|live| !live.reported.is_empty()) {
            live.print("\n")?;
        }
        let dropped = self.dropped();
        let collected = self.collector.finish(self.sources, dropped);
        let packets = collected.packets;
        let mut missing = Vec::new();
        let mut add = |what: String, why: String, how_to_observe: Option<&str>| {
            missing.push(MissingEvidence {
                capability: model::Capability::Available,
                source: Source::Packets,
                what,
                why,
                how_to_observe: how_to_observe.map(str::to_string),
            });
        };
        for (name, counts) in self.interfaces.iter().filter(|(_, counts)| counts.dropped > 0) {
            let received = text::count(counts.received, "packet");
            let what = format!("{} of {received} of {name}", text::number(counts.dropped));
            let why = "the kernel dropped them: the ring buffer was full".to_string();
            add(what, why, Some(self.how_to_drop_fewer));
        }
        for (packets, why) in [
            (collected.undecodable, "their headers are truncated or malformed"),
            (collected.unsupported_links, "netwhy does not read their link type"),
        ] {
            if packets > 0 {
                add(text::count(packets, "packet"), why.to_string(), None);
            }
        }
        if collected.evicted > 0 {
            let why = format!(
                "{} were captured, {} fit into memory: the least recently active ones were taken \
                 as ended, {} of them still open",
                text::number(packets.streams),
                text::number(MAX_STREAMS as u64),
                text::number(collected.evicted)
            );
            add("complete streams".to_string(), why, Some(self.how_to_drop_fewer));
        }
        Ok((packets, missing))
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
        let is_check = self.collector.packets().is_multiple_of(PACKETS_PER_CHECK);
        if is_check { self.update_live() } else { Ok(()) }
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        self.update_live()
    }
}

impl LiveFindings {
    /// Reports the findings that are new.
    fn report_new(&mut self, evidence: &Evidence) -> anyhow::Result<()> {
        for finding in diagnose::diagnose(evidence).findings {
            if self.reported.len() < MAX_LIVE_FINDINGS
                && self.reported.insert(live_finding_key(&finding))
            {
                self.print(&live_finding_line(&finding, evidence))?;
            }
        }
        Ok(())
    }

    fn print(&self, line: &str) -> anyhow::Result<()> {
        if self.to_stderr {
            // Nobody may read standard error.
            let _ = std::io::stderr().write_all(line.as_bytes());
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes())?;
        Ok(out.flush()?)
    }
}
