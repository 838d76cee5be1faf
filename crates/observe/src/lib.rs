//! Observing a host for a window: one folder for each observer.
//!
//! - [`Window`]: begins, takes samples, ends; gives series and evidence, and counts its own cost
//! - [`table`]: the observers, in the order in which they run
//! - [`Observe`]: what an observer does
//! - [`Context`]: what observers share: the machine, missing evidence, socket owners, processes
//! - [`SocketOwners`]: which process owns which socket
//!
//! An observer reads through `sys` and parses with `wire`. It never fails the run: what it cannot read
//! becomes missing evidence.

mod context;
mod host;
mod observer;
mod socket_owners;
pub mod table;
mod window;

pub mod applications;
pub mod conntrack;
pub mod counters;
pub mod kernel_log;
pub mod processes;
pub mod sockets;
pub mod softnet;
pub mod sysctls;

pub use context::Context;
pub use observer::Observe;
pub use socket_owners::SocketOwners;
pub use window::{SAMPLE_INTERVAL, Step, Window};
