//! What one end sent over time: a time-sequence plot in braille dots.

use model::{CapturedStream, Curve, CurveStep, Side};
use text::chart::{Axes, Canvas};
use text::{Style, bytes, micros, wrap};

/// Rows of the plot.
const ROWS: usize = 14;
/// Fewest bytes for which a plot is drawn.
const MIN_BYTES: u64 = 2;
/// Farthest right edge of a window that is shown, in quarters of the bytes sent.
const MAX_WINDOW_QUARTERS: u64 = 5;
/// Marks a retransmission.
const RETRANSMISSION: char = 'R';

pub(super) fn lines(stream: &CapturedStream, curve: &Curve, style: Style) -> Vec<String> {
    let Some(side) = curve.side else { return Vec::new() };
    let sent = curve.steps.last().map_or(0, |step| step.sent);
    if sent < MIN_BYTES || stream.span_us == 0 {
        return Vec::new();
    }
    let end = if side == Side::Client { stream.client } else { stream.server };
    let plot = Plot::new(curve, stream.span_us.saturating_mul(1_000), style);
    let column_us = stream.span_us / plot.canvas.columns().max(1) as u64;
    let title =
        format!("data sent by the {} {end}; one column is {}", side.name(), micros(column_us));
    let mut lines = vec![String::new()];
    lines.extend(wrap(&title, "", "  ", style.width));
    lines.extend(plot.canvas.lines(&Axes {
        vertical: [bytes(plot.top), bytes(plot.top / 2), bytes(0)],
        horizontal: ["0 s".to_string(), micros(stream.span_us / 2), micros(stream.span_us)],
    }));
    let right_edge = if plot.shows_right_edge { ", ⠂⠂ right edge of the window" } else { "" };
    let retransmitted = if curve.retransmitted.is_empty() { "" } else { ", R retransmitted" };
    let legend = format!("⣿ acknowledged, ⠒ sent{right_edge}{retransmitted}");
    let indent = " ".repeat(11);
    lines.extend(wrap(&legend, &indent, &indent, style.width));
    lines
}

struct Plot {
    canvas: Canvas,
    /// Bytes at the top.
    top: u64,
    shows_right_edge: bool,
}

impl Plot {
    fn new(curve: &Curve, span_ns: u64, style: Style) -> Self {
        let sent = curve.steps.last().map_or(1, |step| step.sent).max(1);
        let edges = curve.steps.iter().filter_map(|step| step.right_edge);
        // A window far larger than what is sent limits nothing.
        let max_edge = u128::from(sent) * u128::from(MAX_WINDOW_QUARTERS) / 4;
        let near = edges.filter(|edge| u128::from(*edge) <= max_edge).max();
        let top = near.map_or(sent, |edge| edge.max(sent));
        let canvas = Canvas::within(style.width, ROWS);
        let mut plot = Plot { canvas, top, shows_right_edge: false };
        let mut height_before = 0;
        for x in 0..plot.canvas.dots_wide() {
            let step = plot.step_at(curve, span_ns, x);
            if step.acknowledged > 0 {
                plot.draw(x, 0..=plot.height(step.acknowledged));
            }
            let height = plot.height(step.sent);
            plot.draw(x, height_before.min(height)..=height);
            height_before = height;
            // Every other dot, unlike the line of what is sent.
            if let Some(edge) = step.right_edge.filter(|edge| *edge <= top)
                && x % 2 == 0
            {
                plot.shows_right_edge = true;
                plot.canvas.dot(x, plot.height(edge));
            }
        }
        for (at_ns, byte) in &curve.retransmitted {
            let x = plot.canvas.x(at_ns.max(&0).unsigned_abs(), span_ns);
            plot.canvas.mark(x, plot.height(*byte), RETRANSMISSION);
        }
        plot
    }

    fn height(&self, bytes: u64) -> usize {
        self.canvas.y(bytes, self.top)
    }

    fn draw(&mut self, x: usize, heights: std::ops::RangeInclusive<usize>) {
        heights.for_each(|y| self.canvas.dot(x, y));
    }

    /// What was sent at the end of the time of a column of dots.
    fn step_at(&self, curve: &Curve, span_ns: u64, x: usize) -> CurveStep {
        let until_ns = u128::from(span_ns) * (x as u128 + 1) / self.canvas.dots_wide() as u128;
        let step = until_ns / u128::from(curve.step_ns.max(1).unsigned_abs());
        let last = curve.steps.len().saturating_sub(1);
        let step = usize::try_from(step).map_or(last, |step| step.min(last));
        curve.steps.get(step).copied().unwrap_or_default()
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
        let steps = (1..=130).map(|number| CurveStep {
            sent: number * 1000,
            acknowledged: number * 1000,
            right_edge: None,
        });
        let mut curve = curve(steps.collect());
        curve.retransmitted = vec![(-5, 0), (64_500_000, 65_000), (i64::MAX, u64::MAX)];
        let plot = Plot::new(&curve, 130_000_000, Style::default());
        assert_eq!((plot.top, plot.shows_right_edge), (130_000, false));
        let lines = plot.canvas.lines(&Axes::default());
        let lines: Vec<&str> =
            lines.iter().filter_map(|line| line.split_once('┤')).map(|l| l.1).collect();
        assert_eq!(lines.len(), ROWS);
        assert!(lines[0].starts_with(' ') && lines[0].ends_with('R'), "{lines:#?}");
        assert!(lines[ROWS - 1].starts_with('R') && lines[ROWS - 1].ends_with('⣿'));
        assert_eq!(lines[ROWS / 2].chars().nth(32), Some('R'));
    }

    #[test]
    fn a_window_far_away_is_left_out() {
        let far = CurveStep { sent: 100, acknowledged: 50, right_edge: Some(1000) };
        let plot = |step| Plot::new(&curve(vec![step; 3]), 3_000_000, Style::default());
        assert_eq!(plot(far).top, 100);
        let near = plot(CurveStep { right_edge: Some(120), ..far });
        assert!(near.shows_right_edge && near.top == 120);
    }
}
