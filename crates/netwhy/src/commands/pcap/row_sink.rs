//! Where the rows of a table go: CSV, Parquet.

use report::rows::Cell;

/// A table that is written row by row.
pub(super) trait Sink: Send {
    /// One more row.
    fn row(&mut self, cells: &[Cell]) -> std::io::Result<()>;
    /// All is written.
    fn finish(self: Box<Self>) -> std::io::Result<()>;
}
