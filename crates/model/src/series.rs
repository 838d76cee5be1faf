//! Numbers of a window while it runs.

use serde::{Deserialize, Serialize};

/// A number that is known while a window runs, to be shown or stored.
///
/// An observer has few series however large the host is: totals, and the worst of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Name in the style of Prometheus, without the suffix of the unit: `tcp_listen_queue`.
    pub name: String,
    /// Unit of the value.
    pub unit: Unit,
    /// Labels that distinguish values of the same name: `listener` and `0.0.0.0:80`.
    pub labels: Vec<(String, String)>,
    /// The value.
    pub value: f64,
}

/// Unit of a [`Series`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// A ratio, usually 0 to 1.
    Ratio,
    /// Events a second.
    PerSecond,
}

impl Series {
    /// A value without labels.
    pub fn new(name: &str, unit: Unit, value: f64) -> Self {
        Series { name: name.to_string(), unit, labels: Vec::new(), value }
    }

    /// A number of things, without labels.
    pub fn count(name: &str, count: u64) -> Self {
        Series::new(name, Unit::Count, count as f64)
    }

    /// The same with one more label.
    #[must_use]
    pub fn with_label(mut self, label: &str, value: impl Into<String>) -> Self {
        self.labels.push((label.to_string(), value.into()));
        self
    }

    /// The value of a label.
    pub fn label(&self, label: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| name == label).map(|(_, value)| value.as_str())
    }
}
