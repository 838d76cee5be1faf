//! The outcome of a run: what was measured, observed and judged in each step.

use serde::Serialize;

use crate::cpu_shortage::CpuShortage;
use crate::figures::Figures;
use crate::gain::GainError;
use crate::judge::{Observation, Verdict};
use crate::scenario::vary::Values;

/// The outcome of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Name of the scenario.
    pub scenario: String,
    /// `fault`, `compound` or `healthy`.
    pub kind: &'static str,
    /// Seed of its parameters and of its links; `None`: the parameters have their defaults.
    pub seed: Option<u64>,
    /// Parameters.
    pub parameters: Values,
    /// The steps, one before the first fix and one after each.
    pub steps: Vec<StepOutcome>,
    /// Why the run did not come to its end.
    pub error: Option<String>,
    /// The conditions of the step that did not come to its end.
    pub failed_step: Option<Conditions>,
    /// How long the run took.
    pub seconds: RunSeconds,
}

/// How long the parts of a run took, seconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct RunSeconds {
    /// Building the network and starting its programs.
    pub build: f64,
    /// All steps.
    pub steps: f64,
    /// Ending the programs and removing the network.
    pub teardown: f64,
}

/// The outcome of one step.
#[derive(Debug, Clone, Serialize)]
pub struct StepOutcome {
    /// Causes that had to be named.
    pub expected: Vec<String>,
    /// All figures of the workload; none when it was not measured.
    pub figures: Figures,
    /// Name of the figure that counts.
    pub figure: String,
    /// The results of all observers.
    pub observations: Vec<Observation>,
    /// The verdict.
    pub verdict: Verdict,
    /// Links and CPU in this step.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Improvement of the figure by the fix of the step before.
    pub improvement: Option<Improvement>,
}

/// The conditions of a step: whether links and machine did what the scenario assumes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Conditions {
    /// What the emulated links did.
    pub links: Vec<LinkUsage>,
    /// How much CPU the machine lacked.
    pub cpu_shortage: CpuShortage,
}

/// What one direction of an emulated link did in a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkUsage {
    /// From which host to which: `client-server`.
    pub name: String,
    /// Packets that entered it.
    pub packets: u64,
    /// Packets that it dropped as its profile demands.
    pub dropped: u64,
    /// Lateness that 99 % of the step's packets did not exceed: how much later than scheduled they
    /// left the link, microseconds. It is large when the emulator itself had no CPU.
    pub late_p99_us: u64,
    /// Maximum lateness in this step, microseconds.
    pub late_max_us: u64,
}

/// What a fix did to the figure.
#[derive(Debug, Clone, Serialize)]
pub struct Improvement {
    /// How many times better it had to be.
    pub required: f64,
    /// How many times better it was; `None`: the workload printed no figure.
    pub measured: Option<f64>,
    /// The expected gains of the causes that were named and fixed, one for each.
    pub gains: Vec<GainError>,
}

/// Lateness of a link, microseconds, that rules take for a queue or for a late acknowledgement: they
/// look at round trips that are 20 ms longer than others.
const MAX_LATE_US: u64 = 20_000;

impl Conditions {
    /// A link held packets back that its profile would have let pass: what was observed is not what
    /// the scenario describes.
    pub fn is_late(&self) -> bool {
        self.links.iter().any(|link| link.late_p99_us >= MAX_LATE_US)
    }
}

impl Improvement {
    /// The figure improved as required.
    pub fn is_sufficient(&self) -> bool {
        self.measured.is_some_and(|measured| measured >= self.required)
    }
}

impl Outcome {
    /// An outcome without steps.
    pub(crate) fn new(scenario: &str, seed: Option<u64>) -> Self {
        Outcome {
            scenario: scenario.to_string(),
            kind: crate::scenario::Kind::Fault.name(),
            seed,
            parameters: Values::default(),
            steps: Vec::new(),
            error: None,
            failed_step: None,
            seconds: RunSeconds::default(),
        }
    }

    /// Every cause that can be named was named, no other was, and every fix was effective.
    pub fn is_as_expected(&self) -> bool {
        self.error.is_none() && self.steps.iter().all(StepOutcome::is_as_expected)
    }
}

impl StepOutcome {
    /// Every cause that can be named was named, no other was, and the fix before was effective.
    pub fn is_as_expected(&self) -> bool {
        let improvement = self.improvement.as_ref();
        self.verdict.is_as_expected() && improvement.is_none_or(Improvement::is_sufficient)
    }
}
