//! Results of probes: what netwhy measured by sending something itself.
//!
//! - [`ping`]: round trips of single packets, and under load
//! - [`trace`]: the hops on the way
//! - [`http`]: HTTP load
//! - [`transfer`]: bulk and request-answer transfers

use serde::{Deserialize, Serialize};

pub mod http;
pub mod ping;
pub mod trace;
pub mod transfer;

pub use http::*;
pub use ping::*;
pub use trace::*;
pub use transfer::*;

/// What probes measured.
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
