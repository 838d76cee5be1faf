//! What tests noted while they ran (`test_support::note`): skips, first failures.

use std::path::Path;

/// Skips that CI allows: the kind, and why.
pub(super) const ALLOWED_IN_CI: &[(&str, &str)] =
    &[("no-captures", "the shared captures are no part of this repository")];

/// What was noted.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Notes {
    pub(super) skips: Vec<Skip>,
    pub(super) first_failures: Vec<FirstFailure>,
}

/// A test that did not run.
#[derive(Debug, PartialEq)]
pub(super) struct Skip {
    pub(super) test: String,
    pub(super) kind: String,
    pub(super) why: String,
}

impl Skip {
    /// Why CI allows it; `None`: it does not.
    pub(super) fn allowed(&self) -> Option<&'static str> {
        ALLOWED_IN_CI.iter().find(|(kind, _)| *kind == self.kind).map(|(_, why)| *why)
    }
}

/// A run that failed and was followed by others that decided (docs/decisions).
#[derive(Debug, PartialEq)]
pub(super) struct FirstFailure {
    pub(super) test: String,
    pub(super) name: String,
    pub(super) remark: String,
}

impl Notes {
    /// The notes in a file; none where there is no file.
    pub(super) fn read(path: &Path) -> Self {
        Self::parse(&std::fs::read_to_string(path).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut notes = Notes::default();
        for line in text.lines() {
            let mut fields = line.split('\t').map(str::to_string);
            let kind = fields.next().unwrap_or_default();
            let mut next = || fields.next().unwrap_or_default();
            match kind.as_str() {
                "skip" => {
                    let skip = Skip { test: next(), kind: next(), why: next() };
                    if !notes.skips.contains(&skip) {
                        notes.skips.push(skip);
                    }
                }
                "first-failure" => {
                    let (test, name, remark) = (next(), next(), next());
                    notes.first_failures.push(FirstFailure { test, name, remark });
                }
                _ => {}
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_and_what_is_no_note_is_left_out() {
        let notes = Notes::parse(
            "skip\tlive::a\tnot-root\tneeds root\nskip\tlive::a\tnot-root\tneeds root\n\
             first-failure\tlab::every\treordering\tworst link 75 ms late\nnonsense\n\
             skip\toracle::b\tno-captures\tno captures in x\n",
        );
        assert_eq!(notes.skips.len(), 2, "the same skip counts once");
        assert_eq!(notes.skips[0].allowed(), None);
        assert!(notes.skips[1].allowed().is_some());
        assert_eq!(notes.first_failures[0].name, "reordering");
    }
}
