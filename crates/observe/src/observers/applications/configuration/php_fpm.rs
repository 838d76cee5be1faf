//! php-fpm: from its main file to the settings and logs of its pools.

use model::Setting;
use wire::appconfig::ini;
use wire::applog::LogFormat;

use super::super::process_files::ProcessFiles;
use super::found::{
    Configuration, DeclaredLog, LogReading, MAX_FILES, MAX_SETTING_BYTES, absolute,
};

/// Keys that are kept.
const KEYS: &[&str] = &[
    "access.log",
    "catch_workers_output",
    "error_log",
    "listen",
    "listen.backlog",
    "pm",
    "pm.max_children",
    "pm.max_requests",
    "pm.max_spare_servers",
    "pm.min_spare_servers",
    "pm.start_servers",
    "pm.status_path",
    "process.max",
    "request_slowlog_timeout",
    "request_terminate_timeout",
    "rlimit_files",
    "slowlog",
];

/// Reads a file and what it includes. `section` is the section in which it is included, `open` are the
/// files that include it.
pub(super) fn load(
    process: &ProcessFiles,
    file: &str,
    section: &mut String,
    open: &mut Vec<String>,
    found: &mut Configuration,
) {
    let Some(text) = found.read(process, file, open) else {
        return;
    };
    open.push(file.to_string());
    for entry in ini::entries(&text, section) {
        if entry.key == "include" {
            // `fpm_conf_ini_parser_include`: relative to the compiled-in prefix (`/usr` on Debian).
            let pattern = absolute("/usr", &entry.value);
            for included in process.expand(&pattern, MAX_FILES) {
                let mut section = entry.section.clone();
                load(process, &included, &mut section, open, found);
            }
            continue;
        }
        if !KEYS.contains(&entry.key.as_str()) || entry.value.len() > MAX_SETTING_BYTES {
            continue;
        }
        let section = if entry.section.is_empty() { "global" } else { &entry.section };
        // `fpm_conf_expand_pool_name`.
        let value = entry.value.replace("$pool", section);
        // Relative to PHP_LOCALSTATEDIR, and for pools to the prefix (`fpm_evaluate_full_path`).
        let paths = match value.strip_prefix('/') {
            Some(_) => vec![value.clone()],
            None => ["/var", "/usr/local/var", "/usr"].map(|p| absolute(p, &value)).to_vec(),
        };
        let place = format!("{file}:{}", entry.line);
        match entry.key.as_str() {
            "error_log" if value == "syslog" => found.add_log(DeclaredLog {
                paths: Vec::new(),
                kind: "error log",
                place,
                reading: LogReading::Unreadable("it goes to syslog"),
            }),
            "error_log" => {
                let reading = LogReading::As(LogFormat::PhpFpm);
                found.add_log(DeclaredLog { paths, kind: "error log", place, reading });
            }
            "access.log" => {
                let reading = LogReading::Recognise;
                found.add_log(DeclaredLog { paths, kind: "access log", place, reading });
            }
            "slowlog" => {
                let reading = LogReading::Ignore;
                found.add_log(DeclaredLog { paths, kind: "slow log", place, reading });
            }
            _ => {}
        }
        found.add_setting(Setting {
            name: entry.key,
            value,
            section: section.to_string(),
            file: file.to_string(),
            line: entry.line,
        });
    }
    open.pop();
}
