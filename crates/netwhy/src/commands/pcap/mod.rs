//! `netwhy pcap`: captures become evidence, which the same rules diagnose as the evidence of a host.
//!
//! - [`options`]: the options
//! - [`filter`]: which streams are selected
//! - [`reader`]: files to evidence
//! - [`parallel`]: the same on several CPUs
//! - [`watcher`]: selects streams, records them and writes tables while the capture is read
//! - [`follow`]: files that grow
//! - [`path`]: two captures of one path, one at each end
//! - [`depth`]: one stream in depth
//! - [`show`]: one stream in depth, as text
//! - [`tables`], [`table_writer`]: streams, exchanges and events as tables
//! - [`annotate`]: a copy of the capture with comments on its packets
//! - [`comments`]: those comments

mod annotate;
mod comments;
mod depth;
mod filter;
mod follow;
mod options;
mod parallel;
#[cfg(feature = "parquet")]
mod parquet;
mod path;
mod reader;
mod run;
mod show;
mod table_writer;
mod tables;
mod watcher;

pub(crate) use options::PcapOptions as Options;
pub(crate) use run::run;
