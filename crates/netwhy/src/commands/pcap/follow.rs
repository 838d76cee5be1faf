//! `--follow`: a capture that is still being written is read as it grows; new findings are told as
//! they appear, each once.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sys::capture::{Capture, ReadEnd};
use sys::live_input::{GrowingFile, LivePipe};

use super::options::PcapOptions;
use super::read::{Read, open};
use crate::failure::Failure;
use crate::packets::{EVERY, SHARE, TOLD, line};
use sys::Stop;

/// How long nothing may be written after a writer has closed the file.
const GRACE: Duration = Duration::from_secs(1);

/// Findings that were told.
struct Told {
    findings: HashSet<(String, String)>,
    next: Instant,
    packets: u64,
    to_stderr: bool,
}

/// What grows.
enum Source {
    File(GrowingFile),
    Pipe(Arc<AtomicBool>),
}

/// Reads until the writer has ended, the user stops it or the file cannot be read on.
pub(super) fn file(read: &mut Read, options: &PcapOptions, stop: &Stop) -> anyhow::Result<()> {
    let Some(path) = options.files.first() else { return Ok(()) };
    let name = path.display().to_string();
    let (mut capture, mut source) = begin(path, stop)?;
    let mut told = Told {
        findings: HashSet::new(),
        next: Instant::now() + EVERY,
        packets: 0,
        to_stderr: options.report.json || options.prints_rows() || options.stream.is_some(),
    };
    let mut closed: Option<Instant> = None;
    let end = loop {
        let before = read.packets();
        let end = read.some(&mut capture, 0, Some(told.next))?;
        told.look(read)?;
        if stop.is_set() || matches!(end, ReadEnd::Damaged(_)) {
            break end;
        }
        if end == ReadEnd::Stopped {
            continue;
        }
        if read.packets() > before {
            closed = closed.map(|_| Instant::now());
        }
        match &mut source {
            Source::Pipe(ended) if ended.load(Ordering::Relaxed) => break end,
            Source::Pipe(_) => {}
            Source::File(growth) => {
                if closed.is_some_and(|since| since.elapsed() >= GRACE) {
                    break end;
                }
                if growth.wait() {
                    closed = Some(Instant::now());
                }
                let taken = capture.reader().offset();
                if growth.length().is_none_or(|length| length < taken) {
                    let why = "the file was cut or taken away while it was read".to_string();
                    read.gap(format!("the rest of {name}"), why);
                    break ReadEnd::Complete;
                }
            }
        }
    };
    if !told.findings.is_empty() {
        told.tell("\n")?;
    }
    // Whatever is left of a packet that was being written when the user stopped is no damage.
    let end =
        if stop.is_set() && matches!(end, ReadEnd::Truncated(_)) { ReadEnd::Complete } else { end };
    read.ended(&capture, &end, &name, 0)
}

fn begin(path: &Path, stop: &Stop) -> anyhow::Result<(Capture, Source)> {
    let name = path.display().to_string();
    if path.metadata().is_ok_and(|meta| !meta.is_file()) || path == Path::new("-") {
        let stop = stop.clone();
        let failed = |error| Failure::Observe(format!("cannot read the capture {name}: {error}"));
        let (input, ended) = LivePipe::open(path, move || stop.is_set()).map_err(failed)?;
        let capture = Capture::from_reader(&name, input)
            .map_err(|error| Failure::Observe(error.to_string()))?;
        return Ok((capture, Source::Pipe(ended)));
    }
    // Before the first look at the file: its writer may close it meanwhile.
    let growth = GrowingFile::watch(path);
    let capture = open(path)?;
    if capture.is_compressed() {
        return Err(Failure::Usage(format!(
            "cannot follow {}: it is compressed, and where it ends for now cannot be told; \
             follow the file that is written, or leave --follow out",
            name
        ))
        .into());
    }
    Ok((capture, Source::File(growth)))
}

impl Told {
    /// Tells what is new, if it is time to.
    fn look(&mut self, read: &Read) -> anyhow::Result<()> {
        let began = Instant::now();
        if began < self.next {
            return Ok(());
        }
        if read.packets() > self.packets {
            self.packets = read.packets();
            let evidence = read.so_far();
            for finding in diagnose::diagnose(&evidence).findings {
                let key = (finding.cause.clone(), finding.subject.name.clone());
                if self.findings.len() < TOLD && self.findings.insert(key) {
                    self.tell(&line(&finding, &evidence))?;
                }
            }
        }
        self.next = Instant::now() + EVERY.max(began.elapsed() * SHARE);
        Ok(())
    }

    fn tell(&self, line: &str) -> anyhow::Result<()> {
        if self.to_stderr {
            eprint!("{line}");
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes())?;
        Ok(out.flush()?)
    }
}
