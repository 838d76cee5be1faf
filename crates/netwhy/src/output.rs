//! Standard output, standard error and files: all text, JSON and notes of netwhy pass here, and tidy
//! knows that nothing else prints.
//!
//! Untrusted strings are sanitized where they enter a line (`text::sanitize::line`). Whatever was
//! forgotten is caught here: all text passes [`sanitize::output`]. Only [`rows`] and [`binary`] don't.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
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
    let _ = print(&text.replace(help::KEPT_SPACE, " "), None, to_stderr);
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Failure::USAGE))
}

/// Prints to a file, standard error or standard output.
pub(crate) fn print(text: &str, file: Option<&Path>, to_stderr: bool) -> anyhow::Result<()> {
    match file {
        Some(path) => {
            std::fs::write(path, sanitize::output(text).as_bytes()).with_context(|| unwritten(path))
        }
        None if to_stderr => Ok(std::io::stderr().write_all(sanitize::output(text).as_bytes())?),
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(sanitize::output(text).as_bytes())?;
            Ok(out.flush()?)
        }
    }
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
    let _ = print(&format!("{text}\n"), None, true);
}

/// Standard output for rows in bulk, whose cells are sanitized one by one.
pub(crate) fn rows() -> std::io::Stdout {
    std::io::stdout()
}

/// Standard output for what is no text: a capture, evidence in a compressed file.
pub(crate) fn binary() -> std::io::Stdout {
    std::io::stdout()
}

/// Standard output, or a file that is opened before the right to do so is given up.
pub(crate) struct Output(Option<(PathBuf, File)>);

impl Output {
    pub(crate) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Output(None)) };
        // What is in it stays until there is something else.
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| unwritten(path))?;
        Ok(Output(Some((path.to_path_buf(), file))))
    }

    pub(crate) fn write(self, text: &str) -> anyhow::Result<()> {
        let Some((path, mut file)) = self.0 else { return print(text, None, false) };
        // A pipe, for instance, cannot be truncated.
        let _ = file.set_len(0);
        file.write_all(sanitize::output(text).as_bytes()).with_context(|| unwritten(&path))
    }
}

fn unwritten(path: &Path) -> String {
    format!("cannot write the report to {}", path.display())
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

/// Prints a report as it was asked for.
pub(crate) fn print_report(
    report: &Report,
    options: &ReportOptions,
    to_stderr: bool,
) -> anyhow::Result<()> {
    let text = if options.json {
        report::json(report)
    } else {
        report::text(report, style(options, to_stderr))
    };
    print(&text, options.output.as_deref(), to_stderr)
}

/// The exit code that `--fail-on` asks for.
pub(crate) fn severity_code(report: &Report, options: &ReportOptions) -> u8 {
    let worst: Option<Severity> = report.findings.iter().map(|f| f.severity).max();
    let limit = options.fail_on.map(FailOn::severity);
    u8::from(matches!((worst, limit), (Some(worst), Some(limit)) if worst >= limit))
}
