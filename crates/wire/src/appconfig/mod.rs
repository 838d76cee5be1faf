//! Configuration files of applications, as lists of settings with their lines.
//!
//! - [`nginx`]: directives in blocks, as `ngx_conf_read_token` splits them
//! - [`ini`]: sections and keys, as php-fpm reads them
//!
//! These parsers do not judge a configuration. They skip what they cannot parse: the application has
//! read it already and runs. They open no file: the caller follows includes.

pub mod ini;
pub mod nginx;

#[cfg(test)]
mod tests;
