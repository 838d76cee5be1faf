//! Which logs are followed, and what was written to them in the window.
//!
//! A log is a file, identified by device and inode; its size when it is found is where the window begins.
//! At the end the same file is searched under its path, among the files that its writers have open, and
//! under the name that rotation gives it; a new file under its path is the next log, read from its
//! beginning.

use std::collections::HashMap;
use std::sync::Arc;

use model::{AppLog, Capability, Source};
use sys::{ErrorKind, FileKind, OpenFile, Opened, Stat};
use wire::applog::{LogFormat, Tally};

use super::configuration::{DeclaredLog, LogReading};
use super::log_reader::{self, WrittenRange};
use super::open_logs::{Descriptors, OpenLog, open_logs};
use super::process_files::ProcessFiles;
use super::recognise::Program;
use crate::context::Context;

/// Most logs followed.
const MAX_LOGS: usize = 256;
/// Most notes of missing evidence about logs of one kind.
const MAX_NOTES_OF_A_KIND: usize = 3;
/// Most processes named with a log.
const MAX_PIDS: usize = 16;
/// Descriptors of a writer that are searched for its logs at the end.
const DESCRIPTORS_AT_END: Descriptors = Descriptors::Below(64);

/// The logs that are followed.
#[derive(Default)]
pub(super) struct Logs {
    logs: Vec<Log>,
    not_followed: usize,
}

struct Log {
    /// Path as its writers see it.
    path: String,
    device: u64,
    inode: u64,
    /// Size when it was found.
    start: u64,
    /// Processes that have it open, and their descriptors.
    openers: Vec<(u32, u32)>,
    application: String,
    program: Option<Program>,
    /// The process whose configuration names it, or that was first found to have it open.
    process: ProcessFiles,
    reading: LogReading,
}

impl Logs {
    /// Adds the logs that a process has open.
    pub(super) fn add_open(
        &mut self,
        pid: u32,
        application: &str,
        program: Option<Program>,
        process: &ProcessFiles,
        open: Vec<OpenLog>,
    ) {
        for OpenLog { fd, path, file } in open {
            let stat = file.stat();
            if let Some(log) = self.find(stat) {
                if !log.openers.contains(&(pid, fd)) {
                    log.openers.push((pid, fd));
                }
                continue;
            }
            self.follow(Log {
                path,
                device: stat.device,
                inode: stat.inode,
                start: stat.size,
                openers: vec![(pid, fd)],
                application: application.to_string(),
                program,
                process: process.clone(),
                reading: LogReading::Recognise,
            });
        }
    }

    fn find(&mut self, stat: Stat) -> Option<&mut Log> {
        self.logs.iter_mut().find(|log| log.is(&stat))
    }

    fn follow(&mut self, log: Log) {
        if self.logs.len() < MAX_LOGS {
            self.logs.push(log);
        } else {
            self.not_followed += 1;
        }
    }

    /// Adds a log that a configuration names.
    pub(super) fn add_declared(
        &mut self,
        context: &mut Context<'_>,
        program: Program,
        process: &ProcessFiles,
        declared: DeclaredLog,
    ) {
        let DeclaredLog { paths, kind, place, reading } = declared;
        let what = format!("{}'s {kind} ({place})", program.name());
        if let LogReading::Unreadable(reason) = reading {
            note(context, &what, reason.to_string(), None);
        }
        for path in paths {
            match process.open(&path) {
                Ok(Opened::File(file)) => {
                    let stat = file.stat();
                    if let Some(log) = self.find(stat) {
                        // Two directives may name one file: a known reading takes precedence.
                        if log.reading == LogReading::Recognise {
                            log.reading = reading;
                        }
                    } else {
                        self.follow(Log {
                            path,
                            device: stat.device,
                            inode: stat.inode,
                            start: stat.size,
                            openers: Vec::new(),
                            application: program.name().to_string(),
                            program: Some(program),
                            process: process.clone(),
                            reading,
                        });
                    }
                    return;
                }
                Ok(Opened::Other(_)) if reading == LogReading::Ignore => return,
                // As `access_log off`.
                Ok(Opened::Other(FileKind::Null)) if kind == "access log" => return,
                Ok(Opened::Other(target)) => {
                    let why = format!("it goes to {}: not read", target.name());
                    note(context, &what, why, Some(&format!("set it to a file ({place})")));
                    return;
                }
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => {
                    if has_room_for_note(context, &what) {
                        context.missing(Source::Logs, what, &error);
                    }
                    return;
                }
            }
        }
    }

    /// Reads what was written since the logs were found.
    pub(super) fn read(&self, context: &mut Context<'_>) -> Vec<AppLog> {
        let mut pids: Vec<u32> =
            self.logs.iter().flat_map(|log| log.openers.iter().map(|opener| opener.0)).collect();
        pids.sort_unstable();
        pids.dedup();
        // A log may have been reopened with another descriptor.
        let mut open_now: HashMap<(u64, u64), Arc<dyn OpenFile>> = HashMap::new();
        for pid in pids {
            let open = open_logs(context.machine.files(), pid, DESCRIPTORS_AT_END);
            for OpenLog { file, .. } in open.unwrap_or_default() {
                let stat = file.stat();
                open_now.entry((stat.device, stat.inode)).or_insert(file);
            }
        }
        let mut buffer = std::mem::take(&mut context.buffer);
        let mut found = Vec::new();
        let mut left = log_reader::MAX_BYTES_OF_ALL;
        let ranges: Vec<Vec<WrittenRange>> = self
            .logs
            .iter()
            .map(|log| match log.reading {
                LogReading::Ignore => Vec::new(),
                _ => log.written_ranges(context, &open_now),
            })
            .collect();
        let mut busy =
            ranges.iter().filter(|ranges| ranges.iter().any(|r| r.bytes() > 0)).count() as u64;
        for (log, ranges) in self.logs.iter().zip(ranges) {
            if log.reading == LogReading::Ignore {
                continue;
            }
            let share = left / busy.max(1);
            if let Some(log) = log.read(context, &ranges, share, &mut buffer) {
                busy -= u64::from(log.bytes_written > 0).min(busy);
                left = left.saturating_sub(log.bytes_read);
                found.push(log);
            }
        }
        context.buffer = buffer;
        if self.not_followed > 0 {
            context.missing_because(
                Source::Logs,
                Capability::Available,
                "all logs",
                format!("{} more than the {MAX_LOGS} that are followed", self.not_followed),
                None,
            );
        }
        found
    }
}

impl Log {
    fn is(&self, stat: &Stat) -> bool {
        (stat.device, stat.inode) == (self.device, self.inode)
    }

    /// What was written to it, oldest first. `open_now` are the files that processes have open, by device
    /// and inode.
    fn written_ranges(
        &self,
        context: &mut Context<'_>,
        open_now: &HashMap<(u64, u64), Arc<dyn OpenFile>>,
    ) -> Vec<WrittenRange> {
        let mut ranges = Vec::new();
        let mut add = |file: Arc<dyn OpenFile>, from: u64| {
            let to = file.stat().size;
            ranges.push(WrittenRange { file, from, to });
        };
        let (same, other) = match self.process.open_regular(&self.path) {
            Some(file) if self.is(&file.stat()) => (Some(file), None),
            other => (None, other),
        };
        let rotated = || {
            let file = self.process.open_regular(&format!("{}.1", self.path))?;
            self.is(&file.stat()).then_some(file)
        };
        let same = same
            .or_else(|| open_now.get(&(self.device, self.inode)).cloned())
            .or_else(|| self.still_open(context))
            .or_else(rotated);
        match same {
            // Shorter than it was: truncated by `copytruncate`, and written since.
            Some(file) if file.stat().size < self.start => add(file, 0),
            Some(file) => add(file, self.start),
            None => {
                context.missing_because(
                    Source::Logs,
                    Capability::Available,
                    format!("the end of {} before it was rotated", self.path),
                    "the file has been replaced, and no process has the old one open",
                    None,
                );
            }
        }
        if let Some(file) = other {
            add(file, 0);
        }
        ranges
    }

    /// The file, in a process that had it open with a high descriptor.
    fn still_open(&self, context: &Context<'_>) -> Option<Arc<dyn OpenFile>> {
        self.openers.iter().take(MAX_PIDS).find_map(|(pid, fd)| {
            let process = ProcessFiles::of(context.machine.files(), *pid).ok()?;
            process.open_descriptor(*fd).filter(|file| self.is(&file.stat()))
        })
    }

    /// Reads what was written to it; `None` for a log of an unknown program in an unknown format.
    fn read(
        &self,
        context: &mut Context<'_>,
        ranges: &[WrittenRange],
        share: u64,
        buffer: &mut Vec<u8>,
    ) -> Option<AppLog> {
        let mut pids: Vec<u32> = self.openers.iter().map(|(pid, _)| *pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids.truncate(MAX_PIDS);
        let mut log = AppLog {
            path: self.path.clone(),
            application: self.application.clone(),
            pids,
            bytes_written: ranges.iter().map(WrittenRange::bytes).sum(),
            ..AppLog::default()
        };
        let what = format!("the log {} of {}", self.path, self.application);
        let mut tally = Tally::default();
        let mut format = match &self.reading {
            LogReading::As(format) => Some(format.clone()),
            LogReading::Recognise => None,
            LogReading::Unreadable(_) | LogReading::Ignore => return Some(log),
        };
        for range in ranges.iter().filter(|range| range.bytes() > 0) {
            if format.is_none() {
                match log_reader::recognise(range, buffer) {
                    Ok(found) => format = found,
                    Err(error) => context.missing(Source::Logs, &what, &error),
                }
            }
            let Some(format) = &format else { continue };
            let max = u128::from(log_reader::max_bytes(format).min(share))
                * u128::from(range.bytes())
                / u128::from(log.bytes_written.max(1));
            let max = (max as u64).max(log_reader::MIN_BYTES_OF_ONE);
            match log_reader::count(range, max, format, &mut tally, buffer) {
                Ok(bytes) => log.bytes_read += bytes,
                Err(error) => context.missing(Source::Logs, &what, &error),
            }
        }
        if format.is_none() && log.bytes_written > 0 {
            self.program?;
            let why = "its lines are in none of the formats that netwhy knows";
            context.missing_because(Source::Logs, Capability::Available, what, why, None);
            return Some(log);
        }
        if format.is_none() && self.program.is_none() {
            return None;
        }
        log.lines = tally.lines();
        log.statuses = tally.statuses();
        log.complaints = tally.complaints();
        if matches!(format, Some(LogFormat::Access(_))) && tally.unparsed() * 2 > tally.lines() {
            let why = format!(
                "{} of {} lines have no status where their format has it",
                tally.unparsed(),
                tally.lines()
            );
            let what = format!("the statuses in {}", self.path);
            context.missing_because(Source::Logs, Capability::Available, what, why, None);
        }
        Some(log)
    }
}

/// Notes that a log that a configuration names is not read, unless there are enough notes of its kind: on
/// a host of many sites they are all alike.
fn note(context: &mut Context<'_>, what: &str, why: String, how_to_observe: Option<&str>) {
    if has_room_for_note(context, what) {
        let capability = Capability::NotApplicable;
        context.missing_because(Source::Logs, capability, what, why, how_to_observe);
    }
}

/// Whether there are fewer notes than the maximum about logs of this kind: `nginx's access log (…)`.
fn has_room_for_note(context: &Context<'_>, what: &str) -> bool {
    let kind = what.split('(').next().unwrap_or(what);
    let same = |missing: &&model::MissingEvidence| {
        missing.source == Source::Logs && missing.what.starts_with(kind)
    };
    context.missing_evidence.iter().filter(same).count() < MAX_NOTES_OF_A_KIND
}
