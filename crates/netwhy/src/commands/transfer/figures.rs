//! Figures of transfers as people read them.

use text::{micros, number};

/// A time in a column, where what differs little must be told apart: `1,180 ms`.
pub(super) fn exact(us: u64) -> String {
    match us {
        0 => "0 s".to_string(),
        1_000_000..10_000_000 => format!("{} ms", number((us + 500) / 1000)),
        us => micros(us),
    }
}
