//! The end of a report: which causes are ruled out or undecided, which evidence is missing, what
//! observing cost, and where to read more.

use std::collections::BTreeSet;

use model::{MissingEvidence, NotChecked, Report, Undecided};
use text::sanitize;
use text::{Paint, Style, bytes, count, number, paint, percent, wrap, wrap_items};

/// Most causes whose page is named at the end.
const MAX_PAGES_NAMED: usize = 3;
/// Most causes that are ruled out, of each group that is undecided, and most reasons why others are not
/// checked.
const MAX_RULED_OUT_SHOWN: usize = 6;
const MAX_UNDECIDED_SHOWN: usize = 3;
const MAX_REASONS_SHOWN: usize = 3;
/// The option that lists all.
const VERBOSE: &str = ": --verbose";

/// The last lines of a report, each after its label.
pub(crate) struct Footer<'a> {
    style: Style,
    lines: &'a mut Vec<String>,
}

impl<'a> Footer<'a> {
    pub(crate) fn new(style: Style, lines: &'a mut Vec<String>) -> Self {
        Footer { style, lines }
    }

    fn label(&self, label: &str) -> String {
        format!("{}: ", paint(label, Paint::Strong, self.style))
    }

    fn add(&mut self, label: &str, text: &str) {
        self.lines.extend(wrap(text, &self.label(label), "  ", self.style.width));
    }

    /// The first of the causes that the evidence excludes, by the figures that exclude them.
    pub(crate) fn ruled_out(&mut self, report: &Report) {
        let reasons: Vec<_> = report
            .ruled_out
            .iter()
            .take(MAX_RULED_OUT_SHOWN)
            .map(|ruled_out| sanitize::line(&ruled_out.because))
            .collect();
        if !reasons.is_empty() {
            let more = and_more(report.ruled_out.len(), reasons.len(), VERBOSE);
            self.add("Ruled out", &format!("{}{more}.", reasons.join(", ")));
        }
    }

    /// The causes for which evidence is missing.
    pub(crate) fn undecided(&mut self, report: &Report) {
        if !report.undecided.is_empty() {
            self.add("Undecided", &undecided(&report.undecided));
        }
    }

    /// How many causes nothing observed could have shown, and what there was not.
    pub(crate) fn not_checked(&mut self, report: &Report) {
        let reasons = by_reason(&report.not_checked);
        if reasons.is_empty() {
            return;
        }
        let shown: Vec<String> = reasons
            .iter()
            .take(MAX_REASONS_SHOWN)
            .map(|(because, _)| sanitize::line(because).into_owned())
            .collect();
        let more = and_more(reasons.len(), shown.len(), VERBOSE);
        let causes = count(report.not_checked.len() as u64, "cause");
        self.add("Not checked", &format!("{causes} ({}{more}).", shown.join("; ")));
    }

    /// What was not observed, and how to observe it.
    pub(crate) fn not_observed(&mut self, report: &Report) {
        for (how, missing) in by_how_to_observe(&report.missing_evidence) {
            let mut text = not_observed(&missing);
            if let Some(how) = how {
                text.push_str(&format!(". To observe it: {}", sanitize::line(how)));
            }
            self.add("Not observed", &format!("{text}."));
        }
    }

    /// What observing cost this host.
    pub(crate) fn own_cost(&mut self, report: &Report) {
        self.add("Own cost", &own_cost(report));
    }

    /// The pages of the causes found, then more commands and options.
    pub(crate) fn more(&mut self, report: &Report, others: &[&str]) {
        let mut named = BTreeSet::new();
        let causes = report.findings.iter().filter(|finding| named.insert(&finding.cause));
        let pages = causes
            .take(MAX_PAGES_NAMED)
            .map(|finding| format!("netwhy explain {}", sanitize::line(&finding.cause)));
        let all: Vec<_> = pages.chain(others.iter().map(|other| (*other).to_string())).collect();
        self.lines.extend(wrap_items(&all, " · ", &self.label("More"), "  ", self.style.width));
    }
}

/// How many streams are not shown, and the option that shows more of those that the report keeps.
pub(crate) fn more_streams(streams: u64, shown: usize, kept: usize) -> Option<String> {
    let more = streams.checked_sub(shown as u64).filter(|more| *more > 0)?;
    // The argument of --top has no thousands separators: users type it.
    let option = if kept > shown { format!(": --top {kept}") } else { String::new() };
    Some(format!("{} more{option}", number(more)))
}

/// `, 3 more: --verbose`, where not all are shown.
fn and_more(all: usize, shown: usize, option: &str) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        more => format!(", {} more{option}", number(more as u64)),
    }
}

/// The reasons for which causes are not checked, with their number of causes, most first.
fn by_reason(not_checked: &[NotChecked]) -> Vec<(&str, usize)> {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for one in not_checked {
        match reasons.iter_mut().find(|(because, _)| *because == one.because) {
            Some((_, causes)) => *causes += 1,
            None => reasons.push((&one.because, 1)),
        }
    }
    reasons.sort_by_key(|(_, causes)| std::cmp::Reverse(*causes));
    reasons
}

/// Causes that need the same evidence are named together.
fn undecided(undecided: &[Undecided]) -> String {
    let mut groups: Vec<(&Undecided, Vec<String>)> = Vec::new();
    for one in undecided {
        let cause = sanitize::line(&one.cause).into_owned();
        let is_same = |known: &Undecided| {
            known.needs == one.needs && known.how_to_observe == one.how_to_observe
        };
        match groups.iter_mut().find(|(known, _)| is_same(known)) {
            Some((_, causes)) => causes.push(cause),
            None => groups.push((one, vec![cause])),
        }
    }
    let groups = groups.iter().map(|(one, causes)| {
        let shown = causes.get(..MAX_UNDECIDED_SHOWN).unwrap_or(causes);
        let more = and_more(causes.len(), shown.len(), "");
        let needs = sanitize::line(&one.needs);
        let mut text = format!("{}{more} (needs {needs}", shown.join(", "));
        if let Some(how) = &one.how_to_observe {
            text.push_str(&format!(": {}", sanitize::line(how)));
        }
        text.push(')');
        text
    });
    format!("{}.", groups.collect::<Vec<_>>().join("; "))
}

/// Missing evidence grouped by how to observe it, in the order in which it was noted.
fn by_how_to_observe(missing: &[MissingEvidence]) -> Vec<(Option<&str>, Vec<&MissingEvidence>)> {
    let mut groups: Vec<(Option<&str>, Vec<&MissingEvidence>)> = Vec::new();
    for one in missing {
        let how = one.how_to_observe.as_deref();
        match groups.iter_mut().find(|(known, _)| *known == how) {
            Some((_, same)) => same.push(one),
            None => groups.push((how, vec![one])),
        }
    }
    groups
}

fn not_observed(missing: &[&MissingEvidence]) -> String {
    let parts = missing.iter().map(|one| {
        let what = sanitize::line(&one.what);
        match sanitize::line(&one.why) {
            why if why.is_empty() => what.into_owned(),
            why => format!("{what} ({why})"),
        }
    });
    parts.collect::<Vec<_>>().join("; ")
}

fn own_cost(report: &Report) -> String {
    let cost = &report.cost;
    let mut text = format!("{} of one CPU", percent(cost.cpu_percent_of_one / 100.0));
    if cost.max_resident_bytes > 0 {
        text.push_str(&format!(", {}", bytes(cost.max_resident_bytes)));
    }
    if cost.samples_planned > 0 {
        let (taken, late) = (cost.samples_taken.into(), cost.samples_late.into());
        let missed: u64 = cost.samples_planned.saturating_sub(cost.samples_taken).into();
        text.push_str(&match (missed, late) {
            (0, 0) => format!(", {} on time", count(taken, "sample")),
            (0, late) => format!(", {} of {} late", number(late), count(taken, "sample")),
            (missed, late) => format!(
                ", {} of {} missed, {} late",
                number(missed),
                count(cost.samples_planned.into(), "sample"),
                number(late)
            ),
        });
    }
    text.push('.');
    text
}
