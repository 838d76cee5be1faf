//! Standard output, standard error and files: all text, JSON and notes of netwhy pass here, and tidy
//! knows that nothing else prints.
//!
//! Untrusted strings are sanitized where they enter a line (`text::sanitize::line`). Whatever was
//! forgotten is caught here: all text passes [`sanitize::output`]. Only [`rows`] and [`binary`] don't.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use model::{Report, Severity};
use rustix::event::{PollFd, PollFlags, Timespec};
use sys::Stop;
use text::{Style, sanitize};

use crate::failure::Failure;
use crate::help;
use crate::options::{FailOn, ReportOptions, When};
use crate::saved_file::SavedFile;

/// Time between two checks whether a command that repeats is stopped.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The style of a report that is printed to standard output or standard error, or written to a file.
pub(crate) fn style(options: &ReportOptions, to_stderr: bool) -> Style {
    let style = match &options.output {
        Some(_) => Style { colour: false, width: width(None) },
        None if to_stderr => terminal_style(&std::io::stderr()),
        None => terminal_style(&std::io::stdout()),
    };
    match options.color {
        When::Always => Style { colour: true, ..style },
        When::Never => Style { colour: false, ..style },
        When::Auto => style,
    }
}

/// The style of standard output.
pub(crate) fn stdout_style() -> Style {
    terminal_style(&std::io::stdout())
}

/// Columns of text on standard output.
pub(crate) fn columns() -> usize {
    // Unit tests print nothing, whatever terminal they run in.
    if cfg!(test) { Style::DEFAULT_WIDTH } else { stdout_style().width }
}

/// The same without colours.
pub(crate) fn plain_style() -> Style {
    Style { colour: false, width: columns() }
}

/// Whether standard output is a terminal.
pub(crate) fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// The style of a stream: colours (unless `NO_COLOR` is set) if it is a terminal, and its width.
fn terminal_style(stream: &(impl std::io::IsTerminal + std::os::fd::AsFd)) -> Style {
    if !stream.is_terminal() {
        return Style { colour: false, width: width(None) };
    }
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    Style { colour, width: width(Some(columns)) }
}

/// Columns of text: `COLUMNS` if it is set, as for ps(1) and ls(1); otherwise those of the terminal.
fn width(terminal: Option<usize>) -> usize {
    let variable = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    // A terminal that does not know its size reports 0 columns.
    let width = variable.or(terminal).filter(|columns| *columns > 0);
    let width = width.unwrap_or(Style::DEFAULT_WIDTH);
    Style { colour: false, width }.within_bounds().width
}

/// Columns of a table that programs read too: on a terminal those of text, elsewhere without a limit,
/// because sort and head read lines.
pub(crate) fn table_width() -> usize {
    if stdout_is_terminal() { columns() } else { usize::MAX }
}

/// Prints help, the version, or what is wrong with the command line.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let to_stderr = error.use_stderr();
    let style = if to_stderr {
        terminal_style(&std::io::stderr())
    } else {
        terminal_style(&std::io::stdout())
    };
    let text = error.render();
    let text = if style.colour { text.ansi().to_string() } else { text.to_string() };
    // Nobody may read it.
    let _ = print(&text.replace(help::KEPT_SPACE, " "), to_stderr);
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Failure::USAGE))
}

/// Prints to standard error or standard output.
pub(crate) fn print(text: &str, to_stderr: bool) -> anyhow::Result<()> {
    if to_stderr {
        return Ok(std::io::stderr().write_all(sanitize::output(text).as_bytes())?);
    }
    let mut out = std::io::stdout().lock();
    out.write_all(sanitize::output(text).as_bytes())?;
    Ok(out.flush()?)
}

/// A document of JSON as text: indented, with control characters escaped.
pub(crate) fn json(document: &impl serde::Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(document).context("cannot serialize the document")?;
    Ok(format!("{}\n", sanitize::json(&text)))
}

/// An object of JSON as a line, with control characters escaped.
pub(crate) fn json_line(object: &impl serde::Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string(object).context("cannot serialize the object")?;
    Ok(format!("{}\n", sanitize::json(&text)))
}

/// Prints a line about what netwhy does to standard error, which nobody may read.
pub(crate) fn note(text: &str) {
    let _ = print(&format!("{text}\n"), true);
}

/// Standard output for rows in bulk, whose cells are sanitized one by one.
pub(crate) fn rows() -> std::io::Stdout {
    std::io::stdout()
}

/// Standard output for what is no text: a capture, evidence in a compressed file.
pub(crate) fn binary() -> std::io::Stdout {
    std::io::stdout()
}

/// Where a report is printed. A file is opened before the work begins, so that an error is reported
/// before the user has waited.
pub(crate) struct Output {
    file: Option<SavedFile>,
    to_stderr: bool,
}

impl Output {
    /// Opens the file that the options name, or nothing.
    pub(crate) fn open(options: &ReportOptions) -> Result<Self, Failure> {
        let open = |path: &PathBuf| SavedFile::create(path, options.force);
        Ok(Output { file: options.output.as_ref().map(open).transpose()?, to_stderr: false })
    }

    /// The same, before the right to rename a file is given up.
    pub(crate) fn open_now(options: &ReportOptions) -> Result<Self, Failure> {
        let open = |path: &PathBuf| SavedFile::create_now(path, options.force);
        Ok(Output { file: options.output.as_ref().map(open).transpose()?, to_stderr: false })
    }

    /// To standard error where standard output is that of a command.
    pub(crate) fn on_stderr(self, to_stderr: bool) -> Self {
        Output { to_stderr, ..self }
    }

    /// Prints a text.
    pub(crate) fn write(self, text: &str) -> anyhow::Result<()> {
        let Some(mut file) = self.file else { return print(text, self.to_stderr) };
        file.write_all(sanitize::output(text).as_bytes())
            .with_context(|| format!("cannot write the report to {}", file.path().display()))?;
        Ok(file.keep()?)
    }

    /// Prints a report as it was asked for.
    pub(crate) fn report(self, report: &Report, options: &ReportOptions) -> anyhow::Result<()> {
        let text = if options.json {
            report::json(report)
        } else {
            let style = style(options, self.to_stderr);
            with_verdicts(report::text(report, style), report, options, style)
        };
        self.write(&text)
    }
}

/// The text of a report, with all causes below where that was asked for.
pub(crate) fn with_verdicts(
    mut text: String,
    report: &Report,
    options: &ReportOptions,
    style: Style,
) -> String {
    if options.verbose {
        text += &report::verdicts(report, style);
    }
    text
}

/// Whether the reader of a pipe went away.
pub(crate) fn is_broken_pipe(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}

/// Whether standard output is a pipe whose reader went away.
pub(crate) fn stdout_is_closed() -> bool {
    let out = std::io::stdout();
    // Nothing is asked for: errors are reported all the same.
    let mut all = [PollFd::new(&out, PollFlags::empty())];
    let polled = rustix::event::poll(&mut all, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok() && all.iter().any(|one| one.revents().contains(PollFlags::ERR))
}

/// Shows screens of rows until stopped, one in each interval.
pub(crate) fn repeat(
    interval: Duration,
    stop: &Stop,
    rows: &mut dyn FnMut(&mut Vec<u8>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    while !stop.is_set() {
        let next = Instant::now() + interval;
        let mut text = Vec::new();
        rows(&mut text)?;
        screen(&text)?;
        while !stop.is_set() && Instant::now() < next {
            let rest = next.saturating_duration_since(Instant::now());
            std::thread::sleep(STOP_POLL_INTERVAL.min(rest));
        }
    }
    Ok(())
}

/// Shows one screen of a command that repeats: on a terminal in place of the one before, cut to
/// its height; elsewhere after it.
pub(crate) fn screen(text: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match rustix::termios::tcgetwinsize(&out) {
        Ok(size) if out.is_terminal() => {
            out.write_all(b"\x1b[H\x1b[2J")?;
            let rows = usize::from(size.ws_row).saturating_sub(1).max(1);
            for line in text.split_inclusive(|byte| *byte == b'\n').take(rows) {
                out.write_all(line)?;
            }
        }
        _ => {
            out.write_all(text)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(out.flush()?)
}

/// The exit code that `--fail-on` asks for.
pub(crate) fn severity_code(report: &Report, options: &ReportOptions) -> u8 {
    let worst: Option<Severity> = report.findings.iter().map(|f| f.severity).max();
    let limit = options.fail_on.map(FailOn::severity);
    u8::from(matches!((worst, limit), (Some(worst), Some(limit)) if worst >= limit))
}
