//! What a check found: where, and what to do.

use std::fmt;

/// Something that is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// File, from the root of the repository.
    pub(crate) path: String,
    /// Line, from 1, when one line is at fault.
    pub(crate) line: Option<usize>,
    /// What is wrong and what to do.
    pub(crate) text: String,
}

impl Problem {
    pub(super) fn new(
        path: impl Into<String>,
        line: Option<usize>,
        text: impl Into<String>,
    ) -> Problem {
        Problem { path: path.into(), line, text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.text),
            None => write!(f, "{}: {}", self.path, self.text),
        }
    }
}
