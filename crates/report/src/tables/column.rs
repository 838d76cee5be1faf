//! One column of a table: its name, what it means, how its cells are made.

/// The content of one cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Unknown, or not applicable.
    Missing,
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// An address, a name, a keyword.
    Text(String),
    /// True or false.
    Boolean(bool),
}

/// What all cells of a column contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// Whole numbers.
    Integer,
    /// Numbers.
    Float,
    /// Text.
    Text,
    /// True or false.
    Boolean,
}

impl CellKind {
    /// The name in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            CellKind::Integer => "integer",
            CellKind::Float => "number",
            CellKind::Text => "text",
            CellKind::Boolean => "true or false",
        }
    }
}

/// Makes the cell of a row. The second argument is the time of the first packet of the capture,
/// microseconds since 1970-01-01 UTC.
type MakeCell<Row> = dyn Fn(&Row, i64) -> Cell + Send + Sync;

/// One column.
pub struct Column<Row> {
    /// Name; ends with the unit: `_us`, `_bytes`.
    pub name: String,
    /// What its cells contain.
    pub kind: CellKind,
    /// What it means.
    pub description: String,
    /// Makes its cell of a row.
    pub cell: Box<MakeCell<Row>>,
}

/// The columns of a table, while they are listed.
pub(super) struct Columns<Row>(pub(super) Vec<Column<Row>>);

impl<Row> Columns<Row> {
    pub(super) fn new() -> Self {
        Columns(Vec::new())
    }

    fn add(
        &mut self,
        kind: CellKind,
        name: &str,
        description: &str,
        cell: impl Fn(&Row, i64) -> Cell + Send + Sync + 'static,
    ) {
        let (name, description) = (name.to_string(), description.to_string());
        self.0.push(Column { name, kind, description, cell: Box::new(cell) });
    }

    /// A column of whole numbers that are not negative.
    pub(super) fn integer(
        &mut self,
        name: &str,
        description: &str,
        value: impl Fn(&Row) -> Option<u64> + Send + Sync + 'static,
    ) {
        self.add(CellKind::Integer, name, description, move |row, _| {
            value(row).map_or(Cell::Missing, |value| Cell::Integer(to_i64(value)))
        });
    }

    /// A column of text.
    pub(super) fn text(
        &mut self,
        name: &str,
        description: &str,
        value: impl Fn(&Row) -> Option<String> + Send + Sync + 'static,
    ) {
        self.add(CellKind::Text, name, description, move |row, _| {
            value(row).map_or(Cell::Missing, Cell::Text)
        });
    }

    /// A column of truths.
    pub(super) fn boolean(
        &mut self,
        name: &str,
        description: &str,
        value: impl Fn(&Row) -> bool + Send + Sync + 'static,
    ) {
        self.add(CellKind::Boolean, name, description, move |row, _| Cell::Boolean(value(row)));
    }

    /// A column of times: `value` is the time since the first packet of the capture, microseconds.
    pub(super) fn unix_time(
        &mut self,
        name: &str,
        description: &str,
        value: impl Fn(&Row) -> u64 + Send + Sync + 'static,
    ) {
        self.add(CellKind::Integer, name, description, move |row, capture_start_us| {
            Cell::Integer(capture_start_us.saturating_add(to_i64(value(row))))
        });
    }
}

fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
