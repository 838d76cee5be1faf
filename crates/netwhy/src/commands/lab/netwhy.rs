//! This program as the observer of a lab: it is started anew for each observation.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use lab::observer::{Diagnosis, MemorySample, Observer};
use sys::Stop;
use text::sanitize;

/// How often the end of a netwhy that watches is checked for.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How often its memory is read while it watches.
const MEMORY_SAMPLES: u32 = 12;

/// The path of this program.
pub(super) struct Netwhy(pub(super) OsString);

impl Netwhy {
    fn command(&self) -> Command {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new(&self.0);
        // Its own process group: Ctrl-C ends the lab, which ends this.
        command.stdin(Stdio::null()).process_group(0);
        command
    }
}

impl Observer for Netwhy {
    fn observe_host(&self, pid: u32, duration: Duration) -> Result<Diagnosis, String> {
        let mut command = self.command();
        command.args(["--json", "--for", &format!("{}ms", duration.as_millis())]);
        command.args(["--netns", &pid.to_string()]);
        diagnosis_of(command)
    }

    fn watch_host(&self, pid: u32, duration: Duration, stop: &Stop) -> Result<Diagnosis, String> {
        let mut command = self.command();
        command.args(["--capture", "--json", "--for", &format!("{}ms", duration.as_millis())]);
        command.args(["--netns", &pid.to_string()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let mut memory = Vec::new();
        let output = std::thread::scope(|scope| {
            // A pipe that nobody reads would block it.
            let out = scope.spawn(|| read_all(out));
            let err = scope.spawn(|| read_all(err));
            let status = watch_child(&mut child, duration / MEMORY_SAMPLES, stop, &mut memory);
            let text = |thread: std::thread::ScopedJoinHandle<'_, Vec<u8>>| thread.join();
            let (stdout, stderr) = (text(out).unwrap_or_default(), text(err).unwrap_or_default());
            status.map(|status| Output { status, stdout, stderr })
        });
        let mut diagnosis = diagnosis_in(&output.map_err(|error| error.to_string())?)?;
        diagnosis.memory = memory;
        Ok(diagnosis)
    }

    fn diagnose_capture(&self, capture: &Path) -> Result<Diagnosis, String> {
        let mut command = self.command();
        command.args(["pcap", "--json"]).arg(capture);
        diagnosis_of(command)
    }

    fn compare_captures(&self, client: &Path, server: &Path) -> Result<Diagnosis, String> {
        let mut command = self.command();
        command.args(["pcap", "--json", "--client"]).arg(client).arg("--server").arg(server);
        diagnosis_of(command)
    }

    fn probe(&self, pid: u32, arguments: &str) -> Result<Diagnosis, String> {
        let mut command = self.command();
        command.args(arguments.split_whitespace()).args(["--json", "--netns", &pid.to_string()]);
        diagnosis_of(command)
    }
}

/// Runs it and parses the report that it prints.
fn diagnosis_of(mut command: Command) -> Result<Diagnosis, String> {
    diagnosis_in(&command.output().map_err(|error| error.to_string())?)
}

fn diagnosis_in(output: &Output) -> Result<Diagnosis, String> {
    let why = match output.status.code() {
        // 1: it observed, and a finding or an unreachable host set the exit code.
        Some(0 | 1) => match serde_json::from_slice(&output.stdout) {
            Ok(diagnosis) => return Ok(diagnosis),
            Err(error) => format!("cannot parse its report: {error}"),
        },
        _ => output.status.to_string(),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(sanitize::output(format!("{why}\n{}", errors.trim()).trim()).into_owned())
}

fn read_all(pipe: Option<impl std::io::Read>) -> Vec<u8> {
    let mut text = Vec::new();
    // What was read before an error is kept: a report that is cut off cannot be parsed.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut text));
    text
}

/// Waits until it ends, and reads its memory meanwhile; kills it when the user stops the lab.
fn watch_child(
    child: &mut Child,
    interval: Duration,
    stop: &Stop,
    memory: &mut Vec<MemorySample>,
) -> std::io::Result<ExitStatus> {
    let begin = Instant::now();
    let mut next = interval;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.is_set() {
            child.kill()?;
            return child.wait();
        }
        let elapsed = begin.elapsed();
        if elapsed >= next {
            let seconds = elapsed.as_secs_f64();
            memory.extend(resident(child.id()).map(|resident| MemorySample { seconds, resident }));
            next += interval;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The resident set of a process, bytes.
fn resident(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}
