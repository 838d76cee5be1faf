//! Text for people: figures, their parsing, sanitizing, line wrapping, tables and colours.
//!
//! - [`figures`]: numbers with their units, as output shows them: `1,193`, `11 MiB`, `3 min 20 s`
//! - [`parse`]: numbers with their units, as options and scenario files have them: `20ms`, `100mbit`
//! - [`sanitize`]: untrusted strings made safe for a terminal
//! - [`shell`]: words of a command quoted for a shell
//! - [`nearest()`]: the name that a mistyped one was meant to be
//! - [`wrap`](mod@wrap): lines of a given width, with a hanging indent
//! - [`table`]: columns that are as wide as their cells
//! - [`chart`]: bars, sparklines, plots
//! - [`paint`](mod@paint): colours and bold
//!
//! This crate imports no other crate of the workspace, and does no input or output.

pub mod chart;
pub mod figures;
mod nearest;
pub mod paint;
pub mod parse;
pub mod sanitize;
pub mod shell;
pub mod table;
pub mod wrap;

pub use figures::{bit_rate, bytes, count, duration, micros, number, percent, share};
pub use nearest::nearest;
pub use paint::{Paint, Style, paint};
pub use table::{Align, Column, Table};
pub use wrap::{columns, wrap, wrap_items};
