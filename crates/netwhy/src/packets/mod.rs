//! Packets of interfaces as they are captured: into files, into findings, into the evidence of a window.
//!
//! - [`capture_loop`]: from the rings of the interfaces to a [`Sink`]
//! - [`analysis`]: the sink that diagnoses
//! - [`background`]: a capture during the window in which a host is watched
//! - [`evidence`](mod@evidence): packets as evidence
//! - [`live_findings`]: findings while packets come, each reported once

mod analysis;
mod background;
mod capture_loop;
mod evidence;
mod live_findings;

pub(crate) use analysis::{Analysis, HEADER_SNAP_LENGTH};
pub(crate) use background::Background;
pub(crate) use capture_loop::{Sink, Source, Until, run, source, start};
pub(crate) use evidence::evidence;
pub(crate) use live_findings::{
    DIAGNOSE_INTERVAL, MAX_LIVE_FINDINGS, MIN_DIAGNOSE_PAUSE_FACTOR, live_finding_key,
    live_finding_line,
};
