//! This program as the observer of a lab: it is started anew for each observation.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lab::observer::{Diagnosis, Observer};
use text::sanitize;

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
    let output = command.output().map_err(|error| error.to_string())?;
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
