//! A table that is written row by row: CSV, Parquet.

use report::tables::Cell;

/// Writes the rows of a table.
pub(super) trait TableWriter: Send {
    /// Writes one row.
    fn row(&mut self, cells: &[Cell]) -> std::io::Result<()>;
    /// Writes what is buffered.
    fn finish(self: Box<Self>) -> std::io::Result<()>;
}
