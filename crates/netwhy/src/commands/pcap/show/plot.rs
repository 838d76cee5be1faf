//! What one end sent over time: a time-sequence plot in the dots of braille.

use std::time::Duration;

use model::{CapturedStream, Curve, CurveStep, Side};

use ::text::micros;

use super::lines::put as text;

/// Characters of the plot, without its labels; each has two dots side by side, four on each other.
const COLUMNS: usize = 65;
const ROWS: usize = 14;
const DOTS: (usize, usize) = (COLUMNS * 2, ROWS * 4);
/// Columns of the labels.
const LABEL: usize = 9;
/// The first of the characters of braille, which have a bit for each dot.
const BRAILLE: u32 = 0x2800;
/// The bits of the dots of a character, by column and row.
const BITS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
/// Fewest bytes that are worth a plot.
const LEAST: u64 = 2;

pub(super) fn put(out: &mut String, stream: &CapturedStream, curve: &Curve) {
    let Some(side) = curve.side else { return };
    let sent = curve.steps.last().map_or(0, |step| step.sent);
    if sent < LEAST || stream.span_us == 0 {
        return;
    }
    let end = if side == Side::Client { stream.client } else { stream.server };
    out.push('\n');
    let width = text::duration(Duration::from_micros(stream.span_us / COLUMNS as u64));
    let title = format!("what the {} {end} sent, a column is {width}", side.name());
    text(out, "", &title);
    let grid = Grid::of(curve, stream.span_us.saturating_mul(1_000));
    for (row, line) in grid.lines().into_iter().enumerate() {
        // The middle of the first row is the top, that of the last row 0.
        let label = match row {
            0 => text::bytes(grid.top),
            row if row == ROWS / 2 => text::bytes(grid.top / 2),
            row if row == ROWS - 1 => "0 B".to_string(),
            _ => String::new(),
        };
        out.push_str(&format!("{label:>LABEL$} ┤{line}"));
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    }
    let (middle, last) = (micros(stream.span_us / 2), micros(stream.span_us));
    let half = COLUMNS / 2;
    let axis = format!("{:<half$}{middle:<half$}", "0 s");
    let axis: String = axis.chars().take(COLUMNS - last.chars().count()).collect();
    let width = COLUMNS - last.chars().count();
    out.push_str(&format!("{:>LABEL$}  {axis:<width$}{last}\n", ""));
    let again = if curve.retransmitted.is_empty() { "" } else { ", R sent again" };
    let edge = if grid.shows_edge { ", ⠂⠂ end of the window" } else { "" };
    text(out, "           ", &format!("⣿ acknowledged, ⠒ sent{edge}{again}"));
}

/// The dots.
struct Grid {
    cells: Vec<u32>,
    marks: Vec<bool>,
    top: u64,
    span_ns: u64,
    shows_edge: bool,
}

impl Grid {
    fn of(curve: &Curve, span_ns: u64) -> Self {
        let sent = curve.steps.last().map_or(1, |step| step.sent).max(1);
        let edges = curve.steps.iter().filter_map(|step| step.right_edge);
        // A window that is far beyond what is sent limits nothing.
        let near = edges.filter(|edge| *edge <= sent.saturating_add(sent / 4)).max();
        let top = near.map_or(sent, |edge| edge.max(sent));
        let mut grid = Grid {
            cells: vec![0; COLUMNS * ROWS],
            marks: vec![false; COLUMNS * ROWS],
            top,
            span_ns: span_ns.max(1),
            shows_edge: false,
        };
        let mut before = 0;
        for x in 0..DOTS.0 {
            let step = grid.step(curve, x);
            if step.acknowledged > 0 {
                (0..=grid.height(step.acknowledged)).for_each(|y| grid.dot(x, y));
            }
            let height = grid.height(step.sent);
            (before.min(height)..=height).for_each(|y| grid.dot(x, y));
            before = height;
            if let Some(edge) = step.right_edge.filter(|edge| *edge <= top)
                && x % 2 == 0
            {
                grid.shows_edge = true;
                let height = grid.height(edge);
                grid.dot(x, height);
            }
        }
        for (at_ns, byte) in &curve.retransmitted {
            let x = (u128::from(at_ns.max(&0).unsigned_abs()) * DOTS.0 as u128
                / u128::from(grid.span_ns)) as usize;
            let y = grid.height(*byte);
            let place = grid.cell(x.min(DOTS.0 - 1), y);
            if let Some(mark) = grid.marks.get_mut(place) {
                *mark = true;
            }
        }
        grid
    }

    /// What was sent until the time of this column of dots was over.
    fn step(&self, curve: &Curve, x: usize) -> CurveStep {
        let until = u128::from(self.span_ns) * (x as u128 + 1) / DOTS.0 as u128;
        let place = until / u128::from(curve.step_ns.max(1).unsigned_abs());
        let last = curve.steps.len().saturating_sub(1);
        curve.steps.get((place as usize).min(last)).copied().unwrap_or_default()
    }

    fn height(&self, bytes: u64) -> usize {
        let height = u128::from(bytes.min(self.top)) * (DOTS.1 as u128 - 1) / u128::from(self.top);
        height as usize
    }

    fn cell(&self, x: usize, y: usize) -> usize {
        (ROWS - 1 - y / 4) * COLUMNS + x / 2
    }

    fn dot(&mut self, x: usize, y: usize) {
        let place = self.cell(x, y);
        if let Some(cell) = self.cells.get_mut(place) {
            *cell |= BITS[x % 2][3 - y % 4];
        }
    }

    fn lines(&self) -> Vec<String> {
        let cells = self.cells.chunks(COLUMNS).zip(self.marks.chunks(COLUMNS));
        cells
            .map(|(cells, marks)| {
                let shown = cells.iter().zip(marks).map(|(dots, mark)| match (dots, mark) {
                    (_, true) => 'R',
                    (0, false) => ' ',
                    (dots, false) => char::from_u32(BRAILLE + dots).unwrap_or(' '),
                });
                shown.collect()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(steps: Vec<CurveStep>) -> Curve {
        Curve { side: Some(Side::Server), step_ns: 1_000_000, steps, retransmitted: Vec::new() }
    }

    #[test]
    fn a_straight_line_rises_from_corner_to_corner() {
        let steps = (1..=130).map(|place| CurveStep {
            sent: place * 1000,
            acknowledged: place * 1000,
            right_edge: None,
        });
        let mut curve = curve(steps.collect());
        curve.retransmitted = vec![(-5, 0), (64_500_000, 65_000), (i64::MAX, u64::MAX)];
        let grid = Grid::of(&curve, 130_000_000);
        let lines = grid.lines();
        assert_eq!((lines.len(), grid.top, grid.shows_edge), (ROWS, 130_000, false));
        assert!(lines.iter().all(|line| line.chars().count() == COLUMNS));
        assert!(lines[0].starts_with(' ') && lines[0].ends_with('R'));
        assert!(lines[ROWS - 1].starts_with('R') && lines[ROWS - 1].ends_with('⣿'));
        assert_eq!(lines[ROWS / 2].chars().nth(32), Some('R'));
    }

    #[test]
    fn a_window_far_away_is_left_out() {
        let far = CurveStep { sent: 100, acknowledged: 50, right_edge: Some(1000) };
        assert_eq!(Grid::of(&curve(vec![far; 3]), 3_000_000).top, 100);
        let near = CurveStep { right_edge: Some(120), ..far };
        let grid = Grid::of(&curve(vec![near; 3]), 3_000_000);
        assert!(grid.shows_edge && grid.top == 120);
    }
}
