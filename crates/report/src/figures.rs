//! Figures as people read them: `1,193`, `11 MiB`, `3 min 20 s`, `0.4 %`.
//!
//! For eyes only: programs read the JSON, where numbers are numbers.

use std::time::Duration;

/// A whole number with a comma before each third digit: `1,193`.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in binary units (IEC 80000-13), two digits or more: `512 B`, `1.5 KiB`, `11 MiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if value < 1024 {
        return format!("{value} B");
    }
    let mut amount = value as f64 / 1024.0;
    let mut unit = 0;
    // 1023.5 would be shown as 1024.
    while amount >= 1023.5 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if amount < 9.95 {
        format!("{amount:.1} {}", UNITS[unit])
    } else {
        format!("{amount:.0} {}", UNITS[unit])
    }
}

/// A time in the one or two units that matter: `250 µs`, `45 ms`, `10.0 s`, `3 min 20 s`,
/// `2 h 5 min`, `3 d 4 h`.
pub fn duration(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => return format!("{micros} µs"),
        1_000..9_950 => return format!("{:.1} ms", micros as f64 / 1e3),
        9_950..999_500 => return format!("{:.0} ms", micros as f64 / 1e3),
        999_500..59_950_000 => return format!("{:.1} s", micros as f64 / 1e6),
        _ => {}
    }
    let seconds = (micros + 500_000) / 1_000_000;
    let two = |large: u128, one: &str, small: u128, other: &str| match small {
        0 => format!("{large} {one}"),
        _ => format!("{large} {one} {small} {other}"),
    };
    match seconds {
        0..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// A share (1 is the whole) in per cent: `30 %`, `0.4 %`, `<0.1 %`, `>99.9 %`. Never `0 %` for
/// something, never `100 %` for less than all. What is not a number is `? %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        return "? %".to_string();
    }
    match percent {
        0.0 => "0 %".to_string(),
        p if p > 0.0 && p < 0.05 => "<0.1 %".to_string(),
        p if p < 9.95 => format!("{p:.1} %"),
        p if p > 99.9 && p < 100.0 => ">99.9 %".to_string(),
        p if (99.5..100.0).contains(&p) => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{bytes, duration, number, percent};

    #[test]
    fn numbers() {
        let shown = [0, 12, 999, 1_000, 1_193, 262_144, 1_000_000, u64::MAX].map(number).join(" ");
        assert_eq!(shown, "0 12 999 1,000 1,193 262,144 1,000,000 18,446,744,073,709,551,615");
    }

    #[test]
    fn sizes() {
        let shown = [0, 1023, 1024, 1536, 10_189, 11 << 20, (1 << 20) - 1, u64::MAX].map(bytes);
        assert_eq!(
            shown.join(", "),
            "0 B, 1023 B, 1.0 KiB, 1.5 KiB, 10 KiB, 11 MiB, 1.0 MiB, 16 EiB"
        );
    }

    #[test]
    fn times() {
        let shown = [0, 250, 1_000, 45_000, 999_499, 999_500, 10_000_000, 59_949_999, 59_950_000]
            .map(|us| duration(Duration::from_micros(us)));
        assert_eq!(
            shown.join(", "),
            "0 µs, 250 µs, 1.0 ms, 45 ms, 999 ms, 1.0 s, 10.0 s, 59.9 s, 1 min"
        );
        let shown = [200, 3_599, 3_600, 7_500, 86_400, 273_600, u64::MAX]
            .map(|s| duration(Duration::from_secs(s)));
        assert_eq!(
            shown.join(", "),
            "3 min 20 s, 59 min 59 s, 1 h, 2 h 5 min, 1 d, 3 d 4 h, 213503982334601 d 7 h"
        );
    }

    #[test]
    fn shares() {
        let shown = [0.0, 1e-9, 0.0004, 0.004, 0.0994, 0.301, 0.996, 0.99999, 1.0, 1.7, f64::NAN]
            .map(percent);
        assert_eq!(
            shown.join(", "),
            "0 %, <0.1 %, <0.1 %, 0.4 %, 9.9 %, 30 %, 99.6 %, >99.9 %, 100 %, 170 %, ? %"
        );
    }
}
