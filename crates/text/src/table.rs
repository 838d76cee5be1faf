//! Tables: columns as wide as their widest cell, cells made safe for a terminal.
//!
//! A last column of text that is too wide for the line is wrapped under itself. In a line that is too
//! narrow for the other columns, the cells of a row follow each other, each after its heading.

use crate::sanitize;
use crate::wrap::{columns, wrap};

/// Spaces between two cells.
const CELL_SPACING: usize = 2;
/// Fewest columns of a last column that is wrapped.
const MIN_LAST_COLUMNS: usize = 20;

/// How the cells of a column are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// To the left: text.
    Left,
    /// To the right: figures.
    Right,
}

/// One column: its heading and how its cells are aligned.
#[derive(Debug, Clone)]
pub struct Column {
    heading: String,
    align: Align,
}

impl Column {
    /// A column of text.
    pub fn left(heading: impl Into<String>) -> Self {
        Column { heading: heading.into(), align: Align::Left }
    }

    /// A column of figures.
    pub fn right(heading: impl Into<String>) -> Self {
        Column { heading: heading.into(), align: Align::Right }
    }
}

/// A table that is being filled.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Debug, Clone)]
enum Row {
    Cells(Vec<String>),
    /// An indented text below the row before it.
    Note(String),
}

impl Table {
    /// An empty table with these columns.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Table { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row. Cells beyond the columns are dropped, missing ones are empty.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.add(cells.into_iter().map(|cell| sanitize::line(cell.as_ref()).into_owned()));
    }

    /// Adds a row whose cells may be painted (see [`crate::paint`](mod@crate::paint)); untrusted
    /// strings in them must be sanitized already.
    pub fn painted_row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.add(cells.into_iter().map(|cell| sanitize::output(cell.as_ref()).replace('\n', " ")));
    }

    fn add(&mut self, cells: impl Iterator<Item = String>) {
        self.rows.push(Row::Cells(cells.take(self.columns.len()).collect()));
    }

    /// Adds a text that belongs to the row before it.
    pub fn note(&mut self, text: &str) {
        self.rows.push(Row::Note(sanitize::lines(text).into_owned()));
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its lines of at most `width` columns, each beginning with `indent`. The headings come first,
    /// unless all are empty.
    pub fn lines(&self, indent: &str, width: usize) -> Vec<String> {
        let widths = self.widths();
        let side_by_side = self.fits(&widths, width.saturating_sub(columns(indent)));
        let mut lines = Vec::new();
        if self.has_headings() && side_by_side {
            let headings: Vec<String> =
                self.columns.iter().map(|column| column.heading.clone()).collect();
            self.put(&headings, &widths, indent, width, &mut lines);
        }
        for row in &self.rows {
            match row {
                Row::Cells(cells) if side_by_side => {
                    self.put(cells, &widths, indent, width, &mut lines);
                }
                Row::Cells(cells) => self.put_below(cells, indent, width, &mut lines),
                Row::Note(text) => {
                    let indent = format!("{indent}    ");
                    lines.extend(wrap(text, &indent, &format!("{indent}  "), width));
                }
            }
        }
        lines
    }

    fn has_headings(&self) -> bool {
        self.columns.iter().any(|column| !column.heading.is_empty())
    }

    /// Whether the columns fit side by side into this width.
    fn fits(&self, widths: &[usize], width: usize) -> bool {
        let Some(((last, wide), before)) =
            self.columns.last().zip(widths.last()).zip(widths.split_last().map(|(_, rest)| rest))
        else {
            return true;
        };
        let last = match last.align {
            Align::Left => (*wide).min(MIN_LAST_COLUMNS),
            Align::Right => *wide,
        };
        before.iter().map(|wide| wide + CELL_SPACING).sum::<usize>() + last <= width
    }

    /// A row where the columns do not fit side by side: its cells in one text, each after its heading;
    /// in a table without headings below each other.
    fn put_below(&self, cells: &[String], indent: &str, width: usize, lines: &mut Vec<String>) {
        let hang = format!("{indent}  ");
        if self.has_headings() {
            let filled = self.columns.iter().zip(cells).filter(|(_, cell)| !cell.is_empty());
            let named = filled.map(|(column, cell)| match column.heading.as_str() {
                "" => cell.clone(),
                heading => format!("{heading} {cell}"),
            });
            lines.extend(wrap(&named.collect::<Vec<_>>().join(", "), indent, &hang, width));
            return;
        }
        for (number, cell) in cells.iter().enumerate() {
            let indent = if number == 0 { indent } else { hang.as_str() };
            lines.extend(wrap(cell, indent, indent, width));
        }
    }

    /// The lines as one text, a line feed after each.
    pub fn text(&self, indent: &str, width: usize) -> String {
        self.lines(indent, width).into_iter().map(|line| line + "\n").collect()
    }

    fn widths(&self) -> Vec<usize> {
        let cells = |at: usize| {
            self.rows.iter().filter_map(move |row| match row {
                Row::Cells(cells) => cells.get(at).map(|cell| columns(cell)),
                Row::Note(_) => None,
            })
        };
        let widest = |(at, column): (usize, &Column)| {
            cells(at).chain([columns(&column.heading)]).max().unwrap_or(0)
        };
        self.columns.iter().enumerate().map(widest).collect()
    }

    fn put(
        &self,
        cells: &[String],
        widths: &[usize],
        indent: &str,
        width: usize,
        lines: &mut Vec<String>,
    ) {
        let mut line = indent.to_string();
        let last = self.columns.len().saturating_sub(1);
        for (at, (column, wide)) in self.columns.iter().zip(widths).enumerate() {
            let cell = cells.get(at).map_or("", String::as_str);
            let pad = " ".repeat(wide.saturating_sub(columns(cell)));
            if at == last && column.align == Align::Left {
                let start = columns(&line);
                if start + columns(cell) > width {
                    put_last(&line, cell, indent, width, lines);
                    return;
                }
                line.push_str(cell);
                break;
            }
            match column.align {
                Align::Left => line.push_str(&format!("{cell}{pad}")),
                Align::Right => line.push_str(&format!("{pad}{cell}")),
            }
            if at < last {
                line.push_str(&" ".repeat(CELL_SPACING));
            }
        }
        lines.push(line.trim_end().to_string());
    }
}

/// Finishes a line with a last cell that is wrapped under itself; below the line, if one of its words is
/// too long for that: addresses are not broken.
fn put_last(line: &str, cell: &str, indent: &str, width: usize, lines: &mut Vec<String>) {
    let start = columns(line);
    let longest_word = cell.split(' ').map(columns).max().unwrap_or(0);
    if start + longest_word > width {
        lines.push(line.trim_end().to_string());
        let indent = format!("{indent}    ");
        lines.extend(wrap(cell, &indent, &indent, width));
        return;
    }
    let hang = " ".repeat(start);
    for (number, part) in wrap(cell, "", "", width.saturating_sub(start)).iter().enumerate() {
        let before = if number == 0 { line } else { &hang };
        lines.push(format!("{before}{part}").trim_end().to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Paint, Style, paint};

    fn streams() -> Table {
        let mut table = Table::new([
            Column::right("stream"),
            Column::right("bytes"),
            Column::left("client > server"),
        ]);
        table.row(["7", "1,448 B", "198.18.0.1:40000 > 198.18.0.2:80"]);
        table.row(["1,024", "11 MiB", "a"]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        assert_eq!(
            streams().text("", 80),
            "stream    bytes  client > server\n     \
             7  1,448 B  198.18.0.1:40000 > 198.18.0.2:80\n \
             1,024   11 MiB  a\n"
        );
    }

    #[test]
    fn the_last_column_is_wrapped_under_itself() {
        assert_eq!(
            streams().lines("  ", 40),
            [
                "  stream    bytes  client > server",
                "       7  1,448 B  198.18.0.1:40000 >",
                "                   198.18.0.2:80",
                "   1,024   11 MiB  a",
            ]
        );
    }

    #[test]
    fn a_long_word_of_the_last_column_stands_below_its_row() {
        let mut table = Table::new([Column::right("stream"), Column::left("client")]);
        table.row(["7", "[2001:db8:1234:5678:9abc:def0:1234:5678]:40000 > b"]);
        assert_eq!(
            table.lines("", 52),
            [
                "stream  client",
                "     7",
                "    [2001:db8:1234:5678:9abc:def0:1234:5678]:40000 >",
                "    b"
            ]
        );
    }

    #[test]
    fn untrusted_cells_are_safe_and_missing_cells_are_empty() {
        let mut table = Table::new([Column::left(""), Column::right("")]);
        table.row(["a\x1b[2J\nb"]);
        table.row(["漢字", "1", "no such column"]);
        table.note("of the row\nabove");
        assert_eq!(
            table.lines("", 80),
            ["a\\x1b[2J\\nb", "漢字         1", "    of the row", "      above"]
        );
        assert!(!table.is_empty());
    }

    #[test]
    fn painted_cells_keep_their_colours_and_are_aligned() {
        let style = Style { colour: true, ..Style::default() };
        let mut table = Table::new([Column::left(""), Column::left("")]);
        table.painted_row([paint("id", Paint::Code, style), "a\x1b[2Jb".to_string()]);
        table.row(["longer", "text"]);
        assert_eq!(table.lines("", 80), ["\x1b[36mid\x1b[0m      a\\x1b[2Jb", "longer  text"]);
    }

    #[test]
    fn columns_that_do_not_fit_follow_each_other() {
        assert_eq!(
            streams().lines("  ", 30),
            [
                "  stream 7, bytes 1,448 B,",
                "    client > server",
                "    198.18.0.1:40000 >",
                "    198.18.0.2:80",
                "  stream 1,024, bytes 11 MiB,",
                "    client > server a",
            ]
        );
        let mut plain = Table::new([Column::left(""), Column::left("")]);
        plain.row(["a cell that is rather wide", "another one below it"]);
        assert_eq!(plain.lines("", 30), ["a cell that is rather wide", "  another one below it"]);
        let mut figures = Table::new([Column::left(""), Column::right("there")]);
        figures.row(["minimum delay", "1.0 ms"]);
        assert_eq!(figures.lines("", 20), ["minimum delay, there", "  1.0 ms"]);
        assert_eq!(Table::new([]).lines("", 20), [""; 0]);
    }
}
