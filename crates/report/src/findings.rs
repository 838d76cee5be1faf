//! One finding as text: title, subject, impact, proof, checks, remedies, what else it causes.

use std::borrow::Cow;

use model::{Command, Finding, ProcessName, Remedy, RemedyChange, Report, Severity};
use text::{Paint, Style, columns, paint, sanitize, shell, wrap};

use crate::gain;

/// Columns of labels: a longer label has its text on the same line all the same.
const MIN_LABEL_COLUMNS: usize = 7;
const MAX_LABEL_COLUMNS: usize = 12;

/// The labels of what is no proof.
const CHECK: &str = "check";
const FIX: &str = "fix";
const GAIN: &str = "gain";
const ALSO_CAUSES: &str = "also causes";

/// Most process ids that are listed of one process name.
const MAX_PIDS_LISTED: usize = 6;

/// Findings as text, numbered from 1, an empty line after each; nothing without any.
pub fn text(findings: &[Finding], style: Style) -> String {
    let mut lines = Vec::new();
    for (at, finding) in findings.iter().enumerate() {
        self::lines(finding, at + 1, style, &mut lines);
    }
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// The lines of a finding, the one at place `place` (from 1), with an empty line after them.
fn lines(finding: &Finding, place: usize, style: Style, lines: &mut Vec<String>) {
    let place = format!("{place}  ");
    let margin = " ".repeat(place.len());
    title(finding, &place, &margin, style, lines);
    let subject = subject(finding);
    for line in wrap(&subject, &margin, &format!("{margin}  "), style.width) {
        lines.push(paint(&line, Paint::Faint, style));
    }
    lines.push(String::new());
    lines.extend(wrap(&sanitize::lines(&finding.impact.text), &margin, &margin, style.width));

    let label_columns = label_columns(finding);
    let mut block = Block { margin, label_columns, style, lines };

    let mut last = "";
    for proof in &finding.evidence {
        let label = if proof.label == last { "" } else { proof.label.as_str() };
        block.text(label, &sanitize::lines(&proof.text));
        last = &proof.label;
    }
    checks(&finding.checks, &mut block);
    for remedy in &finding.remedies {
        self::remedy(remedy, &mut block);
    }
    block.text(GAIN, &gain::of_finding(&finding.gain));
    for (at, effect) in finding.also_causes.iter().enumerate() {
        let mut text = sanitize::lines(&effect.text).into_owned();
        if let Some(cause) = effect.cause.as_deref().filter(|id| !text.contains(*id)) {
            text.push_str(&format!(" ({})", sanitize::line(cause)));
        }
        block.text(if at == 0 { ALSO_CAUSES } else { "" }, &text);
    }
    lines.push(String::new());
}

/// The findings of a report, and what fixing several together gives.
pub(crate) fn of_report(report: &Report, style: Style, lines: &mut Vec<String>) {
    for (at, finding) in report.findings.iter().enumerate() {
        self::lines(finding, at + 1, style, lines);
    }
    for all in &report.gains_together {
        lines.extend(wrap(&gain::of_all(all), "", "  ", style.width));
        lines.push(String::new());
    }
}

/// Columns for the labels of a finding.
fn label_columns(finding: &Finding) -> usize {
    let proofs = finding.evidence.iter().map(|proof| columns(&sanitize::line(&proof.label)));
    let also_causes = if finding.also_causes.is_empty() { 0 } else { columns(ALSO_CAUSES) };
    let widest = proofs.max().unwrap_or(0).max(also_causes);
    widest.clamp(MIN_LABEL_COLUMNS, MAX_LABEL_COLUMNS)
}

/// Commands that verify a finding; those for another host stand under its name.
fn checks(checks: &[Command], block: &mut Block<'_>) {
    let mut label = CHECK;
    let mut host = None;
    for (check, line) in checks.iter().filter_map(|check| Some((check, command_line(check)?))) {
        if check.host != host {
            let name = check.host.as_deref().unwrap_or("this host");
            block.text(label, &format!("on {}:", sanitize::line(name)));
            label = "";
            host.clone_from(&check.host);
        }
        block.command(label, &line);
        label = "";
    }
}

/// A command as it can be pasted into a shell; `None` where a terminal cannot show it as it is.
fn command_line(command: &Command) -> Option<String> {
    let line = shell::pipeline(&command.argv);
    matches!(sanitize::line(&line), Cow::Borrowed(_)).then_some(line)
}

fn title(finding: &Finding, place: &str, margin: &str, style: Style, lines: &mut Vec<String>) {
    let (severity, colour) = match finding.severity {
        Severity::Critical => ("CRITICAL", Paint::Critical),
        Severity::Warning => ("WARNING", Paint::Warning),
        Severity::Info => ("INFO", Paint::Info),
    };
    let room = style.width - severity.len() - 2;
    let titles = wrap(&sanitize::line(&finding.title), place, margin, room);
    for (at, line) in titles.iter().enumerate() {
        let text = paint(line, Paint::Strong, style);
        if at == 0 {
            let space = " ".repeat(style.width.saturating_sub(columns(line) + severity.len()));
            lines.push(format!("{text}{space}{}", paint(severity, colour, style)));
        } else {
            lines.push(text);
        }
    }
}

/// `accept-queue-overflow · 0.0.0.0:80 · nginx (pid 10490, 10491)`
fn subject(finding: &Finding) -> String {
    let subject = &finding.subject;
    let mut parts = vec![sanitize::line(&finding.cause).into_owned()];
    if !subject.name.is_empty() {
        parts.push(sanitize::line(&subject.name).into_owned());
    }
    let processes = processes(&subject.processes);
    if !processes.is_empty() {
        parts.push(processes);
    }
    parts.join(" · ")
}

/// Processes by name: `nginx (pid 10490, 10491), php-fpm8.2 (pid 12)`.
fn processes(processes: &[ProcessName]) -> String {
    let mut names: Vec<(&str, Vec<u32>)> = Vec::new();
    for process in processes {
        match names.iter_mut().find(|(name, _)| *name == process.name) {
            Some((_, pids)) => pids.push(process.pid),
            None => names.push((&process.name, vec![process.pid])),
        }
    }
    let names = names.iter().map(|(name, pids)| {
        let shown: Vec<_> = pids.iter().take(MAX_PIDS_LISTED).map(u32::to_string).collect();
        let more = match pids.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{} (pid {}{more})", sanitize::line(name), shown.join(", "))
    });
    names.collect::<Vec<_>>().join(", ")
}

fn remedy(remedy: &Remedy, block: &mut Block<'_>) {
    fix(remedy, block);
    if let Some(line) = remedy.command.as_ref().and_then(command_line) {
        block.command("", &line);
    }
    let root = remedy.needs_root.then_some("needs root");
    let applies: Vec<&str> = root.into_iter().chain(remedy.reaches.words()).collect();
    let mut text = match applies[..] {
        [] => String::new(),
        _ => format!("({})", applies.join("; ")),
    };
    if let Some(note) = &remedy.note {
        let space = if text.is_empty() { "" } else { " " };
        text = format!("{text}{space}{}", sanitize::lines(note));
    }
    if !text.is_empty() {
        block.text("", &text);
    }
}

/// What to change. A line of configuration that does not fit behind its place stands below it, whole.
fn fix(remedy: &Remedy, block: &mut Block<'_>) {
    let text = sanitize::lines(&remedy.text);
    let line = match &remedy.change {
        RemedyChange::ConfigLine { line, .. } => sanitize::line(line),
        _ => "".into(),
    };
    match text.strip_suffix(&*line) {
        Some(place) if !line.is_empty() && !block.fits(&text) => {
            block.text(FIX, place.trim_end());
            block.command("", &line);
        }
        _ => block.text(FIX, &text),
    }
}

/// Labelled lines with one column of labels.
struct Block<'a> {
    margin: String,
    label_columns: usize,
    style: Style,
    lines: &'a mut Vec<String>,
}

impl Block<'_> {
    fn head(&self, label: &str) -> String {
        let label = sanitize::line(label);
        let pad = " ".repeat(self.label_columns.saturating_sub(columns(&label)) + 1);
        format!("{}{}{pad}", self.margin, paint(&label, Paint::Faint, self.style))
    }

    fn text(&mut self, label: &str, text: &str) {
        let hang = self.head("");
        self.lines.extend(wrap(text, &self.head(label), &hang, self.style.width));
    }

    /// Whether a text fits on one line.
    fn fits(&self, text: &str) -> bool {
        columns(&self.head("")) + columns(text) <= self.style.width
    }

    /// A command to be pasted: never broken, however long.
    fn command(&mut self, label: &str, command: &str) {
        let head = self.head(label);
        self.lines.push(format!("{head}{}", paint(command, Paint::Code, self.style)));
    }
}
