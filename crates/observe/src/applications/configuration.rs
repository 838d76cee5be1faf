//! What the configurations of nginx and php-fpm say: the settings that matter to a slow network,
//! with file and line, and the logs that they name.
//!
//! Reads what these programs read, in their order, bounded in files, size and depth. Judges
//! nothing: defaults are not filled in, and whether a program has read its files since they
//! changed cannot be seen here.

use std::path::Path;
use std::rc::Rc;

use model::Setting;
use sys::{Error, Machine};
use wire::appconfig::{ini, nginx};
use wire::applog::{AccessFormat, Dialect};

use super::inside::Inside;
use super::recognise::{self, Kind};

/// Most files of one configuration.
const MOST_FILES: usize = 200;
/// Deepest inclusion.
const DEEPEST: usize = 8;
/// Most settings kept of one configuration.
const MOST_SETTINGS: usize = 2000;
/// Most logs of one configuration.
const MOST_LOGS: usize = 256;

/// Directives of nginx that are kept.
const NGINX: &[&str] = &[
    "accept_mutex",
    "access_log",
    "error_log",
    "fastcgi_connect_timeout",
    "fastcgi_keep_conn",
    "fastcgi_pass",
    "fastcgi_read_timeout",
    "grpc_pass",
    "keepalive",
    "keepalive_requests",
    "keepalive_timeout",
    "listen",
    "log_format",
    "multi_accept",
    "proxy_connect_timeout",
    "proxy_http_version",
    "proxy_pass",
    "proxy_read_timeout",
    "scgi_pass",
    "sendfile",
    "server",
    "server_name",
    "tcp_nodelay",
    "tcp_nopush",
    "upstream",
    "uwsgi_pass",
    "worker_connections",
    "worker_processes",
    "worker_rlimit_nofile",
];

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
    As(Dialect),
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
        Kind::Nginx => Nginx::new(machine, inside, command, cwd).load(&mut found),
        Kind::PhpFpm => {
            let named = recognise::php_fpm_file(command);
            let file = named.unwrap_or_else(|| "/etc/php-fpm.conf".to_string());
            let file = absolute(cwd.unwrap_or("/"), &file);
            let mut section = String::new();
            php_fpm(
                machine,
                inside,
                &file,
                &mut section,
                &mut Vec::new(),
                &mut found,
            );
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
    Path::new(path)
        .parent()
        .map_or(String::new(), |p| p.display().to_string())
}

struct Nginx<'a> {
    machine: &'a dyn Machine,
    inside: &'a Inside,
    /// Candidates for the file that is read first.
    files: Vec<String>,
    /// Candidates for the folder from which logs with relative paths are taken.
    prefixes: Vec<String>,
    /// The folder of the first file, from which includes are taken (`conf_prefix`).
    folder: String,
    formats: Vec<(String, std::result::Result<AccessFormat, &'static str>)>,
    /// access_log directives wait here until all formats are known.
    access: Vec<(Declared, String)>,
}

impl<'a> Nginx<'a> {
    fn new(machine: &'a dyn Machine, inside: &'a Inside, command: &str, cwd: Option<&str>) -> Self {
        // Prefixes that distributions build in: Debian; nginx.org and RPMs; the default; OpenResty.
        const PREFIXES: &[&str] = &[
            "/usr/share/nginx",
            "/etc/nginx",
            "/usr/local/nginx",
            "/usr/local/openresty/nginx",
        ];
        let options = recognise::nginx_options(command);
        let cwd = cwd.unwrap_or("/");
        let mut prefixes: Vec<String> = match &options.prefix {
            Some(prefix) => vec![absolute(cwd, prefix)],
            None => PREFIXES.iter().map(|p| (*p).to_string()).collect(),
        };
        let mut files = Vec::new();
        match &options.file {
            // `ngx_process_options`: taken from the prefix; in doubt from where it was started.
            Some(file) => {
                files.extend(prefixes.iter().map(|prefix| absolute(prefix, file)));
                files.push(absolute(cwd, file));
            }
            None => {
                let packaged = options.program == "/usr/sbin/nginx" || options.program == "nginx";
                let own = prefixes.iter().map(|p| format!("{p}/conf/nginx.conf"));
                files.extend(own.filter(|_| options.prefix.is_some()));
                files.insert(
                    if packaged { 0 } else { files.len() },
                    "/etc/nginx/nginx.conf".to_string(),
                );
                files.push("/usr/local/nginx/conf/nginx.conf".to_string());
                files.push("/usr/local/openresty/nginx/conf/nginx.conf".to_string());
            }
        }
        files.dedup();
        prefixes.push(cwd.to_string());
        Nginx {
            machine,
            inside,
            files,
            prefixes,
            folder: String::new(),
            formats: Vec::new(),
            access: Vec::new(),
        }
    }

    fn load(mut self, found: &mut Configuration) {
        let exists = |file: &&String| match self.inside.stat(self.machine, file) {
            Ok(_) => true,
            Err(error) => error.kind != sys::Kind::NotFound,
        };
        let Some(first) = self
            .files
            .iter()
            .find(exists)
            .or(self.files.first())
            .cloned()
        else {
            return;
        };
        self.folder = parent(&first);
        self.file(&first, &Rc::from(Vec::new()), &mut Vec::new(), found);
        for (mut log, format) in std::mem::take(&mut self.access) {
            // `combined` is built in; a later log_format of the same name is refused by nginx.
            if log.reading == Reading::Recognise {
                let known = self.formats.iter().find(|(name, _)| *name == format);
                log.reading = match known {
                    Some((_, Ok(format))) => Reading::As(Dialect::Access(format.clone())),
                    Some((_, Err(why))) => Reading::Refused(why),
                    None if format == "combined" => {
                        Reading::As(Dialect::Access(AccessFormat::combined()))
                    }
                    None => Reading::Recognise,
                };
            }
            found.log(log);
        }
    }

    fn file(
        &mut self,
        file: &str,
        blocks: &Rc<[String]>,
        open: &mut Vec<String>,
        found: &mut Configuration,
    ) {
        let Some(text) = found.read(self.machine, self.inside, file, open) else {
            return;
        };
        open.push(file.to_string());
        for directive in nginx::directives(&text, blocks) {
            if directive.name == "include" {
                let Some(pattern) = directive.arguments.first() else {
                    continue;
                };
                let pattern = absolute(&self.folder, pattern);
                for file in self.inside.expand(self.machine, &pattern, MOST_FILES) {
                    self.file(&file, &directive.blocks, open, found);
                }
                continue;
            }
            if !NGINX.contains(&directive.name.as_str()) {
                continue;
            }
            let blocks = &directive.blocks;
            let outermost = blocks.first().map_or("", String::as_str);
            let innermost = blocks.last().map_or("", String::as_str);
            match directive.name.as_str() {
                // `server { … }` opens a block; only an upstream's `server ADDRESS` says something.
                "server" if !innermost.starts_with("upstream") => continue,
                "error_log" => self.error_log(&directive, file, found),
                "access_log" => self.access_log(&directive, file, outermost),
                "log_format" if outermost == "http" => self.log_format(&directive),
                _ => {}
            }
            found.keep(Setting {
                name: directive.name.clone(),
                value: directive.value(),
                section: directive.section(),
                file: file.to_string(),
                line: directive.line,
            });
        }
        open.pop();
    }

    fn paths(&self, path: &str) -> Vec<String> {
        if path.starts_with('/') {
            return vec![path.to_string()];
        }
        self.prefixes
            .iter()
            .map(|prefix| absolute(prefix, path))
            .collect()
    }

    fn error_log(&self, directive: &nginx::Directive, file: &str, found: &mut Configuration) {
        let Some(path) = directive.arguments.first() else {
            return;
        };
        let (paths, reading) = match path.as_str() {
            "stderr" => (
                vec!["/proc/self/fd/2".to_string()],
                Reading::As(Dialect::Nginx),
            ),
            syslog if syslog.starts_with("syslog:") => {
                (Vec::new(), Reading::Refused("it goes to syslog"))
            }
            memory if memory.starts_with("memory:") => (Vec::new(), Reading::Never),
            path => (self.paths(path), Reading::As(Dialect::Nginx)),
        };
        let place = format!("{file}:{}", directive.line);
        found.log(Declared {
            paths,
            what: "error log",
            place,
            reading,
        });
    }

    fn access_log(&mut self, directive: &nginx::Directive, file: &str, outermost: &str) {
        let [path, rest @ ..] = directive.arguments.as_slice() else {
            return;
        };
        if path == "off" {
            return;
        }
        let format = rest.first().filter(|a| !a.contains('=') && *a != "gzip");
        let format = format.map_or("combined", String::as_str).to_string();
        let packed = rest.iter().any(|a| a == "gzip" || a.starts_with("gzip="));
        let (paths, reading) = match path.as_str() {
            syslog if syslog.starts_with("syslog:") => {
                (Vec::new(), Reading::Refused("it goes to syslog"))
            }
            // Statuses of streams are no HTTP statuses.
            path if outermost == "stream" => (self.paths(path), Reading::Never),
            path if packed => (self.paths(path), Reading::Refused("it is compressed")),
            // One log for each value of a variable: found among the open files, if at all.
            path if path.contains('$') => return,
            path => (self.paths(path), Reading::Recognise),
        };
        let place = format!("{file}:{}", directive.line);
        let log = Declared {
            paths,
            what: "access log",
            place,
            reading,
        };
        self.access.push((log, format));
    }

    fn log_format(&mut self, directive: &nginx::Directive) {
        let [name, rest @ ..] = directive.arguments.as_slice() else {
            return;
        };
        let mut escape = None;
        let mut template = String::new();
        for (index, argument) in rest.iter().enumerate() {
            match argument.strip_prefix("escape=") {
                Some(kind) if index == 0 => escape = Some(kind),
                _ => template.push_str(argument),
            }
        }
        let format = AccessFormat::from_nginx(template.as_bytes(), escape);
        self.formats.push((name.clone(), format));
    }
}

/// Reads a file of php-fpm and what it includes.
fn php_fpm(
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
                php_fpm(machine, inside, &included, &mut section, open, found);
            }
            continue;
        }
        if !PHP_FPM.contains(&entry.key.as_str()) {
            continue;
        }
        let section = if entry.section.is_empty() {
            "global"
        } else {
            &entry.section
        };
        // `fpm_conf_expand_pool_name`.
        let value = entry.value.replace("$pool", section);
        // Relative to PHP_LOCALSTATEDIR, for pools to the prefix (`fpm_evaluate_full_path`).
        let paths = match value.strip_prefix('/') {
            Some(_) => vec![value.clone()],
            None => ["/var", "/usr/local/var", "/usr"]
                .map(|p| absolute(p, &value))
                .to_vec(),
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
                let reading = Reading::As(Dialect::PhpFpm);
                found.log(Declared {
                    paths,
                    what: "error log",
                    place,
                    reading,
                });
            }
            "access.log" => {
                let reading = Reading::Recognise;
                found.log(Declared {
                    paths,
                    what: "access log",
                    place,
                    reading,
                });
            }
            "slowlog" => {
                let reading = Reading::Never;
                found.log(Declared {
                    paths,
                    what: "slow log",
                    place,
                    reading,
                });
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
