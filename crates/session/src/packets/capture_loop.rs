//! The capture loop: from the rings of the interfaces to a sink, until it is time to stop.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use sys::Stop;
use sys::filter::Filter;
use sys::packet_ring::{
    self, BLOCK_TIMEOUT, BlockRead, Counts, Frame, InterfaceProblem, PacketRing, Settings,
};
use wire::capture::Packet;
use wire::capture::write::Flags;

/// Longest wait for packets; after it, signals and the end of the capture are checked.
const MAX_WAIT: Duration = Duration::from_millis(200);

/// Takes the packets of a capture.
pub trait Sink {
    /// The counters of an interface, up to now.
    fn counted(&mut self, interface: usize, counts: Counts);

    /// The next packet; its interface is the index of the source.
    fn packet(&mut self, packet: &Packet<'_>, flags: Flags) -> anyhow::Result<()>;

    /// There are no packets for now: time to write what is buffered.
    fn idle(&mut self) -> anyhow::Result<()>;
}

/// An interface to capture on.
pub struct Source {
    /// Its ring of packets.
    pub ring: PacketRing,
    /// Which of them are captured.
    pub filter: Filter,
    /// Whether the interface went down, after which the kernel does not report that it is removed: one
    /// that is deleted goes down first.
    was_down: bool,
    /// Whether the interface was removed.
    is_gone: bool,
}

/// When to stop.
pub struct Until<'a> {
    /// After this time.
    pub time: Option<Duration>,
    /// After so many packets.
    pub count: Option<u64>,
    /// When this is set.
    pub stop: &'a Stop,
}

impl Source {
    fn new(ring: PacketRing, filter: Filter) -> Self {
        Source { ring, filter, was_down: false, is_gone: false }
    }

    /// Whether the interface was removed.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Gives one block of the ring to the sink, at most `left` packets of it.
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

/// Opens an interface with a filter, or returns why that is no filter.
pub fn source(
    name: &str,
    settings: Settings,
    filter: &str,
) -> sys::Result<Result<Source, sys::filter::FilterError>> {
    let ring = PacketRing::open(name, settings)?;
    let filter = Filter::compile(filter, ring.link(), settings.snap_length);
    Ok(filter.map(|filter| Source::new(ring, filter)))
}

/// Starts to capture.
pub fn start(sources: &mut [Source]) -> sys::Result<()> {
    sources.iter_mut().try_for_each(|source| source.ring.start(source.filter.kernel_program()))
}

/// Captures until it is time to stop, then takes what is left in the rings. `note` is called when an
/// interface goes down or is removed.
pub fn run(
    sources: &mut [Source],
    until: &Until<'_>,
    sink: &mut dyn Sink,
    note: &mut dyn FnMut(String),
) -> anyhow::Result<()> {
    let mut left = until.count.unwrap_or(u64::MAX);
    let end = until.time.map(|time| Instant::now() + time);
    let is_over = || until.stop.is_set() || end.is_some_and(|end| Instant::now() >= end);
    while !is_over() && left > 0 && !sources.iter().all(|source| source.is_gone) {
        if round(sources, &mut left, sink)? {
            continue;
        }
        sink.idle()?;
        let rest = end.map_or(MAX_WAIT, |end| end.saturating_duration_since(Instant::now()));
        let rings = sources.iter().filter(|source| !source.is_gone).map(|source| &source.ring);
        packet_ring::wait(rings, rest.min(MAX_WAIT))?;
        check_interfaces(sources, note);
    }
    for source in sources.iter_mut() {
        source.ring.stop()?;
    }
    // The kernel releases its last block a little later, and only if it is not empty.
    let last = Instant::now() + 2 * BLOCK_TIMEOUT;
    while left > 0 {
        // Read before the last round: this process may have waited for a CPU since.
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

/// Takes a block of each source; returns whether there was any.
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

/// Notes interfaces that went down or were removed.
fn check_interfaces(sources: &mut [Source], note: &mut dyn FnMut(String)) {
    for source in sources.iter_mut().filter(|source| !source.is_gone) {
        let name = source.ring.name();
        let problem = source.ring.interface_problem();
        if problem == Some(InterfaceProblem::Removed) || source.was_down && source.ring.is_removed()
        {
            note(format!("{name} was removed"));
            source.is_gone = true;
        } else if problem == Some(InterfaceProblem::Down) {
            note(format!("{name} is down; capturing continues when it is up"));
            source.was_down = true;
        }
    }
}
