//! What the user restricted a window or a report to.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// What the user restricted a window or a report to. Empty lists mean everything. A subject is in focus
/// when it matches one value of each list that is not empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Focus {
    /// Local or remote TCP ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// Process ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// Remote addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<IpAddr>,
}

impl Focus {
    /// Whether everything is in focus.
    pub fn is_everything(&self) -> bool {
        self.ports.is_empty() && self.pids.is_empty() && self.peers.is_empty()
    }

    /// Whether a socket with these ends and owners is in focus. A listener has no `remote`: it matches
    /// any peer.
    pub fn has(&self, local: SocketAddr, remote: Option<SocketAddr>, pids: &[u32]) -> bool {
        let port = self.ports.is_empty()
            || self.ports.contains(&local.port())
            || remote.is_some_and(|r| self.ports.contains(&r.port()));
        let peer = self.peers.is_empty()
            || remote.is_none_or(|r| {
                self.peers.iter().any(|p| p.to_canonical() == r.ip().to_canonical())
            });
        port && peer && self.has_pid(pids)
    }

    /// Whether one of these processes is in focus.
    pub fn has_pid(&self, pids: &[u32]) -> bool {
        self.pids.is_empty() || pids.iter().any(|p| self.pids.contains(p))
    }
}
