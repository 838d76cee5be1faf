//! What a link does to packets: the profile of one direction, and its changes over time.

use std::time::Duration;

/// What one direction of a link does to packets. The default is a transparent wire.
///
/// A packet meets, in this order: the MTU, the black hole, loss, the policer; the queue, from which
/// the line transmits one packet after the other at its rate; the delay. `corrupt` and `duplicate`
/// apply between loss and queue; a duplicate leaves right behind its original and uses no capacity
/// of the line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// Propagation delay: from the end of transmission to the far end of the link.
    pub delay: Duration,
    /// Each delay is drawn uniformly from `delay` ± this, and is never below zero. Packets keep
    /// their order: one that would overtake waits for its predecessor, so that the mean delay of a
    /// dense stream is above `delay`.
    pub jitter: Duration,
    /// Bits per second that the line transmits, counted over whole Ethernet frames without
    /// preamble and FCS. `None` is a line without a limit, 0 one that stands still.
    pub rate: Option<u64>,
    /// Room for packets that wait for the line. Packets that find none are dropped.
    pub queue: Queue,
    /// Packets that are lost.
    pub loss: Option<Loss>,
    /// Packets that are held back while others overtake them.
    pub reorder: Option<Reorder>,
    /// Share of packets that are delivered twice.
    pub duplicate: f64,
    /// Share of packets in which one bit behind the IP header is flipped, so that the TCP or UDP
    /// checksum fails.
    pub corrupt: f64,
    /// The largest IP packet that passes, as at a router with a smaller next-hop MTU: a larger
    /// packet that must not be fragmented (IPv4 with DF, IPv6) is dropped, and its sender gets an
    /// ICMP error in the name of the destination. A packet that may be fragmented passes whole, as
    /// if it had been fragmented and reassembled.
    pub mtu: Option<u16>,
    /// The largest IP packet that passes; larger ones are dropped without an ICMP error.
    pub black_hole_above: Option<u16>,
    /// A sustained rate with credit for bursts, as cloud providers limit instances.
    pub bucket: Option<Bucket>,
}

/// Room for packets that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Bytes of frames.
    Bytes(u64),
    /// Frames.
    Packets(u32),
}

impl Default for Queue {
    fn default() -> Self {
        Queue::Packets(1000)
    }
}

/// Which packets are lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Each with the same probability.
    Random {
        /// Share of packets.
        probability: f64,
    },
    /// In bursts: a Markov chain of two states that takes one step per packet. netem calls the
    /// parameters `p`, `r`, `1-h` and `1-k` (`tc-netem`, `loss gemodel`).
    GilbertElliott {
        /// Probability per packet of a change from the good to the bad state.
        to_bad: f64,
        /// Probability per packet of a change from the bad to the good state: the mean burst is
        /// 1/`to_good` packets.
        to_good: f64,
        /// Share of packets lost in the bad state.
        in_bad: f64,
        /// Share of packets lost in the good state.
        in_good: f64,
    },
}

/// Packets that are held back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// Share of packets.
    pub probability: f64,
    /// Additional delay of these packets.
    pub delay: Duration,
}

/// A token bucket: full at the start, refilled at the sustained rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Bytes that pass at once when the bucket is full.
    pub credit_bytes: u64,
    /// Sustained rate, bits per second; 0 never refills.
    pub rate: u64,
    /// Rate while credit lasts, bits per second; `None` is the rate of the line. The lower of the
    /// two applies.
    pub burst_rate: Option<u64>,
    /// What happens to packets without credit.
    pub mode: Mode,
}

/// What happens to packets for which a bucket has no credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They are dropped.
    Police,
    /// They wait, and the round-trip time rises.
    Shape {
        /// Room for waiting frames, bytes. It replaces [`Profile::queue`].
        queue: u64,
    },
}

/// One direction of a link: its profile at the start, and later ones.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Direction {
    /// At the start.
    pub profile: Profile,
    /// Profiles that replace it, each at a time after the start. Queued packets stay and are sent
    /// according to the new profile; packets in flight arrive as if nothing had changed. A bucket
    /// that is the same before and after keeps its level, a new one is full.
    pub timeline: Vec<(Duration, Profile)>,
}

impl From<Profile> for Direction {
    fn from(profile: Profile) -> Self {
        Direction { profile, timeline: Vec::new() }
    }
}
