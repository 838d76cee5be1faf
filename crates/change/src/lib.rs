//! The writing door to the machine: what fixing needs, and nothing else.
//!
//! - [`Sysctls`]: sysctls of the calling thread's namespaces
//!
//! Apart from `sys` on purpose: a crate that only watches or judges does not import this one, so that
//! it cannot name, and by mistake use, what changes a machine. The table of rooms in ARCHITECTURE.md
//! has who may.

mod sysctls;

pub use sysctls::{Changed, Sysctls};
