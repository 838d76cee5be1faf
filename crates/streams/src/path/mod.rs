//! Two captures of the same streams, one at each end of a path: what left at one and did not arrive at
//! the other, how long the rest took, and how the clocks of both differ.
//!
//! Both are read twice. The first time ([`Survey`]) tells which streams are in both and how far apart
//! the clocks are; the second time ([`Merge`]) both are read at once, in the order of one clock, and
//! bytes that left are held against those that arrive.
//!
//! - [`glimpse`]: what is kept of a packet
//! - [`survey`]: the first look at one capture
//! - `pairs`: which stream is which, and which end is on which side
//! - `clock`: offset and drift
//! - [`merge`]: both captures at once
//! - `way`: what left and what arrived, of one way of one stream
//! - `delays`, `ranges`: histograms, ranges of bytes
//!
//! Memory is bounded: by the streams in both, up to a number that is told, and by what is under way.

mod clock;
mod delays;
pub mod glimpse;
pub mod merge;
mod pairs;
mod ranges;
pub mod survey;
mod way;

pub use glimpse::Glimpse;
pub use merge::Merge;
pub use survey::Survey;
