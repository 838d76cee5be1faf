//! A window on a host as an object: it begins, gives numbers and findings while it runs, and ends.
//!
//! - [`Plan`]: what to observe, for how long
//! - [`Session`]: the observers and the background capture of one window
//! - [`Snapshot`]: the numbers and the findings so far
//! - [`observe()`], [`observe_job`]: a window for a time, and one for as long as a [`Job`] runs
//! - [`packets`]: packets of interfaces as they are captured
//!
//! Whatever needs a window uses this crate: a command line, a page, a trial of a fix. It therefore knows
//! neither options nor terminals.

mod error;
mod job;
pub mod packets;
mod plan;
mod run;
mod session;

pub use error::Error;
pub use job::Job;
pub use plan::{PacketPlan, Plan};
pub use run::{observe, observe_job};
pub use session::{Session, Snapshot};
