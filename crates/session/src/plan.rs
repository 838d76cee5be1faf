//! What a session observes.

use std::time::Duration;

use model::Focus;

/// What a session observes, and for how long.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// How long the window lasts; without it, until it is stopped or its job ends.
    pub duration: Option<Duration>,
    /// The connections and processes to observe.
    pub focus: Focus,
    /// Name or process id of the network namespace, for the evidence; the calling thread is in it
    /// already.
    pub netns: Option<String>,
    /// Packets to capture in the background; `None`: none.
    pub packets: Option<PacketPlan>,
}

/// Packets to capture while the observers run. Only headers are captured, and no file is written.
#[derive(Debug, Clone, Default)]
pub struct PacketPlan {
    /// Names of interfaces; all interfaces if empty.
    pub interfaces: Vec<String>,
    /// Packets after which capturing ends; `None`: no limit.
    pub max_packets: Option<u64>,
}
