//! Evidence on which each cause is found, for tests of what findings are made of.

use model::Evidence;

use super::super::*;

/// Makes the examples of one cause.
type Examples = fn() -> Vec<Evidence>;

/// For each cause, in the order of the table.
pub(super) const EXAMPLES: &[(&str, Examples)] = &[
    (accept_queue_overflow::CAUSE.id, accept_queue_overflow::tests::examples),
    (syn_queue_overflow::CAUSE.id, syn_queue_overflow::tests::examples),
    (conntrack_table_full::CAUSE.id, conntrack_table_full::tests::examples),
    (ephemeral_ports_exhausted::CAUSE.id, ephemeral_ports_exhausted::tests::examples),
    (time_wait_overflow::CAUSE.id, time_wait_overflow::tests::examples),
    (close_wait_leak::CAUSE.id, close_wait_leak::tests::examples),
    (fd_exhausted::CAUSE.id, fd_exhausted::tests::examples),
    (syn_retransmitted::CAUSE.id, syn_retransmitted::tests::examples),
    (worker_pool_exhausted::CAUSE.id, worker_pool_exhausted::tests::examples),
    (receiver_stalled::CAUSE.id, receiver_stalled::tests::examples),
    (delayed_ack_nagle::CAUSE.id, delayed_ack_nagle::tests::examples),
    (server_think_time::CAUSE.id, server_think_time::tests::examples),
    (dns_slow::CAUSE.id, dns_slow::tests::examples),
    (short_connections::CAUSE.id, short_connections::tests::examples),
    (slow_start_after_idle::CAUSE.id, slow_start_after_idle::tests::examples),
    (initial_window_small::CAUSE.id, initial_window_small::tests::examples),
    (send_buffer_limited::CAUSE.id, send_buffer_limited::tests::examples),
    (application_limited::CAUSE.id, application_limited::tests::examples),
    (receive_window_limited::CAUSE.id, receive_window_limited::tests::examples),
    (window_scaling_off::CAUSE.id, window_scaling_off::tests::examples),
    (packet_loss::CAUSE.id, packet_loss::tests::examples),
    (corruption::CAUSE.id, corruption::tests::examples),
    (reordering::CAUSE.id, reordering::tests::examples),
    (bufferbloat::CAUSE.id, bufferbloat::tests::examples),
    (middle_link_limited::CAUSE.id, middle_link_limited::tests::examples),
    (nat_timeout_reset::CAUSE.id, nat_timeout_reset::tests::examples),
    (connection_refused::CAUSE.id, connection_refused::tests::examples),
    (rate_policed::CAUSE.id, rate_policed::tests::examples),
    (rate_shaped::CAUSE.id, rate_shaped::tests::examples),
    (path_mtu_blackhole::CAUSE.id, path_mtu_blackhole::tests::examples),
    (options_stripped::CAUSE.id, options_stripped::tests::examples),
];
