//! Which entries are shown: by protocol, state, source, destination and port.

use std::net::IpAddr;

use wire::conntrack::{self, Entry};

use super::options::ConntrackOptions;
use crate::failure::{Failure, did_you_mean};

/// The entries that are shown.
pub(super) struct Selection {
    protocol: Option<u8>,
    state: Option<String>,
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    port: Option<u16>,
}

impl Selection {
    pub(super) fn new(options: &ConntrackOptions) -> anyhow::Result<Self> {
        let protocol = options.protocol.as_deref().map(protocol).transpose()?;
        let state = options.state.as_deref().map(state).transpose()?;
        Ok(Selection {
            protocol,
            state,
            source: options.source,
            destination: options.destination,
            port: options.port,
        })
    }

    /// Whether this entry is shown.
    pub(super) fn has(&self, entry: &Entry<'_>) -> bool {
        let matches = |selected: Option<IpAddr>, address: Option<IpAddr>| {
            selected.is_none_or(|selected| {
                address.is_some_and(|ip| ip.to_canonical() == selected.to_canonical())
            })
        };
        let original = entry.original();
        self.protocol.is_none_or(|p| p == entry.protocol())
            && self.state.as_deref().is_none_or(|s| entry.tcp_state_name() == Some(s))
            && matches(self.source, original.source)
            && matches(self.destination, original.destination)
            && self.port.is_none_or(|p| original.destination_port == Some(p))
    }
}

fn protocol(word: &str) -> anyhow::Result<u8> {
    if let Ok(number) = word.parse() {
        return Ok(number);
    }
    let name = word.to_ascii_lowercase();
    (0..=u8::MAX).find(|number| conntrack::protocol_name(*number) == Some(&name)).ok_or_else(|| {
        let known: Vec<_> = (0..=u8::MAX).filter_map(conntrack::protocol_name).collect();
        Failure::Usage(format!(
            "unknown protocol {word}{}; known are: {}, or a number",
            did_you_mean(word, known.iter().copied()),
            known.join(", ")
        ))
        .into()
    })
}

fn state(word: &str) -> anyhow::Result<String> {
    let name = word.to_ascii_uppercase().replace('-', "_");
    let known: Vec<_> = (0..=u8::MAX).filter_map(conntrack::tcp_state_name).collect();
    if known.contains(&name.as_str()) {
        return Ok(name);
    }
    anyhow::bail!(Failure::Usage(format!(
        "unknown connection-tracking state {word}{}; known are: {}",
        did_you_mean(&name, known.iter().copied()).to_ascii_lowercase(),
        known.join(", ").to_ascii_lowercase()
    )))
}
