//! Findings: the causes found in one evidence, with their proof, checks and remedies; the report.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{
    CombinedGain, Command, Cost, ExpectedGain, Focus, Host, MissingEvidence, Packets, Path, Remedy,
    Source, Window,
};

/// A cause found in one evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Id of the cause: `accept-queue-overflow`.
    pub cause: String,
    /// One sentence about this host, without a full stop, at most 72 characters.
    pub title: String,
    /// How bad it is.
    pub severity: Severity,
    /// What is at fault.
    pub subject: Subject,
    /// What it costs, in the user's unit.
    pub impact: Impact,
    /// What proves it, strongest first.
    pub evidence: Vec<Proof>,
    /// Commands that verify it by hand.
    pub checks: Vec<Command>,
    /// What fixes it, best first.
    pub remedies: Vec<Remedy>,
    /// What fixing it alone is expected to give.
    #[serde(default)]
    pub gain: ExpectedGain,
    /// Consequences that were observed too; they are not reported as findings.
    pub also_causes: Vec<Consequence>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Costs next to nothing now.
    Info,
    /// Somebody waited noticeably, or operations failed.
    Warning,
    /// Much of the time was lost, many operations failed, or something stopped.
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
    /// Local end, if there is one; in captured streams the server.
    pub local: Option<SocketAddr>,
    /// Remote end or destination, if there is one.
    pub remote: Option<SocketAddr>,
    /// Processes at fault, or that own it.
    pub processes: Vec<ProcessName>,
}

/// What kind of thing is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// A listening socket.
    Listener,
    /// One connection, or several with the same fault.
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
    /// Their share of the whole, 0 to 1, where the whole is known.
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
    /// Sockets that are no longer used and never closed.
    SocketsLeaked,
    /// TIME_WAIT sockets destroyed early.
    TimeWaitKilled,
    /// Seconds of waiting, summed over streams.
    SecondsLost,
    /// Connections that can do less than their ends could.
    ConnectionsDegraded,
}

/// One observation that proves a finding, for people and for programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proof {
    /// Label of the line: `queue`, `why`, `proof`, `log`.
    pub label: String,
    /// The line, or several separated by `\n`.
    pub text: String,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Where they were read.
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
    /// Length of the window over which it was measured, milliseconds; 0: at one moment.
    pub window_ms: u64,
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
    /// What the user restricted the observation to; everything when empty.
    #[serde(default)]
    pub focus: Focus,
    /// TCP sockets in the namespace at the last sample of the whole table, listeners and TIME_WAIT
    /// included; `None` when the table was not read.
    #[serde(default)]
    pub tcp_sockets: Option<u64>,
    /// Causes found, worst first.
    pub findings: Vec<Finding>,
    /// What fixing several findings of one service together is expected to give.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gains_together: Vec<CombinedGain>,
    /// Causes that the evidence excludes.
    pub ruled_out: Vec<RuledOut>,
    /// Causes that could not be decided because evidence is missing.
    pub undecided: Vec<Undecided>,
    /// Causes that nothing observed could have shown.
    #[serde(default)]
    pub not_checked: Vec<NotChecked>,
    /// What could not be observed.
    pub missing_evidence: Vec<MissingEvidence>,
    /// What watching cost.
    pub cost: Cost,
    /// What the host did, for the headline of a healthy one.
    pub activity: Vec<String>,
    /// Captured streams, where packets were captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<Packets>,
    /// What two captures of one path show together; `packets` is then of the client's capture.
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
    /// The figure that excludes it, short: "connection tracking (180 of 262,144)".
    pub because: String,
}

/// A cause that nothing observed could have shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotChecked {
    /// Id of the cause.
    pub cause: String,
    /// What there was not, short: "no DNS query".
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
    /// The missing sources that would decide it; of several sets, the one that lacks fewest.
    #[serde(default)]
    pub sources: Vec<Source>,
    /// What to do to observe that: "run as root".
    pub how_to_observe: Option<String>,
}
