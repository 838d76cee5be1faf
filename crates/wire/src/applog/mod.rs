//! Lines that applications write to their logs, to HTTP statuses and complaints.
//!
//! - [`LogFormat`]: how to read the lines of a log
//! - [`AccessFormat`]: access logs: where the HTTP status is in a line
//! - [`nginx`], [`php_fpm`], [`apache`], [`postgresql`]: what a line of their error logs means
//! - [`LogMessage`]: that meaning
//! - [`Tally`]: lines counted
//!
//! Words are matched where the application writes them, never anywhere in a line: request lines, headers
//! and the output of scripts are written by strangers. A stranger who can make an application log a line
//! feed (nginx writes decoded paths to its error log as they are) can still forge a whole line: a
//! complaint is a witness, not a proof by itself.
//!
//! Knows the messages of Apache 2.4, nginx 1.22, php-fpm 8.2 and PostgreSQL 15 as these programs wrote
//! them (`fixtures/`). HAProxy is not here: it logs to syslog.

pub mod access;
pub mod apache;
mod format;
mod message;
pub mod nginx;
pub mod php_fpm;
pub mod postgresql;
mod scan;
pub mod tally;

pub use access::AccessFormat;
pub use format::LogFormat;
pub use message::{LogMessage, Subject};
pub use tally::Tally;

#[cfg(test)]
mod tests;
