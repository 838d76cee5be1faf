//! What the sender had on its way over the time of one transfer, in the dots of braille.

use std::time::Duration;

use model::{SendSample, TransferSender};

/// Characters of the plot, without its labels; each has two dots side by side, four on each other.
const COLUMNS: usize = 65;
const ROWS: usize = 10;
const DOTS: (usize, usize) = (COLUMNS * 2, ROWS * 4);
/// Columns of the labels.
const LABEL: usize = 9;
/// The first of the characters of braille, which have a bit for each dot.
const BRAILLE: u32 = 0x2800;
/// The bits of the dots of a character, by column and row.
const BITS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
/// Fewest samples that are worth a plot.
const LEAST: usize = 4;
/// A limit that is more times the flight than this is no limit: it is left out.
const FAR: u64 = 3;

fn flight(sample: &SendSample) -> u64 {
    u64::from(sample.unacked) * u64::from(sample.segment_bytes)
}

fn window(sample: &SendSample) -> u64 {
    u64::from(sample.cwnd) * u64::from(sample.segment_bytes)
}

/// The lines of the plot of the transfer that took longest; none without samples.
pub(super) fn lines(sender: &TransferSender) -> Vec<String> {
    let samples = &sender.samples;
    let span = samples.last().map_or(0, |last| last.at_us);
    let most = samples.iter().map(flight).max().unwrap_or(0);
    if samples.len() < LEAST || span == 0 || most == 0 {
        return Vec::new();
    }
    let near = |bytes: u64| bytes <= most.saturating_mul(FAR);
    let windows = samples.iter().map(window).filter(|bytes| near(*bytes));
    let edges = samples.iter().filter_map(|sample| sample.snd_wnd_bytes.map(u64::from));
    let edge = edges.clone().filter(|bytes| near(*bytes)).max();
    let top = windows.chain(edge).chain([most]).max().unwrap_or(most).max(1);
    let mut cells = vec![0; COLUMNS * ROWS];
    let mut dot = |x: usize, y: usize| {
        let place = (ROWS - 1 - y / 4) * COLUMNS + x / 2;
        if let Some(cell) = cells.get_mut(place) {
            *cell |= BITS[x % 2][3 - y % 4];
        }
    };
    let height =
        |bytes: u64| (u128::from(bytes.min(top)) * (DOTS.1 as u128 - 1) / u128::from(top)) as usize;
    for x in 0..DOTS.0 {
        let sample = at(samples, span, x);
        if flight(sample) > 0 {
            (0..=height(flight(sample))).for_each(|y| dot(x, y));
        }
        if near(window(sample)) {
            dot(x, height(window(sample)));
        }
        let edge = sample.snd_wnd_bytes.map(u64::from).filter(|bytes| near(*bytes));
        if let Some(edge) = edge.filter(|_| x % 4 == 0) {
            dot(x, height(edge));
        }
    }
    let mut lines = Vec::new();
    let before = samples.first().and_then(|first| first.retransmits).unwrap_or(0);
    let after = samples.last().and_then(|last| last.retransmits).unwrap_or(0);
    let words = match after.saturating_sub(before) {
        0 => String::new(),
        again => format!(", {} sent again", text::number(again.into())),
    };
    lines.push(format!(
        "transfer {} of stream {}, the slowest at its sender{words}",
        sender.sampled_transfer + 1,
        sender.stream + 1
    ));
    for (row, cells) in cells.chunks(COLUMNS).enumerate() {
        // The middle of the first row is the top, that of the last row 0.
        let label = match row {
            0 => text::bytes(top),
            row if row == ROWS / 2 => text::bytes(top / 2),
            row if row == ROWS - 1 => "0 B".to_string(),
            _ => String::new(),
        };
        let shown: String = cells
            .iter()
            .map(|dots| match dots {
                0 => ' ',
                dots => char::from_u32(BRAILLE + dots).unwrap_or(' '),
            })
            .collect();
        lines.push(format!("{label:>LABEL$} ┤{}", shown.trim_end()));
    }
    let time = |us: u64| text::duration(Duration::from_micros(us));
    let (middle, last) = (time(span / 2), time(span));
    let half = COLUMNS / 2;
    let width = COLUMNS - last.chars().count();
    let axis: String = format!("{:<half$}{middle:<half$}", "0 s").chars().take(width).collect();
    lines.push(format!("{:>LABEL$}  {axis:<width$}{last}", ""));
    let edge = if edge.is_some() { ", ⠂⠂ receive window" } else { "" };
    lines.push(format!("{:>LABEL$}  ⣿ on its way, ⠒ congestion window{edge}", ""));
    lines
}

/// What was known at the time of this column of dots.
fn at(samples: &[SendSample], span: u64, x: usize) -> &SendSample {
    let until = u128::from(span) * (x as u128 + 1) / DOTS.0 as u128;
    let after = samples.partition_point(|sample| u128::from(sample.at_us) <= until);
    &samples[after.saturating_sub(1).min(samples.len() - 1)]
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
    fn nothing_is_drawn_of_nothing() {
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
