//! Captures of hosts by tcpdump.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use sys::Stop;

use super::{Lab, POLL_INTERVAL};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::judge::Observation;
use crate::observer::Observer;
use crate::process::{self, ProcessGroup};
use crate::scenario::types::{Method, Name, Observe};

/// How long tcpdump may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long tcpdump may take to write its last packets after SIGINT.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// The kernel hands packets over in blocks, each at most a second after its first packet, and what it holds when
/// tcpdump ends is lost. (Immediate mode takes a fifth of the requests of a fast server's CPUs.)
const BLOCK_TIMEOUT: Duration = Duration::from_millis(1_100);
/// What tcpdump prints once its socket receives packets.
const STARTED: &str = "listening on";
/// Bytes that a capture keeps of each packet: the headers.
const DEFAULT_SNAPLEN: u32 = 128;

/// A capture that is running.
pub(super) struct Capture {
    host: String,
    tcpdump: ProcessGroup,
    file: PathBuf,
    log: PathBuf,
    window: Duration,
    /// When it ends, from the start of the workload.
    end: Duration,
}

impl Lab<'_> {
    /// Starts all captures. Those without `after` are running when this returns, so that they have
    /// the handshakes of the workload.
    pub(super) fn start_captures(&self) -> Result<Vec<Capture>> {
        let observers = self.scenario.observe.iter();
        let mut captures = Vec::new();
        for observe in observers.filter(|observe| observe.by == Method::Capture) {
            captures.push((observe, self.start_capture(observe)?));
        }
        for (_, capture) in captures.iter_mut().filter(|(observe, _)| observe.after.is_none()) {
            capture.wait_until_started(self.options.stop)?;
        }
        Ok(captures.into_iter().map(|(_, capture)| capture).collect())
    }

    fn start_capture(&self, observe: &Observe) -> Result<Capture> {
        let host = self.network.host(observe.host.get_ref())?;
        let file = self.capture_file(&observe.host)?;
        let after = observe.after.map_or(Duration::ZERO, |after| after.0);
        let line = format!(
            "sleep {:.3}; exec tcpdump -q -U -n -i any -s {} -B 32768 -w '{}'",
            after.as_secs_f64(),
            observe.snaplen.unwrap_or(DEFAULT_SNAPLEN),
            file.display()
        );
        let (tcpdump, log) = self.start_tcpdump(host, &line)?;
        let window = observe.window();
        Ok(Capture { host: host.name.clone(), tcpdump, file, log, window, end: after + window })
    }

    /// Starts it; what it prints goes to the file that is returned.
    fn start_tcpdump(&self, host: &Host, line: &str) -> Result<(ProcessGroup, PathBuf)> {
        let path = self.folder.0.join(format!("tcpdump-{}.log", host.name));
        let failed =
            |error: std::io::Error| Error::new(format!("cannot write {}: {error}", path.display()));
        let out = std::fs::File::create(&path).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        Ok((ProcessGroup(host.start_line(line, out, err)?), path))
    }

    /// Where the capture of a host is written: a number stands in the names of those after a fix.
    fn capture_file(&self, host: &Name) -> Result<PathBuf> {
        let folder = self.options.captures.clone().unwrap_or_else(|| self.folder.0.clone());
        std::fs::create_dir_all(&folder)
            .map_err(|error| Error::new(format!("cannot make {}: {error}", folder.display())))?;
        let folder = std::path::absolute(&folder)
            .map_err(|error| Error::new(format!("no path {}: {error}", folder.display())))?;
        let number = match self.step {
            0 => String::new(),
            step => format!("-{}", step + 1),
        };
        Ok(folder.join(format!("{}-{}{number}.pcap", self.name, host.get_ref())))
    }

    /// Adds what the captures of both ends of a path show together.
    pub(super) fn compare_paths(&self, observations: &mut Vec<Observation>) -> Result<()> {
        for observe in &self.scenario.observe {
            let Some(server) = observe.server.as_ref().filter(|_| observe.by == Method::Path)
            else {
                continue;
            };
            let (client_file, server_file) =
                (self.capture_file(&observe.host)?, self.capture_file(server)?);
            let name = observe.host.get_ref();
            let diagnosis = self.options.observer.compare_captures(&client_file, &server_file);
            let diagnosis = diagnosis.map_err(|what| {
                let server = server.get_ref();
                Error::new(format!("netwhy could not compare {name} and {server}: {what}"))
            })?;
            observations.push(Observation::new(name, observe.window().as_secs_f64(), &diagnosis));
        }
        Ok(())
    }
}

impl Capture {
    fn wait_until_started(&mut self, stop: &Stop) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let log = std::fs::read(&self.log).unwrap_or_default();
            if String::from_utf8_lossy(&log).contains(STARTED) {
                return Ok(());
            }
            self.check_running()?;
            if stop.is_set() {
                return Err(Error::new("interrupted"));
            }
            if Instant::now() > deadline {
                return Err(self.error(format!(
                    "tcpdump did not start within {} s\n{}",
                    START_TIMEOUT.as_secs(),
                    process::tail(&self.log)
                )));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits for the end of its window, counted from `begin`, and has it diagnosed.
    pub(super) fn diagnose(
        mut self,
        begin: Instant,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Observation> {
        let elapsed = begin.elapsed();
        let until = self.end + BLOCK_TIMEOUT;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let end = (now + self.end).saturating_sub(elapsed);
        while begin.elapsed() < until && !stop.is_set() {
            std::thread::sleep(POLL_INTERVAL);
        }
        self.check_running()?;
        self.tcpdump.signal(Signal::INT);
        let deadline = Instant::now() + END_TIMEOUT;
        while matches!(self.tcpdump.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        super::capture_end::cut_off_after(&self.file, end)
            .map_err(|error| self.error(format!("{}: {error}", self.file.display())))?;
        let diagnosis = observer.diagnose_capture(&self.file).map_err(|what| {
            Error::new(format!("netwhy could not read the capture of {}: {what}", self.host))
        })?;
        Ok(Observation::new(&self.host, self.window.as_secs_f64(), &diagnosis))
    }

    fn check_running(&mut self) -> Result<()> {
        match self.tcpdump.0.try_wait() {
            Ok(Some(status)) => {
                // 126 and 127 are the shell's own: there is no tcpdump to execute.
                let hint = match status.code() {
                    Some(126 | 127) => " (tools/setup test installs tcpdump)",
                    _ => "",
                };
                let tail = process::tail(&self.log);
                Err(self.error(format!("tcpdump ended: {status}{hint}\n{tail}")))
            }
            _ => Ok(()),
        }
    }

    fn error(&self, what: String) -> Error {
        Error::new(format!("no capture on {}: {what}", self.host))
    }
}
