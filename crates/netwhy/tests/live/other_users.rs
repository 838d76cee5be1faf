//! netwhy as root on a host where others try to make it read for them, wait for ever, or leave a
//! container.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::host::{Host, Program, need_little, run};
use super::tool::netwhy;

const PROGRAMS: &[&str] = &["ip", "ss", "nginx", "setpriv"];
const NOBODY: u32 = 65_534;
/// A number that only files that are not to be read have.
const SECRET: &str = "31337";
/// Far longer than a window of a second takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder in which a server of some user has its files, and next to it what only root may read.
struct Trap {
    folder: TempDir,
}

impl Trap {
    fn new(user: u32) -> Self {
        let trap = Trap { folder: TempDir::new().expect("a folder") };
        std::fs::set_permissions(trap.folder.path(), mode(0o755)).expect("permissions");
        let secret = trap.folder.path().join("secret");
        std::fs::create_dir(&secret).expect("a folder");
        std::fs::write(secret.join("a.conf"), format!("worker_connections {SECRET};\n"))
            .expect("a file");
        std::fs::write(secret.join("access.log"), "").expect("a file");
        std::fs::set_permissions(secret, mode(0o700)).expect("permissions");
        let own = trap.own();
        std::fs::create_dir(&own).expect("a folder");
        chown(&own, Some(user), Some(user)).expect("an owner");
        trap
    }

    fn own(&self) -> PathBuf {
        self.folder.path().join("own")
    }

    /// A configuration with which nginx starts.
    fn harmless(&self) -> String {
        let at = self.own().display().to_string();
        self.with_root("", &at)
    }

    fn with_root(&self, more: &str, at: &str) -> String {
        format!(
            "daemon off;\npid {at}/nginx.pid;\nerror_log {at}/error.log;\n\
             events {{ worker_connections 4242; {more} }}\n\
             http {{\n access_log {at}/access.log;\n client_body_temp_path {at}/t1; \
             fastcgi_temp_path {at}/t2; proxy_temp_path {at}/t3; uwsgi_temp_path {at}/t4; \
             scgi_temp_path {at}/t5;\n server {{ listen 8080; }}\n}}\n"
        )
    }
}

fn mode(bits: u32) -> std::fs::Permissions {
    std::fs::Permissions::from_mode(bits)
}

/// The evidence of a window of a second, in which lines are added to the secret log.
fn record(host: &Host, trap: &Trap, what: &str) -> Value {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("evidence");
    let began = Instant::now();
    let mut command = netwhy();
    command.args(["record", "--for", "1s", "--netns", &host.name, "-o"]).arg(&file);
    let mut program = Program::start(&mut command);
    let log = trap.folder.path().join("secret/access.log");
    let line = format!("198.18.0.9 - - [22/Nov/2026:04:16:03 +0000] \"GET /\" 418 {SECRET}\n");
    while program.is_running() {
        assert!(began.elapsed() < PATIENCE, "{what}: netwhy still runs after {PATIENCE:?}");
        let mut text = std::fs::read_to_string(&log).expect("the log");
        text.push_str(&line);
        std::fs::write(&log, text).expect("the log");
        std::thread::sleep(Duration::from_millis(100));
    }
    let evidence = std::fs::File::open(file).expect("evidence");
    let evidence: Value =
        serde_json::from_reader(zstd::Decoder::new(evidence).expect("zstd")).expect("JSON");
    let text = evidence.to_string();
    assert!(!text.contains(SECRET), "{what}: what only root may read is in {evidence:#}");
    assert!(!text.contains("\"418\""), "{what}: a log that only root may read was counted");
    assert!(text.contains("4242"), "{what}: its own configuration is read: {evidence:#}");
    evidence
}

/// Why something is missing in the evidence.
fn why_missing<'a>(evidence: &'a Value, what: &str) -> &'a str {
    let all = evidence["missing_evidence"].as_array().expect("missing evidence");
    let found = all.iter().find(|m| m["what"].as_str().is_some_and(|text| text.contains(what)));
    found.unwrap_or_else(|| panic!("nothing about {what} in {all:#?}"))["why"]
        .as_str()
        .expect("a reason")
}

#[test]
fn what_another_users_process_names_is_read_with_his_rights() {
    let Some(_permit) = need_little(PROGRAMS) else { return };
    let host = Host::new();
    let trap = Trap::new(NOBODY);
    let (own, secret) = (trap.own(), trap.folder.path().join("secret"));
    let file = own.join("nginx.conf");
    std::fs::write(&file, trap.harmless()).expect("a configuration");
    let _server = host.start(&format!(
        "setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups nginx -p {} -c {} -e {}/error.log",
        own.display(),
        file.display(),
        own.display(),
    ));
    host.wait_for_listener(8080);
    record(&host, &trap, "as it started");
    run(std::process::Command::new("mkfifo").arg(own.join("pipe.conf")));
    std::os::unix::fs::symlink("/proc/kmsg", own.join("log.conf")).expect("a link");
    let secret = secret.display();
    for (what, more, says) in [
        ("an include of root's", format!("include {secret}/a.conf;"), "user 65534 of process"),
        ("a link to root's", link(&own, "secret.conf", &format!("{secret}/a.conf")), "user 65534"),
        ("a pipe", "include pipe.conf;".to_string(), "a pipe"),
        ("the kernel's log", "include /proc/kmsg;".to_string(), "a file of the kernel"),
        ("a link to it", "include log.conf;".to_string(), "a file of the kernel"),
        ("a log of root's", format!("access_log {secret}/access.log;"), ""),
        ("a device", "include /dev/zero;".to_string(), "a device"),
        ("root's folder", format!("include {secret}/*;"), ""),
    ] {
        std::fs::write(&file, trap.with_root(&more, &own.display().to_string())).expect("a file");
        let evidence = record(&host, &trap, what);
        if !says.is_empty() {
            let why = why_missing(&evidence, "the configuration of nginx");
            assert!(why.contains(says), "{what}: {why}");
        }
    }
}

/// Makes a link; a directive that includes it.
fn link(folder: &Path, name: &str, target: &str) -> String {
    std::os::unix::fs::symlink(target, folder.join(name)).expect("a link");
    format!("include {name};")
}

#[test]
fn no_path_leads_out_of_a_container() {
    let Some(_permit) = need_little(&[PROGRAMS, &["unshare", "chroot"]].concat()) else { return };
    let host = Host::new();
    let trap = Trap::new(0);
    let root = trap.own();
    for folder in ["dev", "etc", "proc", "tmp"] {
        std::fs::create_dir(root.join(folder)).expect("a folder");
    }
    std::fs::write(root.join("etc/passwd"), "root:x:0:0::/:/bin/sh\n").expect("users");
    std::fs::write(root.join("etc/group"), "root:x:0:\n").expect("groups");
    let configuration = |more: &str| format!("user root;\n{}", trap.with_root(more, "/tmp"));
    let file = root.join("etc/nginx.conf");
    std::fs::write(&file, configuration("")).expect("a configuration");
    // The programs of this machine, read-only, and processes of its own: as a container has them.
    let mounts = "for folder in usr lib lib64 bin sbin; do [ -e /$folder ] || continue; \
                  mkdir -p $0/$folder; mount --rbind /$folder $0/$folder; done; \
                  mount -t proc proc $0/proc; touch $0/dev/null; mount --bind /dev/null $0/dev/null; \
                  exec chroot $0 /usr/sbin/nginx -c /etc/nginx.conf -e /tmp/error.log";
    let mut command = host.command("unshare --mount --pid --fork --kill-child sh -c");
    let _server = Program::start(command.arg(mounts).arg(&root));
    host.wait_for_listener(8080);
    record(&host, &trap, "as it started");
    let secret = trap.folder.path().join("secret/a.conf").display().to_string();
    let pid = std::process::id();
    for (what, more) in [
        ("up from /proc/self", format!("include /proc/self/../../../../../../{secret};")),
        ("up from the root", format!("include ../../../../../{secret};")),
        ("up through a link", link(&root.join("etc"), "up", "../../secret/a.conf")),
        ("a link to the path outside", link(&root.join("etc"), "out", &secret)),
        ("the root of a process", format!("include /proc/self/root/{secret};")),
        ("the root of the first process", format!("include /proc/1/root/{secret};")),
        ("netwhy's parent", format!("include /proc/{pid}/root/{secret};")),
        ("its working folder", "include /proc/self/cwd/Cargo.toml;".to_string()),
    ] {
        std::fs::write(&file, configuration(&more)).expect("a configuration");
        let evidence = record(&host, &trap, what);
        why_missing(&evidence, "the configuration of nginx");
    }
}
