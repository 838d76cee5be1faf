//! Which entries are wanted: protocol, state, source, destination, port.

use std::net::IpAddr;

use wire::conntrack::{self, Entry};

use super::options::ConntrackOptions;
use crate::failure::Failure;

/// The entries that are wanted.
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

    /// Whether this entry is wanted.
    pub(super) fn has(&self, entry: &Entry<'_>) -> bool {
        let same = |asked: Option<IpAddr>, is: Option<IpAddr>| {
            asked.is_none_or(|asked| is.is_some_and(|is| is.to_canonical() == asked.to_canonical()))
        };
        let original = entry.original();
        self.protocol.is_none_or(|p| p == entry.protocol())
            && self.state.as_deref().is_none_or(|s| entry.tcp_state_name() == Some(s))
            && same(self.source, original.source)
            && same(self.destination, original.destination)
            && self.port.is_none_or(|p| original.destination_port == Some(p))
    }
}

fn protocol(word: &str) -> anyhow::Result<u8> {
    if let Ok(number) = word.parse() {
        return Ok(number);
    }
    let asked = word.to_ascii_lowercase();
    (0..=u8::MAX).find(|number| conntrack::protocol_name(*number) == Some(&asked)).ok_or_else(
        || {
            let known: Vec<_> = (0..=u8::MAX).filter_map(conntrack::protocol_name).collect();
            Failure::Usage(format!(
                "no protocol is called {word}; there are: {}, or a number",
                known.join(", ")
            ))
            .into()
        },
    )
}

fn state(word: &str) -> anyhow::Result<String> {
    let asked = word.to_ascii_uppercase().replace('-', "_");
    let known: Vec<_> = (0..=u8::MAX).filter_map(conntrack::tcp_state_name).collect();
    if known.contains(&asked.as_str()) {
        return Ok(asked);
    }
    anyhow::bail!(Failure::Usage(format!(
        "no connection-tracking state is called {word}; there are: {}",
        known.join(", ").to_ascii_lowercase()
    )))
}
