//! Packets of interfaces as they come: into a sink, into findings, beside the observers.
//!
//! - [`capture_loop`]: from the rings of the interfaces to a [`Sink`]
//! - [`analysis`]: the sink that looks for causes
//! - [`background`]: packets of the window in which a host is watched
//! - [`evidence`](mod@evidence): what packets become
//! - [`live_findings`]: findings as they appear, each once

mod analysis;
mod background;
mod capture_loop;
mod evidence;
mod live_findings;

pub(crate) use analysis::{Analysis, HEADERS};
pub(crate) use background::Background;
pub(crate) use capture_loop::{Sink, Source, Until, run, source, start};
pub(crate) use evidence::evidence;
pub(crate) use live_findings::{EVERY, SHARE, TOLD, line};
