//! Observing a host for a window: one folder for each observer.
//!
//! - [`Window`]: begins, takes samples, ends; gives series and evidence, and counts its own cost
//! - [`observers`]: one folder for each, and their table
//! - [`Observe`]: what an observer does
//! - [`Context`]: what observers share: the machine, missing evidence, socket owners, processes
//! - [`SocketOwners`]: which process owns which socket
//!
//! An observer reads through `sys` and parses with `wire`. It never fails the run: what it cannot read
//! becomes missing evidence.

mod context;
mod host;
mod observer;
pub mod observers;
mod socket_owners;
mod window;

pub use context::Context;
pub use observer::Observe;
pub use observers::{conntrack, sockets};
pub use socket_owners::SocketOwners;
pub use window::{SAMPLE_INTERVAL, Step, Window};
