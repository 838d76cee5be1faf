//! Token-bucket policers without a queue: what is sent above a rate is dropped at once.
//!
//! A policer holds tokens, bytes that may pass: they come at its rate until its bucket is full, and
//! each packet that passes takes its size. A packet that finds too few is dropped. The deficit of
//! the bucket therefore grows and drains as a queue would, *a queue that is not there*: it is the
//! same for all packets that were dropped, less for all that passed, and it delays nobody. A real
//! queue drops by the same rule, and delays what passes by its length.
//!
//! So a response was policed when, at one rate,
//!
//! 1. all its losses came at one level of that imaginary queue, give or take a packet's size and the
//!    jitter of the path;
//! 2. what passed was below that level;
//! 3. chance would not do that: few of the packets reach the level, and the losses are many;
//! 4. the level is reached from below several times, not once in a run of losses;
//! 5. the round trip does not follow the level, although a queue of that length would show in it.
//!
//! - `transmissions`: what was sent, and whether it passed, as a place before the policer can know
//! - `bucket`: the level, the rate at which the losses agree, and how unlikely chance is
//! - `delay`: whether there was a queue
//! - `detector`: all of it for one direction of a stream
//! - `shared`: all of it for streams that pass the same bucket: none of them keeps a constant rate, and
//!   what all of them sent together explains the losses of each
//! - `response`: what is known of a response that was policed
//!
//! Losses are those of segments that were captured and retransmitted: the capture point is before
//! the policer. Behind it neither the losses nor the delays can be seen, and nothing is found.

mod bucket;
mod delay;
mod detector;
mod response;
mod shared;
#[cfg(test)]
mod shared_tests;
mod statistics;
#[cfg(test)]
mod tests;
mod transmissions;

pub use detector::PolicerDetector;
pub use response::PolicedResponse;
pub(crate) use shared::{Losses, shared_bucket};
