//! netwhy on the real kernel with real programs, each test in network namespaces of its own.
//!
//! They need root and Debian's packages (`tools/setup test`); without, each prints why it skips.
//! Those that load the CPUs run one at a time, those that mostly wait at the same time. `NETWHY_BIN`
//! names another binary to test.
//!
//! - [`host`]: namespaces, programs that end with the test, and which tests run at the same time
//! - [`tool`]: netwhy itself and its report
//! - [`far`]: two hosts of the lab with a long way between them
//! - [`servers`]: nginx and php-fpm
//! - the others: the tests, by what they are about

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

#[path = "live/command_line.rs"]
mod command_line;
#[path = "live/connections.rs"]
mod connections;
#[path = "live/far.rs"]
mod far;
#[path = "live/healthy.rs"]
mod healthy;
#[path = "live/host.rs"]
mod host;
#[path = "live/http.rs"]
mod http;
#[path = "live/listeners.rs"]
mod listeners;
#[path = "live/other_users.rs"]
mod other_users;
#[path = "live/ping.rs"]
mod ping;
#[path = "live/servers.rs"]
mod servers;
#[path = "live/tool.rs"]
mod tool;
#[path = "live/trace.rs"]
mod trace;
#[path = "live/tracking.rs"]
mod tracking;
#[path = "live/transfer.rs"]
mod transfer;
#[path = "live/workers.rs"]
mod workers;
