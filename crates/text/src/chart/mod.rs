//! Charts out of characters.
//!
//! - [`bar`], [`sparkline`]: block elements
//! - [`Canvas`]: a plot of braille dots, with labelled axes

mod bars;
mod canvas;

pub use bars::{bar, sparkline};
pub use canvas::{Axes, Canvas};
