//! Captured streams as rules see them: one direction, groups of them, and what several rules judge.

mod checks;
mod checksums;
mod clients;
mod direction;
mod gain;
mod group;
mod receive_window;
mod what_is_there;

pub(crate) use checks::{capture_file, stream_checks};
pub(crate) use checksums::{
    MIN_DAMAGED, MIN_DAMAGED_SHARE, are_of_the_path, is_damaged, is_path_damaged,
};
pub(crate) use clients::{AfterRefusal, Clients, carried_nothing};
pub(crate) use direction::StreamDirection;
pub(crate) use gain::window_limit;
pub(crate) use group::{Group, SharedPath, group_directions, verdict_from_packets};
pub(crate) use receive_window::{is_unscaled, window_full_share, window_limited_us};
pub(crate) use what_is_there::{
    NO_EXCHANGE, NO_HANDSHAKE, NO_PACKETS, NO_SYN, ONE_DIRECTION, capture_again, scale_unknown,
    total, without_data,
};
