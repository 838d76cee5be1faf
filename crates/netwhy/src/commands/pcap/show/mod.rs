//! One stream of a capture in depth, as text.
//!
//! - [`turns`]: the phases of its life, its slowest turns
//! - [`plot`]: what was sent over time
//! - [`ladder`]: packet by packet
//! - [`lines`]: lines of the width of a terminal

mod ladder;
mod lines;
mod plot;
mod stream;
mod turns;

pub(super) use stream::stream;
