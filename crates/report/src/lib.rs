//! Reports for people and programs: evidence and findings as text and JSON.
//!
//! - [`text()`]: the report of a host
//! - [`capture()`], [`path()`]: the report of a capture, of two captures of one path
//! - [`findings()`]: findings alone, for a command with figures of its own
//! - [`verdicts()`]: all causes with their verdicts
//! - [`time_breakdown()`]: where time went, as bars
//! - [`json()`]: a report for programs
//! - [`tables`]: a capture as tables
//! - [`markdown_to_terminal`]: the page of a cause in a terminal
//!
//! Nothing is judged here: `diagnose` decides which causes there are and how severe they are. No input
//! or output: the caller prints.

mod capture;
mod findings;
mod footer;
mod gain;
mod host;
mod json;
mod markdown;
mod path;
pub mod tables;
mod time_breakdown;
mod verdicts;

pub use capture::capture;
pub use findings::text as findings;
pub use host::text;
pub use json::json;
pub use markdown::markdown_to_terminal;
pub use path::path;
pub use time_breakdown::time_breakdown;
pub use verdicts::verdicts;
