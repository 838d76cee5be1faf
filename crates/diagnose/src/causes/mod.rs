//! The causes: one explicit ordered table, one file each.
//!
//! The order is that of the catalogue. The command line, the docs and the tests iterate it.

use crate::cause::Cause;

mod accept_queue_overflow;
mod application_limited;
mod bufferbloat;
mod close_wait_leak;
mod connection_refused;
mod conntrack_table_full;
mod corruption;
mod delayed_ack_nagle;
mod dns_slow;
mod ephemeral_ports_exhausted;
mod fd_exhausted;
mod initial_window_small;
mod locally_shaped;
mod middle_link_limited;
mod nat_timeout_reset;
mod options_stripped;
mod packet_loss;
mod path_mtu_blackhole;
mod rate_policed;
mod rate_shaped;
mod receive_window_limited;
mod receiver_stalled;
mod reordering;
mod send_buffer_limited;
mod server_think_time;
mod short_connections;
mod slow_start_after_idle;
mod syn_queue_overflow;
mod syn_retransmitted;
mod time_wait_overflow;
mod window_scaling_off;
mod worker_pool_exhausted;

/// All causes.
pub const TABLE: &[Cause] = &[
    accept_queue_overflow::CAUSE,
    syn_queue_overflow::CAUSE,
    conntrack_table_full::CAUSE,
    ephemeral_ports_exhausted::CAUSE,
    time_wait_overflow::CAUSE,
    close_wait_leak::CAUSE,
    fd_exhausted::CAUSE,
    syn_retransmitted::CAUSE,
    worker_pool_exhausted::CAUSE,
    receiver_stalled::CAUSE,
    delayed_ack_nagle::CAUSE,
    server_think_time::CAUSE,
    dns_slow::CAUSE,
    short_connections::CAUSE,
    slow_start_after_idle::CAUSE,
    initial_window_small::CAUSE,
    send_buffer_limited::CAUSE,
    application_limited::CAUSE,
    receive_window_limited::CAUSE,
    window_scaling_off::CAUSE,
    packet_loss::CAUSE,
    corruption::CAUSE,
    reordering::CAUSE,
    bufferbloat::CAUSE,
    middle_link_limited::CAUSE,
    nat_timeout_reset::CAUSE,
    connection_refused::CAUSE,
    rate_policed::CAUSE,
    rate_shaped::CAUSE,
    locally_shaped::CAUSE,
    path_mtu_blackhole::CAUSE,
    options_stripped::CAUSE,
];

/// The causes that engineers ask about first, of hosts and of captures: reports that show a few of those
/// that are ruled out show these.
pub(crate) const USUAL_SUSPECTS: [&str; 12] = [
    packet_loss::CAUSE.id,
    syn_retransmitted::CAUSE.id,
    accept_queue_overflow::CAUSE.id,
    server_think_time::CAUSE.id,
    receive_window_limited::CAUSE.id,
    bufferbloat::CAUSE.id,
    ephemeral_ports_exhausted::CAUSE.id,
    conntrack_table_full::CAUSE.id,
    fd_exhausted::CAUSE.id,
    worker_pool_exhausted::CAUSE.id,
    send_buffer_limited::CAUSE.id,
    delayed_ack_nagle::CAUSE.id,
];

#[cfg(test)]
mod tests;
