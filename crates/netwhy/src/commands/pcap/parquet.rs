//! Rows as Parquet: so many rows are kept and written as one group, each column by itself.

use std::fs::File;
use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use report::rows::{Cell, CellKind, Column};

use super::row_sink::Sink;

/// Rows of a group: of the widest table some 10 MiB.
const GROUP: usize = 16 << 10;

/// A table in a file.
pub(super) struct Parquet {
    writer: SerializedFileWriter<File>,
    columns: Vec<Values>,
    rows: usize,
}

/// What a column has of the group that is not written yet: its values, and for each row whether it
/// has one.
struct Values {
    of: Typed,
    there: Vec<i16>,
}

enum Typed {
    Whole(Vec<i64>),
    Real(Vec<f64>),
    Words(Vec<ByteArray>),
    Truth(Vec<bool>),
}

impl Parquet {
    pub(super) fn begin<Row>(file: File, columns: &[Column<Row>]) -> io::Result<Self> {
        let mut schema = "message rows {\n".to_string();
        for Column { name, kind, .. } in columns {
            let kind = match kind {
                CellKind::Whole => format!("INT64 {name}"),
                CellKind::Real => format!("DOUBLE {name}"),
                CellKind::Words => format!("BYTE_ARRAY {name} (STRING)"),
                CellKind::Truth => format!("BOOLEAN {name}"),
            };
            schema.push_str(&format!("OPTIONAL {kind};\n"));
        }
        schema.push('}');
        let schema = Arc::new(parse_message_type(&schema).map_err(failed)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_encoding(Encoding::PLAIN)
            .set_created_by(format!("netwhy {}", env!("CARGO_PKG_VERSION")))
            .build();
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties));
        let values = columns.iter().map(|column| Values {
            there: Vec::new(),
            of: match column.kind {
                CellKind::Whole => Typed::Whole(Vec::new()),
                CellKind::Real => Typed::Real(Vec::new()),
                CellKind::Words => Typed::Words(Vec::new()),
                CellKind::Truth => Typed::Truth(Vec::new()),
            },
        });
        Ok(Parquet { writer: writer.map_err(failed)?, columns: values.collect(), rows: 0 })
    }

    /// Writes what was kept.
    fn group(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let mut group = self.writer.next_row_group()?;
        for values in &mut self.columns {
            values.write(&mut group)?;
        }
        group.close()?;
        Ok(())
    }
}

impl Values {
    fn add(&mut self, cell: &Cell) {
        let there = match (&mut self.of, cell) {
            (Typed::Whole(values), Cell::Whole(value)) => {
                values.push(*value);
                true
            }
            (Typed::Real(values), Cell::Real(value)) => {
                values.push(*value);
                true
            }
            (Typed::Words(values), Cell::Words(words)) => {
                values.push(ByteArray::from(words.as_str()));
                true
            }
            (Typed::Truth(values), Cell::Truth(value)) => {
                values.push(*value);
                true
            }
            _ => false,
        };
        self.there.push(i16::from(there));
    }

    fn write(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> Result<(), ParquetError> {
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("a column too many".to_string()));
        };
        let there = Some(&self.there[..]);
        match &mut self.of {
            Typed::Whole(values) => {
                column.typed::<Int64Type>().write_batch(values, there, None)?;
                values.clear();
            }
            Typed::Real(values) => {
                column.typed::<DoubleType>().write_batch(values, there, None)?;
                values.clear();
            }
            Typed::Words(values) => {
                column.typed::<ByteArrayType>().write_batch(values, there, None)?;
                values.clear();
            }
            Typed::Truth(values) => {
                column.typed::<BoolType>().write_batch(values, there, None)?;
                values.clear();
            }
        }
        self.there.clear();
        column.close()
    }
}

impl Sink for Parquet {
    fn row(&mut self, cells: &[Cell]) -> io::Result<()> {
        self.columns.iter_mut().zip(cells).for_each(|(values, cell)| values.add(cell));
        self.rows += 1;
        if self.rows >= GROUP { self.group().map_err(failed) } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.group().map_err(failed)?;
        self.writer.close().map(|_| ()).map_err(failed)
    }
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;

    use super::*;

    fn column(name: &str, kind: CellKind) -> Column<()> {
        let of = Box::new(|_: &(), _: i64| Cell::Missing);
        Column { name: name.to_string(), kind, is: String::new(), of }
    }

    #[test]
    fn rows_come_back_and_what_is_missing_is_null() {
        let columns = [
            column("number", CellKind::Whole),
            column("share", CellKind::Real),
            column("name", CellKind::Words),
            column("yes", CellKind::Truth),
        ];
        let file = tempfile::tempfile().unwrap();
        let mut table = Box::new(Parquet::begin(file.try_clone().unwrap(), &columns).unwrap());
        let rows = GROUP as i64 + 5;
        for number in 0..rows {
            let name = if number % 2 == 0 { Cell::Missing } else { Cell::Words("a".to_string()) };
            let cells = [Cell::Whole(-number), Cell::Real(0.5), name, Cell::Truth(number > 7)];
            table.row(&cells).unwrap();
        }
        table.finish().unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let mut seen = 0;
        for row in reader.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            assert_eq!(row.get_long(0).unwrap(), -seen);
            assert_eq!(row.get_double(1).unwrap(), 0.5);
            assert_eq!(row.get_string(2).is_err(), seen % 2 == 0, "null has no text");
            assert_eq!(row.get_bool(3).unwrap(), seen > 7);
            seen += 1;
        }
        assert_eq!(seen, rows);
    }
}
