//! Bars and sparklines out of block elements (Unicode U+2581 to U+258F).

/// A bar of up to `columns` columns for a share of 0 to 1, exact to an eighth of a column.
pub fn bar(share: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (share * columns as f64 * 8.0).round() as usize;
    let part = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    format!("{}{part}", "█".repeat(eighths / 8))
}

/// One column for each value, its height relative to the largest.
pub fn sparkline(values: &[f64]) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let step = |value: &f64| {
        let share = if largest > 0.0 && value.is_finite() { value / largest } else { 0.0 };
        let at = (share * (STEPS.len() - 1) as f64).round().max(0.0) as usize;
        STEPS.get(at).copied().unwrap_or('█')
    };
    values.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_exact_to_an_eighth() {
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(1.0 / 32.0, 4), "▏");
        assert_eq!(bar(7.0, 4), "████");
        assert_eq!(bar(f64::NAN, 4), "");
    }

    #[test]
    fn sparklines_are_relative_to_their_largest() {
        assert_eq!(sparkline(&[0.0, 50.0, 100.0]), "▁▅█");
        assert_eq!(sparkline(&[0.0, f64::NAN, -1.0]), "▁▁▁");
        assert_eq!(sparkline(&[]), "");
    }
}
