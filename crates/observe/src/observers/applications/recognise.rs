//! Which program a process runs, from its name and command line. Reads nothing.

/// A program that netwhy knows something about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Program {
    /// Configuration and logs are known.
    Nginx,
    /// Configuration and logs are known.
    PhpFpm,
    /// The messages of its logs are known.
    Apache,
    /// Only its name: it logs to syslog.
    Haproxy,
    /// The messages of its logs are known.
    Postgresql,
}

impl Program {
    /// Its common name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Program::Nginx => "nginx",
            Program::PhpFpm => "php-fpm",
            Program::Apache => "apache",
            Program::Haproxy => "haproxy",
            Program::Postgresql => "postgresql",
        }
    }
}

/// A process that runs a known program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recognised {
    pub(super) program: Program,
    /// `master` or `worker`.
    pub(super) role: &'static str,
    /// The pool of a php-fpm worker.
    pub(super) pool: Option<String>,
}

/// Recognises a process; `parent` is the name of its parent, where that is known.
///
/// nginx and php-fpm overwrite their command lines with a title (`ngx_setproctitle`,
/// `fpm_env_setproctitle`); the others are recognised by their name.
pub(super) fn recognise(name: &str, command: &str, parent: Option<&str>) -> Option<Recognised> {
    let as_role = |program, role| Some(Recognised { program, role, pool: None });
    if let Some(title) = command.strip_prefix("nginx: ") {
        return as_role(
            Program::Nginx,
            if title.starts_with("master") { "master" } else { "worker" },
        );
    }
    if let Some(title) = command.strip_prefix("php-fpm: ") {
        let pool = title.strip_prefix("pool ").map(|pool| pool.trim_end().to_string());
        // A worker has its master's title until it sets its own.
        let role = if pool.is_some() || parent == Some(name) { "worker" } else { "master" };
        return Some(Recognised { program: Program::PhpFpm, role, pool });
    }
    let role = if parent == Some(name) { "worker" } else { "master" };
    match name {
        // `master_process off` leaves the command line unchanged.
        "nginx" => as_role(Program::Nginx, role),
        "apache2" | "httpd" => as_role(Program::Apache, role),
        "haproxy" => as_role(Program::Haproxy, role),
        "postgres" | "postmaster" => as_role(Program::Postgresql, role),
        _ => None,
    }
}

/// What the command line of an nginx master has about its configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NginxOptions {
    /// The program: `/usr/sbin/nginx`.
    pub(super) program: String,
    /// `-c FILE`.
    pub(super) file: Option<String>,
    /// `-p PREFIX`.
    pub(super) prefix: Option<String>,
}

/// The options in `nginx: master process /usr/sbin/nginx -c FILE`, in which nginx has joined its
/// arguments with spaces.
pub(super) fn nginx_options(command: &str) -> NginxOptions {
    let command = command.strip_prefix("nginx: master process ").unwrap_or(command);
    let mut words = command.split_whitespace();
    let mut options = NginxOptions {
        program: words.next().unwrap_or_default().to_string(),
        ..Default::default()
    };
    while let Some(word) = words.next() {
        let (option, joined) = match word.split_at_checked(2) {
            Some((option @ ("-c" | "-p"), joined)) => (option, joined),
            _ => continue,
        };
        let value = if joined.is_empty() { words.next() } else { Some(joined) };
        let target = if option == "-c" { &mut options.file } else { &mut options.prefix };
        *target = value.map(str::to_string);
    }
    options
}

/// The configuration file in `php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)`, or after `-y`
/// where the command line is unchanged.
pub(super) fn php_fpm_file(command: &str) -> Option<String> {
    if let Some(rest) = command.strip_prefix("php-fpm: master process (") {
        return rest.trim_end().strip_suffix(')').map(str::to_string);
    }
    let mut words = command.split_whitespace();
    while let Some(word) = words.next() {
        if let Some(file) = word.strip_prefix("--fpm-config=") {
            return Some(file.to_string());
        }
        if word == "-y" || word == "--fpm-config" {
            return words.next().map(str::to_string);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(program: Program, role: &'static str, pool: Option<&str>) -> Option<Recognised> {
        Some(Recognised { program, role, pool: pool.map(str::to_string) })
    }

    #[test]
    fn titles_of_real_processes_are_recognised() {
        for (name, command, parent, expected) in [
            (
                "nginx",
                "nginx: master process nginx -c /x",
                None,
                known(Program::Nginx, "master", None),
            ),
            (
                "nginx",
                "nginx: worker process",
                Some("nginx"),
                known(Program::Nginx, "worker", None),
            ),
            ("nginx", "nginx: cache manager process", None, known(Program::Nginx, "worker", None)),
            ("nginx", "nginx -g master_process off;", None, known(Program::Nginx, "master", None)),
            (
                "php-fpm8.2",
                "php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)   ",
                None,
                known(Program::PhpFpm, "master", None),
            ),
            (
                "php-fpm8.2",
                "php-fpm: pool www      ",
                Some("php-fpm8.2"),
                known(Program::PhpFpm, "worker", Some("www")),
            ),
            ("apache2", "/usr/sbin/apache2 -k start", None, known(Program::Apache, "master", None)),
            ("apache2", "", Some("apache2"), known(Program::Apache, "worker", None)),
            ("vim", "vim nginx: master process", None, None),
        ] {
            assert_eq!(recognise(name, command, parent), expected, "{command}");
        }
    }

    #[test]
    fn the_configuration_file_is_found() {
        let options = nginx_options(
            "nginx: master process /usr/sbin/nginx -g daemon off; -c /a.conf -p/srv ",
        );
        assert_eq!(options.program, "/usr/sbin/nginx");
        assert_eq!(options.file.as_deref(), Some("/a.conf"));
        assert_eq!(options.prefix.as_deref(), Some("/srv"));
        assert_eq!(nginx_options("nginx: master process nginx").file, None);
        assert_eq!(nginx_options("nginx: master process nginx -c").file, None);
        let title = "php-fpm: master process (/etc/php fpm/x.conf)    ";
        assert_eq!(php_fpm_file(title).as_deref(), Some("/etc/php fpm/x.conf"));
        assert_eq!(php_fpm_file("php-fpm -F -y b.conf").as_deref(), Some("b.conf"));
        assert_eq!(php_fpm_file("php-fpm --fpm-config=c").as_deref(), Some("c"));
        assert_eq!(php_fpm_file("php-fpm"), None);
    }
}
