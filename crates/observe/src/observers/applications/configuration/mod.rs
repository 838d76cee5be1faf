//! The configurations of nginx and php-fpm: the settings that matter to a slow network, with file and
//! line, and the logs that they name.
//!
//! - [`found`]: what was found, and its limits
//! - [`load`]: by program
//! - [`nginx`], [`php_fpm`]: their files
//!
//! Reads what these programs read, in their order, bounded in files, size and depth. Judges nothing:
//! defaults are not filled in, and whether a program has reloaded its files since they changed is not
//! known here.

mod found;
mod load;
mod nginx;
mod php_fpm;

pub(crate) use found::{Configuration, DeclaredLog, LogReading};
pub(crate) use load::load;
