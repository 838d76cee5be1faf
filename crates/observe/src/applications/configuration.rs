//! What the configurations of nginx and php-fpm say: the settings that matter to a slow network,
//! with file and line, and the logs that they name.
//!
//! Reads what these programs read, in their order, bounded in files, size and depth. Judges
//! nothing: defaults are not filled in, and whether a program has read its files since they
//! changed cannot be seen here.

use std::path::Path;

use model::Setting;
use sys::{Error, Machine};
use wire::applog::LogFormat;

use super::inside::Inside;
use super::recognise::{self, Kind};

mod nginx;
mod php_fpm;

/// Most files of one configuration.
const MOST_FILES: usize = 200;
/// Deepest inclusion.
const DEEPEST: usize = 8;
/// Most settings kept of one configuration.
const MOST_SETTINGS: usize = 2000;
/// Most logs of one configuration.
const MOST_LOGS: usize = 256;

/// A log that a configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    /// Candidates for its path as the process sees it, best first: a relative path may be taken
    /// from several places.
    pub(super) paths: Vec<String>,
    /// What it is, for people: `error log`, `access log`.
    pub(super) what: &'static str,
    /// Where it is named: `/etc/nginx/nginx.conf:12`.
    pub(super) place: String,
    /// How to read it.
    pub(super) reading: Reading,
}

/// How to read a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reading {
    /// In this dialect.
    As(LogFormat),
    /// Its lines tell.
    Recognise,
    /// Not at all: nothing in it is of use here.
    Never,
    /// It cannot be read, and why.
    Refused(&'static str),
}

/// What a configuration says.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    /// Settings in their order.
    pub(super) settings: Vec<Setting>,
    /// Logs.
    pub(super) logs: Vec<Declared>,
    /// What could not be read: what, and why.
    pub(super) gaps: Vec<(String, Error)>,
    /// Limits that were reached, in words.
    pub(super) cut: Option<&'static str>,
    files: usize,
}

impl Configuration {
    fn keep(&mut self, setting: Setting) {
        if self.settings.len() < MOST_SETTINGS {
            self.settings.push(setting);
        } else {
            self.cut = Some("it has more than 2,000 settings that matter");
        }
    }

    fn log(&mut self, log: Declared) {
        if self.logs.len() < MOST_LOGS {
            self.logs.push(log);
        } else {
            self.cut = Some("it names more than 256 logs");
        }
    }

    /// Reads one more file; notes why it cannot. `open` are the files that include it.
    fn read(
        &mut self,
        machine: &dyn Machine,
        inside: &Inside,
        file: &str,
        open: &[String],
    ) -> Option<Vec<u8>> {
        if self.files >= MOST_FILES {
            self.cut = Some("it has more than 200 files");
            return None;
        }
        if open.len() > DEEPEST {
            self.cut = Some("its files include one another more than 8 deep");
            return None;
        }
        if open.iter().any(|f| f == file) {
            return None; // it includes itself: the program would not have started with it
        }
        self.files += 1;
        match inside.read(machine, file) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.gaps.push((file.to_string(), error));
                None
            }
        }
    }
}

/// Reads the configuration of an application from the command line of its master.
pub(super) fn load(
    machine: &dyn Machine,
    inside: &Inside,
    kind: Kind,
    command: &str,
    cwd: Option<&str>,
) -> Configuration {
    let mut found = Configuration::default();
    match kind {
        Kind::Nginx => nginx::Nginx::new(machine, inside, command, cwd).load(&mut found),
        Kind::PhpFpm => {
            let named = recognise::php_fpm_file(command);
            let file = named.unwrap_or_else(|| "/etc/php-fpm.conf".to_string());
            let file = absolute(cwd.unwrap_or("/"), &file);
            let mut section = String::new();
            php_fpm::load(machine, inside, &file, &mut section, &mut Vec::new(), &mut found);
        }
        // Known by the words of their logs only.
        Kind::Apache | Kind::Haproxy | Kind::Postgresql => {}
    }
    found
}

fn absolute(folder: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_string();
    }
    format!("{}/{path}", folder.trim_end_matches('/'))
}

fn parent(path: &str) -> String {
    Path::new(path).parent().map_or(String::new(), |p| p.display().to_string())
}
