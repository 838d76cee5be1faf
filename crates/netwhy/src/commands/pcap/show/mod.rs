//! One stream of a capture in depth, as text.
//!
//! - [`stream`](mod@stream): the facts, where its time went, then the views below
//! - [`phases`]: the phases of its life
//! - [`exchanges`]: its slowest exchanges
//! - [`plot`]: a time-sequence plot
//! - [`ladder`]: packet by packet

mod exchanges;
mod ladder;
mod phases;
mod plot;
mod stream;

pub(super) use stream::stream;
