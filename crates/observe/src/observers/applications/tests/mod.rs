//! The observer on a web host in memory.

use std::collections::BTreeMap;

use model::{AppLog, Evidence, Focus, Meaning, MissingEvidence, Process};

use super::observer;
use crate::context::Context;

mod fake;
use fake::Fake;

const COMBINED: &str =
    "1.1.1.1 - - [21/Nov/2026:04:16:03 +0000] \"GET /\\x22 404 HTTP/1.1\" STATUS 5 \"-\" \"-\"\n";
const REFUSED: &str = "2026/11/21 04:16:03 [error] 7#7: *4 connect() failed (111: Connection \
    refused) while connecting to upstream, client: 1.1.1.1, server: , request: \"GET / HTTP/1.1\", \
    upstream: \"fastcgi://127.0.0.1:9000\", host: \"x\"\n";
const MAX_CHILDREN: &str = "[21-Nov-2026 04:16:05] WARNING: [pool www] server reached \
    pm.max_children setting (5), consider raising it\n";

fn combined(status: u16) -> String {
    COMBINED.replace("STATUS", &status.to_string())
}

/// nginx (10, 11, 12) and php-fpm (20, 21, 22) with the configurations of `fixtures/`.
fn host() -> (Fake, Vec<Process>) {
    let fake = Fake::default();
    for (path, text) in [
        (
            "/etc/nginx/nginx.conf",
            include_str!("../../../../fixtures/applications/nginx/nginx.conf"),
        ),
        (
            "/etc/nginx/conf.d/shop.conf",
            include_str!("../../../../fixtures/applications/nginx/conf.d/shop.conf"),
        ),
        ("/etc/nginx/conf.d/README", "listen 99;"),
        (
            "/etc/php/php-fpm.conf",
            include_str!("../../../../fixtures/applications/php/php-fpm.conf"),
        ),
        (
            "/etc/php/pool.d/www.conf",
            include_str!("../../../../fixtures/applications/php/pool.d/www.conf"),
        ),
        (
            "/etc/php/pool.d/api.conf",
            include_str!("../../../../fixtures/applications/php/pool.d/api.conf"),
        ),
    ] {
        fake.file(path, text);
    }
    for log in ["access", "shop", "quiet"] {
        // From before the window.
        fake.file(&format!("/var/log/nginx/{log}.log"), combined(500));
    }
    fake.file("/var/log/nginx/error.log", REFUSED);
    fake.file("/var/log/php-fpm.log", MAX_CHILDREN);
    let master = "nginx: master process /usr/sbin/nginx -g daemon on;";
    let fpm = "php-fpm: master process (/etc/php/php-fpm.conf)";
    let processes = vec![
        fake.process(10, 1, "nginx", master),
        fake.process(11, 10, "nginx", "nginx: worker process"),
        fake.process(12, 10, "nginx", "nginx: worker process"),
        fake.process(20, 1, "php-fpm8.2", fpm),
        fake.process(21, 20, "php-fpm8.2", "php-fpm: pool www"),
        fake.process(22, 20, "php-fpm8.2", "php-fpm: pool api"),
        fake.process(30, 1, "sshd", "sshd: listener"),
    ];
    for pid in [10, 11, 12] {
        fake.link_to(&format!("/proc/{pid}/fd/0"), "/dev/null");
        for (fd, log) in [(2, "error"), (3, "error"), (4, "access"), (5, "shop"), (6, "quiet")] {
            let path = format!("/var/log/nginx/{log}.log");
            fake.open(pid, fd, &path, &path);
        }
        fake.link_to(&format!("/proc/{pid}/fd/7"), "socket:[77]");
    }
    fake.open(20, 2, "/var/log/php-fpm.log", "/var/log/php-fpm.log");
    (fake, processes)
}

/// Observes a window in which `meanwhile` happens.
fn observe(
    fake: &Fake,
    processes: Vec<Process>,
    meanwhile: impl FnOnce(&mut Context<'_>),
) -> Observed {
    let focus = Focus::default();
    let mut context = fake.context(&focus, processes);
    let mut observer = observer();
    let mut evidence = Evidence::default();
    observer.begin(&mut context);
    meanwhile(&mut context);
    observer.sample(&mut context);
    observer.evidence(&mut context, &mut evidence);
    // The window may go on after evidence was collected.
    let logs = evidence.logs.take().unwrap();
    observer.sample(&mut context);
    observer.evidence(&mut context, &mut evidence);
    assert_eq!(evidence.logs.unwrap(), logs, "the same again");
    Observed { logs, processes: context.processes.unwrap(), missing: context.missing_evidence }
}

struct Observed {
    logs: Vec<AppLog>,
    processes: Vec<Process>,
    missing: Vec<MissingEvidence>,
}

impl Observed {
    fn log(&self, path: &str) -> &AppLog {
        self.logs.iter().find(|log| log.path == path).expect(path)
    }

    fn settings(&self, pid: u32) -> Vec<String> {
        let process = self.processes.iter().find(|p| p.pid == pid).unwrap();
        let settings = &process.application.as_ref().unwrap().settings;
        settings
            .iter()
            .map(|s| format!("{}:{} {}: {} {}", s.file, s.line, s.section, s.name, s.value))
            .collect()
    }

    fn missing(&self, what: &str) -> &MissingEvidence {
        self.missing.iter().find(|missing| missing.what.contains(what)).unwrap_or_else(|| {
            panic!("nothing is missing about {what}: {:#?}", self.missing);
        })
    }
}

#[test]
fn applications_and_their_settings() {
    let (fake, processes) = host();
    let observed = observe(&fake, processes, |context| {
        let late = fake.process(23, 20, "php-fpm8.2", "php-fpm: pool www");
        context.processes.as_mut().unwrap().push(late);
    });
    type Role = Option<(String, String, Option<String>)>;
    let roles: Vec<(u32, Role)> = observed
        .processes
        .iter()
        .map(|p| (p.pid, p.application.clone().map(|a| (a.name, a.role, a.pool))))
        .collect();
    let nginx = |role: &str| Some(("nginx".to_string(), role.to_string(), None));
    let fpm = |role: &str, pool: Option<&str>| {
        Some(("php-fpm".to_string(), role.to_string(), pool.map(str::to_string)))
    };
    assert_eq!(
        roles,
        [
            (10, nginx("master")),
            (11, nginx("worker")),
            (12, nginx("worker")),
            (20, fpm("master", None)),
            (21, fpm("worker", Some("www"))),
            (22, fpm("worker", Some("api"))),
            (30, None),
            (23, fpm("worker", Some("www"))),
        ]
    );
    let shop = "/etc/nginx/conf.d/shop.conf";
    for expected in [
        "/etc/nginx/nginx.conf:3 : worker_rlimit_nofile 4096".to_string(),
        "/etc/nginx/nginx.conf:8 events: worker_connections 768".to_string(),
        format!("{shop}:2 http/upstream shop: server 127.0.0.1:9000"),
        format!("{shop}:4 http/upstream shop: keepalive 16"),
        format!("{shop}:8 http/server: listen 80 default_server backlog=10"),
        format!("{shop}:13 http/server/location ~ \\.php$: fastcgi_pass shop"),
    ] {
        for pid in [10, 12] {
            assert!(
                observed.settings(pid).contains(&expected),
                "{expected} {:#?}",
                observed.settings(pid)
            );
        }
    }
    assert!(
        !observed.settings(10).iter().any(|s| s.contains("README")),
        "README matches no *.conf"
    );
    let www = observed.settings(23);
    assert!(www.contains(&"/etc/php/pool.d/www.conf:3 www: listen /run/php/www.sock".to_string()));
    assert!(www.contains(&"/etc/php/pool.d/www.conf:6 www: pm.max_children 5".to_string()));
    assert!(www.iter().all(|s| !s.contains(" api: ")), "{www:#?}");
    assert!(observed.settings(20).iter().any(|s| s.contains(" api: listen.backlog 128")));
}

#[test]
fn only_the_window_is_read() {
    let (fake, processes) = host();
    let observed = observe(&fake, processes, |_| {
        fake.append("/var/log/nginx/access.log", combined(200).repeat(3) + &combined(502));
        fake.append("/var/log/nginx/shop.log", "2026-11-21T04:16:03+00:00 504 0.1 \"GET / 200\"\n");
        fake.append("/var/log/nginx/error.log", REFUSED.repeat(2) + "half a line");
        fake.append("/var/log/php-fpm.log", MAX_CHILDREN);
    });
    let access = observed.log("/var/log/nginx/access.log");
    assert_eq!(access.statuses, BTreeMap::from([(200, 3), (502, 1)]));
    assert_eq!((access.lines, access.bytes_read), (4, access.bytes_written));
    assert_eq!((access.application.as_str(), &access.pids[..]), ("nginx", &[10, 11, 12][..]));
    assert_eq!(observed.log("/var/log/nginx/shop.log").statuses, BTreeMap::from([(504, 1)]));
    let errors = &observed.log("/var/log/nginx/error.log").complaints;
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0].meaning, errors[0].count), (Meaning::ConnectionRefused, 2));
    assert_eq!(errors[0].about.as_deref(), Some("127.0.0.1:9000"));
    let pool = &observed.log("/var/log/php-fpm.log").complaints[0];
    assert_eq!((pool.meaning, pool.count), (Meaning::WorkerLimitReached, 1));
    assert_eq!(pool.about.as_deref(), Some("www"));
    // Only the format without a status is noted.
    assert!(
        observed.missing("access log (/etc/nginx/conf.d/shop.conf:20)").why.contains("no $status")
    );
    assert_eq!(observed.missing.len(), 1, "{:#?}", observed.missing);
}

#[test]
fn rotated_logs() {
    let (fake, processes) = host();
    let access = "/var/log/nginx/access.log";
    let shop = "/var/log/nginx/shop.log";
    let observed = observe(&fake, processes, |_| {
        // Renamed: the old one is written to until nginx reopens it.
        fake.append(access, combined(200));
        fake.rename(access, "/var/log/nginx/access.log.1");
        fake.append("/var/log/nginx/access.log.1", combined(201));
        fake.file(access, combined(502) + &combined(502));
        for pid in [10, 11, 12] {
            fake.close(pid, 4);
            fake.open(pid, 8, access, access);
        }
        // Copied and truncated.
        fake.truncate(shop);
        fake.append(shop, "2026-11-21T04:16:03+00:00 504 0.1 \"GET /\"\n");
        // Deleted, and still written to.
        fake.append("/var/log/php-fpm.log", MAX_CHILDREN);
        fake.unlink("/var/log/php-fpm.log");
        // Renamed and closed.
        fake.rename("/var/log/nginx/error.log", "/var/log/elsewhere.log");
        for pid in [10, 11, 12] {
            fake.close(pid, 2);
            fake.close(pid, 3);
        }
    });
    assert_eq!(observed.log(access).statuses, BTreeMap::from([(200, 1), (201, 1), (502, 2)]));
    assert_eq!(observed.log(access).bytes_written, observed.log(access).bytes_read);
    assert_eq!(observed.log(shop).statuses, BTreeMap::from([(504, 1)]));
    assert_eq!(observed.log("/var/log/php-fpm.log").complaints[0].count, 1);
    assert!(observed.missing("error.log before it was rotated").why.contains("replaced"));
}

#[test]
fn busy_logs_are_read_in_parts() {
    let (fake, processes) = host();
    let access = "/var/log/nginx/access.log";
    // The last tenth of the window fails: parts at one place only would see all or nothing.
    let lines = (24 << 20) / combined(200).len();
    let observed = observe(&fake, processes, |_| {
        fake.append(access, combined(200).repeat(lines * 9 / 10));
        fake.append(access, combined(502).repeat(lines / 10));
    });
    let log = observed.log(access);
    assert!(log.bytes_written > 23 << 20);
    assert!(log.bytes_read <= 8 << 20 && log.bytes_read > 7 << 20, "{}", log.bytes_read);
    assert_eq!(log.statuses.values().sum::<u64>(), log.lines);
    let share = log.statuses[&502] as f64 / log.lines as f64;
    assert!((share - 0.1).abs() < 0.02, "{share}");
}

#[test]
fn without_permission() {
    let (fake, processes) = host();
    for pid in [10, 11, 12, 20, 21, 22] {
        fake.deny(&format!("/proc/{pid}/fd"));
        fake.deny(&format!("/proc/{pid}/root"));
        fake.deny(&format!("/proc/{pid}/cwd"));
    }
    fake.deny("/var/log/php-fpm.log");
    let observed = observe(&fake, processes, |_| {
        fake.append("/var/log/nginx/access.log", combined(502));
    });
    for what in ["which logs nginx has open", "php-fpm's error log (/etc/php/php-fpm.conf:3)"] {
        assert!(
            observed.missing(what).how_to_observe.as_deref().unwrap().contains("root"),
            "{what}"
        );
    }
    // What the configuration names and everybody may read is read nevertheless.
    assert_eq!(observed.log("/var/log/nginx/access.log").statuses, BTreeMap::from([(502, 1)]));
    assert!(observed.settings(11).iter().any(|s| s.contains("listen 80")));
}

#[test]
fn without_permission_a_container_is_not_mistaken_for_the_host() {
    let (fake, processes) = host();
    fake.deny("/proc/10/root");
    fake.file("/proc/10/status", "Name:\tnginx\nNSpid:\t10\t1\n");
    let observed = observe(&fake, processes, |_| {});
    assert!(observed.missing("the configuration and logs of nginx 10").how_to_observe.is_some());
    assert!(observed.settings(11).is_empty());
}

#[test]
fn containers_are_read_through_their_root() {
    let fake = Fake::default();
    let nginx = fake.process(10, 1, "nginx", "nginx: master process nginx -g daemon off;");
    fake.link_to("/proc/10/root", "/box");
    fake.file("/etc/nginx/nginx.conf", "worker_processes 99;");
    fake.file("/box/etc/nginx/nginx.conf", "http { include enabled/*; }");
    // An absolute link inside must stay inside.
    fake.link_to("/box/etc/nginx/enabled/shop", "/etc/nginx/available/shop");
    fake.file("/etc/nginx/available/shop", "server { listen 1; }");
    fake.file(
        "/box/etc/nginx/available/shop",
        "server { listen 2; access_log /var/log/nginx/access.log; error_log stderr; }",
    );
    fake.link_to("/box/var/log/nginx/access.log", "/dev/stdout");
    fake.link_to("/box/dev/stdout", "/proc/self/fd/1");
    fake.link_to("/proc/10/fd/1", "pipe:[5]");
    fake.link_to("/proc/10/fd/2", "pipe:[6]");
    let observed = observe(&fake, vec![nginx], |_| {});
    let settings = observed.settings(10);
    assert!(settings[0].contains("http/server: listen 2"), "{settings:#?}");
    for what in ["nginx's access log", "nginx's error log"] {
        assert_eq!(observed.missing(what).why, "it goes to a pipe: not read");
    }
    assert!(observed.logs.is_empty());
}

#[test]
fn notes_about_many_sites_are_limited() {
    let fake = Fake::default();
    let nginx = fake.process(10, 1, "nginx", "nginx: master process nginx -p pfx -c a.conf");
    fake.link_to("/proc/10/cwd", "/srv");
    fake.link_to("/proc/10/fd/1", "pipe:[5]");
    let sites = "server { access_log syslog:server=::1; access_log /proc/self/fd/1; }\n".repeat(50);
    fake.file("/srv/pfx/a.conf", format!("http {{ {sites} }}"));
    let observed = observe(&fake, vec![nginx.clone()], |_| {});
    assert_eq!(observed.missing.len(), 3, "{:#?}", observed.missing);
    assert_eq!(observed.settings(10).len(), 100);
    // Only root may read where `pfx` is: this is noted, and no other place is tried.
    fake.deny("/proc/10/cwd");
    let observed = observe(&fake, vec![nginx], |_| {});
    assert!(observed.missing("the configuration of nginx").how_to_observe.is_some());
    assert!(observed.settings(10).is_empty());
}

#[test]
fn settings_have_no_passwords_and_a_bounded_length() {
    let fake = Fake::default();
    let nginx = fake.process(10, 1, "nginx", "nginx: master process nginx -c /c/n.conf");
    fake.link_to("/proc/10/fd/0", "/dev/null");
    let long = "x".repeat(5000);
    fake.file(
        "/c/n.conf",
        format!("http {{ proxy_pass http://ann:secret@up:80/; fastcgi_pass {long}; }}"),
    );
    let observed = observe(&fake, vec![nginx], |_| {});
    assert_eq!(observed.settings(10), ["/c/n.conf:1 http: proxy_pass http://up:80/"]);
    assert!(observed.missing("the whole configuration").why.contains("longer than 4 KiB"));
}

#[test]
fn a_user_with_very_many_applications_does_not_keep_netwhy_from_those_of_others() {
    let fake = Fake::default();
    let mut processes = Vec::new();
    let configuration = "worker_connections 7;".repeat(3000);
    fake.file("/c/n.conf", &configuration);
    for pid in 100..200 {
        let title = "nginx: master process nginx -c /c/n.conf";
        processes.push(fake.process(pid, 1, "nginx", title));
        fake.link_to(&format!("/proc/{pid}/fd/0"), "/dev/null");
        fake.set_user(pid, if pid == 199 { 0 } else { 1000 });
    }
    // Workers of one more, each of which would have its own copy of all settings.
    fake.file("/c/fpm.conf", format!("[www]\nlisten = {}\n", "x".repeat(3000)).repeat(300));
    processes.push(fake.process(300, 1, "php-fpm", "php-fpm: master process (/c/fpm.conf)"));
    for pid in 301..1000 {
        processes.push(fake.process(pid, 300, "php-fpm", "php-fpm: pool www"));
    }
    let observed = observe(&fake, processes, |_| {});
    let read = |pid| !observed.settings(pid).is_empty();
    assert_eq!((100..199).filter(|pid| read(*pid)).count(), 8);
    assert!(read(199), "root's");
    assert!(observed.missing("of more of nginx").why.contains("more than 8 applications"));
    let bytes: usize = (300..1000).flat_map(|pid| observed.settings(pid)).map(|s| s.len()).sum();
    assert!(read(301) && bytes < 20 << 20, "{bytes}");
}

#[test]
fn hostile_configurations_are_bounded() {
    let fake = Fake::default();
    let nginx = fake.process(10, 1, "nginx", "nginx: master process nginx -c /c/0.conf");
    fake.link_to("/proc/10/fd/0", "/dev/null");
    // Each includes all, itself too; links in a circle; a device; a giant.
    for n in 0..300 {
        fake.file(&format!("/c/{n}.conf"), "include *.conf; worker_connections 1;");
    }
    fake.link_to("/c/circle.conf", "/c/circle.conf");
    fake.special("/c/00-pipe.conf");
    fake.file("/c/00-giant.conf", vec![b'#'; (1 << 20) + 1]);
    let observed = observe(&fake, vec![nginx], |_| {});
    assert!(observed.settings(10).len() <= 200, "{}", observed.settings(10).len());
    assert!(observed.missing("00-giant").why.contains("longer than"));
    assert!(observed.missing("00-pipe").why.contains("not a regular file"));
    assert!(observed.missing("the whole configuration").why.contains("200 files"));
}

#[test]
fn logs_of_unknown_programs_that_listen_are_read() {
    let fake = Fake::default();
    let app = fake.process(40, 1, "gunicorn", "gunicorn app");
    for (fd, log) in [(3, "/srv/access.log"), (4, "/srv/debug.log")] {
        fake.file(log, "");
        fake.open(40, fd, log, log);
    }
    let focus = Focus::default();
    for listens in [true, false] {
        let mut context = fake.context(&focus, vec![app.clone()]);
        if listens {
            context.listening.insert(7);
            context.owners.add(7, 40);
        }
        let mut observer = observer();
        observer.begin(&mut context);
        fake.append("/srv/access.log", combined(503));
        fake.append("/srv/debug.log", "DEBUG: something\n");
        let mut evidence = Evidence::default();
        observer.evidence(&mut context, &mut evidence);
        let logs = evidence.logs.unwrap();
        assert!(context.missing_evidence.is_empty(), "{:#?}", context.missing_evidence);
        assert_eq!(logs.len(), usize::from(listens));
        if let Some(log) = logs.first() {
            assert_eq!(log.application, "gunicorn");
            assert_eq!(log.statuses, BTreeMap::from([(503, 1)]));
        }
    }
}
