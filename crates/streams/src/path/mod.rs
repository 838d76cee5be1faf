//! Two captures of the same streams, one at each end of a path: what left at one and did not arrive at
//! the other, how long the rest took, and how the clocks of both differ.
//!
//! Both are read twice. The first time ([`CaptureSummary`]) shows which streams are in both and how
//! far apart the clocks are; the second time ([`Merge`]) both are read at once, in the order of one
//! clock, and bytes that left are compared with those that arrive.
//!
//! A capture is named by its vantage point: that of the client, or that of the server. Most streams
//! are opened by the client's side of the path, but not all.
//!
//! - [`fingerprint`]: what is kept of a packet
//! - [`capture_summary`]: the first reading of one capture
//! - `stream_matching`: which stream is which, and which end is on which side
//! - `field_changes`: what a device between both changed
//! - `clock`: offset and drift
//! - [`merge`]: both captures at once
//! - `coverage`: what a capture must have seen
//! - `direction`: what left and what arrived, of one direction of one stream
//! - `totals`: the directions added up
//! - `delays`, `ranges`: histograms, ranges of bytes
//!
//! Memory is bounded: by the streams in both, up to a limit that is reported, and by what is in
//! flight.

pub mod capture_summary;
mod clock;
mod coverage;
mod delays;
mod direction;
mod field_changes;
pub mod fingerprint;
pub mod merge;
mod ranges;
mod stream_matching;
mod totals;

pub use capture_summary::CaptureSummary;
pub use fingerprint::PacketFingerprint;
pub use merge::Merge;
