//! Which processes own most of some sockets.

use std::collections::HashMap;

/// Most processes named for one destination.
const MAX_PIDS: usize = 8;

/// The most frequent process ids, at most [`MAX_PIDS`].
pub(super) fn most_frequent(pids: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut counts: HashMap<u32, u32> = HashMap::new();
    for pid in pids {
        *counts.entry(pid).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    counts.into_iter().take(MAX_PIDS).map(|(pid, _)| pid).collect()
}
