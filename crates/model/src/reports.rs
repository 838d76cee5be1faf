//! The JSON documents of the probe commands: measurements, and the causes found in them.

use serde::{Deserialize, Serialize};

use crate::{
    Cost, Finding, Host, HttpLoad, MissingEvidence, Ping, Report, Route, Series, Transfer,
    Undecided, UnderLoad, Window,
};

/// The document of `netwhy ping --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingReport {
    /// [`PingReport::SCHEMA_VERSION`] of the netwhy that wrote this.
    pub schema_version: u32,
    /// Version of the netwhy that wrote this.
    pub netwhy_version: String,
    /// One for each target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pings: Vec<Ping>,
    /// Round-trip times while downloads run (`--under-load`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_load: Option<UnderLoad>,
    /// Causes found, worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

impl PingReport {
    /// Version of this document. It grows when a reader of the older version would misread the newer
    /// one; new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}

/// The document of `netwhy trace --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceReport {
    /// [`TraceReport::SCHEMA_VERSION`] of the netwhy that wrote this.
    pub schema_version: u32,
    /// Version of the netwhy that wrote this.
    pub netwhy_version: String,
    /// The route to the target.
    pub route: Route,
}

impl TraceReport {
    /// Version of this document. It grows when a reader of the older version would misread the newer
    /// one; new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}

/// The document of `netwhy http --json`: the load, and why it was slow if it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpReport {
    /// [`HttpReport::SCHEMA_VERSION`] of the netwhy that wrote this.
    pub schema_version: u32,
    /// Version of the netwhy that wrote this.
    pub netwhy_version: String,
    /// The measurement.
    #[serde(flatten)]
    pub load: HttpLoad,
    /// Causes found on this host and in a sample of the load's packets, worst first.
    pub findings: Vec<Finding>,
    /// Causes that the evidence leaves undecided.
    pub undecided: Vec<Undecided>,
    /// Evidence that could not be had.
    pub missing_evidence: Vec<MissingEvidence>,
}

impl HttpReport {
    /// Version of this document. It grows when a reader of the older version would misread the newer
    /// one; new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}

/// The document of `netwhy transfer --json` (docs/schema/transfer-v1.json).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferReport {
    /// [`TransferReport::SCHEMA_VERSION`] of the netwhy that wrote this.
    pub schema_version: u32,
    /// Version of the netwhy that wrote this.
    pub netwhy_version: String,
    /// The host that netwhy ran on.
    pub host: Host,
    /// When and for how long the host was watched during the transfers.
    pub window: Window,
    /// The measurement.
    pub transfer: Transfer,
    /// Causes found in the connections of the transfers, worst first.
    pub findings: Vec<Finding>,
    /// Causes found elsewhere on this host, worst first.
    pub other_findings: Vec<Finding>,
    /// Causes that the evidence leaves undecided.
    pub undecided: Vec<Undecided>,
    /// Evidence that could not be had.
    pub missing_evidence: Vec<MissingEvidence>,
    /// CPU time and memory that watching and transferring took.
    pub cost: Cost,
}

impl TransferReport {
    /// Version of this document. It grows when a reader of the older version would misread the newer
    /// one; new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}

/// A line of `netwhy --json-lines`: what is known while a window runs, then its report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum WatchLine {
    /// The series, every second.
    Series {
        /// When, in microseconds since 1970-01-01 UTC.
        time_unix_us: i64,
        /// The numbers so far.
        series: Vec<Series>,
    },
    /// A finding, once, when the window shows it for the first time. The report may have other figures
    /// for it, or leave it out, because it knows the whole window.
    Finding {
        /// When, in microseconds since 1970-01-01 UTC.
        time_unix_us: i64,
        /// The finding as the window shows it so far.
        #[serde(flatten)]
        finding: Box<Finding>,
    },
    /// The report, which is the last line.
    Report {
        /// When, in microseconds since 1970-01-01 UTC.
        time_unix_us: i64,
        /// The document of `netwhy --json`.
        #[serde(flatten)]
        report: Box<Report>,
    },
}

impl WatchLine {
    /// Version of these lines. It grows when a reader of the older version would misread the newer
    /// one; new types of lines and new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}
