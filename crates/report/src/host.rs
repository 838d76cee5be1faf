//! The report of a host that was watched: what was observed, the findings, what was ruled out, which
//! evidence is missing, what observing cost.

use std::time::Duration;

use model::{Focus, Report, Source};
use text::sanitize;
use text::{Paint, Style, count, duration, paint, wrap};

use crate::findings;
use crate::footer::Footer;

/// Sources without which a report cannot say that nothing slows the network down: they cover the whole
/// host, while the others explain them or add to them.
const ESSENTIAL: [Source; 4] =
    [Source::Counters, Source::Listeners, Source::Sockets, Source::Processes];

/// The report as text: each line at most [`Style::width`] columns wide, except for commands, which are
/// never broken. Ends with a line feed. Untrusted strings are sanitized.
pub fn text(report: &Report, style: Style) -> String {
    let style = style.within_bounds();
    let mut lines = Vec::new();
    header(report, style, &mut lines);
    if report.findings.is_empty() {
        nothing_found(report, style, &mut lines);
    }
    findings::of_report(report, style, &mut lines);
    let mut footer = Footer::new(style, &mut lines);
    footer.ruled_out(report);
    footer.undecided(report);
    footer.not_checked(report);
    footer.not_observed(report);
    footer.own_cost(report);
    let pages: &[&str] = if report.findings.is_empty() { &["netwhy explain"] } else { &[] };
    footer.more(report, &[pages, &["--json"]].concat());
    lines.join("\n") + "\n"
}

fn header(report: &Report, style: Style, lines: &mut Vec<String>) {
    let host = &report.host;
    let mut about = Vec::new();
    if !host.kernel.is_empty() {
        about.push(format!("kernel {}", sanitize::line(&host.kernel)));
    }
    if host.cpus > 0 {
        about.push(count(host.cpus.into(), "CPU"));
    }
    if let Some(sockets) = report.tcp_sockets {
        about.push(count(sockets, "TCP socket"));
    }
    if let Some(packets) = &report.packets {
        about.push(count(packets.packets, "packet"));
    }
    if let Some(netns) = &host.netns {
        about.push(format!("network namespace {}", sanitize::line(netns)));
    }
    let name = if host.name.is_empty() { "this host".into() } else { sanitize::line(&host.name) };
    let mut text = format!(
        "netwhy watched {name} for {}",
        duration(Duration::from_millis(report.window.duration_ms))
    );
    if report.window.interrupted {
        text.push_str(", until interrupted");
    }
    if !about.is_empty() {
        text.push_str(&format!(" ({})", about.join(", ")));
    }
    lines.extend(wrap(&text, "", "  ", style.width));
    if !report.focus.is_everything() {
        let text = format!("Restricted to {}.", focus(&report.focus));
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

/// Whether too much evidence is missing to say that all is well.
fn is_incomplete(report: &Report) -> bool {
    // Causes that only packets show need a capture.
    report.undecided.iter().any(|one| one.sources != [Source::Packets])
        || report.missing_evidence.iter().any(|missing| ESSENTIAL.contains(&missing.source))
}

fn nothing_found(report: &Report, style: Style, lines: &mut Vec<String>) {
    let (line, colour) = if is_incomplete(report) {
        ("No cause found, but some evidence is missing (see below).", Paint::Warning)
    } else if !report.focus.is_everything() {
        ("Nothing slows the selected connections down.", Paint::Good)
    } else {
        ("Nothing slows this host's network down.", Paint::Good)
    };
    for line in wrap(line, "", "  ", style.width) {
        lines.push(paint(&line, colour, style));
    }
    for activity in &report.activity {
        lines.extend(wrap(&sanitize::lines(activity), "  ", "    ", style.width));
    }
    lines.push(String::new());
}
