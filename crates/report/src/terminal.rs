//! The report in a terminal: what was watched, the findings, what was ruled out, what could not
//! be seen, what watching cost.
//!
//! Nothing is left out to be short: it is grouped. The findings themselves are in `findings`.

use std::collections::BTreeSet;

use model::{Focus, MissingEvidence, Report, Source, Undecided};

use crate::findings;
use text::Style;
use text::sanitize;
use text::wrap;
use text::{Paint, paint};
use text::{bytes, duration, number, percent};

/// Fewest columns that a report is laid out for.
const NARROWEST: usize = 40;

/// No-break space.
const NO_BREAK: &str = "\u{a0}";

/// Sources without which «nothing slows this host's network down» cannot be said: they show
/// the whole host, the others explain or add to them.
const ESSENTIAL: [Source; 4] =
    [Source::Counters, Source::Listeners, Source::Sockets, Source::Processes];

/// The report as text, each line at most [`Style::width`] columns wide but for commands to be
/// pasted. Ends with a line feed. Strings of the machine are made harmless.
pub fn text(report: &Report, style: Style) -> String {
    let style = Style { width: style.width.max(NARROWEST), ..style };
    let mut lines = Vec::new();
    header(report, style, &mut lines);
    if report.findings.is_empty() {
        nothing_found(report, style, &mut lines);
    }
    for (at, finding) in report.findings.iter().enumerate() {
        findings::lines(finding, at + 1, style, &mut lines);
    }
    footer(report, style, &mut lines);
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn header(report: &Report, style: Style, lines: &mut Vec<String>) {
    let host = &report.host;
    let mut about = Vec::new();
    if !host.kernel.is_empty() {
        about.push(format!("kernel {}", sanitize::line(&host.kernel)));
    }
    match host.cpus {
        0 => {}
        1 => about.push("1 CPU".to_string()),
        cpus => about.push(format!("{} CPUs", number(cpus.into()))),
    }
    match report.tcp_sockets {
        None => {}
        Some(1) => about.push("1 TCP socket".to_string()),
        Some(sockets) => about.push(format!("{} TCP sockets", number(sockets))),
    }
    if let Some(packets) = &report.packets {
        about.push(format!("{} packets", number(packets.packets)));
    }
    if let Some(netns) = &host.netns {
        about.push(format!("network namespace {}", sanitize::line(netns)));
    }
    let name = if host.name.is_empty() { "this host".into() } else { sanitize::line(&host.name) };
    let mut text = format!(
        "netwhy watched {name} for {}",
        duration(std::time::Duration::from_millis(report.window.duration_ms))
    );
    if report.window.interrupted {
        text.push_str(", until interrupted");
    }
    if !about.is_empty() {
        text.push_str(&format!(" ({})", about.join(", ")));
    }
    lines.extend(wrap(&text, "", "  ", style.width));
    if !report.focus.is_everything() {
        let text = format!("Looked only at {}.", focus(&report.focus));
        lines.extend(wrap(&text, "", "  ", style.width));
    }
    lines.push(String::new());
}

/// The focus in words: `port 80 or 443, process 812`.
fn focus(focus: &Focus) -> String {
    fn list<T: ToString>(word: &str, values: &[T]) -> Option<String> {
        let values: Vec<_> = values.iter().map(T::to_string).collect();
        (!values.is_empty()).then(|| format!("{word} {}", values.join(" or ")))
    }
    let parts =
        [list("port", &focus.ports), list("process", &focus.pids), list("peer", &focus.peers)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Whether too little was seen to say that all is well.
fn half_blind(report: &Report) -> bool {
    // What only packets show is for a capture.
    report.undecided.iter().any(|one| one.sources != [Source::Packets])
        || report.missing_evidence.iter().any(|gap| ESSENTIAL.contains(&gap.source))
}

fn nothing_found(report: &Report, style: Style, lines: &mut Vec<String>) {
    let (line, is) = if half_blind(report) {
        ("Nothing found in what could be seen: read what could not, below.", Paint::Warning)
    } else if !report.focus.is_everything() {
        ("Nothing slows the network down in what was looked at.", Paint::Good)
    } else {
        ("Nothing slows this host's network down.", Paint::Good)
    };
    for line in wrap(line, "", "  ", style.width) {
        lines.push(paint(&line, is, style));
    }
    for activity in &report.activity {
        lines.extend(wrap(&sanitize::lines(activity), "  ", "    ", style.width));
    }
    lines.push(String::new());
}

fn footer(report: &Report, style: Style, lines: &mut Vec<String>) {
    let mut add = |head: &str, text: String| {
        let text = format!("{}: {text}", paint(head, Paint::Strong, style));
        let laid_out = wrap(&text, "", "  ", style.width);
        lines.extend(laid_out.iter().map(|line| line.replace(NO_BREAK, " ")));
    };
    if !report.ruled_out.is_empty() {
        let causes = report.ruled_out.iter().map(|ruled| match sanitize::line(&ruled.because) {
            because if because.is_empty() => sanitize::line(&ruled.cause).into_owned(),
            because => because.into_owned(),
        });
        add("Ruled out", format!("{}.", causes.collect::<Vec<_>>().join(", ")));
    }
    if !report.undecided.is_empty() {
        add("Undecided", undecided(&report.undecided));
    }
    gaps(&report.missing_evidence).into_iter().for_each(|text| add("Not seen", text));
    add("Own cost", cost(report));
    let mut more = BTreeSet::new();
    let mut commands: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| more.insert(&finding.cause))
        .take(3)
        .map(|finding| format!("netwhy explain {}", sanitize::line(&finding.cause)))
        .collect();
    if commands.is_empty() {
        commands.push("netwhy explain".to_string());
    }
    commands.push("--json".to_string());
    // Commands do not break: a no-break space inside, a plain one when the lines are laid out.
    let more = commands.iter().map(|command| command.replace(' ', NO_BREAK));
    add("More", more.collect::<Vec<_>>().join(" · "));
}

/// Causes that need the same are named together.
fn undecided(undecided: &[Undecided]) -> String {
    let mut groups: Vec<(&Undecided, Vec<String>)> = Vec::new();
    for one in undecided {
        let cause = sanitize::line(&one.cause).into_owned();
        let same = |known: &Undecided| {
            known.needs == one.needs && known.how_to_observe == one.how_to_observe
        };
        match groups.iter_mut().find(|(known, _)| same(known)) {
            Some((_, causes)) => causes.push(cause),
            None => groups.push((one, vec![cause])),
        }
    }
    let groups = groups.iter().map(|(one, causes)| {
        let mut text = format!("{} (needs {}", causes.join(", "), sanitize::line(&one.needs));
        if let Some(closes_with) = &one.how_to_observe {
            text.push_str(&format!(": {}", sanitize::line(closes_with)));
        }
        text.push(')');
        text
    });
    format!("{}.", groups.collect::<Vec<_>>().join("; "))
}

/// What was not seen, and what would show it.
pub(crate) fn gaps(gaps: &[MissingEvidence]) -> Vec<String> {
    let told = |(closes_with, gaps): (Option<&str>, Vec<&MissingEvidence>)| {
        let mut text = not_seen(&gaps);
        if let Some(closes_with) = closes_with {
            text.push_str(&format!(". To see it: {}", sanitize::line(closes_with)));
        }
        format!("{text}.")
    };
    by_remedy(gaps).into_iter().map(told).collect()
}

/// Gaps that the same thing closes, together, in the order in which they were noted.
fn by_remedy(gaps: &[MissingEvidence]) -> Vec<(Option<&str>, Vec<&MissingEvidence>)> {
    let mut groups: Vec<(Option<&str>, Vec<&MissingEvidence>)> = Vec::new();
    for gap in gaps {
        let closes_with = gap.how_to_observe.as_deref();
        match groups.iter_mut().find(|(known, _)| *known == closes_with) {
            Some((_, same)) => same.push(gap),
            None => groups.push((closes_with, vec![gap])),
        }
    }
    groups
}

fn not_seen(gaps: &[&MissingEvidence]) -> String {
    let parts = gaps.iter().map(|gap| {
        let what = sanitize::line(&gap.what);
        match sanitize::line(&gap.why) {
            why if why.is_empty() => what.into_owned(),
            why => format!("{what} ({why})"),
        }
    });
    parts.collect::<Vec<_>>().join("; ")
}

fn cost(report: &Report) -> String {
    let cost = &report.cost;
    let mut text = format!("{} of one CPU", percent(cost.cpu_percent_of_one / 100.0));
    if cost.max_resident_bytes > 0 {
        text.push_str(&format!(", {}", bytes(cost.max_resident_bytes)));
    }
    if cost.samples_planned > 0 {
        let missed = cost.samples_planned.saturating_sub(cost.samples_taken);
        text.push_str(&match (missed, cost.samples_late) {
            (0, 0) => ", no look late".to_string(),
            (0, late) => format!(", {late} of {} looks late", cost.samples_taken),
            (missed, late) => {
                format!(", {missed} of {} looks missed, {late} late", cost.samples_planned)
            }
        });
    }
    text.push('.');
    text
}
