//! Formats of logs, and how to recognise them.

use super::access::AccessFormat;
use super::{apache, nginx, php_fpm, postgresql};

/// How to read the lines of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFormat {
    /// An access log.
    Access(AccessFormat),
    /// nginx's error log.
    Nginx,
    /// php-fpm's error log.
    PhpFpm,
    /// Apache's error log.
    Apache,
    /// PostgreSQL's log.
    Postgresql,
}

impl LogFormat {
    /// The format of a line; `None` when it has none of the known ones.
    pub fn recognise(line: &[u8]) -> Option<LogFormat> {
        if nginx::parse(line).is_some() {
            return Some(LogFormat::Nginx);
        }
        if php_fpm::parse(line).is_some() {
            return Some(LogFormat::PhpFpm);
        }
        if apache::parse(line).is_some() {
            return Some(LogFormat::Apache);
        }
        // A severity alone does not identify it: other programs write `WARNING:  ` too.
        let dated = matches!(line, [_, _, _, _, b'-', _, _, b'-', _, _, b' ', _, ..]);
        if dated && postgresql::parse(line).is_some() {
            return Some(LogFormat::Postgresql);
        }
        AccessFormat::recognise(line).map(LogFormat::Access)
    }
}
