//! Findings: causes found in one evidence, with proof, checks and remedies; and the report.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{Cost, Focus, Host, MissingEvidence, Packets, Path, Source, Window};

/// A cause found in one evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Id of the cause: `accept-queue-overflow`.
    pub cause: String,
    /// One sentence for this host, without a full stop, at most 72 characters.
    pub title: String,
    /// How bad it is.
    pub severity: Severity,
    /// What is at fault.
    pub subject: Subject,
    /// What it costs in the user's unit.
    pub impact: Impact,
    /// What proves it, strongest first.
    pub evidence: Vec<Proof>,
    /// Commands that show the same by hand; each can be pasted into a shell.
    pub checks: Vec<String>,
    /// What mends it, best first.
    pub remedies: Vec<Remedy>,
    /// Consequences that were seen and are not causes of their own.
    pub also_causes: Vec<Consequence>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Costs little now.
    Info,
    /// Slows or fails a small part of the requests (under 1 %).
    Warning,
    /// Slows or fails 1 % or more of the requests, or stops something.
    Critical,
}

impl Severity {
    /// The word in the output.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// What is at fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subject {
    /// What kind of thing.
    pub kind: SubjectKind,
    /// For people: `0.0.0.0:80`, `php-fpm pool www`, `this host's connection-tracking table`.
    pub name: String,
    /// Local end, when there is one.
    pub local: Option<SocketAddr>,
    /// Remote end or destination, when there is one.
    pub remote: Option<SocketAddr>,
    /// Processes at fault or that hold it.
    pub processes: Vec<ProcessName>,
}

/// What kind of thing is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// A listening socket.
    Listener,
    /// One connection, or several alike.
    Connection,
    /// A destination that this host connects to.
    Destination,
    /// A process or a pool of processes.
    Process,
    /// The whole host or network namespace.
    Host,
}

/// A process by name and id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessName {
    /// Name.
    pub name: String,
    /// Id.
    pub pid: u32,
}

/// What a finding costs, in the user's unit, over the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Impact {
    /// One or two sentences: "1,620 of 5,377 new connections dropped (30 %)".
    pub text: String,
    /// Unit of `amount`.
    pub unit: ImpactUnit,
    /// How many of them in the window.
    pub amount: f64,
    /// Which share of all that is, 0 to 1, where the whole is known.
    pub share: Option<f64>,
}

/// The user's unit of harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ImpactUnit {
    /// Connections refused, dropped or failed.
    ConnectionsLost,
    /// Connections that opened late.
    ConnectionsDelayed,
    /// Requests answered with an error.
    RequestsFailed,
    /// Connections that transfer nothing.
    ConnectionsStalled,
    /// Packets dropped.
    PacketsDropped,
    /// Sockets held for nothing.
    SocketsLeaked,
    /// TIME_WAIT sockets killed early.
    TimeWaitKilled,
    /// Seconds in which somebody waited, added up over streams.
    SecondsLost,
    /// Connections that can do less than their ends.
    ConnectionsDegraded,
}

/// One thing that was seen, for people and for programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proof {
    /// A word that begins the line: `queue`, `why`, `proof`, `log`.
    pub label: String,
    /// The line, or several divided by `\n`.
    pub text: String,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Where it was read.
    pub source: Source,
}

/// A figure with its unit and window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// Name, as the source calls it: `TcpExtListenOverflows`.
    pub name: String,
    /// Value.
    pub value: f64,
    /// Unit: `connections`, `ms`, `bytes`, `1` for a ratio.
    pub unit: String,
    /// Window in which it was read, milliseconds; 0: at one moment.
    pub window_ms: u64,
}

/// A change that mends a cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// What to change.
    pub change: RemedyChange,
    /// For people, one or two lines: `nginx.conf:12  listen 80 backlog=4096;`.
    pub text: String,
    /// Command that does it, when one does; can be pasted into a shell.
    pub command: Option<String>,
    /// Whether it needs root.
    pub needs_root: bool,
    /// Whom it reaches, and after what.
    pub reaches: Reach,
    /// What it costs or what to watch.
    pub note: Option<String>,
}

/// What a remedy changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RemedyChange {
    /// A sysctl.
    Sysctl {
        /// Name: `net.core.somaxconn`.
        name: String,
        /// Value now, when known.
        current: Option<String>,
        /// Value proposed.
        value: String,
    },
    /// A line of an application's configuration.
    Config {
        /// Application: `nginx`.
        application: String,
        /// File and line, when known.
        place: Option<String>,
        /// Setting: `listen`.
        setting: String,
        /// Value proposed.
        value: String,
    },
    /// Something only a person can do; no setting mends it.
    Advice,
}

/// Whom a remedy reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// At once, every connection.
    Everything,
    /// New connections only.
    NewConnections,
    /// Only once listen() is called again.
    AfterListen,
    /// Only once the application has reloaded or restarted.
    AfterReload,
    /// Needs a change of code or of another machine.
    Elsewhere,
}

impl Reach {
    /// The words in the output.
    pub fn words(self) -> &'static str {
        match self {
            Reach::Everything => "takes effect at once",
            Reach::NewConnections => "reaches new connections only",
            Reach::AfterListen => "takes effect when listen() is called again",
            Reach::AfterReload => "takes effect when the application reloads",
            Reach::Elsewhere => "no sysctl mends this",
        }
    }
}

/// A consequence of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Consequence {
    /// Id of the cause that it would have been on its own; `None` for a plain symptom.
    pub cause: Option<String>,
    /// One line.
    pub text: String,
}

/// What was diagnosed: the shape of `--json` wherever netwhy diagnoses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// [`Report::SCHEMA_VERSION`] of the netwhy that wrote this.
    pub schema_version: u32,
    /// Version of the netwhy that diagnosed.
    pub netwhy_version: String,
    /// The machine that was watched.
    pub host: Host,
    /// When and for how long.
    pub window: Window,
    /// What the user asked to look at; everything when empty.
    #[serde(default)]
    pub focus: Focus,
    /// TCP sockets in the namespace at the last look at the whole table, listeners and TIME_WAIT
    /// included; `None` when the table was not read.
    #[serde(default)]
    pub tcp_sockets: Option<u64>,
    /// Causes found, worst first.
    pub findings: Vec<Finding>,
    /// Causes that the evidence excludes.
    pub ruled_out: Vec<RuledOut>,
    /// Causes that could not be decided, for want of evidence.
    pub undecided: Vec<Undecided>,
    /// What could not be seen.
    pub missing_evidence: Vec<MissingEvidence>,
    /// What watching cost.
    pub cost: Cost,
    /// What the host did, for the headline of a healthy one.
    pub activity: Vec<String>,
    /// Captured streams, where packets were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<Packets>,
    /// What two captures of one path tell together; `packets` is of the client's capture then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
}

impl Report {
    /// Version of this document. It grows when a reader of the older version would misread the newer
    /// one; new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}

/// A cause that the evidence excludes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuledOut {
    /// Id of the cause.
    pub cause: String,
    /// The figure that excludes it, short: "conntrack 180 of 262,144".
    pub because: String,
}

/// A cause that could not be decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Undecided {
    /// Id of the cause.
    pub cause: String,
    /// What is missing: "the kernel's log".
    pub needs: String,
    /// What would close it: "run as root".
    pub how_to_observe: Option<String>,
}
