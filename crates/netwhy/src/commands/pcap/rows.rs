//! Streams, turns and events as rows: into CSV files, Parquet files, or one table to standard output.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use model::{CapturedEvent, CapturedExchange, CapturedStream};
use report::rows::{Cell, Column, TABLES};

use super::options::{PcapOptions, TableName};
use super::row_sink::Sink;
use crate::failure::Failure;

/// Where the rows of one kind go.
struct Table<Row> {
    columns: Vec<Column<Row>>,
    sinks: Vec<(PathBuf, Box<dyn Sink>)>,
    rows: u64,
    cells: Vec<Cell>,
}

/// The three tables.
pub(super) struct Rows {
    streams: Table<CapturedStream>,
    turns: Table<CapturedExchange>,
    events: Table<CapturedEvent>,
    /// The first packet of the capture, microseconds since 1970.
    began_us: i64,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

impl Rows {
    /// The tables that were asked for; `None`: none was. Files that exist are left alone.
    pub(super) fn create(options: &PcapOptions) -> anyhow::Result<Option<Self>> {
        let mut rows = Rows {
            streams: Table::new(report::rows::streams()),
            turns: Table::new(report::rows::exchanges()),
            events: Table::new(report::rows::events()),
            began_us: 0,
        };
        if options.csv.is_none() && options.parquet.is_none() {
            return Ok(None);
        }
        if options.prints_rows() {
            rows.print(options.table)
                .map_err(|error| failed(Path::new("standard output"), error))?;
        } else if let Some(folder) = &options.csv {
            let paths = paths(folder, "csv")?;
            rows.streams.csv(&paths[0])?;
            rows.turns.csv(&paths[1])?;
            rows.events.csv(&paths[2])?;
        }
        if let Some(folder) = &options.parquet {
            rows.parquet(folder)?;
        }
        Ok(Some(rows))
    }

    fn print(&mut self, table: TableName) -> std::io::Result<()> {
        fn to<Row>(table: &mut Table<Row>) -> std::io::Result<()> {
            let csv = Csv::begin(BufWriter::new(std::io::stdout()), &table.columns)?;
            table.sinks.push((PathBuf::from("standard output"), Box::new(csv)));
            Ok(())
        }
        match table {
            TableName::Streams => to(&mut self.streams),
            TableName::Exchanges => to(&mut self.turns),
            TableName::Events => to(&mut self.events),
        }
    }

    #[cfg(feature = "parquet")]
    fn parquet(&mut self, folder: &Path) -> anyhow::Result<()> {
        fn to<Row>(table: &mut Table<Row>, path: &Path) -> anyhow::Result<()> {
            let file = create(path)?;
            let sink = super::parquet::Parquet::begin(file, &table.columns)
                .map_err(|error| failed(path, error))?;
            table.sinks.push((path.to_path_buf(), Box::new(sink)));
            Ok(())
        }
        let paths = paths(folder, "parquet")?;
        to(&mut self.streams, &paths[0])?;
        to(&mut self.turns, &paths[1])?;
        to(&mut self.events, &paths[2])
    }

    #[cfg(not(feature = "parquet"))]
    fn parquet(&mut self, folder: &Path) -> anyhow::Result<()> {
        Err(Failure::Usage(format!(
            "cannot write Parquet into {}: this netwhy was built without the feature parquet; \
             build it with cargo build --release -p netwhy --features parquet, or use --csv",
            folder.display()
        ))
        .into())
    }

    /// The time of the first packet of the capture, nanoseconds since 1970.
    pub(super) fn began(&mut self, began: streams::Nanos) {
        self.began_us = began.div_euclid(1_000);
    }

    pub(super) fn stream(&mut self, stream: &CapturedStream) -> anyhow::Result<()> {
        self.streams.add(stream, self.began_us)
    }

    pub(super) fn turn(&mut self, turn: &CapturedExchange) -> anyhow::Result<()> {
        self.turns.add(turn, self.began_us)
    }

    pub(super) fn event(&mut self, event: &CapturedEvent) -> anyhow::Result<()> {
        self.events.add(event, self.began_us)
    }

    /// All is written: what is where, for people.
    pub(super) fn finish(self) -> anyhow::Result<String> {
        let mut text = String::new();
        let all = [
            (self.streams.rows, self.streams.finish()?),
            (self.turns.rows, self.turns.finish()?),
            (self.events.rows, self.events.finish()?),
        ];
        for ((rows, paths), (name, _)) in all.iter().zip(TABLES) {
            for path in paths {
                // Nothing of a String fails.
                let _ = writeln!(
                    text,
                    "netwhy: wrote {} with {} {}",
                    path.display(),
                    text::number(*rows),
                    if *rows == 1 { name.trim_end_matches('s') } else { name }
                );
            }
        }
        Ok(text)
    }
}

impl<Row> Table<Row> {
    fn new(columns: Vec<Column<Row>>) -> Self {
        Table { columns, sinks: Vec::new(), rows: 0, cells: Vec::new() }
    }

    fn csv(&mut self, path: &Path) -> anyhow::Result<()> {
        let file = BufWriter::with_capacity(1 << 18, create(path)?);
        let csv = Csv::begin(file, &self.columns).map_err(|error| failed(path, error))?;
        self.sinks.push((path.to_path_buf(), Box::new(csv)));
        Ok(())
    }

    fn add(&mut self, row: &Row, began_us: i64) -> anyhow::Result<()> {
        if self.sinks.is_empty() {
            return Ok(());
        }
        self.rows += 1;
        self.cells.clear();
        self.cells.extend(self.columns.iter().map(|column| (column.of)(row, began_us)));
        for (path, sink) in &mut self.sinks {
            sink.row(&self.cells).map_err(|error| failed(path, error))?;
        }
        Ok(())
    }

    /// The files that are written.
    fn finish(self) -> anyhow::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for (path, sink) in self.sinks {
            sink.finish().map_err(|error| failed(&path, error))?;
            if path != Path::new("standard output") {
                paths.push(path);
            }
        }
        Ok(paths)
    }
}

/// The files of a folder, which is made if it is not there.
fn paths(folder: &Path, extension: &str) -> anyhow::Result<[PathBuf; 3]> {
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::Observe(format!("cannot make the folder {}: {error}", folder.display()))
    })?;
    Ok(TABLES.map(|(name, _)| folder.join(format!("{name}.{extension}"))))
}

fn create(path: &Path) -> anyhow::Result<File> {
    File::create_new(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::Observe(format!(
            "cannot write {}: it exists, and is left alone; move it or name another folder",
            path.display()
        ))
        .into(),
        _ => failed(path, error),
    })
}

fn failed(path: &Path, error: std::io::Error) -> anyhow::Error {
    if crate::output::is_broken_pipe(&error) {
        return error.into();
    }
    Failure::Observe(format!("cannot write rows to {}: {error}", path.display())).into()
}

/// CSV (RFC 4180 with line feeds): names in the first line.
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

impl<W: Write + Send> Sink for Csv<W> {
    fn row(&mut self, cells: &[Cell]) -> std::io::Result<()> {
        self.line.clear();
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                self.line.push(',');
            }
            // Nothing of a String fails.
            let _ = match cell {
                Cell::Missing => Ok(()),
                Cell::Whole(value) => write!(self.line, "{value}"),
                Cell::Real(value) => write!(self.line, "{value}"),
                Cell::Truth(value) => write!(self.line, "{value}"),
                Cell::Words(words) => write!(self.line, "{}", quoted(words)),
            };
        }
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }

    fn finish(mut self: Box<Self>) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Words that are no more than one cell.
fn quoted(words: &str) -> std::borrow::Cow<'_, str> {
    if words.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", words.replace('"', "\"\"")).into()
    } else {
        words.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_csv() {
        let mut csv = Csv { out: Vec::new(), line: String::new() };
        let words = |words: &str| Cell::Words(words.to_string());
        let cells =
            [Cell::Whole(-1), Cell::Missing, Cell::Truth(true), words("a,\"b\""), words("c")];
        csv.row(&cells).unwrap();
        assert_eq!(csv.out, b"-1,,true,\"a,\"\"b\"\"\",c\n");
    }
}
