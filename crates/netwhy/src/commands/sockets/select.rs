//! Which sockets are listed: by port, peer, process and state.

use std::collections::BTreeSet;

use model::{Focus, TcpState};
use wire::sock_diag::{Record, States};

use super::options::SocketsOptions;
use super::owners::Owners;
use crate::failure::{Failure, did_you_mean};

/// The sockets that are listed.
pub(super) struct Selection {
    focus: Focus,
    /// The kernel lists only sockets in these states.
    pub(super) states: States,
}

impl Selection {
    pub(super) fn new(options: &SocketsOptions) -> anyhow::Result<Self> {
        let mut states = States::NONE;
        for word in &options.state {
            states = states | state(word)?;
        }
        if options.listening {
            states = States::only(TcpState::Listen);
        } else if options.all {
            states = States::ALL;
        } else if options.state.is_empty() {
            states = States::ALL.without(TcpState::Listen).without(TcpState::TimeWait);
        }
        Ok(Selection { focus: options.focus.focus()?, states })
    }

    /// Whether it depends on the process that holds a socket.
    pub(super) fn needs_owners(&self) -> bool {
        !self.focus.pids.is_empty()
    }

    /// Whether this process is selected.
    pub(super) fn has_pid(&self, pid: u32) -> bool {
        self.focus.has_pid(&[pid])
    }

    /// Whether this socket is listed. `owners` has sockets of selected processes only.
    pub(super) fn has(&self, record: &Record<'_>, owners: &Owners) -> bool {
        if self.focus.is_everything() {
            return true;
        }
        if self.needs_owners() && !owners.contains_key(&record.inode()) {
            return false;
        }
        let remote = (record.state() != TcpState::Listen).then(|| record.remote());
        self.focus.has(record.local(), remote, &self.focus.pids)
    }
}

/// The states with this name, as ss or RFC 9293 spell it, in any case.
fn state(word: &str) -> anyhow::Result<States> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let name = plain(word);
    if name == "all" {
        return Ok(States::ALL);
    }
    let mut states = States::NONE;
    for state in TcpState::ALL {
        let long = plain(&format!("{state:?}"));
        if name == plain(state.name()) || name == long {
            states = states | States::only(state);
        }
    }
    if states == States::NONE {
        let known: BTreeSet<String> =
            TcpState::ALL.iter().map(|state| state.name().to_ascii_lowercase()).collect();
        let known: Vec<String> = known.into_iter().collect();
        anyhow::bail!(Failure::Usage(format!(
            "unknown TCP state {word}{}; known are: all, {}",
            did_you_mean(word, known.iter().map(String::as_str)),
            known.join(", ")
        )));
    }
    Ok(states)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_found_by_every_spelling() {
        let both = States::only(TcpState::SynRecv) | States::only(TcpState::NewSynRecv);
        assert_eq!(state("time-wait").unwrap(), States::only(TcpState::TimeWait));
        assert_eq!(state("TIME_WAIT").unwrap(), States::only(TcpState::TimeWait));
        assert_eq!(state("established").unwrap(), States::only(TcpState::Established));
        assert_eq!(state("estab").unwrap(), States::only(TcpState::Established));
        assert_eq!(state("syn-recv").unwrap(), both);
        assert_eq!(state("all").unwrap(), States::ALL);
        assert!(state("open").unwrap_err().to_string().contains("estab"));
    }
}
