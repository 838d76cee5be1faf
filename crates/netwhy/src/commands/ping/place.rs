//! Places to ping from and download to: this host, a namespace of it, another host.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use sys::Stop;

/// How often a child is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where netwhy runs.
    Here,
    /// A network namespace of this host: a name of `ip netns`, or a process id.
    Netns(String),
    /// Another host, by ssh; netwhy is installed there.
    Ssh(String),
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || "give here, netns:NAME, netns:PID or ssh:HOST".to_string();
        match text.split_once(':') {
            None if text == "here" => Ok(Place::Here),
            Some(("netns", name)) if !name.is_empty() => Ok(Place::Netns(name.to_string())),
            // What begins with a dash would be an option of ssh.
            Some(("ssh", host)) if !host.is_empty() && !host.starts_with('-') => {
                Ok(Place::Ssh(host.to_string()))
            }
            _ => Err(bad()),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Here => f.write_str("here"),
            Place::Netns(name) => write!(f, "netns:{name}"),
            Place::Ssh(host) => write!(f, "ssh:{host}"),
        }
    }
}

impl Place {
    /// Starts `netwhy` with these words there.
    pub(super) fn start(&self, words: &[String]) -> anyhow::Result<Running> {
        let mut command = match self {
            // A child of this thread is in the namespace that this thread entered.
            Place::Here | Place::Netns(_) => Command::new("/proc/self/exe"),
            Place::Ssh(host) => {
                let mut ssh = Command::new("ssh");
                ssh.args(["-o", "BatchMode=yes", "--", host, "netwhy"]);
                ssh
            }
        };
        let mut words: Vec<OsString> = match self {
            // The shell of the other host reads them.
            Place::Ssh(_) => words.iter().map(|word| quoted(word).into()).collect(),
            _ => words.iter().map(OsString::from).collect(),
        };
        if let Place::Netns(name) = self {
            words.extend(["--netns".into(), name.into()]);
        }
        command.args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => Ok(Running { child: Some(child), place: self.clone() }),
            Err(error) => {
                let program = command.get_program().to_string_lossy().into_owned();
                let words = format!("cannot run {program} for {self}: {error}");
                Err(Failure::Observe(words).into())
            }
        }
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A netwhy that runs at a place; killed when this is dropped before its end.
pub(super) struct Running {
    child: Option<Child>,
    place: Place,
}

impl Running {
    /// Waits for its output; `None` when the user interrupts.
    ///
    /// # Errors
    ///
    /// It failed, or took longer than it may.
    pub(super) fn output(mut self, most: Duration, stop: &Stop) -> anyhow::Result<Option<Vec<u8>>> {
        let until = Instant::now() + most;
        loop {
            let Some(child) = &mut self.child else { return Ok(None) };
            if child.try_wait()?.is_some() {
                break;
            }
            if stop.is_set() {
                return Ok(None);
            }
            if Instant::now() >= until {
                let words = format!("netwhy at {} did not end in time", self.place);
                anyhow::bail!(Failure::Observe(words));
            }
            std::thread::sleep(LOOK);
        }
        let Some(child) = self.child.take() else { return Ok(None) };
        let output = child.wait_with_output()?;
        // 1: nobody answered, which is a result.
        if !matches!(output.status.code(), Some(0 | 1)) {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().trim_start_matches("netwhy: ");
            let words = format!("cannot measure at {}: {said}", self.place);
            anyhow::bail!(Failure::Observe(words));
        }
        Ok(Some(output.stdout))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_told() {
        for text in ["here", "netns:pc2", "netns:123", "ssh:root@outside"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for text in ["", "there", "netns:", "ssh:", "ssh:-oProxyCommand=x", "tcp:x"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }

    #[test]
    fn words_for_a_shell_are_quoted() {
        assert_eq!(quoted("http://198.18.0.1/big"), "http://198.18.0.1/big");
        assert_eq!(quoted("a;b"), "'a;b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
