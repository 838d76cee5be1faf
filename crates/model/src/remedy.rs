//! Remedies: changes that fix a cause, as data, with the commands for a person to run.

use serde::{Deserialize, Serialize};

/// A command for a person to run: a program with its arguments, or several in a pipe.
///
/// Argument lists, never shell text: a word that comes from the evidence stays one word, whatever it
/// holds. Printing a command includes quoting its words for the shell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Command {
    /// Programs with their arguments; the output of each is the input of the next.
    pub argv: Vec<Vec<String>>,
    /// The host on which to run it; `None`: the host that was watched, or that has the capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// A change that fixes a cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// What to change.
    pub change: RemedyChange,
    /// The host on which to change it; `None`: the host that was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Network namespace of that host, by name or process id; `None`: the one that netwhy ran in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// For people, one or two lines: `raise net.core.somaxconn from 128 to 4096`.
    pub text: String,
    /// The command that makes the change, where one does.
    pub command: Option<Command>,
    /// The command that takes it back, where the value before is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Command>,
    /// Whether it needs root.
    pub needs_root: bool,
    /// What it reaches, and when.
    pub reaches: Reach,
    /// What it costs, or what to watch.
    pub note: Option<String>,
}

/// What a remedy changes. `current` is the value before, where it is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RemedyChange {
    /// A sysctl.
    Sysctl {
        /// Name: `net.core.somaxconn`.
        name: String,
        /// Value before.
        current: Option<String>,
        /// Value proposed.
        value: String,
    },
    /// An attribute of a route, see ip-route(8).
    Route {
        /// The peers that the route leads to: `198.18.0.1`.
        destination: String,
        /// Name: `initcwnd`, `quickack`.
        attribute: String,
        /// Value before.
        current: Option<String>,
        /// Value proposed.
        value: String,
    },
    /// The queueing discipline of an interface, see tc(8).
    Qdisc {
        /// The interface; `None`: the one that leads to the narrow link, which is not known.
        interface: Option<String>,
        /// Kind and parameters before.
        current: Option<String>,
        /// Kind and parameters proposed: `fq maxrate 40000kbit`.
        value: String,
    },
    /// A setting of a network card, see ethtool(8).
    Ethtool {
        /// The interface; `None`: the one with the errors, which is not known.
        interface: Option<String>,
        /// Name: `rx`.
        setting: String,
        /// Value before.
        current: Option<String>,
        /// Value proposed.
        value: String,
    },
    /// A resource limit of a running process, see prlimit(1).
    Rlimit {
        /// Name of the process.
        process: String,
        /// Its id.
        pid: u32,
        /// Which limit: `nofile`.
        limit: String,
        /// Soft limit before.
        current: Option<u64>,
        /// Soft and hard limit proposed.
        value: u64,
    },
    /// A line of an application's configuration.
    ConfigLine {
        /// Application: `nginx`.
        application: String,
        /// Where the setting is now; `None`: it is not set, or the file is not known.
        place: Option<ConfigPlace>,
        /// Setting: `listen`.
        setting: String,
        /// Value before.
        current: Option<String>,
        /// Value proposed: `80 backlog=4096`.
        value: String,
        /// The whole line, as it belongs into the file: `listen 80 backlog=4096;`.
        line: String,
    },
    /// Something that no single setting does.
    Advice,
}

/// Where a line of configuration is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigPlace {
    /// The file, as the process sees it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl RemedyChange {
    /// The change that takes this one back: the value before is proposed. `None` where that value is
    /// not known, or nothing is set. A line of configuration is not undone here: whatever edits the
    /// file keeps the old line.
    pub fn undo(&self) -> Option<RemedyChange> {
        let mut undo = self.clone();
        match &mut undo {
            RemedyChange::Sysctl { current, value, .. }
            | RemedyChange::Route { current, value, .. }
            | RemedyChange::Qdisc { current, value, .. }
            | RemedyChange::Ethtool { current, value, .. } => {
                std::mem::swap(current.as_mut()?, value);
            }
            RemedyChange::Rlimit { current, value, .. } => {
                std::mem::swap(current.as_mut()?, value);
            }
            RemedyChange::ConfigLine { .. } | RemedyChange::Advice => return None,
        }
        Some(undo)
    }
}

/// What a remedy reaches, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Every connection, at once.
    Everything,
    /// New connections only.
    NewConnections,
    /// Listeners, once listen() is called again.
    AfterListen,
    /// The application, once it has reloaded or restarted.
    AfterReload,
    /// Depends on code, hardware or a machine that is not known here.
    Elsewhere,
}

impl Reach {
    /// The words in the output; `None`: there is nothing to say.
    pub fn words(self) -> Option<&'static str> {
        match self {
            Reach::Everything => Some("takes effect at once"),
            Reach::NewConnections => Some("applies to new connections only"),
            Reach::AfterListen => Some("takes effect when listen() is called again"),
            Reach::AfterReload => Some("takes effect when the application reloads"),
            Reach::Elsewhere => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_undone_where_the_value_before_is_known() {
        let sysctl = |current: Option<&str>, value: &str| RemedyChange::Sysctl {
            name: "net.core.somaxconn".to_string(),
            current: current.map(str::to_string),
            value: value.to_string(),
        };
        assert_eq!(sysctl(Some("128"), "4096").undo(), Some(sysctl(Some("4096"), "128")));
        assert_eq!(sysctl(None, "4096").undo(), None);
        let limit = |current, value| RemedyChange::Rlimit {
            process: "nginx".to_string(),
            pid: 7,
            limit: "nofile".to_string(),
            current,
            value,
        };
        assert_eq!(limit(Some(64), 65_536).undo(), Some(limit(Some(65_536), 64)));
        assert_eq!(RemedyChange::Advice.undo(), None);
    }
}
