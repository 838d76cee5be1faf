//! Which logs are watched, and what was written to them in the window.
//!
//! A log is a file, known by device and inode; its size when it is first seen is where the window
//! begins. At the end the same file is looked for under its path, among the files that its
//! writers have open, and under the name that rotation gives it; a new file under its path is the
//! next log, read from its beginning.

use std::path::{Path, PathBuf};

use model::{AppLog, Capability, Source};
use sys::{Machine, Stat};
use wire::applog::{LogFormat, Tally};

use super::configuration::{Declared, Reading};
use super::files::{self, Open, Scan};
use super::inside::Inside;
use super::recognise::Kind;
use super::window;
use crate::Context;

/// Most logs watched.
const MOST_LOGS: usize = 256;
/// Most gaps about logs of one kind.
const GAPS_OF_A_KIND: usize = 3;
/// Most processes named with a log.
const MOST_PIDS: usize = 16;

/// The logs that are watched.
#[derive(Debug, Default)]
pub(super) struct Logs {
    logs: Vec<Log>,
    not_watched: usize,
}

#[derive(Debug)]
struct Log {
    /// Path as its writers see it.
    path: String,
    device: u64,
    inode: u64,
    /// Size when first seen.
    start: u64,
    /// Processes that have it open, and as which descriptor.
    openers: Vec<(u32, u32)>,
    application: String,
    kind: Option<Kind>,
    inside: Inside,
    reading: Reading,
}

/// A stretch of a file that was written in the window.
struct Stretch {
    path: PathBuf,
    from: u64,
    to: u64,
}

impl Logs {
    /// Takes in the logs that a process has open.
    pub(super) fn opened(
        &mut self,
        pid: u32,
        application: &str,
        kind: Option<Kind>,
        inside: &Inside,
        open: Vec<Open>,
    ) {
        for Open { fd, path, stat } in open {
            if let Some(log) = self.find(stat) {
                if !log.openers.contains(&(pid, fd)) {
                    log.openers.push((pid, fd));
                }
                continue;
            }
            self.watch(Log {
                path,
                device: stat.device,
                inode: stat.inode,
                start: stat.size,
                openers: vec![(pid, fd)],
                application: application.to_string(),
                kind,
                inside: inside.clone(),
                reading: Reading::Recognise,
            });
        }
    }

    fn find(&mut self, stat: Stat) -> Option<&mut Log> {
        self.logs.iter_mut().find(|l| (l.device, l.inode) == (stat.device, stat.inode))
    }

    fn watch(&mut self, log: Log) {
        if self.logs.len() < MOST_LOGS {
            self.logs.push(log);
        } else {
            self.not_watched += 1;
        }
    }

    /// Takes in a log that a configuration names.
    pub(super) fn declared(
        &mut self,
        context: &mut Context<'_>,
        leader: u32,
        kind: Kind,
        inside: &Inside,
        declared: Declared,
    ) {
        let Declared { paths, what, place, reading } = declared;
        let subject = format!("{}'s {what} ({place})", kind.name());
        if let Reading::Refused(why) = reading {
            note(context, &subject, why.to_string(), None);
        }
        for path in paths {
            match inside.stat(context.machine, &path) {
                Ok(stat) if stat.regular => {
                    if let Some(log) = self.find(stat) {
                        // Two directives may name one file: what can be read wins.
                        if log.reading == Reading::Recognise {
                            log.reading = reading;
                        }
                    } else {
                        self.watch(Log {
                            path,
                            device: stat.device,
                            inode: stat.inode,
                            start: stat.size,
                            openers: Vec::new(),
                            application: kind.name().to_string(),
                            kind: Some(kind),
                            inside: inside.clone(),
                            reading,
                        });
                    }
                    return;
                }
                Ok(_) if reading == Reading::Never => return,
                Ok(_) => {
                    let Some(target) = target(context.machine, inside, leader, &path, what) else {
                        return;
                    };
                    let why = format!("it goes to {target}: not read");
                    note(context, &subject, why, Some(&format!("set it to a file ({place})")));
                    return;
                }
                Err(error) if error.kind == sys::ErrorKind::NotFound => {}
                Err(error) => {
                    if few(context, &subject) {
                        context.missing(Source::Logs, subject, &error);
                    }
                    return;
                }
            }
        }
    }

    /// Reads what was written since the logs were first seen.
    pub(super) fn read(&mut self, context: &mut Context<'_>) -> Vec<AppLog> {
        let mut pids: Vec<u32> =
            self.logs.iter().flat_map(|l| l.openers.iter().map(|o| o.0)).collect();
        pids.sort_unstable();
        pids.dedup();
        // A log may have been reopened under another number.
        let now: Vec<(u32, Open)> = pids
            .into_iter()
            .flat_map(|pid| {
                let open = files::open_logs(context.machine, pid, Scan::Below(64));
                open.unwrap_or_default().into_iter().map(move |open| (pid, open))
            })
            .collect();
        let mut buffer = std::mem::take(&mut context.buffer);
        let mut found = Vec::new();
        let mut left = window::MOST_OF_ALL;
        let stretches: Vec<Vec<Stretch>> = self
            .logs
            .iter()
            .map(|log| match log.reading {
                Reading::Never => Vec::new(),
                _ => log.stretches(context, &now),
            })
            .collect();
        let mut busy = stretches.iter().filter(|s| s.iter().any(|s| s.to > s.from)).count() as u64;
        for (log, stretches) in self.logs.iter().zip(stretches) {
            if log.reading == Reading::Never {
                continue;
            }
            let share = left / busy.max(1);
            if let Some(log) = log.read(context, &stretches, share, &mut buffer) {
                busy -= u64::from(log.bytes_written > 0).min(busy);
                left = left.saturating_sub(log.bytes_read);
                found.push(log);
            }
        }
        context.buffer = buffer;
        if self.not_watched > 0 {
            context.missing_because(
                Source::Logs,
                Capability::Available,
                "all logs",
                format!("{} more than the {MOST_LOGS} that are watched", self.not_watched),
                None,
            );
        }
        found
    }
}

impl Log {
    /// What was written to it, oldest first.
    fn stretches(&self, context: &mut Context<'_>, now: &[(u32, Open)]) -> Vec<Stretch> {
        let machine = context.machine;
        let here = self.inside.path(machine, &self.path);
        let mut stretches = Vec::new();
        let current = machine.stat(&here);
        let same = |stat: &Stat| (stat.device, stat.inode) == (self.device, self.inode);
        let mut candidates = vec![here.clone()];
        let fd = |(pid, fd): (u32, u32)| PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
        candidates.extend(self.openers.iter().map(|opener| fd(*opener)));
        candidates.extend(now.iter().filter(|(_, o)| same(&o.stat)).map(|(p, o)| fd((*p, o.fd))));
        candidates.push(self.inside.path(machine, &format!("{}.1", self.path)));
        let old = candidates
            .into_iter()
            .find_map(|path| machine.stat(&path).ok().filter(same).map(|stat| (path, stat)));
        match old {
            // Shorter than it was: cut by `copytruncate`, written anew since.
            Some((path, stat)) if stat.size < self.start => {
                stretches.push(Stretch { path, from: 0, to: stat.size });
            }
            Some((path, stat)) => {
                stretches.push(Stretch { path, from: self.start, to: stat.size });
            }
            None => {
                context.missing_because(
                    Source::Logs,
                    Capability::Available,
                    format!("the end of {} before it was rotated", self.path),
                    "the file has been replaced and nobody has the old one open",
                    None,
                );
            }
        }
        if let Ok(stat) = current
            && !same(&stat)
            && stat.regular
        {
            stretches.push(Stretch { path: here, from: 0, to: stat.size });
        }
        stretches
    }

    /// Reads what was written to it; `None` for the log of a stranger in an unknown form.
    fn read(
        &self,
        context: &mut Context<'_>,
        stretches: &[Stretch],
        share: u64,
        buffer: &mut Vec<u8>,
    ) -> Option<AppLog> {
        let mut pids: Vec<u32> = self.openers.iter().map(|(pid, _)| *pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids.truncate(MOST_PIDS);
        let mut log = AppLog {
            path: self.path.clone(),
            application: self.application.clone(),
            pids,
            bytes_written: stretches.iter().map(|s| s.to.saturating_sub(s.from)).sum(),
            ..AppLog::default()
        };
        let what = format!("the log {} of {}", self.path, self.application);
        let mut tally = Tally::default();
        let mut dialect = match &self.reading {
            Reading::As(dialect) => Some(dialect.clone()),
            Reading::Recognise => None,
            Reading::Refused(_) | Reading::Never => return Some(log),
        };
        for stretch in stretches.iter().filter(|s| s.to > s.from) {
            let (path, from, to) = (&stretch.path, stretch.from, stretch.to);
            if dialect.is_none() {
                match window::recognise(context.machine, path, from, to, buffer) {
                    Ok(found) => dialect = found,
                    Err(error) => context.missing(Source::Logs, &what, &error),
                }
            }
            let Some(dialect) = &dialect else { continue };
            let most = (window::most(dialect).min(share) as u128 * u128::from(to - from)
                / u128::from(log.bytes_written.max(1))) as u64;
            let read = window::count(
                context.machine,
                path,
                (from, to),
                most.max(window::LEAST),
                dialect,
                &mut tally,
                buffer,
            );
            match read {
                Ok(bytes) => log.bytes_read += bytes,
                Err(error) => context.missing(Source::Logs, &what, &error),
            }
        }
        if dialect.is_none() && log.bytes_written > 0 {
            self.kind?;
            let why = "its lines have none of the forms that netwhy knows";
            context.missing_because(Source::Logs, Capability::Available, what, why, None);
            return Some(log);
        }
        if dialect.is_none() && self.kind.is_none() {
            return None;
        }
        log.lines = tally.lines();
        log.statuses = tally.statuses();
        log.complaints = tally.complaints();
        if matches!(dialect, Some(LogFormat::Access(_))) && tally.unparsed() * 2 > tally.lines() {
            let why = format!(
                "{} of {} lines have no status where their format puts it",
                tally.unparsed(),
                tally.lines()
            );
            context.missing_because(
                Source::Logs,
                Capability::Available,
                format!("the statuses in {}", self.path),
                why,
                None,
            );
        }
        Some(log)
    }
}

/// Notes a gap of a log that a configuration names, unless there are enough of its kind: a host of
/// many sites says the same thing of each.
fn note(context: &mut Context<'_>, subject: &str, why: String, how_to_observe: Option<&str>) {
    if few(context, subject) {
        context.missing_because(
            Source::Logs,
            Capability::NotApplicable,
            subject,
            why,
            how_to_observe,
        );
    }
}

/// Whether there are fewer gaps than enough about logs of this kind: `nginx's access log (…)`.
fn few(context: &Context<'_>, subject: &str) -> bool {
    let kind = subject.split('(').next().unwrap_or(subject);
    let same =
        |gap: &&model::MissingEvidence| gap.source == Source::Logs && gap.what.starts_with(kind);
    context.missing_evidence.iter().filter(same).count() < GAPS_OF_A_KIND
}

/// Where a log goes that is no regular file; `None` when that loses nothing.
fn target(
    machine: &dyn Machine,
    inside: &Inside,
    leader: u32,
    path: &str,
    what: &str,
) -> Option<String> {
    let mut here = inside.path(machine, path);
    // A pipe or socket behind `/dev/stderr`.
    if let Ok(link) = machine.link(&here) {
        here = link;
    }
    let shown = here.to_string_lossy().into_owned();
    let shown = shown.strip_prefix(&format!("/proc/{leader}/root")).unwrap_or(&shown).to_string();
    Some(match shown.as_str() {
        pipe if pipe.starts_with("pipe:") => "a pipe".to_string(),
        socket if socket.starts_with("socket:") => "a socket".to_string(),
        "/dev/null" if what == "access log" => return None, // as `access_log off`
        terminal if terminal.starts_with("/dev/pts/") => "a terminal".to_string(),
        _ if Path::new(&shown).starts_with("/") => shown,
        _ => "something that is no file".to_string(),
    })
}
