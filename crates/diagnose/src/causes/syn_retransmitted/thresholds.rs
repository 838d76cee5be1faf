//! From how many retransmitted SYNs on they are no accident, on the host and in packets alike.

/// Connections that retransmit, or retransmissions of one.
pub(super) const MIN_RETRANSMITTING: u64 = 2;
/// Share of the connections to a destination that retransmit.
pub(super) const MIN_SHARE: f64 = 0.01;
