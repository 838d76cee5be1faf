//! Charts of a load: its latencies as a histogram, its responses over time as a sparkline.

use hdrhistogram::Histogram;
use model::HttpLoad;
use text::chart::{bar, sparkline};
use text::figures::significant;
use text::{Column, Table, micros, number, percent, share};

/// Columns of the longest bar.
const MAX_BAR_WIDTH: usize = 34;
/// Bars of the histogram: the bounds grow by a constant factor, at least by this one.
const BARS: usize = 12;
const MIN_BOUND_FACTOR: f64 = 1.05;
/// Most points of the sparkline, and fewest that are worth one.
const MAX_POINTS: usize = 60;
const MIN_POINTS: usize = 3;
/// Shorter intervals, at the end of the load, show no rate, seconds.
const MIN_INTERVAL_S: f64 = 0.2;

/// The distribution of the latencies; empty when there is none to show.
pub(super) fn latency_lines(latency: &Histogram<u64>, width: usize) -> Vec<String> {
    if latency.len() < 2 || latency.max() <= latency.min().max(1) {
        return Vec::new();
    }
    let bars = bars(latency);
    let largest = bars.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let mut table = Table::new([
        Column::right(""),
        Column::right(""),
        Column::left(" ".repeat(MAX_BAR_WIDTH)),
        Column::right(""),
    ]);
    for (bound_us, count) in bars {
        table.row([
            format!("up to {:>8}", micros(bound_us)),
            format!("{:>7}", percent(share(count as f64, latency.len() as f64))),
            bar(share(count as f64, largest as f64), MAX_BAR_WIDTH),
            format!("{:>11}", number(count)),
        ]);
    }
    let mut lines = vec![String::new(), "latency".to_string()];
    // A table begins with its headings, which are blank.
    lines.extend(table.lines("  ", width).into_iter().skip_while(String::is_empty));
    lines
}

/// Upper bounds of the bars, microseconds, and how many latencies each has.
fn bars(latency: &Histogram<u64>) -> Vec<(u64, u64)> {
    let (min, max) = (latency.min().max(1) as f64, latency.max() as f64);
    let factor = (max / min).powf(1.0 / BARS as f64).max(MIN_BOUND_FACTOR);
    let mut bars = Vec::new();
    let (mut bound, mut from) = (min, 0);
    while from <= latency.max() {
        bound *= factor;
        // A bucket of the histogram belongs to one bar.
        let bound_us = latency.highest_equivalent(bound.ceil() as u64);
        if bound_us >= from {
            bars.push((bound_us, latency.count_between(from, bound_us)));
            from = bound_us + 1;
        }
    }
    bars
}

/// Responses a second over time; empty for a short load.
pub(super) fn over_time_lines(load: &HttpLoad) -> Vec<String> {
    let rates: Vec<f64> = load
        .over_time
        .iter()
        .filter(|interval| interval.duration_s > MIN_INTERVAL_S)
        .map(|interval| interval.requests as f64 / interval.duration_s)
        .collect();
    if rates.len() < MIN_POINTS || load.requests == 0 {
        return Vec::new();
    }
    let per_point = rates.len().div_ceil(MAX_POINTS);
    let mean = |some: &[f64]| share(some.iter().sum(), some.len() as f64);
    let points: Vec<f64> = rates.chunks(per_point).map(mean).collect();
    let max = points.iter().copied().fold(0.0, f64::max);
    let min = points.iter().copied().fold(f64::INFINITY, f64::min);
    vec![
        String::new(),
        format!("responses a second over time, {} to {}", significant(min), significant(max)),
        format!("  {}", sparkline(&points)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_is_in_one_bar() {
        let mut latency = Histogram::new(3).unwrap();
        for us in 0..10_000_u64 {
            latency.record(us).unwrap();
        }
        let bars = bars(&latency);
        assert_eq!(bars.iter().map(|(_, count)| count).sum::<u64>(), 10_000);
        assert!(bars.len() <= BARS + 1, "{bars:?}");
        let lines = latency_lines(&latency, 80);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert_eq!(lines[1], "latency");
        assert!(bars.last().is_some_and(|(bound_us, _)| *bound_us >= latency.max()), "{bars:?}");
    }
}
