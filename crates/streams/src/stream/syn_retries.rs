//! What is known of the SYNs of a handshake that came again.

use crate::time::OptionalTime;

/// Repeated SYNs of a handshake.
#[derive(Debug, Clone, Default)]
pub(super) struct SynRetries {
    pub(super) last_syn: OptionalTime,
    pub(super) last_syn_ack: OptionalTime,
    /// The last SYN/ACK that came again and that the client had not answered: the client waited until
    /// then if it goes on.
    pub(super) unanswered_until: OptionalTime,
}
