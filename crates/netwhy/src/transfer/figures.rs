//! Figures of transfers as people read them.

use std::time::Duration;

use report::{bytes, duration, number};

/// A time as people read it.
pub(super) fn time(us: u64) -> String {
    duration(Duration::from_micros(us))
}

/// A time in a column, where what differs little is to be told apart: `1,180 ms`.
pub(super) fn exact(us: u64) -> String {
    match us {
        0 => "0 s".to_string(),
        1_000_000..10_000_000 => format!("{} ms", number((us + 500) / 1000)),
        us => time(us),
    }
}

/// A size in the powers that it was given in: `4.0 MB`, `32 KiB`.
pub(super) fn sized(value: u64) -> String {
    match value {
        value if value < 1000 || value % 1000 != 0 => bytes(value),
        value if value < 1_000_000 => format!("{} kB", value / 1000),
        value if value < 1_000_000_000 => format!("{:.1} MB", value as f64 / 1e6),
        value => format!("{:.1} GB", value as f64 / 1e9),
    }
}

/// A rate in bits a second.
pub(super) fn rate(bps: f64) -> String {
    let (value, unit) = match bps {
        bps if bps >= 1e9 => (bps / 1e9, "Gbit/s"),
        bps if bps >= 1e6 => (bps / 1e6, "Mbit/s"),
        bps => (bps / 1e3, "kbit/s"),
    };
    if value < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}
