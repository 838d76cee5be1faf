//! Results of active measurements.
//!
//! - [`ping`]: round-trip times of single packets, idle and under load
//! - [`trace`]: the hops of a route
//! - [`http`]: HTTP load tests
//! - [`transfer`]: bulk and request-response transfers

use serde::{Deserialize, Serialize};

pub mod http;
pub mod ping;
pub mod trace;
pub mod transfer;

pub use http::*;
pub use ping::*;
pub use trace::*;
pub use transfer::*;

/// Results of active measurements.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Probes {
    /// `netwhy ping`, one for each target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pings: Vec<Ping>,
    /// `netwhy ping --under-load`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_load: Option<UnderLoad>,
    /// `netwhy trace`, one for each target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// `netwhy http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpLoad>,
    /// `netwhy transfer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<Transfer>,
}
