//! Which application a process is, from its name and command line. Reads nothing.

/// An application that netwhy knows something of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Its configuration and its logs.
    Nginx,
    /// Its configuration and its logs.
    PhpFpm,
    /// The words of its logs.
    Apache,
    /// Its name: it logs to syslog.
    Haproxy,
    /// The words of its logs.
    Postgresql,
}

impl Kind {
    /// The name that users know.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::PhpFpm => "php-fpm",
            Kind::Apache => "apache",
            Kind::Haproxy => "haproxy",
            Kind::Postgresql => "postgresql",
        }
    }
}

/// A process that was recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) kind: Kind,
    /// `master` or `worker`.
    pub(super) role: &'static str,
    /// The pool of a php-fpm worker.
    pub(super) pool: Option<String>,
}

/// Recognises a process; `parent` is the name of its parent, when that is known.
///
/// nginx and php-fpm write what they are over their command lines (`ngx_setproctitle`,
/// `fpm_env_setproctitle`); the others are known by the name of their program.
pub(super) fn recognise(name: &str, command: &str, parent: Option<&str>) -> Option<Known> {
    let known = |kind, role| Some(Known { kind, role, pool: None });
    if let Some(title) = command.strip_prefix("nginx: ") {
        return known(Kind::Nginx, if title.starts_with("master") { "master" } else { "worker" });
    }
    if let Some(title) = command.strip_prefix("php-fpm: ") {
        let pool = title.strip_prefix("pool ").map(|pool| pool.trim_end().to_string());
        // A worker has its master's title until it has written its own.
        let role = if pool.is_some() || parent == Some(name) { "worker" } else { "master" };
        return Some(Known { kind: Kind::PhpFpm, role, pool });
    }
    let role = if parent == Some(name) { "worker" } else { "master" };
    match name {
        // `master_process off` leaves the command line as it was.
        "nginx" => known(Kind::Nginx, role),
        "apache2" | "httpd" => known(Kind::Apache, role),
        "haproxy" => known(Kind::Haproxy, role),
        "postgres" | "postmaster" => known(Kind::Postgresql, role),
        _ => None,
    }
}

/// What the command line of an nginx master says of its configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NginxOptions {
    /// The program: `/usr/sbin/nginx`.
    pub(super) program: String,
    /// `-c FILE`.
    pub(super) file: Option<String>,
    /// `-p PREFIX`.
    pub(super) prefix: Option<String>,
}

/// The options in `nginx: master process /usr/sbin/nginx -c FILE`, where nginx has joined its
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
        let place = if option == "-c" { &mut options.file } else { &mut options.prefix };
        *place = value.map(str::to_string);
    }
    options
}

/// The configuration file in `php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)`, or behind
/// `-y` when the command line was left as it was.
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

    fn known(kind: Kind, role: &'static str, pool: Option<&str>) -> Option<Known> {
        Some(Known { kind, role, pool: pool.map(str::to_string) })
    }

    #[test]
    fn titles_of_real_processes() {
        for (name, command, parent, expected) in [
            (
                "nginx",
                "nginx: master process nginx -c /x",
                None,
                known(Kind::Nginx, "master", None),
            ),
            ("nginx", "nginx: worker process", Some("nginx"), known(Kind::Nginx, "worker", None)),
            ("nginx", "nginx: cache manager process", None, known(Kind::Nginx, "worker", None)),
            ("nginx", "nginx -g master_process off;", None, known(Kind::Nginx, "master", None)),
            (
                "php-fpm8.2",
                "php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)   ",
                None,
                known(Kind::PhpFpm, "master", None),
            ),
            (
                "php-fpm8.2",
                "php-fpm: pool www      ",
                Some("php-fpm8.2"),
                known(Kind::PhpFpm, "worker", Some("www")),
            ),
            ("apache2", "/usr/sbin/apache2 -k start", None, known(Kind::Apache, "master", None)),
            ("apache2", "", Some("apache2"), known(Kind::Apache, "worker", None)),
            ("vim", "vim nginx: master process", None, None),
        ] {
            assert_eq!(recognise(name, command, parent), expected, "{command}");
        }
    }

    #[test]
    fn where_the_configuration_is() {
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
