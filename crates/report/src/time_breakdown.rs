//! Where time went, as bars.

use std::cmp::Reverse;

use model::{NetworkShare, TimeCategory};
use text::chart::bar;
use text::{Style, columns, micros, percent, wrap};

/// Columns of the longest bar, per 80 columns of the line.
const BAR_COLUMNS: usize = 34;
/// Fewest columns of the longest bar; in narrow lines the labels are wrapped.
const MIN_BAR_COLUMNS: usize = 8;
/// Categories with a smaller share of the time are summed up in one line.
const MIN_SHARE: f64 = 0.005;
/// The shortest bar: an eighth of a column.
const MIN_BAR: f64 = 0.125;

/// The time of each category as a bar, the longest first; round trips and transmission by their parts,
/// where these are known.
pub fn time_breakdown(
    times_us: &[(TimeCategory, u64)],
    network: &[NetworkShare],
    style: Style,
) -> Vec<String> {
    let width = style.within_bounds().width;
    let total = times_us.iter().map(|(_, us)| *us).fold(0, u64::saturating_add).max(1);
    let share = |us: u64| us as f64 / total as f64;
    let has_parts = !network.is_empty();
    let categories = times_us
        .iter()
        .filter(|(category, _)| !(has_parts && *category == TimeCategory::Network))
        .map(|(category, us)| (category.words(), *us));
    let parts = network.iter().map(|share| (share.part.words(), share.time_us));
    let mut sorted: Vec<_> = categories.chain(parts).filter(|(_, us)| *us > 0).collect();
    sorted.sort_by_key(|(_, us)| Reverse(*us));
    let longest = sorted.first().map_or(1, |(_, us)| *us);
    let (shown, other): (Vec<_>, Vec<_>) =
        sorted.into_iter().partition(|(_, us)| share(*us) >= MIN_SHARE);
    let rows: Vec<_> = shown
        .into_iter()
        .map(|(words, us)| (us, format!("{} {words}, {}", percent(share(us)), micros(us))))
        .collect();
    // The widest label limits all bars, which stay comparable.
    let widest = rows.iter().map(|(_, label)| columns(label)).max().unwrap_or(0);
    let room = width.saturating_sub(widest + 3).max(MIN_BAR_COLUMNS);
    let bar_columns = room.min(BAR_COLUMNS * width / Style::DEFAULT_WIDTH);
    let mut lines: Vec<_> = rows
        .into_iter()
        .flat_map(|(us, label)| {
            let length = (us as f64 / longest as f64).max(MIN_BAR / bar_columns as f64);
            wrap(&label, &format!("  {} ", bar(length, bar_columns)), "    ", width)
        })
        .collect();
    let other_us: u64 = other.iter().map(|(_, us)| *us).fold(0, u64::saturating_add);
    if other_us > 0 {
        lines.push(format!("  other {}", micros(other_us)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use model::NetworkPart;

    use super::*;

    #[test]
    fn bars_are_relative_to_the_longest_and_small_shares_are_summed_up() {
        let times = [
            (TimeCategory::Connect, 3),
            (TimeCategory::Network, 50_000),
            (TimeCategory::ServerThink, 200_000),
            (TimeCategory::Loss, 0),
        ];
        let lines = time_breakdown(&times, &[], Style { width: 60, ..Style::default() });
        assert_eq!(
            lines,
            [
                format!("  {} 80 % server think time, 200 ms", "█".repeat(17)),
                format!("  {}▎ 20 % round trips and transmission, 50 ms", "█".repeat(4)),
                "  other 3 µs".to_string(),
            ]
        );
        assert!(time_breakdown(&[], &[], Style::default()).is_empty());
        for width in [40, 80, 200] {
            for line in time_breakdown(&times, &[], Style { width, ..Style::default() }) {
                assert!(columns(&line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn parts_of_round_trips_and_transmission_stand_in_its_place() {
        let times = [(TimeCategory::Network, 100_000), (TimeCategory::ServerThink, 100_000)];
        let network = [
            NetworkShare { part: NetworkPart::SlowStart, time_us: 80_000 },
            NetworkShare { part: NetworkPart::PathRoundTrips, time_us: 20_000 },
        ];
        let text = time_breakdown(&times, &network, Style::default()).join("\n");
        for words in ["50 % server", "40 % slow start", "10 % round trips of the path"] {
            assert!(text.contains(words), "{text}");
        }
        assert!(!text.contains("and transmission"), "{text}");
    }
}
