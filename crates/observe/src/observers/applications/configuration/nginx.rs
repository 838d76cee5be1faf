//! nginx: from the command line of its master to its settings and logs.

use std::rc::Rc;

use model::Setting;
use sys::{Error, ErrorKind};
use wire::appconfig::nginx;
use wire::applog::{AccessFormat, LogFormat};

use super::super::process_files::ProcessFiles;
use super::super::recognise;
use super::found::{Configuration, DeclaredLog, LogReading, MAX_FILES, absolute, parent};

/// Directives that are kept.
const DIRECTIVES: &[&str] = &[
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

/// Reads the configuration of one nginx.
pub(super) struct Nginx<'a> {
    process: &'a ProcessFiles,
    /// Candidates for the main file.
    main_files: Vec<String>,
    /// Whether its path is relative to a working directory that may not be read.
    relative_to_unknown: bool,
    /// Candidates for the folder to which paths of logs are relative.
    prefixes: Vec<String>,
    /// The folder of the main file, to which includes are relative (`conf_prefix`).
    folder: String,
    formats: Vec<(String, std::result::Result<AccessFormat, &'static str>)>,
    /// Access logs with the names of their formats, until all formats are known.
    access_logs: Vec<(DeclaredLog, String)>,
}

impl<'a> Nginx<'a> {
    pub(super) fn new(process: &'a ProcessFiles, command: &str, cwd: Option<&str>) -> Self {
        // Prefixes that are compiled in: Debian; nginx.org and RPMs; the default; OpenResty.
        const PREFIXES: &[&str] =
            &["/usr/share/nginx", "/etc/nginx", "/usr/local/nginx", "/usr/local/openresty/nginx"];
        let options = recognise::nginx_options(command);
        let relative = |path: &Option<String>| path.as_ref().is_some_and(|p| !p.starts_with('/'));
        let relative_to_unknown = cwd.is_none()
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
        let mut main_files = Vec::new();
        match &options.file {
            // `ngx_process_options`: relative to the prefix; if in doubt, to where it was started.
            Some(file) => {
                main_files.extend(prefixes.iter().map(|prefix| absolute(prefix, file)));
                main_files.push(absolute(cwd, file));
            }
            None => {
                let packaged = options.program == "/usr/sbin/nginx" || options.program == "nginx";
                let own = prefixes.iter().map(|p| format!("{p}/conf/nginx.conf"));
                main_files.extend(own.filter(|_| options.prefix.is_some()));
                main_files.insert(
                    if packaged { 0 } else { main_files.len() },
                    "/etc/nginx/nginx.conf".to_string(),
                );
                main_files.push("/usr/local/nginx/conf/nginx.conf".to_string());
                main_files.push("/usr/local/openresty/nginx/conf/nginx.conf".to_string());
            }
        }
        main_files.dedup();
        prefixes.push(cwd.to_string());
        Nginx {
            process,
            main_files,
            relative_to_unknown,
            prefixes,
            folder: String::new(),
            formats: Vec::new(),
            access_logs: Vec::new(),
        }
    }

    pub(super) fn load(mut self, found: &mut Configuration) {
        let exists = |file: &&String| match self.process.open(file) {
            Ok(_) => true,
            Err(error) => error.kind != ErrorKind::NotFound,
        };
        let existing = self.main_files.iter().find(exists);
        if existing.is_none() && self.relative_to_unknown {
            let reason = "its path is relative to a folder that only root may read";
            let error = Error::new("find", "the file", reason, ErrorKind::PermissionDenied);
            found.unreadable.push(("named by its command line".to_string(), error));
            return;
        }
        let Some(first) = existing.or(self.main_files.first()).cloned() else {
            return;
        };
        self.folder = parent(&first);
        self.read(&first, &Rc::from(Vec::new()), &mut Vec::new(), found);
        for (mut log, format) in std::mem::take(&mut self.access_logs) {
            // `combined` is built in; nginx refuses a log_format of the same name.
            if log.reading == LogReading::Recognise {
                let known = self.formats.iter().find(|(name, _)| *name == format);
                log.reading = match known {
                    Some((_, Ok(format))) => LogReading::As(LogFormat::Access(format.clone())),
                    Some((_, Err(why))) => LogReading::Unreadable(why),
                    None if format == "combined" => {
                        LogReading::As(LogFormat::Access(AccessFormat::combined()))
                    }
                    None => LogReading::Recognise,
                };
            }
            found.add_log(log);
        }
    }

    /// Reads a file and what it includes. `open` are the files that include it.
    fn read(
        &mut self,
        file: &str,
        blocks: &Rc<[Rc<str>]>,
        open: &mut Vec<String>,
        found: &mut Configuration,
    ) {
        let Some(text) = found.read(self.process, file, open) else {
            return;
        };
        open.push(file.to_string());
        for directive in nginx::directives(&text, blocks) {
            if directive.name == "include" {
                let Some(pattern) = directive.arguments.first() else {
                    continue;
                };
                let pattern = absolute(&self.folder, pattern);
                for file in self.process.expand(&pattern, MAX_FILES) {
                    self.read(&file, &directive.blocks, open, found);
                }
                continue;
            }
            if !DIRECTIVES.contains(&directive.name.as_str()) {
                continue;
            }
            let blocks = &directive.blocks;
            let outermost = blocks.first().map_or("", |block| &**block);
            let innermost = blocks.last().map_or("", |block| &**block);
            match directive.name.as_str() {
                // `server { … }` opens a block; only `server ADDRESS` of an upstream is a setting.
                "server" if !innermost.starts_with("upstream") => continue,
                "error_log" => self.error_log(&directive, file, found),
                "access_log" => self.access_log(&directive, file, outermost),
                "log_format" if outermost == "http" => self.log_format(&directive),
                _ => {}
            }
            found.add_setting(Setting {
                name: directive.name.clone(),
                value: directive.value(),
                section: directive.section(),
                file: file.to_string(),
                line: directive.line,
            });
        }
        open.pop();
    }

    /// Candidates for a path.
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
            "stderr" => (vec!["/proc/self/fd/2".to_string()], LogReading::As(LogFormat::Nginx)),
            syslog if syslog.starts_with("syslog:") => {
                (Vec::new(), LogReading::Unreadable("it goes to syslog"))
            }
            memory if memory.starts_with("memory:") => (Vec::new(), LogReading::Ignore),
            path => (self.paths(path), LogReading::As(LogFormat::Nginx)),
        };
        let place = format!("{file}:{}", directive.line);
        found.add_log(DeclaredLog { paths, kind: "error log", place, reading });
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
        let compressed = rest.iter().any(|a| a == "gzip" || a.starts_with("gzip="));
        let (paths, reading) = match path.as_str() {
            syslog if syslog.starts_with("syslog:") => {
                (Vec::new(), LogReading::Unreadable("it goes to syslog"))
            }
            // Statuses of streams are not HTTP statuses.
            path if outermost == "stream" => (self.paths(path), LogReading::Ignore),
            path if compressed => (self.paths(path), LogReading::Unreadable("it is compressed")),
            // One log for each value of a variable: they may be among the open files.
            path if path.contains('$') => return,
            path => (self.paths(path), LogReading::Recognise),
        };
        let place = format!("{file}:{}", directive.line);
        let log = DeclaredLog { paths, kind: "access log", place, reading };
        self.access_logs.push((log, format));
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
