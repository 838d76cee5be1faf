//! Where pings and downloads run: this host, a network namespace of it, another host.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sys::Stop;

use crate::failure::Failure;

/// Time between two checks whether a child has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Where netwhy runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VantagePoint {
    /// Here.
    Here,
    /// A network namespace of this host: a name of `ip netns`, or a process id.
    Netns(String),
    /// Another host with netwhy, by ssh.
    Ssh(String),
}

impl std::str::FromStr for VantagePoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "here" => Ok(VantagePoint::Here),
            Some(("netns", name)) if !name.is_empty() => Ok(VantagePoint::Netns(name.to_string())),
            // A leading dash would make it an option of ssh.
            Some(("ssh", host)) if !host.is_empty() && !host.starts_with('-') => {
                Ok(VantagePoint::Ssh(host.to_string()))
            }
            _ => Err("give here, netns:NAME, netns:PID or ssh:HOST".to_string()),
        }
    }
}

impl std::fmt::Display for VantagePoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VantagePoint::Here => f.write_str("here"),
            VantagePoint::Netns(name) => write!(f, "netns:{name}"),
            VantagePoint::Ssh(host) => write!(f, "ssh:{host}"),
        }
    }
}

impl VantagePoint {
    /// Starts `netwhy` there with these arguments.
    pub(super) fn start(&self, arguments: &[String]) -> anyhow::Result<RunningNetwhy> {
        let mut command = match self {
            // A child of this thread starts in the namespace that this thread entered.
            VantagePoint::Here | VantagePoint::Netns(_) => Command::new("/proc/self/exe"),
            VantagePoint::Ssh(host) => {
                let mut ssh = Command::new("ssh");
                ssh.args(["-o", "BatchMode=yes", "--", host, "netwhy"]);
                ssh
            }
        };
        let mut arguments: Vec<OsString> = match self {
            // The other host's shell parses them.
            VantagePoint::Ssh(_) => arguments.iter().map(|word| quote(word).into()).collect(),
            _ => arguments.iter().map(OsString::from).collect(),
        };
        if let VantagePoint::Netns(name) = self {
            arguments.extend(["--netns".into(), name.into()]);
        }
        command.args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => Ok(RunningNetwhy { child: Some(child), at: self.clone() }),
            Err(error) => {
                let program = command.get_program().to_string_lossy().into_owned();
                let why = probe::os_error_text(&error);
                Err(Failure::Observe(format!("cannot run {program} for {self}: {why}")).into())
            }
        }
    }
}

/// A word quoted for a POSIX shell.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A netwhy that runs at a vantage point; killed when this is dropped before its end.
pub(super) struct RunningNetwhy {
    child: Option<Child>,
    at: VantagePoint,
}

impl RunningNetwhy {
    /// Waits for its output; `None`: interrupted by the user.
    ///
    /// # Errors
    ///
    /// It failed, or did not end within `max`.
    pub(super) fn output(mut self, max: Duration, stop: &Stop) -> anyhow::Result<Option<Vec<u8>>> {
        let until = Instant::now() + max;
        loop {
            let Some(child) = &mut self.child else { return Ok(None) };
            if child.try_wait()?.is_some() {
                break;
            }
            if stop.is_set() {
                return Ok(None);
            }
            if Instant::now() >= until {
                let text =
                    format!("netwhy at {} did not end within {}", self.at, text::duration(max));
                anyhow::bail!(Failure::Observe(text));
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        let Some(child) = self.child.take() else { return Ok(None) };
        let output = child.wait_with_output()?;
        // 1: no reply, which is a result.
        if !matches!(output.status.code(), Some(0 | 1)) {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let why = stderr.trim().trim_start_matches("netwhy: ");
            let why = text::sanitize::lines(why);
            anyhow::bail!(Failure::Observe(format!("cannot measure at {}: {why}", self.at)));
        }
        Ok(Some(output.stdout))
    }
}

impl Drop for RunningNetwhy {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vantage_points_are_parsed_and_printed() {
        for text in ["here", "netns:pc2", "netns:123", "ssh:root@outside"] {
            assert_eq!(text.parse::<VantagePoint>().unwrap().to_string(), text);
        }
        for text in ["", "there", "netns:", "ssh:", "ssh:-oProxyCommand=x", "tcp:x"] {
            assert!(text.parse::<VantagePoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quote("http://198.18.0.1/big"), "http://198.18.0.1/big");
        assert_eq!(quote("a;b"), "'a;b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
    }
}
