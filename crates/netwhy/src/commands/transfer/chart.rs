//! Data in flight at the sender over the time of one transfer, as a plot.

use model::{SendSample, TransferSender};
use text::chart::{Axes, Canvas};
use text::{bytes, micros};

use crate::output;

/// Rows of the plot.
const ROWS: usize = 10;
/// Fewest samples for which a plot is drawn.
const MIN_SAMPLES: usize = 4;
/// A window that is more times as large as the largest flight limits nothing: it is not drawn.
const MAX_WINDOW_FACTOR: u64 = 3;
/// Every so many columns of dots has one for the receive window.
const RECEIVE_WINDOW_SPACING: usize = 4;

fn flight(sample: &SendSample) -> u64 {
    u64::from(sample.unacked) * u64::from(sample.segment_bytes)
}

fn congestion_window(sample: &SendSample) -> u64 {
    u64::from(sample.cwnd) * u64::from(sample.segment_bytes)
}

fn receive_window(sample: &SendSample) -> Option<u64> {
    sample.snd_wnd_bytes.map(u64::from)
}

/// The lines of the plot of the slowest transfer; none without samples.
pub(super) fn lines(sender: &TransferSender) -> Vec<String> {
    let samples = &sender.samples;
    let span = samples.last().map_or(0, |last| last.at_us);
    let max_flight = samples.iter().map(flight).max().unwrap_or(0);
    if samples.len() < MIN_SAMPLES || span == 0 || max_flight == 0 {
        return Vec::new();
    }
    let is_near = |bytes: &u64| *bytes <= max_flight.saturating_mul(MAX_WINDOW_FACTOR);
    let congestion_windows = samples.iter().map(congestion_window).filter(is_near);
    let max_receive_window = samples.iter().filter_map(receive_window).filter(is_near).max();
    let top = congestion_windows.chain(max_receive_window).fold(max_flight, u64::max);
    let mut canvas = Canvas::within(output::columns(), ROWS);
    for x in 0..canvas.dots_wide() {
        let Some(sample) = sample_at(samples, span, x, canvas.dots_wide()) else { continue };
        if flight(sample) > 0 {
            (0..=canvas.y(flight(sample), top)).for_each(|y| canvas.dot(x, y));
        }
        if let Some(window) = Some(congestion_window(sample)).filter(is_near) {
            canvas.dot(x, canvas.y(window, top));
        }
        if let Some(window) = receive_window(sample).filter(is_near)
            && x.is_multiple_of(RECEIVE_WINDOW_SPACING)
        {
            canvas.dot(x, canvas.y(window, top));
        }
    }
    let before = samples.first().and_then(|first| first.retransmits).unwrap_or(0);
    let after = samples.last().and_then(|last| last.retransmits).unwrap_or(0);
    let retransmitted = match after.saturating_sub(before) {
        0 => String::new(),
        segments => format!(", {} retransmitted", text::count(segments.into(), "segment")),
    };
    let mut lines = vec![format!(
        "transfer {} of stream {}, the slowest at its sender{retransmitted}",
        sender.sampled_transfer + 1,
        sender.stream + 1
    )];
    lines.extend(canvas.lines(&Axes {
        vertical: [bytes(top), bytes(top / 2), bytes(0)],
        horizontal: ["0 s".to_string(), micros(span / 2), micros(span)],
    }));
    let receive_window = if max_receive_window.is_some() { ", ⠂⠂ receive window" } else { "" };
    lines.push(format!("           ⣿ in flight, ⠒ congestion window{receive_window}"));
    lines
}

/// The last sample before the end of the time of a column of dots.
fn sample_at(samples: &[SendSample], span: u64, x: usize, columns: usize) -> Option<&SendSample> {
    let until = u128::from(span) * (x as u128 + 1) / columns.max(1) as u128;
    let after = samples.partition_point(|sample| u128::from(sample.at_us) <= until);
    samples.get(after.saturating_sub(1)).or(samples.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(samples: Vec<SendSample>) -> TransferSender {
        TransferSender { sampled_transfer: 2, samples, ..TransferSender::default() }
    }

    #[test]
    fn a_window_that_doubles_is_drawn_within_80_columns() {
        let samples = (0..100_u32).map(|number| SendSample {
            at_us: u64::from(number) * 10_000,
            cwnd: 10 << (number / 20),
            unacked: 10 << (number / 20),
            segment_bytes: 1448,
            snd_wnd_bytes: Some(400_000),
            ..SendSample::default()
        });
        let lines = lines(&sender(samples.collect()));
        assert_eq!(lines.len(), ROWS + 3);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert_eq!(lines[0], "transfer 3 of stream 1, the slowest at its sender");
        assert!(lines[1].starts_with("  391 KiB ┤⠁") && lines[ROWS].ends_with('⣿'), "{lines:#?}");
        assert!(lines[ROWS + 2].contains("receive window"));
    }

    #[test]
    fn nothing_is_drawn_without_samples() {
        assert!(lines(&sender(Vec::new())).is_empty());
        let idle = SendSample { at_us: 5, ..SendSample::default() };
        assert!(lines(&sender(vec![idle; 9])).is_empty());
        let odd = SendSample {
            at_us: 5,
            cwnd: u32::MAX,
            unacked: u32::MAX,
            segment_bytes: u32::MAX,
            snd_wnd_bytes: Some(u32::MAX),
            ..SendSample::default()
        };
        assert!(lines(&sender(vec![odd; 9])).iter().all(|line| line.chars().count() <= 80));
    }
}
