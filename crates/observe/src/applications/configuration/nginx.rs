//! nginx: from the command line of its master to its settings and logs.

use std::rc::Rc;

use model::Setting;
use sys::{Error, Machine};
use wire::appconfig::nginx;
use wire::applog::{AccessFormat, LogFormat};

use super::super::inside::Inside;
use super::super::recognise;
use super::{Configuration, Declared, MOST_FILES, Reading, absolute, parent};

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

/// What is read of one nginx.
pub(super) struct Nginx<'a> {
    machine: &'a dyn Machine,
    inside: &'a Inside,
    /// Candidates for the file that is read first.
    files: Vec<String>,
    /// Its path is relative to a folder that may not be known.
    lost: bool,
    /// Candidates for the folder from which logs with relative paths are taken.
    prefixes: Vec<String>,
    /// The folder of the first file, from which includes are taken (`conf_prefix`).
    folder: String,
    formats: Vec<(String, std::result::Result<AccessFormat, &'static str>)>,
    /// access_log directives wait here until all formats are known.
    access: Vec<(Declared, String)>,
}

impl<'a> Nginx<'a> {
    pub(super) fn new(
        machine: &'a dyn Machine,
        inside: &'a Inside,
        command: &str,
        cwd: Option<&str>,
    ) -> Self {
        // Prefixes that distributions build in: Debian; nginx.org and RPMs; the default; OpenResty.
        const PREFIXES: &[&str] =
            &["/usr/share/nginx", "/etc/nginx", "/usr/local/nginx", "/usr/local/openresty/nginx"];
        let options = recognise::nginx_options(command);
        let relative = |path: &Option<String>| path.as_ref().is_some_and(|p| !p.starts_with('/'));
        let lost = cwd.is_none()
            && if options.prefix.is_some() {
                relative(&options.prefix)
            } else {
                relative(&options.file)
            };
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
            lost,
            prefixes,
            folder: String::new(),
            formats: Vec::new(),
            access: Vec::new(),
        }
    }

    pub(super) fn load(mut self, found: &mut Configuration) {
        let exists = |file: &&String| match self.inside.stat(self.machine, file) {
            Ok(_) => true,
            Err(error) => error.kind != sys::ErrorKind::NotFound,
        };
        let existing = self.files.iter().find(exists);
        if existing.is_none() && self.lost {
            let what = "its path is relative to a folder that only root may see";
            let error = Error::new("find", "the file", what, sys::ErrorKind::PermissionDenied);
            found.gaps.push(("named by its command line".to_string(), error));
            return;
        }
        let Some(first) = existing.or(self.files.first()).cloned() else {
            return;
        };
        self.folder = parent(&first);
        self.file(&first, &Rc::from(Vec::new()), &mut Vec::new(), found);
        for (mut log, format) in std::mem::take(&mut self.access) {
            // `combined` is built in; a later log_format of the same name is refused by nginx.
            if log.reading == Reading::Recognise {
                let known = self.formats.iter().find(|(name, _)| *name == format);
                log.reading = match known {
                    Some((_, Ok(format))) => Reading::As(LogFormat::Access(format.clone())),
                    Some((_, Err(why))) => Reading::Refused(why),
                    None if format == "combined" => {
                        Reading::As(LogFormat::Access(AccessFormat::combined()))
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
        blocks: &Rc<[Rc<str>]>,
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
            let outermost = blocks.first().map_or("", |block| &**block);
            let innermost = blocks.last().map_or("", |block| &**block);
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
        self.prefixes.iter().map(|prefix| absolute(prefix, path)).collect()
    }

    fn error_log(&self, directive: &nginx::Directive, file: &str, found: &mut Configuration) {
        let Some(path) = directive.arguments.first() else {
            return;
        };
        let (paths, reading) = match path.as_str() {
            "stderr" => (vec!["/proc/self/fd/2".to_string()], Reading::As(LogFormat::Nginx)),
            syslog if syslog.starts_with("syslog:") => {
                (Vec::new(), Reading::Refused("it goes to syslog"))
            }
            memory if memory.starts_with("memory:") => (Vec::new(), Reading::Never),
            path => (self.paths(path), Reading::As(LogFormat::Nginx)),
        };
        let place = format!("{file}:{}", directive.line);
        found.log(Declared { paths, what: "error log", place, reading });
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
        let log = Declared { paths, what: "access log", place, reading };
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
