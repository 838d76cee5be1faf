//! What segments are, and how often each happened in one direction.

/// What a segment is, in the stream of its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// No data, no flag that counts as data.
    #[default]
    Pure,
    /// Data that was not seen before, in order.
    New,
    /// Data beyond what was expected: a hole is before it.
    Ahead,
    /// Data that fills a hole, and was under way all the time.
    Reordered,
    /// Data that fills a hole and was sent again: the first time it was lost before this place.
    RepeatedUnseen,
    /// Data seen before, after three duplicate acknowledgements or selective ones above it.
    RepeatedFast,
    /// Data seen before, after a silence as long as a retransmission timeout.
    RepeatedTimeout,
    /// Data seen before, for another reason: a tail-loss probe, a sender that was mistaken.
    Repeated,
    /// Captured twice: a fault of the capture, not of the network.
    Copy,
    /// A probe of a closed window: no loss.
    WindowProbe,
    /// A keep-alive: one old byte or none, after which nothing is missing.
    KeepAlive,
}

/// How often each happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Bytes of data, repeated ones too.
    pub bytes: u64,
    /// Bytes of data that were new.
    pub new_bytes: u64,
    /// Packets with data.
    pub data: u64,
    /// Repeated after duplicate acknowledgements.
    pub fast: u32,
    /// Repeated after a timeout.
    pub timeouts: u32,
    /// Repeated for another reason.
    pub repeated: u32,
    /// Repeated, and lost before the place of capture the first time.
    pub unseen: u32,
    /// Late, and not repeated.
    pub reordered: u32,
    /// Late, and sent again meanwhile for nothing: what was sent again came first.
    pub late_originals: u32,
    /// Repeated though it had been acknowledged before, as seen here: counted above too.
    pub acknowledged_before: u32,
    /// Packets that were captured twice; nothing else here counts them.
    pub copies: u32,
    /// Their bytes of data.
    pub copied_bytes: u64,
    /// Probes of a closed window.
    pub window_probes: u32,
    /// Keep-alives.
    pub keep_alives: u32,
    /// Acknowledgements of the same byte again, while data was out.
    pub duplicate_acks: u32,
    /// Packets that closed this end's window.
    pub zero_windows: u32,
    /// Congestion marks on packets of this end.
    pub congestion_marks: u32,
    /// Blocks that tell of data that arrived twice (D-SACK).
    pub duplicate_sacks: u32,
}

impl Counts {
    /// All segments that were sent again.
    pub fn retransmissions(&self) -> u64 {
        [self.fast, self.timeouts, self.repeated, self.unseen].map(u64::from).iter().sum()
    }
}
