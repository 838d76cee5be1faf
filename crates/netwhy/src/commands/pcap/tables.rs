//! Streams, exchanges and events as tables: CSV files, Parquet files, or one table to standard output.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use model::{CapturedEvent, CapturedExchange, CapturedStream};
use report::tables::{Cell, Column, TABLES};

use super::options::{PcapOptions, TableName};
use super::table_writer::TableWriter;
use crate::failure::Failure;
use crate::saved_file::SavedFile;

/// The name of standard output in error messages.
const STANDARD_OUTPUT: &str = "standard output";
/// Bytes of CSV that are written at once.
const BUFFER_BYTES: usize = 1 << 18;

/// One table, and the files to which it is written.
struct Table<Row> {
    columns: Vec<Column<Row>>,
    writers: Vec<(PathBuf, Box<dyn TableWriter>)>,
    rows: u64,
    cells: Vec<Cell>,
}

/// The three tables.
pub(super) struct Tables {
    streams: Table<CapturedStream>,
    exchanges: Table<CapturedExchange>,
    events: Table<CapturedEvent>,
    /// Time of the first packet of the capture, microseconds since 1970-01-01 UTC.
    start_us: i64,
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

impl Tables {
    /// The tables that the options choose; `None`: none. An existing file is an error.
    pub(super) fn create(options: &PcapOptions) -> anyhow::Result<Option<Self>> {
        let overwrites = options.report.force;
        if options.csv.is_none() && options.parquet.is_none() {
            return Ok(None);
        }
        let mut tables = Tables {
            streams: Table::new(report::tables::streams()),
            exchanges: Table::new(report::tables::exchanges()),
            events: Table::new(report::tables::events()),
            start_us: 0,
        };
        if options.prints_table() {
            tables
                .print(options.table)
                .map_err(|error| failed(Path::new(STANDARD_OUTPUT), error))?;
        } else if let Some(folder) = &options.csv {
            let [streams, exchanges, events] = paths(folder, "csv")?;
            tables.streams.csv(&streams, overwrites)?;
            tables.exchanges.csv(&exchanges, overwrites)?;
            tables.events.csv(&events, overwrites)?;
        }
        if let Some(folder) = &options.parquet {
            tables.parquet(folder, overwrites)?;
        }
        Ok(Some(tables))
    }

    /// Writes one table to standard output.
    fn print(&mut self, table: TableName) -> std::io::Result<()> {
        fn to<Row>(table: &mut Table<Row>) -> std::io::Result<()> {
            let csv = Csv::begin(BufWriter::new(crate::output::rows()), &table.columns)?;
            table.writers.push((PathBuf::from(STANDARD_OUTPUT), Box::new(csv)));
            Ok(())
        }
        match table {
            TableName::Streams => to(&mut self.streams),
            TableName::Exchanges => to(&mut self.exchanges),
            TableName::Events => to(&mut self.events),
        }
    }

    #[cfg(feature = "parquet")]
    fn parquet(&mut self, folder: &Path, overwrites: bool) -> anyhow::Result<()> {
        fn to<Row>(table: &mut Table<Row>, path: &Path, overwrites: bool) -> anyhow::Result<()> {
            let file = SavedFile::create_now(path, overwrites)?;
            let parquet = super::parquet::Parquet::begin(file, &table.columns)
                .map_err(|error| failed(path, error))?;
            table.writers.push((path.to_path_buf(), Box::new(parquet)));
            Ok(())
        }
        let [streams, exchanges, events] = paths(folder, "parquet")?;
        to(&mut self.streams, &streams, overwrites)?;
        to(&mut self.exchanges, &exchanges, overwrites)?;
        to(&mut self.events, &events, overwrites)
    }

    #[cfg(not(feature = "parquet"))]
    fn parquet(&mut self, folder: &Path, _overwrites: bool) -> anyhow::Result<()> {
        Err(Failure::Usage(format!(
            "cannot write Parquet into {}: this netwhy was built without the feature parquet; \
             build it with cargo build --release -p netwhy --features parquet, or use --csv",
            folder.display()
        ))
        .into())
    }

    /// Sets the time of the first packet of the capture, nanoseconds since 1970-01-01 UTC.
    pub(super) fn set_start(&mut self, start: streams::Nanos) {
        self.start_us = start.div_euclid(1_000);
    }

    pub(super) fn stream(&mut self, stream: &CapturedStream) -> anyhow::Result<()> {
        self.streams.add(stream, self.start_us)
    }

    pub(super) fn exchange(&mut self, exchange: &CapturedExchange) -> anyhow::Result<()> {
        self.exchanges.add(exchange, self.start_us)
    }

    pub(super) fn event(&mut self, event: &CapturedEvent) -> anyhow::Result<()> {
        self.events.add(event, self.start_us)
    }

    /// Writes what is buffered; returns a line for each file that was written.
    pub(super) fn finish(self) -> anyhow::Result<String> {
        let [streams, exchanges, events] = TABLES.map(|(name, _)| name.trim_end_matches('s'));
        let mut lines = self.streams.finish(streams)?;
        lines.extend(self.exchanges.finish(exchanges)?);
        lines.extend(self.events.finish(events)?);
        Ok(lines.concat())
    }
}

impl<Row> Table<Row> {
    fn new(columns: Vec<Column<Row>>) -> Self {
        Table { columns, writers: Vec::new(), rows: 0, cells: Vec::new() }
    }

    fn csv(&mut self, path: &Path, overwrites: bool) -> anyhow::Result<()> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, SavedFile::create_now(path, overwrites)?);
        let csv = Csv::begin(file, &self.columns).map_err(|error| failed(path, error))?;
        self.writers.push((path.to_path_buf(), Box::new(csv)));
        Ok(())
    }

    fn add(&mut self, row: &Row, start_us: i64) -> anyhow::Result<()> {
        if self.writers.is_empty() {
            return Ok(());
        }
        self.rows += 1;
        self.cells.clear();
        self.cells.extend(self.columns.iter().map(|column| (column.cell)(row, start_us)));
        for (path, writer) in &mut self.writers {
            writer.row(&self.cells).map_err(|error| failed(path, error))?;
        }
        Ok(())
    }

    /// Writes what is buffered; returns a line for each file. `row_name` is what a row is.
    fn finish(self, row_name: &str) -> anyhow::Result<Vec<String>> {
        let mut lines = Vec::new();
        for (path, writer) in self.writers {
            writer.finish().map_err(|error| failed(&path, error))?;
            if path != Path::new(STANDARD_OUTPUT) {
                let rows = text::count(self.rows, row_name);
                lines.push(format!("netwhy: wrote {} with {rows}\n", path.display()));
            }
        }
        Ok(lines)
    }
}

/// The files of the three tables in a folder, which is created if it does not exist.
fn paths(folder: &Path, extension: &str) -> anyhow::Result<[PathBuf; 3]> {
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(|error| {
        Failure::Observe(format!("cannot create the folder {}: {error}", folder.display()))
    })?;
    Ok(TABLES.map(|(name, _)| folder.join(format!("{name}.{extension}"))))
}

fn failed(path: &Path, error: std::io::Error) -> anyhow::Error {
    if crate::output::is_broken_pipe(&error) {
        return error.into();
    }
    Failure::Observe(format!("cannot write a table to {}: {error}", path.display())).into()
}

/// CSV (RFC 4180, but lines end with a line feed): the first line has the names of the columns.
struct Csv<W: Write> {
    out: W,
    line: String,
}

impl<W: Write> Csv<W> {
    fn begin<Row>(mut out: W, columns: &[Column<Row>]) -> std::io::Result<Self> {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(Csv { out, line: String::new() })
    }
}

impl<W: Write + Send> TableWriter for Csv<W> {
    fn row(&mut self, cells: &[Cell]) -> std::io::Result<()> {
        self.line.clear();
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                self.line.push(',');
            }
            // Writing to a String does not fail.
            let _ = match cell {
                Cell::Missing => Ok(()),
                Cell::Integer(value) => write!(self.line, "{value}"),
                Cell::Float(value) => write!(self.line, "{value}"),
                Cell::Boolean(value) => write!(self.line, "{value}"),
                Cell::Text(text) => write!(self.line, "{}", quoted(text)),
            };
        }
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }

    fn finish(mut self: Box<Self>) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// A text as one cell, quoted where that is necessary.
fn quoted(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_csv_is_quoted() {
        let mut csv = Csv { out: Vec::new(), line: String::new() };
        let text = |text: &str| Cell::Text(text.to_string());
        let cells =
            [Cell::Integer(-1), Cell::Missing, Cell::Boolean(true), text("a,\"b\""), text("c")];
        csv.row(&cells).unwrap();
        assert_eq!(csv.out, b"-1,,true,\"a,\"\"b\"\"\",c\n");
    }
}
