//! This machine.

mod clock;
mod events;
mod files;
mod netlink;
mod process;

use crate::machine::{Clock, Events, Files, Machine, Netlink, OwnProcess};

use clock::RealClock;
use events::RealEvents;
use files::RealFiles;
use netlink::RealNetlink;
use process::RealProcess;

/// This machine.
#[derive(Default)]
pub struct RealMachine {
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
        &RealFiles
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
