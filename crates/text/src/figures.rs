//! Numbers with their units, as output shows them. Programs read the JSON, where numbers are numbers.

use std::time::Duration;

/// Sizes below this are shown to the byte: a few bytes more or less matter in segments and messages.
const EXACT_BYTES: u64 = 10_240;

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

/// A number and what it counts: `1 connection`, `2 connections`, `0 queries`.
pub fn count(value: u64, singular: &str) -> String {
    if value == 1 {
        return format!("1 {singular}");
    }
    let number = number(value);
    let vowel_before_y = |stem: &str| stem.ends_with(['a', 'e', 'i', 'o', 'u']);
    match singular.strip_suffix('y') {
        Some(stem) if !vowel_before_y(stem) => format!("{number} {stem}ies"),
        _ if singular.ends_with(['s', 'x']) || singular.ends_with("ch") => {
            format!("{number} {singular}es")
        }
        _ => format!("{number} {singular}s"),
    }
}

/// A size in bytes or binary units (IEC 80000-13): `1,448 B`, `11 KiB`, `1.5 MiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if value < EXACT_BYTES {
        return format!("{} B", number(value));
    }
    let mut amount = value as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for larger in units {
        // 1023.5 would be shown as 1024.
        if amount < 1023.5 {
            break;
        }
        amount /= 1024.0;
        unit = larger;
    }
    if amount < 9.95 { format!("{amount:.1} {unit}") } else { format!("{amount:.0} {unit}") }
}

/// A size in the powers of 1000 in which users give it: `4 MB`; a size that is no multiple of 1000 as
/// [`bytes`] shows it.
pub fn bytes_as_given(value: u64) -> String {
    match value {
        value if value < 1_000 || !value.is_multiple_of(1_000) => bytes(value),
        1_000..1_000_000 => format!("{} kB", value / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", significant(value as f64 / 1e6)),
        _ => format!("{} GB", significant(value as f64 / 1e9)),
    }
}

/// A bit rate, in powers of 1000, three digits: `64 kbit/s`, `2.7 Mbit/s`, `1.25 Gbit/s`.
pub fn bit_rate(bits_per_second: f64) -> String {
    if !bits_per_second.is_finite() || bits_per_second < 0.0 {
        return "? bit/s".to_string();
    }
    let (value, unit) = match bits_per_second {
        rate if rate >= 999.5e6 => (rate / 1e9, "Gbit/s"),
        rate if rate >= 999.5e3 => (rate / 1e6, "Mbit/s"),
        rate if rate >= 999.5 => (rate / 1e3, "kbit/s"),
        rate => (rate, "bit/s"),
    };
    format!("{} {unit}", significant(value))
}

/// At least three digits of a number, no zeros at the end of a fraction: `2.7`, `12.5`, `941`,
/// `1,250`.
pub fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => return number(value.max(0.0).round() as u64),
    };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A duration in the one or two units that matter: `250 µs`, `45 ms`, `10.0 s`, `3 min 20 s`,
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

/// [`duration`] of microseconds.
pub fn micros(us: u64) -> String {
    duration(Duration::from_micros(us))
}

/// A time in microseconds with the digits that comparing two clocks needs: `0 µs`, `1.2 ms`, `80.0 ms`,
/// `3.602 s`, `-40 µs`. NaN and infinities are `? µs`.
pub fn precise_micros(us: f64) -> String {
    if !us.is_finite() {
        return "? µs".to_string();
    }
    let sign = if us <= -0.5 { "-" } else { "" };
    let text = match us.abs() {
        us if us >= 1e8 => format!("{} s", number((us / 1e6).round() as u64)),
        us if us >= 1e6 => format!("{:.3} s", us / 1e6),
        us if us >= 1e5 => format!("{:.0} ms", us / 1e3),
        us if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        us => format!("{us:.0} µs"),
    };
    format!("{sign}{text}")
}

/// A round trip with the four digits that ping(8) prints: `0.214 ms`, `21.40 ms`, `214.0 ms`.
pub fn round_trip(ms: f64) -> String {
    match ms {
        ms if ms < 9.9995 => format!("{ms:.3} ms"),
        ms if ms < 99.995 => format!("{ms:.2} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

/// A share (1 is the whole) as a percentage: `30 %`, `0.4 %`, `0.04 %`, `<0.01 %`, `>99.9 %`. Never
/// `0 %` for more than nothing, never `100 %` for less than all. NaN and infinities are `? %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        return "? %".to_string();
    }
    match percent {
        0.0 => "0 %".to_string(),
        p if p > 0.0 && p < 0.01 => "<0.01 %".to_string(),
        p if p > 0.0 && p < 0.095 => format!("{p:.2} %"),
        p if p < 9.95 => format!("{p:.1} %"),
        p if p > 99.9 && p < 100.0 => ">99.9 %".to_string(),
        p if (99.5..100.0).contains(&p) => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// A part of a whole; 0 when the whole is nothing.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 && part.is_finite() { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_counts() {
        let shown = [0, 12, 999, 1_000, 1_193, 262_144, 1_000_000, u64::MAX].map(number).join(" ");
        assert_eq!(shown, "0 12 999 1,000 1,193 262,144 1,000,000 18,446,744,073,709,551,615");
        assert_eq!(count(1, "query"), "1 query");
        let shown = ["query", "socket", "address", "branch", "day"].map(|one| count(2_000, one));
        assert_eq!(
            shown.join(", "),
            "2,000 queries, 2,000 sockets, 2,000 addresses, 2,000 branches, 2,000 days"
        );
        assert_eq!(count(0, "socket"), "0 sockets");
    }

    #[test]
    fn sizes() {
        let shown =
            [0, 1_448, 10_239, 10_240, 11 << 20, 3 << 19, (1 << 20) - 1, u64::MAX].map(bytes);
        assert_eq!(
            shown.join(", "),
            "0 B, 1,448 B, 10,239 B, 10 KiB, 11 MiB, 1.5 MiB, 1.0 MiB, 16 EiB"
        );
        let shown = [512, 1_000, 4_000_000, 2_500_000_000, 32 << 10].map(bytes_as_given);
        assert_eq!(shown.join(", "), "512 B, 1 kB, 4 MB, 2.5 GB, 32 KiB");
    }

    #[test]
    fn bit_rates() {
        let shown = [0.0, 999.0, 64e3, 2.7e6, 12.5e6, 94.13e6, 941e6, 999.6e6, 1.25e9, 27e9, 4e12]
            .map(bit_rate);
        assert_eq!(
            shown.join(", "),
            "0 bit/s, 999 bit/s, 64 kbit/s, 2.7 Mbit/s, 12.5 Mbit/s, 94.1 Mbit/s, 941 Mbit/s, \
             1 Gbit/s, 1.25 Gbit/s, 27 Gbit/s, 4,000 Gbit/s"
        );
        assert_eq!(bit_rate(f64::NAN), "? bit/s");
    }

    #[test]
    fn times() {
        let shown = [0, 250, 1_000, 45_000, 999_499, 999_500, 10_000_000, 59_949_999, 59_950_000]
            .map(micros);
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
        assert_eq!([0.2138, 21.4, 214.0].map(round_trip), ["0.214 ms", "21.40 ms", "214.0 ms"]);
        let shown =
            [0.4, 999.0, 1_250.0, 80_000.0, 250_000.0, 3_602_000.0, 3.6e12, -40.0, -0.3, f64::NAN]
                .map(precise_micros);
        assert_eq!(
            shown.join(", "),
            "0 µs, 999 µs, 1.2 ms, 80.0 ms, 250 ms, 3.602 s, 3,600,000 s, -40 µs, 0 µs, ? µs"
        );
    }

    #[test]
    fn shares() {
        let shown = [0.0, 1e-9, 0.0004, 0.004, 0.0994, 0.301, 0.996, 0.99999, 1.0, 1.7, f64::NAN]
            .map(percent);
        assert_eq!(
            shown.join(", "),
            "0 %, <0.01 %, 0.04 %, 0.4 %, 9.9 %, 30 %, 99.6 %, >99.9 %, 100 %, 170 %, ? %"
        );
        assert_eq!((share(1.0, 0.0), share(f64::NAN, 2.0), share(1.0, 4.0)), (0.0, 0.0, 0.25));
    }
}
