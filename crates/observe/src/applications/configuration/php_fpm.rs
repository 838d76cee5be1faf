//! php-fpm: from its main file to the settings and logs of its pools.

use model::Setting;
use sys::Machine;
use wire::appconfig::ini;
use wire::applog::LogFormat;

use super::super::inside::Inside;
use super::{Configuration, Declared, MOST_FILES, Reading, absolute};

/// Keys of php-fpm that are kept.
const PHP_FPM: &[&str] = &[
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

/// Reads a file of php-fpm and what it includes.
pub(super) fn load(
    machine: &dyn Machine,
    inside: &Inside,
    file: &str,
    section: &mut String,
    open: &mut Vec<String>,
    found: &mut Configuration,
) {
    let Some(text) = found.read(machine, inside, file, open) else {
        return;
    };
    open.push(file.to_string());
    for entry in ini::entries(&text, section) {
        if entry.key == "include" {
            // `fpm_conf_ini_parser_include`: relative to the prefix built in (`/usr` on Debian).
            let pattern = absolute("/usr", &entry.value);
            for included in inside.expand(machine, &pattern, MOST_FILES) {
                let mut section = entry.section.clone();
                load(machine, inside, &included, &mut section, open, found);
            }
            continue;
        }
        if !PHP_FPM.contains(&entry.key.as_str()) {
            continue;
        }
        let section = if entry.section.is_empty() { "global" } else { &entry.section };
        // `fpm_conf_expand_pool_name`.
        let value = entry.value.replace("$pool", section);
        // Relative to PHP_LOCALSTATEDIR, for pools to the prefix (`fpm_evaluate_full_path`).
        let paths = match value.strip_prefix('/') {
            Some(_) => vec![value.clone()],
            None => ["/var", "/usr/local/var", "/usr"].map(|p| absolute(p, &value)).to_vec(),
        };
        let place = format!("{file}:{}", entry.line);
        match entry.key.as_str() {
            "error_log" if value == "syslog" => found.log(Declared {
                paths: Vec::new(),
                what: "error log",
                place,
                reading: Reading::Refused("it goes to syslog"),
            }),
            "error_log" => {
                let reading = Reading::As(LogFormat::PhpFpm);
                found.log(Declared { paths, what: "error log", place, reading });
            }
            "access.log" => {
                let reading = Reading::Recognise;
                found.log(Declared { paths, what: "access log", place, reading });
            }
            "slowlog" => {
                let reading = Reading::Never;
                found.log(Declared { paths, what: "slow log", place, reading });
            }
            _ => {}
        }
        found.keep(Setting {
            name: entry.key,
            value,
            section: section.to_string(),
            file: file.to_string(),
            line: entry.line,
        });
    }
    open.pop();
}
