//! Files and ports: what a client runs out of.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Error;

/// Files that netwhy has open beside the connections: its own, and those of the observers.
const OWN: u64 = 64;

/// Raises the soft limit of open files as far as these connections need.
///
/// # Errors
///
/// The hard limit is lower: said before anything is sent.
pub(super) fn files(connections: u32, threads: u32) -> Result<(), Error> {
    let needed = u64::from(connections) + 2 * u64::from(threads) + OWN;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|soft| soft >= needed) {
        return Ok(());
    }
    let soft = limit.maximum.map_or(needed, |hard| hard.min(needed));
    let raised = Rlimit { current: Some(soft), maximum: limit.maximum };
    // Refused or not: what counts is what the limit is then.
    let _ = setrlimit(Resource::Nofile, raised);
    match getrlimit(Resource::Nofile).current {
        Some(soft) if soft < needed => {
            let most = soft.saturating_sub(2 * u64::from(threads) + OWN);
            Err(Error::Usage(format!(
                "{connections} connections need {needed} open files, and the limit is {soft}: \
                 ask for {most} connections at most, or raise it (ulimit -Hn, LimitNOFILE=)"
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_connections_than_files_are_refused() {
        assert_eq!(files(10, 1), Ok(()));
        let error = files(u32::MAX, 1).unwrap_err().to_string();
        assert!(error.starts_with("4294967295 connections need 4294967361 open files"), "{error}");
    }
}
