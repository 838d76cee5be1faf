//! Rows as Parquet: rows are buffered and written as one row group, column by column.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use report::tables::{Cell, CellKind, Column};

use super::table_writer::TableWriter;

/// Rows of a row group: about 10 MiB of the widest table.
const ROWS_PER_GROUP: usize = 16 << 10;

/// A table in a file.
pub(super) struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<BufferedColumn>,
    rows: usize,
}

/// A column of the row group that is not written yet.
struct BufferedColumn {
    values: Values,
    /// For each row 1 if it has a value, 0 if it is null (Parquet's definition levels).
    definition_levels: Vec<i16>,
}

enum Values {
    Integer(Vec<i64>),
    Float(Vec<f64>),
    Text(Vec<ByteArray>),
    Boolean(Vec<bool>),
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn begin<Row>(file: W, columns: &[Column<Row>]) -> io::Result<Self> {
        let mut schema = "message rows {\n".to_string();
        for Column { name, kind, .. } in columns {
            let kind = match kind {
                CellKind::Integer => format!("INT64 {name}"),
                CellKind::Float => format!("DOUBLE {name}"),
                CellKind::Text => format!("BYTE_ARRAY {name} (STRING)"),
                CellKind::Boolean => format!("BOOLEAN {name}"),
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
        let buffered = columns.iter().map(|column| BufferedColumn {
            definition_levels: Vec::new(),
            values: match column.kind {
                CellKind::Integer => Values::Integer(Vec::new()),
                CellKind::Float => Values::Float(Vec::new()),
                CellKind::Text => Values::Text(Vec::new()),
                CellKind::Boolean => Values::Boolean(Vec::new()),
            },
        });
        Ok(Parquet { writer: writer.map_err(failed)?, columns: buffered.collect(), rows: 0 })
    }

    /// Writes the buffered rows.
    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            column.write(&mut group)?;
        }
        group.close()?;
        Ok(())
    }
}

impl BufferedColumn {
    fn add(&mut self, cell: &Cell) {
        let is_present = match (&mut self.values, cell) {
            (Values::Integer(values), Cell::Integer(value)) => {
                values.push(*value);
                true
            }
            (Values::Float(values), Cell::Float(value)) => {
                values.push(*value);
                true
            }
            (Values::Text(values), Cell::Text(words)) => {
                values.push(ByteArray::from(words.as_str()));
                true
            }
            (Values::Boolean(values), Cell::Boolean(value)) => {
                values.push(*value);
                true
            }
            _ => false,
        };
        self.definition_levels.push(i16::from(is_present));
    }

    fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("the row group has too few columns".to_string()));
        };
        let levels = Some(self.definition_levels.as_slice());
        match &mut self.values {
            Values::Integer(values) => {
                column.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Float(values) => {
                column.typed::<DoubleType>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Text(values) => {
                column.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Boolean(values) => {
                column.typed::<BoolType>().write_batch(values, levels, None)?;
                values.clear();
            }
        }
        self.definition_levels.clear();
        column.close()
    }
}

impl<W: Write + Send> TableWriter for Parquet<W> {
    fn row(&mut self, cells: &[Cell]) -> io::Result<()> {
        self.columns.iter_mut().zip(cells).for_each(|(column, cell)| column.add(cell));
        self.rows += 1;
        if self.rows >= ROWS_PER_GROUP { self.write_group().map_err(failed) } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.write_group().map_err(failed)?;
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
        let cell = Box::new(|_: &(), _: i64| Cell::Missing);
        Column { name: name.to_string(), kind, description: String::new(), cell }
    }

    #[test]
    fn rows_read_back_and_missing_cells_are_null() {
        let columns = [
            column("number", CellKind::Integer),
            column("share", CellKind::Float),
            column("name", CellKind::Text),
            column("yes", CellKind::Boolean),
        ];
        let file = tempfile::tempfile().unwrap();
        let mut table = Box::new(Parquet::begin(file.try_clone().unwrap(), &columns).unwrap());
        let rows = ROWS_PER_GROUP as i64 + 5;
        for number in 0..rows {
            let name = if number % 2 == 0 { Cell::Missing } else { Cell::Text("a".to_string()) };
            let cells = [Cell::Integer(-number), Cell::Float(0.5), name, Cell::Boolean(number > 7)];
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
