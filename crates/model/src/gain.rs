//! What fixing a cause is expected to give: a figure of the user with the cause, and without it.

use serde::{Deserialize, Serialize};

/// What fixing one finding alone is expected to give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ExpectedGain {
    /// The model of the cause predicts it.
    Predicted(PredictedGain),
    /// What was observed does not predict it.
    NotPredictable {
        /// Why: one clause, without a full stop.
        why: String,
    },
}

impl Default for ExpectedGain {
    /// That of a document without one.
    fn default() -> Self {
        ExpectedGain::NotPredictable { why: "the report does not have it".to_string() }
    }
}

impl ExpectedGain {
    /// The prediction, if there is one.
    pub fn predicted(&self) -> Option<&PredictedGain> {
        match self {
            ExpectedGain::Predicted(gain) => Some(gain),
            ExpectedGain::NotPredictable { .. } => None,
        }
    }
}

/// A figure with the cause and without it, in the unit of the figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PredictedGain {
    /// Which figure.
    pub figure: GainFigure,
    /// Its value now.
    pub now: f64,
    /// Its value without the cause.
    pub expected: f64,
    /// The lowest value that the model allows without the cause.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
}

/// A figure that users feel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GainFigure {
    /// Mean time of an exchange that the cause hits, from the first byte of the request to the last byte
    /// of the response, ms.
    ExchangeTime,
    /// Delay of opening a connection that the cause hits, ms: that of the slowest in a hundred
    /// connections; where fewer are hit, the mean of those.
    OpeningDelay,
    /// Delay of the slowest name lookup that the cause hits, ms.
    LookupDelay,
    /// Mean round trip, ms.
    RoundTripTime,
    /// Bits of data a second while data is sent.
    TransferRate,
    /// Requests answered a second.
    RequestRate,
    /// Share of the new connections that fail, 0 to 1.
    FailedConnections,
    /// Share of the requests that fail, 0 to 1.
    FailedRequests,
}

impl GainFigure {
    /// Whether less is better.
    pub fn lower_is_better(self) -> bool {
        !matches!(self, GainFigure::TransferRate | GainFigure::RequestRate)
    }

    /// Whether it is a time, in milliseconds.
    pub fn is_time(self) -> bool {
        matches!(
            self,
            GainFigure::ExchangeTime
                | GainFigure::OpeningDelay
                | GainFigure::LookupDelay
                | GainFigure::RoundTripTime
        )
    }
}

/// What fixing several findings of one service together is expected to give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CombinedGain {
    /// The service: address and port.
    pub service: String,
    /// Ids of the causes.
    pub causes: Vec<String>,
    /// What fixing all of them gives.
    pub gain: PredictedGain,
}
