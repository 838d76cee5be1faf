//! This machine.

mod bounded_calls;
mod clock;
mod events;
mod files;
mod netlink;
mod process;
mod process_files;
mod rights;

use crate::machine::{Clock, Events, Files, Machine, Netlink, OwnProcess};

use clock::RealClock;
use events::RealEvents;
use files::RealFiles;
use netlink::RealNetlink;
use process::RealProcess;

/// This machine.
#[derive(Default)]
pub struct RealMachine {
    files: RealFiles,
    netlink: RealNetlink,
}

impl RealMachine {
    /// This machine; nothing is opened yet.
    pub fn new() -> Self {
        RealMachine::default()
    }
}

impl Machine for RealMachine {
    fn files(&self) -> &dyn Files {
        &self.files
    }

    fn netlink(&self) -> &dyn Netlink {
        &self.netlink
    }

    fn events(&self) -> &dyn Events {
        &RealEvents
    }

    fn clock(&self) -> &dyn Clock {
        &RealClock
    }

    fn own_process(&self) -> &dyn OwnProcess {
        &RealProcess
    }
}
