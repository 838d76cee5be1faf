//! nginx and php-fpm with configurations of their own.

use std::path::Path;

use tempfile::TempDir;
use test_support::{Reason, skip};

use super::host::{Host, Program};

/// Programs that these servers need.
pub(crate) const NGINX: &[&str] = &["ip", "ss", "nginx", "wrk"];

/// The name of this machine's php-fpm, which has its version in its name on Debian; without it the
/// calling test is skipped.
pub(crate) fn php_fpm() -> Option<String> {
    let entries = std::fs::read_dir("/usr/sbin").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.starts_with("php-fpm"));
    names.sort();
    let name = names.pop();
    if name.is_none() {
        skip(&Reason::MissingPrograms(vec!["php-fpm".to_string()]));
    }
    name
}

/// A server and the folder of its files.
pub(crate) struct Server {
    _program: Program,
    pub(crate) folder: TempDir,
}

/// nginx with these directives, in the main, `events` and `http` contexts.
pub(crate) fn nginx(host: &Host, main: &str, events: &str, http: &str) -> Server {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path().display();
    let file = folder.path().join("nginx.conf");
    std::fs::create_dir(folder.path().join("html")).expect("a folder");
    std::fs::write(folder.path().join("html/index.html"), "x".repeat(512)).expect("a page");
    let text = format!(
        "user root;\ndaemon off;\npid {at}/nginx.pid;\nerror_log {at}/error.log;\n{main}\n\
         events {{ {events} }}\n\
         http {{\n access_log {at}/access.log;\n root {at}/html;\n \
         client_body_temp_path {at}/t1; fastcgi_temp_path {at}/t2; proxy_temp_path {at}/t3;\n \
         uwsgi_temp_path {at}/t4; scgi_temp_path {at}/t5;\n{http}\n}}\n"
    );
    std::fs::write(&file, text).expect("a configuration");
    let program = host.start(&format!("nginx -p {at} -c {}", file.display()));
    Server { _program: program, folder }
}

/// nginx on port 80 for many connections.
pub(crate) fn plain_nginx(host: &Host, listen: &str) -> Server {
    let http = format!("server {{ listen {listen}; location / {{ return 200 \"hello\\n\"; }} }}");
    let server = nginx(host, "worker_processes 2;", "worker_connections 8192;", &http);
    host.wait_for_listener(80);
    server
}

/// php-fpm with one pool, whose script sleeps for `sleep_ms`.
pub(crate) fn php(host: &Host, program: &str, listen: &str, pool: &str, sleep_ms: u32) -> Server {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path().display();
    let listen = listen.replace("FOLDER", &at.to_string());
    let text = format!(
        "[global]\nerror_log = {at}/php-fpm.log\npid = {at}/php-fpm.pid\ndaemonize = no\n\
         [www]\nuser = root\ngroup = root\nlisten = {listen}\n{pool}\n"
    );
    std::fs::write(folder.path().join("php-fpm.conf"), text).expect("a configuration");
    let script = format!("<?php usleep({sleep_ms} * 1000); echo 'done';");
    std::fs::write(folder.path().join("index.php"), script).expect("a script");
    let program = host.start(&format!("{program} -n -F -R -y {at}/php-fpm.conf"));
    Server { _program: program, folder }
}

/// The `http` context of an nginx that passes all requests to FastCGI.
pub(crate) fn fastcgi(upstream: &str, script: &Path, more: &str) -> String {
    format!(
        "server {{ listen 80 backlog=4096; location / {{\n \
         fastcgi_param SCRIPT_FILENAME {}; fastcgi_param REQUEST_METHOD $request_method;\n \
         fastcgi_pass {upstream}; {more}\n}} }}",
        script.display()
    )
}
