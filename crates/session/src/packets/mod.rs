//! Packets of interfaces as they are captured: into files, into findings, into the evidence of a window.
//!
//! - [`Source`], [`Sink`], [`run`]: the capture loop, from the rings of the interfaces to a sink
//! - [`Analysis`]: the sink that diagnoses
//! - [`BackgroundCapture`]: a capture during a window
//! - [`evidence()`]: packets as evidence
//! - [`LiveFindings`]: findings while packets come, each reported once

mod analysis;
mod background_capture;
mod capture_loop;
mod evidence;
mod live_findings;
mod open_before;

pub use analysis::{Analysis, HEADER_SNAP_LENGTH};
pub use background_capture::BackgroundCapture;
pub use capture_loop::{Sink, Source, Until, run, source, start};
pub use evidence::{beyond_memory, evidence};
pub use live_findings::LiveFindings;
pub(crate) use open_before::open_before;
