//! The page of all columns, as Markdown.

use super::column::Column;
use super::{events, exchanges, streams};

/// The tables: the name of the file, what a row is.
pub const TABLES: [(&str, &str); 3] = [
    ("streams", "one row for each TCP stream"),
    ("exchanges", "one row for each exchange: a request and its response"),
    ("events", "one row for each event that may cost time"),
];

/// `docs/columns.md`.
pub fn page() -> String {
    let mut text = "\
# Captures as tables

`netwhy pcap FILE --csv FOLDER` and `--parquet FOLDER` write three tables. Columns that end with
`_us` are microseconds, those that end with `_bytes` bytes; all others are counts or text. An empty
cell of CSV, or a null of Parquet, is unknown, never zero. Streams are written when they end, exchanges
and events in the order of the capture.
"
    .to_string();
    let [streams, exchanges, events] = TABLES;
    section(&mut text, streams, &streams::streams());
    section(&mut text, exchanges, &exchanges::exchanges());
    section(&mut text, events, &events::events());
    text
}

fn section<Row>(text: &mut String, (name, row): (&str, &str), columns: &[Column<Row>]) {
    text.push_str(&format!("\n## {name}\n\n{name}.csv, {name}.parquet: {row}.\n\n"));
    text.push_str("| column | type | description |\n|---|---|---|\n");
    for Column { name, kind, description, .. } in columns {
        text.push_str(&format!("| `{name}` | {} | {description} |\n", kind.name()));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names<Row>(columns: &[Column<Row>]) -> BTreeSet<String> {
        let names: BTreeSet<String> = columns.iter().map(|column| column.name.clone()).collect();
        assert_eq!(names.len(), columns.len(), "a name occurs twice");
        for column in columns {
            assert!(column.description.len() > 10, "{}", column.name);
            assert!(!column.description.contains(['|', '\n']), "{}", column.name);
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(column.name.chars().all(plain), "{}", column.name);
        }
        names
    }

    #[test]
    fn columns_have_unique_names_and_a_description() {
        assert!(names(&streams::streams()).contains("server_round_trip_min_us"));
        assert!(names(&exchanges::exchanges()).contains("server_think_us"));
        assert!(names(&events::events()).contains("waited_us"));
        assert!(page().contains("| `loss_us` | integer | time breakdown: "));
    }
}
