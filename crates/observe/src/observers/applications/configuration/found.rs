//! What was found in a configuration, within limits.

use std::borrow::Cow;
use std::path::Path;

use model::{Setting, without_credentials};
use sys::Error;
use wire::applog::LogFormat;

use super::super::process_files::ProcessFiles;

/// Most files of one configuration.
pub(super) const MAX_FILES: usize = 200;
/// Deepest inclusion.
const MAX_INCLUDE_DEPTH: usize = 8;
/// Most settings kept of one configuration.
const MAX_SETTINGS: usize = 2000;
/// Longest setting that is kept, with its section and file, bytes.
pub(super) const MAX_SETTING_BYTES: usize = 4 << 10;
/// Most bytes of all settings.
const MAX_SETTINGS_BYTES: usize = 1 << 20;
/// Most bytes read of one configuration.
const MAX_BYTES: usize = 16 << 20;
/// Most logs of one configuration.
const MAX_LOGS: usize = 256;

/// A log that a configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeclaredLog {
    /// Candidates for its path as the process sees it, best first: a relative path may start at several
    /// folders.
    pub(crate) paths: Vec<String>,
    /// Its kind, for people: `error log`, `access log`.
    pub(crate) kind: &'static str,
    /// Where it is named: `/etc/nginx/nginx.conf:12`.
    pub(crate) place: String,
    /// How to read it.
    pub(crate) reading: LogReading,
}

/// How to read a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogReading {
    /// In this format.
    As(LogFormat),
    /// In the format of its first line that has one.
    Recognise,
    /// Not at all: nothing in it matters here.
    Ignore,
    /// It cannot be read, for this reason.
    Unreadable(&'static str),
}

/// What was found in a configuration.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    /// Settings in their order.
    pub(crate) settings: Vec<Setting>,
    /// Logs.
    pub(crate) logs: Vec<DeclaredLog>,
    /// Files that could not be read, and why.
    pub(crate) unreadable: Vec<(String, Error)>,
    /// A limit that was reached, in words.
    pub(crate) limit_reached: Option<&'static str>,
    /// Bytes of the settings.
    pub(crate) settings_bytes: usize,
    files: usize,
    bytes: usize,
}

impl Configuration {
    pub(super) fn add_setting(&mut self, mut setting: Setting) {
        if let Cow::Owned(value) = without_credentials(&setting.value) {
            setting.value = value;
        }
        let Setting { name, value, section, file, .. } = &setting;
        let bytes = name.len() + value.len() + section.len() + file.len();
        if bytes > MAX_SETTING_BYTES {
            self.limit_reached = Some("it has a setting that is longer than 4 KiB");
        } else if self.settings.len() >= MAX_SETTINGS {
            self.limit_reached = Some("it has more than 2,000 settings that matter");
        } else if self.settings_bytes + bytes > MAX_SETTINGS_BYTES {
            self.limit_reached = Some("the settings that matter are longer than 1 MiB");
        } else {
            self.settings_bytes += bytes;
            self.settings.push(setting);
        }
    }

    pub(super) fn add_log(&mut self, log: DeclaredLog) {
        if self.logs.len() < MAX_LOGS {
            self.logs.push(log);
        } else {
            self.limit_reached = Some("it names more than 256 logs");
        }
    }

    /// Reads one more file, or notes why it cannot. `open` are the files that include it.
    pub(super) fn read(
        &mut self,
        process: &ProcessFiles,
        file: &str,
        open: &[String],
    ) -> Option<Vec<u8>> {
        if self.files >= MAX_FILES {
            self.limit_reached = Some("it has more than 200 files");
            return None;
        }
        if self.bytes > MAX_BYTES {
            self.limit_reached = Some("it is longer than 16 MiB");
            return None;
        }
        if open.len() > MAX_INCLUDE_DEPTH {
            self.limit_reached = Some("its files include one another more than 8 deep");
            return None;
        }
        if open.iter().any(|f| f == file) {
            return None; // it includes itself: the program would not have started with it
        }
        self.files += 1;
        match process.read_configuration(file) {
            Ok(bytes) => {
                self.bytes += bytes.len();
                Some(bytes)
            }
            Err(error) => {
                self.unreadable.push((file.to_string(), error));
                None
            }
        }
    }
}

/// A path relative to a folder.
pub(super) fn absolute(folder: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_string();
    }
    format!("{}/{path}", folder.trim_end_matches('/'))
}

/// The folder of a file.
pub(super) fn parent(path: &str) -> String {
    Path::new(path).parent().map_or(String::new(), |p| p.display().to_string())
}
