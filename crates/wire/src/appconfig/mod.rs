//! Configuration files of applications, as lists of settings with their lines.
//!
//! - [`nginx`]: directives in blocks, as `ngx_conf_read_token` takes them apart
//! - [`ini`]: sections and keys, as php-fpm reads them
//!
//! These parsers do not judge a configuration: what they cannot read they pass over, because the
//! application has read it already and runs. They open no file: including is the caller's work.

pub mod ini;
pub mod nginx;

#[cfg(test)]
mod tests;
