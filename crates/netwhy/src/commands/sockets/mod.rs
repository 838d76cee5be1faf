//! `netwhy sockets`: lists the TCP sockets with the kernel's statistics of each.
//!
//! - [`select`]: which sockets are listed
//! - [`figure`]: the figures by which they are sorted
//! - [`owners`]: the processes that hold them
//! - [`rows`]: one socket as two lines of text
//! - [`group`]: sums of groups of sockets
//!
//! Without `--sort` and `--group-by` the sockets are printed while the kernel still lists them: one
//! thread reads, one writes, and no socket is kept.

mod figure;
mod group;
mod options;
mod owners;
mod rows;
mod run;
mod select;

pub(crate) use options::SocketsOptions as Options;
pub(crate) use run::run;
