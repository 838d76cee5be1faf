//! Captures of hosts, by tcpdump.

use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use super::{Lab, Seen, WINDOW};
use crate::error::{Error, Result};
use crate::scenario::types::{By, Name, Observe};

/// So long before the workload captures begin: tcpdump takes some tenths of a second to start.
const EARLY: Duration = Duration::from_millis(700);
/// Bytes of a packet that captures keep.
const SNAP: u32 = 128;

impl Lab<'_> {
    /// Starts all captures: those that do not say when begin before the workload, so that they have
    /// its handshakes.
    pub(super) fn captures(&self) -> Result<Vec<(Child, PathBuf)>> {
        let wanted = self.scenario.observe.iter().filter(|observe| observe.by == By::Capture);
        let mut all = Vec::new();
        for observe in wanted {
            let time = observe.time.map_or(WINDOW, |time| time.0);
            let after = observe.after.map_or(Duration::ZERO, |after| after.0);
            let early = if observe.after.is_none() { EARLY } else { Duration::ZERO };
            all.push(self.capture(observe, after, early + time)?);
        }
        if !all.is_empty() {
            std::thread::sleep(EARLY);
        }
        Ok(all)
    }

    /// Where the capture of a host is written.
    fn capture_file(&self, host: &Name) -> Result<PathBuf> {
        let folder = self.options.captures.clone().unwrap_or_else(|| self.folder.0.clone());
        std::fs::create_dir_all(&folder)
            .map_err(|error| Error::new(format!("cannot make {}: {error}", folder.display())))?;
        let folder = std::path::absolute(&folder)
            .map_err(|error| Error::new(format!("no path {}: {error}", folder.display())))?;
        Ok(folder.join(format!("{}-{}.pcap", self.name, host.get_ref())))
    }

    /// Adds what captures of both ends of a path tell together.
    pub(super) fn paths(&self, mut seen: Vec<Seen>) -> Result<Vec<Seen>> {
        for observe in &self.scenario.observe {
            let Some(server) = observe.server.as_ref().filter(|_| observe.by == By::Path) else {
                continue;
            };
            let files = [self.capture_file(&observe.host)?, self.capture_file(server)?];
            let name = observe.host.get_ref();
            let report = self.options.watcher.compare(&files[0], &files[1]).map_err(|what| {
                let server = server.get_ref();
                Error::new(format!("netwhy could not compare {name} and {server}: {what}"))
            })?;
            let time = observe.time.map_or(WINDOW, |time| time.0);
            seen.push(Seen::of(name, time.as_secs_f64(), &report));
        }
        Ok(seen)
    }

    /// Starts tcpdump, which ends by itself; its file, which goes to the folder of captures.
    fn capture(
        &self,
        observe: &Observe,
        after: Duration,
        time: Duration,
    ) -> Result<(Child, PathBuf)> {
        let host = self.network.host(observe.host.get_ref())?;
        let file = self.capture_file(&observe.host)?;
        let line = format!(
            "sleep {:.3}; exec timeout -s INT {:.3} tcpdump -q -U -n -i any -s {} -B 32768 -w '{}'",
            after.as_secs_f64(),
            time.as_secs_f64(),
            observe.snap.unwrap_or(SNAP),
            file.display()
        );
        let log = |end: &str| {
            let name = format!("tcpdump-{}.{end}", host.name);
            std::fs::File::create(self.folder.0.join(name))
                .map_err(|error| Error::new(format!("cannot write a log: {error}")))
        };
        Ok((host.start_line(&line, log("out")?, log("err")?)?, file))
    }
}
