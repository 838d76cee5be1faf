//! From a program and the command line of its master to what its configuration has.

use super::super::process_files::ProcessFiles;
use super::super::recognise::{Program, php_fpm_file};
use super::found::{Configuration, absolute};
use super::nginx::Nginx;
use super::php_fpm;

/// Reads the configuration of a program. `command` is the command line of its master, `cwd` its working
/// directory where that may be read.
pub(crate) fn load(
    process: &ProcessFiles,
    program: Program,
    command: &str,
    cwd: Option<&str>,
) -> Configuration {
    let mut found = Configuration::default();
    match program {
        Program::Nginx => Nginx::new(process, command, cwd).load(&mut found),
        Program::PhpFpm => {
            let named = php_fpm_file(command);
            let file = named.unwrap_or_else(|| "/etc/php-fpm.conf".to_string());
            let file = absolute(cwd.unwrap_or("/"), &file);
            let (mut section, mut open) = (String::new(), Vec::new());
            php_fpm::load(process, &file, &mut section, &mut open, &mut found);
        }
        // Only the messages of their logs are known.
        Program::Apache | Program::Haproxy | Program::Postgresql => {}
    }
    found
}
