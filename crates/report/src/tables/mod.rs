//! Captures as tables: one row for each stream, exchange and event. The writers of CSV and Parquet and
//! the page that explains the columns (`docs/columns.md`) all use these lists.
//!
//! - [`Column`], [`Cell`]: one column, one cell
//! - [`streams()`], [`exchanges()`], [`events()`]: the columns of each table
//! - [`page()`]: all columns as a page of documentation

mod category;
mod column;
mod events;
mod exchanges;
mod page;
mod streams;

pub use column::{Cell, CellKind, Column};
pub use events::events;
pub use exchanges::exchanges;
pub use page::{TABLES, page};
pub use streams::streams;
