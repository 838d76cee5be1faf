//! `netwhy sockets`: the TCP sockets with what the kernel knows of them.
//!
//! - [`select`]: which sockets are wanted
//! - [`figure`]: what they are sorted by
//! - [`rows`]: one socket as two lines of text
//! - [`group`]: sockets added up
//!
//! Without an order or groups the sockets are printed while the kernel still lists them, one
//! thread reading and one writing, and none is held.

mod figure;
mod group;
mod options;
mod owners;
mod rows;
mod run;
mod select;

pub(crate) use options::SocketsOptions as Options;
pub(crate) use run::run;
