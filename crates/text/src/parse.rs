//! Figures as people write them in options and files: `3s`, `100mbit`, `64KiB`, `2%`.
//!
//! Errors say what is expected, with an example. The caller (clap, the reader of scenario files) puts
//! the invalid value before them.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A duration with a unit (`500ms`, `3s`, `1h 30m`), or a number of seconds.
///
/// # Errors
///
/// The text is neither, or negative, or longer than a [`Duration`] can be.
pub fn duration(text: &str) -> Result<Duration, String> {
    match text.trim().parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => duration_with_unit(text),
    }
}

/// A duration with a unit: `1.5s`, `250us`, `1h 30m`.
///
/// # Errors
///
/// The unit is missing or unknown.
pub fn duration_with_unit(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    // humantime accepts whole numbers only.
    if let Some(one) = scaled(text, &DURATION_UNITS) {
        return Duration::try_from_secs_f64(one).map_err(|error| error.to_string());
    }
    humantime::parse_duration(text).map_err(|error| error.to_string())
}

const DURATION_UNITS: [(&str, f64); 6] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0)];

/// A duration as [`duration`] parses it, which must be in a range; `bounds` describes the range in the
/// error message.
///
/// # Errors
///
/// As [`duration`], or the duration is out of range.
pub fn duration_within(
    text: &str,
    allowed: RangeInclusive<Duration>,
    bounds: &str,
) -> Result<Duration, String> {
    let time = duration(text)?;
    if allowed.contains(&time) { Ok(time) } else { Err(format!("must be {bounds}")) }
}

/// What `K`, `M`, `G` and `T` without `i` or `B` mean in a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Powers {
    /// Powers of 1000: sizes of transfers, as iperf3 has them.
    Decimal,
    /// Powers of 1024: sizes of buffers and files, as tcpdump and dd have them.
    Binary,
}

/// A size in bytes: `4M`, `4MB` (10^6), `4MiB` (2^20), `1500B`, `1500`, in any case. `None` when the
/// text is no size, or the size is above 10^15.
pub fn bytes(text: &str, powers: Powers) -> Option<u64> {
    const UNITS: [(&str, f64, f64); 14] = [
        ("", 1.0, 1.0),
        ("B", 1.0, 1.0),
        ("K", 1e3, 1024.0),
        ("kB", 1e3, 1e3),
        ("KiB", 1024.0, 1024.0),
        ("M", 1e6, 1_048_576.0),
        ("MB", 1e6, 1e6),
        ("MiB", 1_048_576.0, 1_048_576.0),
        ("G", 1e9, 1_073_741_824.0),
        ("GB", 1e9, 1e9),
        ("GiB", 1_073_741_824.0, 1_073_741_824.0),
        ("T", 1e12, 1_099_511_627_776.0),
        ("TB", 1e12, 1e12),
        ("TiB", 1_099_511_627_776.0, 1_099_511_627_776.0),
    ];
    let units = UNITS.map(|(unit, decimal, binary)| match powers {
        Powers::Decimal => (unit, decimal),
        Powers::Binary => (unit, binary),
    });
    whole(scaled(text, &units)?)
}

/// A bit rate in bits per second, powers of 1000: `100mbit`, `2.5Gbit/s`, `64k`. `None` when the text
/// is no rate, or the rate is above 10^15.
pub fn bit_rate(text: &str) -> Option<u64> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let bare = ["bit/s", "bps", "bit"].iter().find_map(|unit| lower.strip_suffix(unit));
    whole(scaled(
        bare.unwrap_or(&lower),
        &[("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12)],
    )?)
}

/// A share from 0 to 1: `2%`, `0.02`.
pub fn share(text: &str) -> Option<f64> {
    scaled(text, &[("", 1.0), ("%", 0.01)]).filter(|share| (0.0..=1.0).contains(share))
}

/// A number times the factor of the unit after it, in any case. `None` when there is no number or the
/// unit is unknown, or the number is negative or not finite.
pub fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let (number, unit) = text.split_at(text.find(|c| !digits(c)).unwrap_or(text.len()));
    let number: f64 = number.parse().ok()?;
    let unit = unit.trim();
    let (_, factor) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    Some(number * factor).filter(|value| value.is_finite())
}

fn whole(value: f64) -> Option<u64> {
    let value = value.round();
    (0.0..=1e15).contains(&value).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in
            [("3s", 3_000), ("3", 3_000), ("1500ms", 1_500), ("1.5s", 1_500), ("1m 30s", 90_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(duration_with_unit("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(duration_with_unit("1min"), Ok(Duration::from_secs(60)));
        for bad in ["", "-1", "nan", "inf", "1e300", "3 parsecs", "s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(duration_with_unit("3").is_err());
        let (min, max) = (Duration::from_millis(200), Duration::from_secs(60));
        let within = |text| duration_within(text, min..=max, "between 200ms and 60s");
        assert_eq!(within("0.2"), Ok(min));
        assert_eq!(within("61s"), Err("must be between 200ms and 60s".to_string()));
    }

    #[test]
    fn sizes() {
        let decimal = |text| bytes(text, Powers::Decimal);
        let binary = |text| bytes(text, Powers::Binary);
        assert_eq!((decimal("4M"), binary("4M")), (Some(4_000_000), Some(4 << 20)));
        assert_eq!((decimal("4MiB"), binary("4MB")), (Some(4 << 20), Some(4_000_000)));
        assert_eq!(
            (decimal("1500"), decimal("1.5kb"), binary("1g")),
            (Some(1500), Some(1500), Some(1 << 30))
        );
        for bad in ["", "M", "-1", "100X", "99999999999999999999", "99999999T", "1.2.3", "nan"] {
            assert_eq!((decimal(bad), binary(bad)), (None, None), "{bad}");
        }
    }

    #[test]
    fn bit_rates_and_shares() {
        for (text, bits) in
            [("100mbit", 100_000_000), ("2.5Gbit/s", 2_500_000_000), ("64k", 64_000), ("9bps", 9)]
        {
            assert_eq!(bit_rate(text), Some(bits), "{text}");
        }
        assert_eq!((bit_rate("fast"), bit_rate("1e3")), (None, None));
        assert_eq!(
            (share("2%"), share("0.02"), share("101%"), share("")),
            (Some(0.02), Some(0.02), None, None)
        );
    }
}
