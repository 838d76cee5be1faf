//! What a link does to packets: the profile of one direction, and how it changes in time.

use std::time::Duration;

/// What one direction of a link does to the packets that pass it. The default is a transparent
/// wire.
///
/// A packet meets, in this order: the MTU, the black hole, the loss, the policer; the queue, from
/// which the line takes one packet after the other at its rate; the delay. `corrupt` and
/// `duplicate` happen between loss and queue; a copy leaves right behind its original and takes
/// no room on the line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// Time from the end of the line to the other end of the link.
    pub delay: Duration,
    /// Each delay is drawn evenly from `delay` ± this, and never below zero. Packets keep their
    /// order: one that would overtake waits for the one before it, so that the mean of a dense
    /// stream is above `delay`.
    pub jitter: Duration,
    /// Bits a second that the line sends; whole frames are counted, without preamble and checksum
    /// of Ethernet. `None` is a line without a limit, 0 one that stands still.
    pub rate: Option<u64>,
    /// Room for packets that wait for the line. What finds no room is dropped.
    pub queue: Queue,
    /// Packets that vanish.
    pub loss: Option<Loss>,
    /// Packets that are held back while others pass them.
    pub reorder: Option<Reorder>,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Share of packets in which one bit behind the IP header is turned over, so that the checksum
    /// of TCP or UDP fails.
    pub corrupt: f64,
    /// The largest IP packet that passes. As behind a router: a larger one that must not be cut
    /// (IPv4 with DF, IPv6) is dropped, and ICMP tells its sender so in the name of the
    /// destination. One that may be cut passes whole, as if it had been cut and put together.
    pub mtu: Option<u16>,
    /// The largest IP packet that passes; a larger one vanishes, and nobody is told.
    pub black_hole_above: Option<u16>,
    /// A sustained rate with credit for bursts, as clouds limit instances.
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

/// Which packets vanish.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Each with the same probability.
    Random {
        /// Share of packets.
        probability: f64,
    },
    /// In bursts: a chain of two states that takes one step with each packet. netem names these
    /// `p`, `r`, `1-h` and `1-k` (`tc-netem`, `loss gemodel`).
    GilbertElliott {
        /// Probability to go from good to bad with a packet.
        to_bad: f64,
        /// Probability to go from bad to good with a packet: bad times last 1/`to_good` packets.
        to_good: f64,
        /// Share of packets that vanish in bad times.
        in_bad: f64,
        /// Share of packets that vanish in good times.
        in_good: f64,
    },
}

/// Packets that are held back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// Share of packets.
    pub probability: f64,
    /// By how much, on top of the delay.
    pub by: Duration,
}

/// A token bucket: full at the start, filled at the sustained rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Bytes that may pass at once after a time of rest.
    pub credit_bytes: u64,
    /// Sustained rate, bits a second; 0 fills nothing.
    pub rate: u64,
    /// Rate while credit lasts, bits a second; `None` is the rate of the line. The lower of both
    /// counts.
    pub burst_rate: Option<u64>,
    /// What happens to packets without credit.
    pub mode: Mode,
}

/// What happens to packets for which a bucket has no credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They are dropped.
    Police,
    /// They wait, and the round trip grows.
    Shape {
        /// Room for waiting frames, in bytes. It stands in place of [`Profile::queue`].
        queue: u64,
    },
}

/// One direction of a link: its profile at the start, and later ones.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Direction {
    /// At the start.
    pub profile: Profile,
    /// At these times after the start the profile becomes another. What waits stays and is sent
    /// as the new profile says; what is under way arrives as it would have. A bucket that is the
    /// same before and after keeps its level, a new one is full.
    pub timeline: Vec<(Duration, Profile)>,
}

impl From<Profile> for Direction {
    fn from(profile: Profile) -> Self {
        Direction { profile, timeline: Vec::new() }
    }
}
