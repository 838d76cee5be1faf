//! One file through the parsers, the rules and the report.

use std::io::Cursor;
use std::ops::ControlFlow;

use model::{Evidence, Report};
use streams::{Collector, MemoryLimits};
use sys::capture::{Capture, ReadEnd};
use text::Style;

use super::kind::Kind;

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was reported.
    Accepted,
    /// An error says what is wrong.
    Refused,
    /// It was reported, with a character that controls a terminal.
    Controls,
}

/// Reads a file.
pub(super) fn run(kind: Kind, bytes: Vec<u8>) -> Outcome {
    let evidence = match kind {
        Kind::Capture => evidence_of(bytes),
        Kind::Evidence => serde_json::from_slice(&bytes).ok(),
    };
    let Some(evidence) = evidence else { return Outcome::Refused };
    let report = diagnose::diagnose(&evidence);
    if controls(&report) { Outcome::Controls } else { Outcome::Accepted }
}

/// The evidence of a capture; `None`: it has no packet.
pub(super) fn evidence_of(bytes: Vec<u8>) -> Option<Evidence> {
    let mut capture = Capture::from_reader("a file", Cursor::new(bytes)).ok()?;
    let mut collector = Collector::new(None).limited(MemoryLimits::FILE);
    let end = capture.for_each_batch(|packets| {
        collector.take_batch(packets);
        ControlFlow::Continue(())
    });
    if collector.packets() == 0 && !matches!(end, Ok(ReadEnd::Complete)) {
        return None;
    }
    let packets = collector.finish(vec!["a file".to_string()], 0).packets;
    Some(session::packets::evidence(packets, Vec::new(), false))
}

/// Whether anything in a report controls a terminal.
fn controls(report: &Report) -> bool {
    let style = Style { colour: false, width: 80 };
    let texts =
        [report::text(report, style), report::capture(report, None, style), report::json(report)];
    texts.iter().any(|text| controlling(text).is_some())
}

/// The first character that a terminal would obey.
pub(super) fn controlling(text: &str) -> Option<char> {
    text.chars().find(|character| character.is_control() && *character != '\n')
}

#[cfg(test)]
mod tests {
    use super::super::{change, seeds};
    use super::*;

    /// A short version of `cargo xtask mutate`.
    #[test]
    fn mutated_files_do_no_harm() {
        for (kind, files) in [(Kind::Capture, 500), (Kind::Evidence, 200)] {
            let seeds = seeds::all(kind).expect("seeds");
            let mut accepted = 0;
            for number in 0..files {
                let outcome = run(kind, change::file(kind, &seeds, number));
                assert_ne!(outcome, Outcome::Controls, "{kind:?} {number}");
                accepted += usize::from(outcome == Outcome::Accepted);
            }
            assert!(accepted > 0 && accepted < files as usize, "{kind:?}: {accepted}");
        }
    }
}
