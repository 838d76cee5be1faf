//! One finding as text: title, subject, impact, proof, checks, remedies, effects.

use model::{Finding, ProcessName, Remedy, Severity};

use text::Style;
use text::sanitize;
use text::{Paint, paint};
use text::{columns, wrap};

/// Widest label; a longer one has its text on the same line all the same.
const WIDEST_LABEL: usize = 12;

/// Narrowest column of labels: `effects`.
const NARROWEST_LABEL: usize = 7;

/// Most process ids that are named of one process name.
const MOST_PIDS: usize = 6;

/// Findings as text, numbered from 1, an empty line after each; nothing without any.
pub fn text(findings: &[Finding], style: Style) -> String {
    let mut lines = Vec::new();
    for (at, finding) in findings.iter().enumerate() {
        self::lines(finding, at + 1, style, &mut lines);
    }
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// The lines of a finding, the one at place `place` (from 1), with an empty line after them.
pub(crate) fn lines(finding: &Finding, place: usize, style: Style, lines: &mut Vec<String>) {
    let place = format!("{place}  ");
    let margin = " ".repeat(place.len());
    title(finding, &place, &margin, style, lines);
    let subject = subject(finding);
    for line in wrap(&subject, &margin, &format!("{margin}  "), style.width) {
        lines.push(paint(&line, Paint::Faint, style));
    }
    lines.push(String::new());
    lines.extend(wrap(&sanitize::lines(&finding.impact.text), &margin, &margin, style.width));

    let widest = finding.evidence.iter().map(|proof| columns(&sanitize::line(&proof.label))).max();
    let label_columns = widest.unwrap_or(0).clamp(NARROWEST_LABEL, WIDEST_LABEL);
    let mut block = Block { margin, label_columns, style, lines };

    let mut last = "";
    for proof in &finding.evidence {
        let label = if proof.label == last { "" } else { proof.label.as_str() };
        block.text(label, &sanitize::lines(&proof.text));
        last = &proof.label;
    }
    for (at, check) in finding.checks.iter().enumerate() {
        block.command(if at == 0 { "check" } else { "" }, check);
    }
    for remedy in &finding.remedies {
        self::remedy(remedy, &mut block);
    }
    for (at, effect) in finding.also_causes.iter().enumerate() {
        let mut text = sanitize::lines(&effect.text).into_owned();
        if let Some(cause) = effect.cause.as_deref().filter(|id| !text.contains(*id)) {
            text.push_str(&format!(" ({})", sanitize::line(cause)));
        }
        block.text(if at == 0 { "effects" } else { "" }, &text);
    }
    lines.push(String::new());
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
            let gap = " ".repeat(style.width.saturating_sub(columns(line) + severity.len()));
            lines.push(format!("{text}{gap}{}", paint(severity, colour, style)));
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
        let shown: Vec<_> = pids.iter().take(MOST_PIDS).map(u32::to_string).collect();
        let more = match pids.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{} (pid {}{more})", sanitize::line(name), shown.join(", "))
    });
    names.collect::<Vec<_>>().join(", ")
}

fn remedy(remedy: &Remedy, block: &mut Block<'_>) {
    let text = sanitize::lines(&remedy.text);
    block.text("mend", &text);
    if let Some(command) = remedy.command.as_deref().filter(|c| !text.contains(*c)) {
        block.command("", command);
    }
    let root = if remedy.needs_root { "needs root; " } else { "" };
    let mut applies = format!("({root}{})", remedy.reaches.words());
    if let Some(note) = &remedy.note {
        applies.push(' ');
        applies.push_str(&sanitize::lines(note));
    }
    block.text("", &applies);
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

    /// A command to be pasted: never broken, however long.
    fn command(&mut self, label: &str, command: &str) {
        let mut head = self.head(label);
        for line in sanitize::lines(command).lines() {
            self.lines.push(format!("{head}{}", paint(line, Paint::Code, self.style)));
            head = self.head("");
        }
    }
}
