//! From the rings of the interfaces to whoever wants the packets, until it is time to stop.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use sys::filter::Filter;
use sys::packet_ring::{
    self, BLOCK_TIMEOUT, BlockRead, Counts, Frame, InterfaceProblem, PacketRing, Settings,
};
use wire::capture::Packet;
use wire::capture::write::Flags;

use sys::Stop;

/// Longest wait for packets: signals and the end are looked for in between.
const WAIT: Duration = Duration::from_millis(200);

/// Whoever wants the packets of a capture.
pub(crate) trait Sink {
    /// What an interface has counted until now.
    fn counted(&mut self, interface: usize, counts: Counts);

    /// The next packet; its interface is its place among the sources.
    fn packet(&mut self, packet: &Packet<'_>, flags: Flags) -> anyhow::Result<()>;

    /// There are no more packets for now: what was gathered should be handed on.
    fn idle(&mut self) -> anyhow::Result<()>;
}

/// An interface that is captured on.
pub(crate) struct Source {
    pub(crate) ring: PacketRing,
    pub(crate) filter: Filter,
    /// Whether the interface was removed.
    gone: bool,
}

/// When to stop.
pub(crate) struct Until<'a> {
    pub(crate) time: Option<Duration>,
    pub(crate) count: Option<u64>,
    pub(crate) stop: &'a Stop,
}

impl Source {
    pub(crate) fn new(ring: PacketRing, filter: Filter) -> Self {
        Source { ring, filter, gone: false }
    }

    /// Whether the interface was removed.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Hands over one block, at most so many packets of it; what there was.
    fn block(
        &mut self,
        number: usize,
        left: &mut u64,
        sink: &mut dyn Sink,
    ) -> anyhow::Result<BlockRead> {
        let link = self.ring.link();
        let unfiltered = self.filter.kernel_program().is_none().then_some(&self.filter);
        let mut failed = None;
        let taken = self.ring.read_block(|frame| {
            if unfiltered.is_some_and(|filter| !filter.matches(frame.bytes, frame.length)) {
                return ControlFlow::Continue(());
            }
            let Frame { time_ns, bytes, length, flags, .. } = frame;
            let time_ns = Some(time_ns);
            let packet = Packet { time_ns, interface: number, link, bytes, length, drops: None };
            if let Err(error) = sink.packet(&packet, flags) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            *left -= 1;
            if *left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        failed.map_or(Ok(taken), Err)
    }
}

/// One interface and its filter, or why that is none.
pub(crate) fn source(
    name: &str,
    settings: Settings,
    filter: &str,
) -> sys::Result<Result<Source, sys::filter::FilterError>> {
    let ring = PacketRing::open(name, settings)?;
    let filter = Filter::compile(filter, ring.link(), settings.snap_length);
    Ok(filter.map(|filter| Source::new(ring, filter)))
}

/// Lets packets come.
pub(crate) fn start(sources: &mut [Source]) -> sys::Result<()> {
    sources.iter_mut().try_for_each(|source| source.ring.start(source.filter.kernel_program()))
}

/// Captures until it is time to stop, then takes what the rings still have. `note` is told what
/// becomes of the interfaces.
pub(crate) fn run(
    sources: &mut [Source],
    until: &Until<'_>,
    sink: &mut dyn Sink,
    note: &mut dyn FnMut(String),
) -> anyhow::Result<()> {
    let mut left = until.count.unwrap_or(u64::MAX);
    let end = until.time.map(|time| Instant::now() + time);
    let over = || until.stop.is_set() || end.is_some_and(|end| Instant::now() >= end);
    while !over() && left > 0 && !sources.iter().all(|source| source.gone) {
        if round(sources, &mut left, sink)? {
            continue;
        }
        sink.idle()?;
        let rest = end.map_or(WAIT, |end| end.saturating_duration_since(Instant::now()));
        let there = sources.iter().filter(|source| !source.gone).map(|source| &source.ring);
        packet_ring::wait(there, rest.min(WAIT))?;
        look(sources, note);
    }
    for source in sources.iter_mut() {
        source.ring.stop()?;
    }
    // The kernel hands over its last block a little later, and none that is empty.
    let last = Instant::now() + 2 * BLOCK_TIMEOUT;
    while left > 0 {
        // Asked before the last look, between which and now this process may have waited for a CPU.
        let is_last = Instant::now() >= last;
        if !round(sources, &mut left, sink)? {
            if is_last {
                break;
            }
            std::thread::sleep(BLOCK_TIMEOUT / 5);
        }
    }
    count(sources, sink)?;
    Ok(())
}

/// A block of each source; whether there was any.
fn round(sources: &mut [Source], left: &mut u64, sink: &mut dyn Sink) -> anyhow::Result<bool> {
    let mut any = false;
    count(sources, sink)?;
    for (number, source) in sources.iter_mut().enumerate() {
        if *left == 0 {
            break;
        }
        any |= source.block(number, left, sink)? != BlockRead::Empty;
    }
    Ok(any)
}

fn count(sources: &mut [Source], sink: &mut dyn Sink) -> anyhow::Result<()> {
    for (number, source) in sources.iter_mut().enumerate() {
        sink.counted(number, source.ring.counts()?);
    }
    Ok(())
}

/// Whether interfaces are still there.
fn look(sources: &mut [Source], note: &mut dyn FnMut(String)) {
    for source in sources.iter_mut().filter(|source| !source.gone) {
        let name = source.ring.name();
        match source.ring.interface_problem() {
            None => {}
            Some(InterfaceProblem::Down) => {
                note(format!("{name} is down; its packets are captured when it is up"));
            }
            Some(InterfaceProblem::Removed) => {
                note(format!("{name} was removed"));
                source.gone = true;
            }
        }
    }
}
