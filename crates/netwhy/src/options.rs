//! Options shared by several commands.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use model::{Focus, Severity};
use rustix::io::Errno;
use rustix::process::Pid;
use session::{PacketPlan, Plan};

use crate::failure::Failure;

/// Shortest and longest window.
const WINDOW_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(24 * 3600);

#[derive(Debug, Args)]
pub(crate) struct FocusOptions {
    /// Only sockets with this local or remote port
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub(crate) port: Vec<u16>,

    /// Only sockets of this process
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,

    /// Only connections with this remote address
    #[arg(long, value_name = "IP", value_delimiter = ',')]
    pub(crate) peer: Vec<IpAddr>,
}

impl FocusOptions {
    /// What they select.
    ///
    /// # Errors
    ///
    /// There is no such process.
    pub(crate) fn focus(&self) -> Result<Focus, Failure> {
        for pid in &self.pid {
            check_process(*pid)?;
        }
        Ok(Focus { ports: self.port.clone(), pids: self.pid.clone(), peers: self.peer.clone() })
    }
}

/// Whether there is a process with this id; a thread has sockets only as its process.
fn check_process(pid: u32) -> Result<(), Failure> {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // Also right where /proc hides the processes of others: they may not be signalled (EPERM).
    let answer = id.map_or(Err(Errno::SRCH), rustix::process::test_kill_process);
    if answer == Err(Errno::SRCH) {
        return Err(Failure::Usage(format!("--pid {pid}: no such process")));
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")).map(str::trim);
    match process.filter(|process| *process != pid.to_string()) {
        None => Ok(()),
        Some(process) => Err(Failure::Usage(format!(
            "--pid {pid}: this is a thread of process {process}; use --pid {process}"
        ))),
    }
}

#[derive(Debug, Args)]
pub(crate) struct PacketOptions {
    /// Also capture TCP packets during the window and analyse them; no file is
    /// written
    #[arg(long)]
    pub(crate) capture: bool,

    /// With --capture: capture only on this interface; may be repeated [default: all]
    #[arg(long, value_name = "NAME", requires = "capture")]
    pub(crate) interface: Vec<String>,
}

/// The plan of a session by the options that commands share.
pub(crate) fn plan(
    duration: Option<Duration>,
    focus: &FocusOptions,
    packets: &PacketOptions,
    netns: &NetnsOptions,
) -> Result<Plan, Failure> {
    let interfaces = packets.interface.clone();
    let packets = packets.capture.then_some(PacketPlan { interfaces, max_packets: None });
    Ok(Plan { duration, focus: focus.focus()?, netns: netns.netns.clone(), packets })
}

#[derive(Debug, Args)]
pub(crate) struct NetnsOptions {
    /// Use this network namespace: a name of `ip netns`, or a process id
    #[arg(long, value_name = "NAME|PID")]
    pub(crate) netns: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// Print JSON (schemas: docs/schema)
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the report to a file instead of printing it
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long)]
    pub(crate) force: bool,

    /// Also list all causes: found, ruled out, undecided or not checked, and why
    #[arg(long)]
    pub(crate) verbose: bool,

    /// Exit with 1 if a finding is at least this severe
    #[arg(long, value_name = "SEVERITY")]
    pub(crate) fail_on: Option<FailOn>,

    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FailOn {
    Info,
    Warning,
    Critical,
}

impl FailOn {
    pub(crate) fn severity(self) -> Severity {
        match self {
            FailOn::Info => Severity::Info,
            FailOn::Warning => Severity::Warning,
            FailOn::Critical => Severity::Critical,
        }
    }
}

/// The length of a window: with a unit, or in seconds.
pub(crate) fn window(text: &str) -> Result<Duration, String> {
    text::parse::duration_within(text, WINDOW_RANGE, "between 200ms and 24h")
}

/// Shortest and longest interval between probes, and timeout of a probe.
pub(crate) const PROBE_TIMES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(3600);

/// An interval or timeout of probes: with a unit, or in seconds.
pub(crate) fn probe_time(text: &str) -> Result<Duration, String> {
    text::parse::duration_within(text, PROBE_TIMES, "between 1ms and 1h")
}

/// A byte, decimal or hexadecimal.
pub(crate) fn byte(text: &str) -> Result<u8, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "must be between 0 and 255, or 0x00 and 0xff".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_a_unit_or_are_in_seconds() {
        assert_eq!(window("3s"), Ok(Duration::from_secs(3)));
        assert_eq!(window("3"), Ok(Duration::from_secs(3)));
        assert_eq!(window("1500ms"), Ok(Duration::from_millis(1500)));
        for bad in ["", "0", "-1", "nan", "inf", "1e300", "3 parsecs", "25h"] {
            assert!(window(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn processes_exist() {
        let own = std::process::id();
        assert!(check_process(own).is_ok() && check_process(1).is_ok());
        for pid in [0, 0x7fff_ffff, u32::MAX] {
            let refused = check_process(pid).unwrap_err().to_string();
            assert_eq!(refused, format!("--pid {pid}: no such process"));
        }
        let (send, thread) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let running = std::thread::spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _ = ended.recv();
        });
        let refused = check_process(thread.recv().unwrap().cast_unsigned()).unwrap_err();
        assert!(refused.to_string().ends_with(&format!("use --pid {own}")), "{refused}");
        drop(end);
        running.join().unwrap();
    }

    #[test]
    fn probe_times_and_bytes_have_a_range() {
        assert_eq!(probe_time("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(probe_time("0.5"), Ok(Duration::from_millis(500)));
        assert!(probe_time("0").is_err() && probe_time("2h").is_err() && probe_time("x").is_err());
        assert_eq!((byte("16"), byte("0x10")), (Ok(16), Ok(16)));
        assert!(byte("256").is_err() && byte("0x").is_err() && byte("-1").is_err());
    }
}
