//! A route as a table of statistics, as mtr(8) shows it.

use model::{Hop, Route};
use text::figures::round_trip;
use text::{Column, Table, columns, number, percent, sanitize, share, wrap};

use super::notes::{heading, notes};
use crate::output;

/// Columns between two columns of the table.
const CELL_SPACING: usize = 2;
/// Fewest columns of a figure, so that the table does not move when it is redrawn: a time below 1000 ms.
const MIN_FIGURE_WIDTH: usize = 5;
/// The headings.
const HOP: &str = "hop";
const FIGURES: [&str; 7] = ["loss", "sent", "last", "avg", "best", "worst", "jitter"];

/// The table and the notes.
pub(super) fn text(route: &Route) -> String {
    let mut lines = wrap(&heading(route), "", "  ", output::columns());
    lines.extend(table(route).lines("", output::columns()));
    lines.push("times in milliseconds".to_string());
    for note in notes(route) {
        lines.extend(wrap(&note, "", "  ", output::columns()));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

fn table(route: &Route) -> Table {
    let rows: Vec<[String; 8]> = route.hops.iter().map(figures).collect();
    // The name has the room that the figures leave.
    let headings = FIGURES.map(|heading| format!("{heading:>MIN_FIGURE_WIDTH$}"));
    let width = |(column, heading): (usize, &String)| {
        let cells = rows.iter().filter_map(|row| row.get(column + 1)).map(|cell| columns(cell));
        CELL_SPACING + cells.max().unwrap_or(0).max(columns(heading))
    };
    let others: usize = headings.iter().enumerate().map(width).sum();
    let name_width = output::columns().saturating_sub(others + HOP.len() + CELL_SPACING);
    let name = Column::left(format!("{:<name_width$}", "router"));
    let columns = [Column::right(HOP), name].into_iter();
    let mut table = Table::new(columns.chain(headings.map(Column::right)));
    for (hop, row) in route.hops.iter().zip(rows) {
        let [ttl, figures @ ..] = row;
        table.row([ttl, router_name(hop, name_width)].into_iter().chain(figures));
    }
    table
}

/// The number of a hop and its figures, in the order of the headings.
fn figures(hop: &Hop) -> [String; 8] {
    let loss = match hop.completed {
        _ if hop.rate_limits_replies => "(lim)".to_string(),
        0 => String::new(),
        completed => percent(1.0 - share(hop.received as f64, completed as f64)),
    };
    let time = |ms: Option<f64>| match ms {
        Some(ms) => round_trip(ms).trim_end_matches(" ms").to_string(),
        None => String::new(),
    };
    let times = hop.round_trip;
    [
        hop.ttl.to_string(),
        loss,
        number(hop.sent),
        time(times.map(|times| times.last_ms)),
        time(times.map(|times| times.mean_ms)),
        time(times.map(|times| times.min_ms)),
        time(times.map(|times| times.max_ms)),
        time(times.and_then(|times| times.jitter_ms)),
    ]
}

/// The most frequent router of a hop and the number of others, in at most `width` columns.
fn router_name(hop: &Hop, width: usize) -> String {
    let Some(router) = hop.routers.first() else { return "*".to_string() };
    let name = match &router.name {
        Some(name) => sanitize::line(name).into_owned(),
        None => router.address.to_string(),
    };
    let others = match hop.routers.len() - 1 {
        0 => String::new(),
        others => format!(" +{others}"),
    };
    let room = width.saturating_sub(others.len());
    let name: String = match columns(&name) > room {
        true => name.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        false => name,
    };
    name + &others
}

#[cfg(test)]
mod tests {
    use super::super::show::test_route;
    use super::*;

    #[test]
    fn text_fits_eighty_columns() {
        let mut route = test_route();
        for reached in [true, false] {
            route.reached = reached;
            let text = text(&route);
            for line in text.lines() {
                assert!(line.chars().count() <= output::columns(), "{line}");
            }
            assert!(text.contains("hop 2 replies to fewer packets"), "{text}");
            assert!(text.contains("  1  a-router-with-a-name-o"), "{text}");
            assert!(text.contains("…    0 %      3  0.000  0.000  0.000  1234.5\n"), "{text}");
        }
    }
}
