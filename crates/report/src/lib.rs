//! Reports for people and programs: evidence and findings as text and JSON.
//!
//! - [`text()`]: the report in a terminal, 80 columns wide
//! - [`findings()`]: findings alone, for a command with figures of its own
//! - [`capture()`]: the report of a capture; [`budget`]: where time went, as bars
//! - [`path()`]: the report of two captures of one path
//! - [`json()`]: the same for programs
//! - [`markdown_to_terminal`]: the page of a cause in a terminal
//!
//! Nothing is judged here: which causes there are and how bad they are is for `diagnose`. No
//! input or output: the caller prints.

mod capture;
mod findings;
mod json;
mod markdown;
mod path;
pub mod rows;
mod terminal;

pub use capture::{budget, capture};
pub use findings::text as findings;
pub use json::json;
pub use markdown::markdown_to_terminal;
pub use path::path;
pub use terminal::text;
