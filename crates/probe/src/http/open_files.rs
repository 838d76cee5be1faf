//! The limit of open files, of which each connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Error;

/// Files that netwhy needs in addition to the connections: its own, and those of the observers.
const OTHER_FILES: u64 = 64;
/// Files that each thread needs: its event queue and its timer.
const FILES_PER_THREAD: u64 = 2;

/// Raises the soft limit of open files as far as these connections need.
///
/// # Errors
///
/// The hard limit is too low.
pub(super) fn raise_limit(connections: u32, threads: u32) -> Result<(), Error> {
    let others = FILES_PER_THREAD * u64::from(threads) + OTHER_FILES;
    let needed = u64::from(connections) + others;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|soft| soft >= needed) {
        return Ok(());
    }
    let soft = limit.maximum.map_or(needed, |hard| hard.min(needed));
    let raised = Rlimit { current: Some(soft), maximum: limit.maximum };
    // If it fails, the limit below is the old one.
    let _ = setrlimit(Resource::Nofile, raised);
    match getrlimit(Resource::Nofile).current {
        Some(soft) if soft < needed => {
            let max = soft.saturating_sub(others);
            Err(Error::Usage(format!(
                "{connections} connections need {needed} open files, and the limit is {soft}: \
                 give at most --connections {max}, or raise the limit (ulimit -Hn, LimitNOFILE=)"
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_connections_than_files_are_rejected() {
        assert_eq!(raise_limit(10, 1), Ok(()));
        let error = raise_limit(u32::MAX, 1).unwrap_err().to_string();
        assert!(error.starts_with("4294967295 connections need 4294967361 open files"), "{error}");
    }
}
