//! Which sockets are wanted: ports, peers, processes, states.

use model::{Focus, TcpState};
use wire::sock_diag::{Record, States};

use super::options::SocketsOptions;
use super::owners::Owners;
use crate::failure::Failure;

/// The sockets that are wanted.
pub(super) struct Selection {
    focus: Focus,
    /// States: the kernel leaves the others out.
    pub(super) states: States,
}

impl Selection {
    pub(super) fn new(options: &SocketsOptions) -> anyhow::Result<Self> {
        let mut states = States::NONE;
        for word in &options.state {
            states = states | state(word)?;
        }
        if options.state.is_empty() {
            states = States::ALL.without(TcpState::Listen).without(TcpState::TimeWait);
        }
        Ok(Selection { focus: options.focus.focus(), states })
    }

    /// Whether the holder of a socket decides.
    pub(super) fn needs_holders(&self) -> bool {
        !self.focus.pids.is_empty()
    }

    /// Whether this process is wanted.
    pub(super) fn has_pid(&self, pid: u32) -> bool {
        self.focus.has_pid(&[pid])
    }

    /// Whether this socket is wanted. Owners are those of wanted processes only.
    pub(super) fn has(&self, record: &Record<'_>, holders: &Owners) -> bool {
        if self.focus.is_everything() {
            return true;
        }
        if self.needs_holders() && !holders.contains_key(&record.inode()) {
            return false;
        }
        let remote = (record.state() != TcpState::Listen).then(|| record.remote());
        self.focus.has(record.local(), remote, &self.focus.pids)
    }
}

/// The states that a word names: as ss and the RFC have them, in any case and spelling.
fn state(word: &str) -> anyhow::Result<States> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let asked = plain(word);
    if asked == "all" {
        return Ok(States::ALL);
    }
    let mut states = States::NONE;
    for state in TcpState::ALL {
        let long = plain(&format!("{state:?}"));
        if asked == plain(state.name()) || asked == long {
            states = states | States::only(state);
        }
    }
    if states == States::NONE {
        let mut known: Vec<String> =
            TcpState::ALL.iter().map(|s| s.name().to_ascii_lowercase()).collect();
        known.dedup();
        anyhow::bail!(Failure::Usage(format!(
            "no TCP state is called {word}; there are: all, {}",
            known.join(", ")
        )));
    }
    Ok(states)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_known_by_every_spelling() {
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
