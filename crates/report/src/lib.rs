//! Reports for people and programs: evidence and findings as text and JSON.
//!
//! - [`text()`]: the report in a terminal, 80 columns wide
//! - [`findings()`]: findings alone, for a command with figures of its own
//! - [`capture()`]: the report of a capture; [`budget`]: where time went, as bars
//! - [`path()`]: the report of two captures of one path
//! - [`json()`]: the same for programs
//! - [`markdown_to_terminal`]: the page of a cause in a terminal
//! - [`number`], [`bytes`], [`duration`], [`percent`]: figures as people read them
//! - [`clean`]: strings of the machine made harmless before they reach a terminal
//!
//! Nothing is judged here: which causes there are and how bad they are is for `diagnose`. No
//! input or output: the caller prints.

mod capture;
mod clean;
mod figures;
mod findings;
mod json;
mod layout;
mod markdown;
mod paint;
mod path;
pub mod rows;
mod text;

pub use capture::{budget, capture};
pub use clean::clean;
pub use figures::{bytes, duration, number, percent};
pub use findings::text as findings;
pub use json::json;
pub use layout::wrap;
pub use markdown::markdown_to_terminal;
pub use path::path;
pub use text::text;

/// How text is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether to use colours and bold (SGR sequences).
    pub colour: bool,
    /// Columns that a line may have; fewer than 40 are taken as 40.
    pub width: usize,
}

impl Default for Style {
    /// No colours, 80 columns.
    fn default() -> Self {
        Style { colour: false, width: 80 }
    }
}
