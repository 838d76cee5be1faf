//! `--follow`: reads a capture while it grows, and reports each new finding once when it appears.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use session::packets::LiveFindings;
use sys::Stop;
use sys::capture::{Capture, ReadEnd};
use sys::live_input::{GrowingFile, LivePipe};

use super::options::PcapOptions;
use super::reader::{CaptureReader, open};
use crate::failure::Failure;
use crate::live_findings;

/// After its writer closed it, a file is complete if it does not grow for this long.
const GRACE_PERIOD: Duration = Duration::from_secs(1);

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
    let to_stderr = options.report.json || options.prints_table() || options.stream.is_some();
    let mut findings = LiveFindings::default();
    let mut closed: Option<Instant> = None;
    let end = loop {
        let packets_before = reader.packets();
        let end = reader.read(&mut capture, 0, Some(findings.due()))?;
        findings.update(
            reader.packets(),
            || reader.evidence_so_far(),
            &mut |finding, evidence| live_findings::print(finding, evidence, to_stderr),
        )?;
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
    if findings.has_reported() {
        live_findings::print_end(to_stderr)?;
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
    let capture = open(path, stop)?;
    if capture.is_compressed() {
        return Err(Failure::Usage(format!(
            "cannot follow {name}: it is compressed, so its current end is not known; follow the \
             uncompressed file, or leave --follow out"
        ))
        .into());
    }
    Ok((capture, Growing::File(growth)))
}
