//! Captures or evidence, and with how much memory they are read.

use std::process::Command;

/// Most memory of a worker and of the program.
const MAX_MEMORY_KIB: u64 = 300 << 10;

/// What is mutated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Capture,
    Evidence,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Capture, Kind::Evidence];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Capture => "captures",
            Kind::Evidence => "evidence",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A command that runs what its arguments are, with little memory.
pub(super) fn limited() -> Command {
    let mut sh = Command::new("sh");
    let limit = MAX_MEMORY_KIB.to_string();
    sh.args(["-c", "ulimit -v \"$1\"; shift; exec \"$@\"", "sh", &limit]);
    sh
}
