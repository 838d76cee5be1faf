//! What the kernel of one end knows of a connection that was open before the capture: what its handshake
//! would have shown.

use crate::time::Nanos;

/// One socket of a connection that was open before the capture began, which is at this host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownSocket {
    /// Whether it was accepted: a listener has its port.
    pub is_server: bool,
    /// Largest segment that it sends, bytes of data.
    pub mss: u16,
    /// Scale of the windows of this end and of its peer, where both scale.
    pub window_scales: Option<[u8; 2]>,
    /// Shortest round trip, nanoseconds.
    pub min_round_trip: Option<Nanos>,
}
