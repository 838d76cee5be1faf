//! The page of a cause in a terminal.
//!
//! The pages are the module documentation of the causes. This renders the Markdown that they use
//! (headings, paragraphs, lists, quotes, tables, code, emphasis, links) and leaves everything else
//! unchanged. It is no general Markdown renderer.

mod blocks;
mod inline;

pub use blocks::markdown_to_terminal;
