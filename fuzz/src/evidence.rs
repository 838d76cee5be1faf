//! The target of saved evidence: parsed, diagnosed, and reported as text and as JSON.

use model::Evidence;
use text::Style;

/// Checks what must hold of every report.
pub(super) fn reported(evidence: &Evidence) {
    let found = diagnose::diagnose(evidence);
    let json = report::json(&found);
    assert_eq!(json, report::json(&diagnose::diagnose(evidence)), "rules are pure");
    let plain = Style { colour: false, width: 80 };
    let texts = [report::text(&found, plain), report::capture(&found, Some(3), plain)];
    for text in texts.iter().chain([&json]) {
        // Text of the machine is hostile: nothing in a report controls a terminal.
        let control = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(control, None);
        assert!(!text.contains(|c| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')));
    }
    for finding in &found.findings {
        assert!(diagnose::cause(&finding.cause).is_some());
        assert!(!finding.evidence.is_empty(), "every finding has its proof");
        assert!(finding.impact.amount.is_finite(), "{:?}", finding.impact);
        assert!(finding.impact.share.is_none_or(f64::is_finite), "{:?}", finding.impact);
        let figures = finding.evidence.iter().flat_map(|proof| &proof.figures);
        figures.for_each(|figure| assert!(figure.value.is_finite(), "{figure:?}"));
    }
}

pub(super) fn evidence(bytes: &[u8]) {
    let Ok(evidence) = serde_json::from_slice::<Evidence>(bytes) else { return };
    let Ok(written) = serde_json::to_vec(&evidence) else { panic!("evidence cannot be written") };
    let Ok(again) = serde_json::from_slice::<Evidence>(&written) else {
        panic!("written evidence cannot be read")
    };
    // Without numbers with a fraction, whose last digit may differ.
    let whole = |e: &Evidence| {
        (e.sockets.clone(), e.missing_evidence.clone(), e.logs.clone(), e.sysctls.clone())
    };
    assert_eq!(whole(&again), whole(&evidence));
    reported(&evidence);
}
