//! Diagnoses packets as they are captured.

use std::sync::mpsc::{Receiver, SyncSender};

use model::{Evidence, Finding, MissingEvidence, Packets, Source};
use streams::{Collector, KnownSockets, MemoryLimits};
use sys::packet_ring::Counts;
use wire::capture::Packet;
use wire::capture::write::Flags;

use super::capture_loop::{Sink, Source as Interface};
use super::evidence::{beyond_memory, evidence};
use super::live_findings::LiveFindings;

/// Snap length where only headers are needed: TCP over IPv6, in VXLAN over IPv6.
pub const HEADER_SNAP_LENGTH: u32 = 192;
/// Packets between two checks whether it is time to diagnose, or whether somebody asks for a snapshot.
const PACKETS_PER_CHECK: u64 = 4096;
/// Most streams in memory, of which many take about 130 MB, and most bytes.
const MAX_STREAMS: usize = 1 << 16;
const MAX_BYTES: usize = 192 << 20;

/// Where a snapshot of the packets is wanted.
pub(super) type SnapshotRequest = SyncSender<Packets>;

/// Is called with each new finding, and the evidence that shows it.
pub(super) type OnFinding = Box<dyn FnMut(&Finding, &Evidence) -> anyhow::Result<()>>;

/// Streams of the packets so far, and the findings that were reported.
pub struct Analysis {
    collector: Collector,
    /// Where the packets come from, as the report names it.
    sources: Vec<String>,
    interfaces: Vec<(String, Counts)>,
    live: Option<(LiveFindings, OnFinding)>,
    snapshot_requests: Option<Receiver<SnapshotRequest>>,
    /// How to lose fewer packets.
    how_to_drop_fewer: &'static str,
}

impl Analysis {
    /// Analyses the packets of these interfaces. `file` is the file to which they are written, if there
    /// is one.
    pub fn new(
        interfaces: &[Interface],
        file: Option<String>,
        how_to_drop_fewer: &'static str,
    ) -> Self {
        let names = || interfaces.iter().map(|interface| interface.ring.name().to_string());
        let sources = names().map(|name| format!("{}{name}", Packets::INTERFACE_PREFIX));
        Analysis {
            collector: Collector::new(None)
                .limited(MemoryLimits { streams: MAX_STREAMS, bytes: MAX_BYTES }),
            sources: file.map_or_else(|| sources.collect(), |file| vec![file]),
            interfaces: names().map(|name| (name, Counts::default())).collect(),
            live: None,
            snapshot_requests: None,
            how_to_drop_fewer,
        }
    }

    /// Reports findings as they appear, each once.
    pub fn report_live(
        &mut self,
        on_finding: impl FnMut(&Finding, &Evidence) -> anyhow::Result<()> + 'static,
    ) {
        self.live = Some((LiveFindings::default(), Box::new(on_finding)));
    }

    /// Whether any finding was reported while packets came.
    pub fn has_reported(&self) -> bool {
        self.live.as_ref().is_some_and(|(live, _)| live.has_reported())
    }

    /// Connections that were open before the first packet.
    pub(super) fn know(&mut self, sockets: KnownSockets) {
        self.collector.know(sockets);
    }

    /// Answers requests for snapshots.
    pub(super) fn answer(&mut self, requests: Receiver<SnapshotRequest>) {
        self.snapshot_requests = Some(requests);
    }

    /// Packets so far.
    pub fn packets(&self) -> u64 {
        self.collector.packets()
    }

    fn dropped(&self) -> u64 {
        self.interfaces.iter().map(|(_, counts)| counts.dropped).sum()
    }

    /// Diagnoses the packets so far, if it is time to, and answers requests for snapshots.
    fn update_live(&mut self) -> anyhow::Result<()> {
        let dropped = self.dropped();
        let so_far = || self.collector.snapshot(self.sources.clone(), dropped);
        if let Some((live, on_finding)) = &mut self.live {
            let evidence = || evidence(so_far(), Vec::new(), false);
            live.update(self.collector.packets(), evidence, on_finding.as_mut())?;
        }
        for request in self.snapshot_requests.iter().flat_map(Receiver::try_iter) {
            // The one who asked may have stopped waiting.
            let _ = request.try_send(so_far());
        }
        Ok(())
    }

    /// Ends the analysis: the packets, and what of them was not observed.
    pub fn finish(self) -> (Packets, Vec<MissingEvidence>) {
        let dropped = self.dropped();
        let collected = self.collector.finish(self.sources, dropped);
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
        for (what, why) in beyond_memory(&collected) {
            add(what, why, Some(self.how_to_drop_fewer));
        }
        (collected.packets, missing)
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
