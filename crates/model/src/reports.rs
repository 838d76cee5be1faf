//! What the probes print as JSON: their measurements, and the causes that these show.

use serde::{Deserialize, Serialize};

use crate::{
    Cost, Finding, Host, HttpLoad, MissingEvidence, Ping, Route, Transfer, Undecided, UnderLoad,
    Window,
};

/// What `netwhy ping --json` prints.
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
    /// Round trips while downloads run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_load: Option<UnderLoad>,
    /// Causes that these show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

impl PingReport {
    /// Version of this document. It grows when a reader of the older version would misread the newer
    /// one; new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}

/// What `netwhy trace --json` prints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceReport {
    /// [`TraceReport::SCHEMA_VERSION`] of the netwhy that wrote this.
    pub schema_version: u32,
    /// Version of the netwhy that wrote this.
    pub netwhy_version: String,
    /// The way to the target.
    pub route: Route,
}

impl TraceReport {
    /// Version of this document. It grows when a reader of the older version would misread the newer
    /// one; new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}

/// What `netwhy http --json` prints: the load, and why it was slow if it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HttpReport {
    /// [`HttpReport::SCHEMA_VERSION`] of the netwhy that wrote this.
    pub schema_version: u32,
    /// Version of the netwhy that wrote this.
    pub netwhy_version: String,
    /// What was measured.
    #[serde(flatten)]
    pub load: HttpLoad,
    /// Causes that were found on this host and in a sample of the load's packets, worst first.
    pub findings: Vec<Finding>,
    /// Causes that the evidence does not decide.
    pub undecided: Vec<Undecided>,
    /// What could not be seen.
    pub missing_evidence: Vec<MissingEvidence>,
}

impl HttpReport {
    /// Version of this document. It grows when a reader of the older version would misread the newer
    /// one; new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}

/// What `netwhy transfer --json` prints (docs/schema/transfer-v1.json).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferReport {
    /// [`TransferReport::SCHEMA_VERSION`] of the netwhy that wrote this.
    pub schema_version: u32,
    /// Version of the netwhy that measured.
    pub netwhy_version: String,
    /// The host that it ran on.
    pub host: Host,
    /// When and for how long the host was watched meanwhile.
    pub window: Window,
    /// What was measured.
    pub transfer: Transfer,
    /// Causes found in the connections of the transfers, worst first.
    pub findings: Vec<Finding>,
    /// Causes found in all else of this host, worst first.
    pub other_findings: Vec<Finding>,
    /// Causes that could not be decided, for want of evidence.
    pub undecided: Vec<Undecided>,
    /// What could not be seen.
    pub missing_evidence: Vec<MissingEvidence>,
    /// What watching and transferring cost.
    pub cost: Cost,
}

impl TransferReport {
    /// Version of this document. It grows when a reader of the older version would misread the newer
    /// one; new optional fields do not change it.
    pub const SCHEMA_VERSION: u32 = 1;
}
