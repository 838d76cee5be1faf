//! All doors of a machine together.

use super::clock::Clock;
use super::events::Events;
use super::files::Files;
use super::netlink::Netlink;
use super::process::OwnProcess;

/// A machine: a bundle of doors. Object safe, shared between threads.
pub trait Machine: Send + Sync {
    /// Files and folders.
    fn files(&self) -> &dyn Files;

    /// Netlink.
    fn netlink(&self) -> &dyn Netlink;

    /// Streams of events.
    fn events(&self) -> &dyn Events;

    /// Time.
    fn clock(&self) -> &dyn Clock;

    /// This process.
    fn own_process(&self) -> &dyn OwnProcess;
}
