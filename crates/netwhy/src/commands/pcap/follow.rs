//! `--follow`: reads a capture while it grows, and reports each new finding once when it appears.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sys::Stop;
use sys::capture::{Capture, ReadEnd};
use sys::live_input::{GrowingFile, LivePipe};

use super::options::PcapOptions;
use super::reader::{CaptureReader, open};
use crate::failure::Failure;
use crate::packets::{
    DIAGNOSE_INTERVAL, MAX_LIVE_FINDINGS, MIN_DIAGNOSE_PAUSE_FACTOR, live_finding_key,
    live_finding_line,
};

/// After its writer closed it, a file is complete if it does not grow for this long.
const GRACE_PERIOD: Duration = Duration::from_secs(1);

/// Reports findings while packets come.
struct LiveFindings {
    /// The keys of the findings reported so far.
    reported: HashSet<(String, String)>,
    next: Instant,
    packets: u64,
    to_stderr: bool,
}

/// What grows.
enum Growing {
    File(GrowingFile),
    /// A pipe, and whether its writer has ended.
    Pipe(Arc<AtomicBool>),
}

/// Reads until the writer ends, until Ctrl-C, or until the file cannot be read any further.
pub(super) fn follow(
    reader: &mut CaptureReader,
    options: &PcapOptions,
    stop: &Stop,
) -> anyhow::Result<()> {
    let Some(path) = options.files.first() else { return Ok(()) };
    let name = path.display().to_string();
    let (mut capture, mut growing) = begin(path, stop)?;
    let mut findings = LiveFindings {
        reported: HashSet::new(),
        next: Instant::now() + DIAGNOSE_INTERVAL,
        packets: 0,
        to_stderr: options.report.json || options.prints_table() || options.stream.is_some(),
    };
    let mut closed: Option<Instant> = None;
    let end = loop {
        let packets_before = reader.packets();
        let end = reader.read(&mut capture, 0, Some(findings.next))?;
        findings.update(reader)?;
        if stop.is_set() || matches!(end, ReadEnd::Damaged(_)) {
            break end;
        }
        if end == ReadEnd::Stopped {
            continue;
        }
        if reader.packets() > packets_before {
            closed = closed.map(|_| Instant::now());
        }
        match &mut growing {
            Growing::Pipe(ended) if ended.load(Ordering::Relaxed) => break end,
            Growing::Pipe(_) => {}
            Growing::File(growth) => {
                if closed.is_some_and(|since| since.elapsed() >= GRACE_PERIOD) {
                    break end;
                }
                if growth.wait() {
                    closed = Some(Instant::now());
                }
                let offset = capture.reader().offset();
                if growth.length().is_none_or(|length| length < offset) {
                    let why = "the file was truncated or removed while it was read".to_string();
                    reader.not_observed(format!("the rest of {name}"), why);
                    break ReadEnd::Complete;
                }
            }
        }
    };
    if !findings.reported.is_empty() {
        findings.print("\n")?;
    }
    // A packet that was half written at Ctrl-C is no damage.
    let end =
        if stop.is_set() && matches!(end, ReadEnd::Truncated(_)) { ReadEnd::Complete } else { end };
    reader.file_ended(&capture, &end, &name, 0)
}

fn begin(path: &Path, stop: &Stop) -> anyhow::Result<(Capture, Growing)> {
    let name = path.display().to_string();
    if path.metadata().is_ok_and(|meta| !meta.is_file()) || path == Path::new("-") {
        let stop = stop.clone();
        let failed = |error| Failure::Observe(format!("cannot read the capture {name}: {error}"));
        let (input, ended) = LivePipe::open(path, move || stop.is_set()).map_err(failed)?;
        let capture = Capture::from_reader(&name, input)
            .map_err(|error| Failure::Observe(error.to_string()))?;
        return Ok((capture, Growing::Pipe(ended)));
    }
    // Before the file is opened: its writer may close it meanwhile.
    let growth = GrowingFile::watch(path);
    let capture = open(path)?;
    if capture.is_compressed() {
        return Err(Failure::Usage(format!(
            "cannot follow {name}: it is compressed, so its current end is not known; follow the \
             uncompressed file, or leave --follow out"
        ))
        .into());
    }
    Ok((capture, Growing::File(growth)))
}

impl LiveFindings {
    /// Diagnoses the packets so far, if it is time to, and reports new findings.
    fn update(&mut self, reader: &CaptureReader) -> anyhow::Result<()> {
        let began = Instant::now();
        if began < self.next {
            return Ok(());
        }
        if reader.packets() > self.packets {
            self.packets = reader.packets();
            let evidence = reader.evidence_so_far();
            for finding in diagnose::diagnose(&evidence).findings {
                if self.reported.len() < MAX_LIVE_FINDINGS
                    && self.reported.insert(live_finding_key(&finding))
                {
                    self.print(&live_finding_line(&finding, &evidence))?;
                }
            }
        }
        self.next =
            Instant::now() + DIAGNOSE_INTERVAL.max(began.elapsed() * MIN_DIAGNOSE_PAUSE_FACTOR);
        Ok(())
    }

    fn print(&self, line: &str) -> anyhow::Result<()> {
        if self.to_stderr {
            eprint!("{line}");
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes())?;
        Ok(out.flush()?)
    }
}
