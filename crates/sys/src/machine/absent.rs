//! A machine that has nothing, for fakes that need only some of the doors.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::bundle::Machine;
use super::clock::Clock;
use super::events::{EventSource, EventStream, Events};
use super::files::Files;
use super::netlink::{Netlink, NetlinkProtocol};
use super::process::{OwnCost, OwnProcess};
use super::process_files::ProcessFiles;
use super::stat::Stat;
use crate::error::{Error, ErrorKind, Result};

/// Doors with nothing behind them: every request is unsupported, the clock stands at zero.
#[derive(Debug, Clone, Copy, Default)]
pub struct Absent;

fn absent<T>(action: &'static str, object: impl Into<String>) -> Result<T> {
    Err(Error::new(action, object, "this machine has none", ErrorKind::Unsupported))
}

impl Machine for Absent {
    fn files(&self) -> &dyn Files {
        self
    }

    fn netlink(&self) -> &dyn Netlink {
        self
    }

    fn events(&self) -> &dyn Events {
        self
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn own_process(&self) -> &dyn OwnProcess {
        self
    }
}

impl Files for Absent {
    fn read(&self, path: &Path, _into: &mut Vec<u8>) -> Result<()> {
        absent("read", path.display().to_string())
    }

    fn list(&self, path: &Path, _name: &mut dyn FnMut(&str)) -> Result<()> {
        absent("list", path.display().to_string())
    }

    fn link(&self, path: &Path) -> Result<PathBuf> {
        absent("follow", path.display().to_string())
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        absent("examine", path.display().to_string())
    }

    fn of_process(&self, pid: u32) -> Result<Arc<dyn ProcessFiles>> {
        absent("examine the files of", format!("process {pid}"))
    }
}

impl Netlink for Absent {
    fn request(
        &self,
        protocol: NetlinkProtocol,
        _request: &[u8],
        _datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        absent("read", protocol.name())
    }
}

impl Events for Absent {
    fn open(&self, source: EventSource) -> Result<Box<dyn EventStream>> {
        absent("open", source.name())
    }
}

impl Clock for Absent {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_time(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _until: Duration) {}
}

impl OwnProcess for Absent {
    fn cost(&self) -> OwnCost {
        OwnCost::default()
    }

    fn user(&self) -> u32 {
        0
    }

    fn pid(&self) -> u32 {
        1
    }

    fn page_bytes(&self) -> u64 {
        4096
    }

    fn clock_ticks(&self) -> u64 {
        100
    }
}
