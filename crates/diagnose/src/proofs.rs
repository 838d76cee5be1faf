//! How proofs are made: a line of text with its figures.

use model::{Evidence, Figure, Proof, Source};

/// A proof without figures.
pub(crate) fn proof(source: Source, label: &str, text: impl Into<String>) -> Proof {
    Proof { label: label.to_string(), text: text.into(), figures: Vec::new(), source }
}

/// Adds figures to a proof.
pub(crate) trait WithFigures {
    /// With a figure that was measured over the whole window.
    fn over_window(self, evidence: &Evidence, name: &str, value: f64, unit: &str) -> Self;
    /// With a figure that was read at one moment.
    fn at_moment(self, name: &str, value: f64, unit: &str) -> Self;
}

impl WithFigures for Proof {
    fn over_window(self, evidence: &Evidence, name: &str, value: f64, unit: &str) -> Self {
        with_figure(self, name, value, unit, evidence.window.duration_ms)
    }

    fn at_moment(self, name: &str, value: f64, unit: &str) -> Self {
        with_figure(self, name, value, unit, 0)
    }
}

fn with_figure(mut proof: Proof, name: &str, value: f64, unit: &str, window_ms: u64) -> Proof {
    let (name, unit) = (name.to_string(), unit.to_string());
    proof.figures.push(Figure { name, value, unit, window_ms });
    proof
}
