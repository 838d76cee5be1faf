//! `netwhy pcap`: captures become evidence and are diagnosed by the rules that watch a host.
//!
//! - [`options`]: what can be asked
//! - [`filter`]: which streams are told
//! - [`read`]: files to evidence
//! - [`shares`]: the same on several CPUs
//! - [`watcher`]: who selects, records and writes rows meanwhile
//! - [`follow`]: files that grow
//! - [`path`]: two captures of one path, one at each end
//! - [`depth`]: one stream in depth
//! - [`show`]: the same as text
//! - [`row_sink`]: where their rows go
//! - [`rows`]: streams, turns and events as tables
//! - [`annotate`]: the capture with comments on its packets
//! - [`comments`]: what there is to say of a packet

mod annotate;
mod comments;
mod depth;
mod filter;
mod follow;
mod options;
#[cfg(feature = "parquet")]
mod parquet;
mod path;
mod read;
mod row_sink;
mod rows;
mod run;
mod shares;
mod show;
mod watcher;

pub(crate) use options::PcapOptions as Options;
pub(crate) use run::run;
