//! Lines that real programs wrote (`fixtures/`), hostile lines, and any bytes.

use std::collections::BTreeMap;

use model::Meaning;
use proptest::prelude::*;

use super::{AccessFormat, LogFormat, Tally};

fn tally(format: &LogFormat, bytes: &[u8]) -> Tally {
    let mut tally = Tally::default();
    tally.count(format, bytes);
    tally
}

fn complaints(format: &LogFormat, bytes: &[u8]) -> BTreeMap<(Meaning, Option<String>), u64> {
    let tally = tally(format, bytes);
    assert_eq!(tally.unparsed(), 0, "every line is parsed");
    tally.complaints().into_iter().map(|c| ((c.meaning, c.about), c.count)).collect()
}

fn expected(list: &[(Meaning, Option<&str>, u64)]) -> BTreeMap<(Meaning, Option<String>), u64> {
    list.iter().map(|(m, a, n)| ((*m, a.map(str::to_string)), *n)).collect()
}

const NGINX: &[u8] = include_bytes!("fixtures/nginx-error.log");
const PHP_FPM: &[u8] = include_bytes!("fixtures/php-fpm.log");
const APACHE: &[u8] = include_bytes!("fixtures/apache-error.log");
const POSTGRESQL: &[u8] = include_bytes!("fixtures/postgresql.log");
const COMBINED: &[u8] = include_bytes!("fixtures/nginx-access.log");
const STATUS_FIRST: &[u8] = include_bytes!("fixtures/nginx-access-first.log");
const JSON: &[u8] = include_bytes!("fixtures/nginx-access-json.log");
const APACHE_ACCESS: &[u8] = include_bytes!("fixtures/apache-access.log");
const PHP_ACCESS: &[u8] = include_bytes!("fixtures/php-fpm-access.log");

#[test]
fn nginx_complaints() {
    let socket = Some("unix:/run/php/fpm.sock");
    assert_eq!(
        complaints(&LogFormat::Nginx, NGINX),
        expected(&[
            (Meaning::AddressNotAvailable, Some("127.0.0.1:9000"), 2),
            (Meaning::ConnectionRefused, Some("127.0.0.1:9999"), 2),
            (Meaning::UpstreamQueueFull, socket, 2),
            (Meaning::UpstreamTimedOut, socket, 3),
            (Meaning::UpstreamClosed, socket, 1),
            (Meaning::UpstreamClosed, Some("127.0.0.1:9998"), 1),
            (Meaning::UpstreamClosed, Some("127.0.0.1:9997"), 1),
            (Meaning::TooManyOpenFiles, None, 3),
            (Meaning::WorkerConnectionsNotEnough, None, 1),
            // Output of a script, missing files, and one path that claims EMFILE.
            (Meaning::Other, None, 5),
        ])
    );
}

#[test]
fn nginx_lines_not_in_the_fixture() {
    for (line, meaning, about) in [
        (
            "[warn] 7#7: 4 worker_connections are not enough, reusing connections",
            Meaning::Other,
            None,
        ),
        (
            "[alert] 7#7: *9 1024 worker_connections are not enough while connecting to upstream, \
             client: 1.2.3.4, server: , request: \"GET / HTTP/1.1\", upstream: \"http://[::1]:80/\"",
            Meaning::WorkerConnectionsNotEnough,
            None,
        ),
        (
            "[error] 7#7: *9 connect() failed (110: Connection timed out) while connecting to \
             upstream, client: 1.2.3.4, server: x, request: \"GET / HTTP/1.1\", \
             upstream: \"http://[fd00::1]:8080/a\", host: \"x\"",
            Meaning::UpstreamTimedOut,
            Some("[fd00::1]:8080"),
        ),
        (
            "[alert] 7#7: *9 socket() failed (24: Too many open files) while connecting to \
             upstream, client: 1.2.3.4, server: x, request: \"GET / HTTP/1.1\", \
             upstream: \"http://10.0.0.1:8080/a\", host: \"x\"",
            Meaning::TooManyOpenFiles,
            Some("10.0.0.1:8080"),
        ),
        (
            "[crit] 7#7: *9 bind(10.0.0.9) failed (99: Cannot assign requested address) while \
             connecting to upstream, client: 1.2.3.4",
            Meaning::AddressNotAvailable,
            Some("10.0.0.9"),
        ),
        // A client that goes away is common, whatever the level.
        (
            "[error] 7#7: *9 recv() failed (104: Connection reset by peer) while reading client \
             request headers, client: 1.2.3.4, server: x",
            Meaning::Other,
            None,
        ),
    ] {
        let line = format!("2026/11/21 03:41:36 {line}\n");
        let found = complaints(&LogFormat::Nginx, line.as_bytes());
        assert_eq!(found, expected(&[(meaning, about, 1)]), "{line}");
    }
    let notice = b"2026/11/21 03:41:36 [notice] 7#7: signal 15 (SIGTERM) received, exiting\n";
    assert_eq!(complaints(&LogFormat::Nginx, notice), expected(&[]));
}

#[test]
fn clients_cannot_forge_a_meaning() {
    for message in [
        r#"open() "/srv/x" failed (24: Too many open files)" failed (2: No such file), client: 1"#,
        r#"open() "/srv/x" failed (2: No such file), client: 1, referrer: "y" failed (24: z)""#,
        r#"FastCGI sent in stderr: "connect() to 9.9.9.9:9 failed (99: no)" while reading"#,
        r#""/srv/upstream timed out (110/index.html" is not found (2: No such file), client: 1"#,
        r#"directory index of "/connect() to 1:1 failed (99: x)/" is forbidden, client: 1"#,
        r#"connect() to 1.2.3.4:5 failed (11: Resource temporarily unavailable) while, client: 1"#,
    ] {
        let line = format!("2026/11/21 03:41:36 [error] 7#7: *9 {message}\n");
        let found = complaints(&LogFormat::Nginx, line.as_bytes());
        assert_eq!(found, expected(&[(Meaning::Other, None, 1)]), "{line}");
    }
    // The first upstream field is nginx's own; a header after it cannot replace it.
    let line = br#"2026/11/21 03:41:36 [error] 7#7: *9 upstream timed out (110: Connection timed out) while reading, client: 1.1.1.1, server: , request: "GET / HTTP/1.1", upstream: "http://10.0.0.1:80/", host: "x", referrer: "a, upstream: "http://6.6.6.6:6"
"#;
    let found = complaints(&LogFormat::Nginx, line);
    assert_eq!(found, expected(&[(Meaning::UpstreamTimedOut, Some("10.0.0.1:80"), 1)]));
}

#[test]
fn php_fpm_complaints() {
    assert_eq!(
        complaints(&LogFormat::PhpFpm, PHP_FPM),
        expected(&[
            (Meaning::WorkerLimitReached, Some("www"), 2),
            (Meaning::PoolBusy, Some("tcp"), 4),
            // Output of a script and a killed child.
            (Meaning::Other, None, 2),
        ])
    );
    let debug = b"[21-Nov-2026 03:41:36.123456] WARNING: pid 12, fpm_pctl_perform(), line 370: \
                  [pool a b] server reached pm.max_children setting (5), consider raising it\n";
    assert_eq!(
        complaints(&LogFormat::PhpFpm, debug),
        expected(&[(Meaning::WorkerLimitReached, Some("a b"), 1)])
    );
}

#[test]
fn apache_complaints() {
    assert_eq!(
        complaints(&LogFormat::Apache, APACHE),
        expected(&[
            (Meaning::WorkerLimitReached, None, 1),
            (Meaning::ConnectionRefused, Some("127.0.0.1:9999"), 1),
            (Meaning::UpstreamClosed, Some("127.0.0.1:9998"), 1),
            (Meaning::UpstreamTimedOut, Some("127.0.0.1:9996"), 3),
            (Meaning::Other, None, 6),
        ])
    );
    let full = b"[Sat Nov 21 04:17:37.551068 2026] [proxy:error] [pid 1:tid 2] (11)Resource \
        temporarily unavailable: AH02454: FCGI: attempt to connect to Unix domain socket \
        /run/php.sock (localhost:8000) failed\n";
    assert_eq!(
        complaints(&LogFormat::Apache, full),
        expected(&[(Meaning::UpstreamQueueFull, Some("unix:/run/php.sock"), 1)])
    );
}

#[test]
fn postgresql_complaints() {
    assert_eq!(
        complaints(&LogFormat::Postgresql, POSTGRESQL),
        expected(&[(Meaning::WorkerLimitReached, None, 4)])
    );
    let quoted = b"2026-11-21 04:17:32.253 UTC [9] b@s ERROR:  relation \"FATAL:  sorry, too many \
        clients already\" does not exist\n\
        2026-11-21 04:17:32.253 UTC [9] b@s STATEMENT:  select 'FATAL:  sorry, too many clients \
        already'\n";
    assert_eq!(complaints(&LogFormat::Postgresql, quoted), expected(&[(Meaning::Other, None, 1)]));
}

#[test]
fn statuses_of_real_access_logs() {
    let first = AccessFormat::from_nginx(b"$status $remote_addr \"$request\" $request_time", None);
    let json = AccessFormat::from_nginx(
        br#"{"t":"$time_iso8601","request":"$request","ua":"$http_user_agent","status":$status}"#,
        Some("json"),
    );
    // Counted with awk '{print $9}' from the same lines in the combined format.
    let expected = BTreeMap::from([(200, 2), (400, 1), (404, 3), (499, 1), (502, 6), (504, 1)]);
    for (format, log) in [
        (AccessFormat::combined(), COMBINED),
        (
            AccessFormat::recognise(COMBINED.split(|b| *b == b'\n').next().unwrap()).unwrap(),
            COMBINED,
        ),
        (first.unwrap(), STATUS_FIRST),
        (json.unwrap(), JSON),
        (AccessFormat::recognise(JSON.split(|b| *b == b'\n').next().unwrap()).unwrap(), JSON),
    ] {
        let tally = tally(&LogFormat::Access(format.clone()), log);
        assert_eq!(tally.unparsed(), 0, "{format:?}");
        assert_eq!((tally.statuses(), tally.lines()), (expected.clone(), 14), "{format:?}");
    }
    let apache = tally(&LogFormat::Access(AccessFormat::combined()), APACHE_ACCESS);
    assert_eq!(apache.statuses(), BTreeMap::from([(404, 1), (502, 3), (503, 2)]));
    let php = tally(&LogFormat::Access(AccessFormat::combined()), PHP_ACCESS);
    assert_eq!((php.statuses(), php.unparsed()), (BTreeMap::from([(200, 5)]), 0));
}

#[test]
fn positions_of_the_status_in_templates() {
    for (template, line) in [
        // The default of Ingress-NGINX, shortened.
        (
            "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
             \"$http_referer\" $request_length",
            r#"1.1.1.1 - x [ " "x\x22" [21/Nov/2026:03:41:36 +0000] "GET / x" 502 1 "-" 5"#,
        ),
        ("$time_local $status", "21/Nov/2026:03:41:36 +0000 502"),
        ("[$time_local] $status", "[21/Nov/2026:03:41:36 +0000] 502"),
        ("$remote_addr|$msec|${status}|$uri", "fd00::1|1795232496.123|502|/a|200|b"),
        // Unquoted text of clients before it: counted backwards.
        ("$host $request $status $body_bytes_sent", "x GET / 200 5 HTTP/1.1 502 157"),
        (
            "$uri $status [$time_local] \"$request\"",
            "/ 404 [x] 502 [21/Nov/2026:03:41:36 +0000] \"GET\"",
        ),
        (
            "{\"request\":\"$request\",\"status\":\"$status\"}",
            r#"{"request":"\" 200","status":"502"}"#,
        ),
        ("$remote_addr:$status", "fd00::1:502"),
        ("status=$status uri=$request_uri", "status=502 uri=/?status=200"),
    ] {
        let format = AccessFormat::from_nginx(template.as_bytes(), None).unwrap();
        let line = line.replace("[ \" \"x\\x22\"", "[ \\x22x");
        assert_eq!(format.status(line.as_bytes()), Some(502), "{template}: {line} {format:?}");
    }
    for template in [
        "$remote_addr $request_time",        // no status
        "$request $status $http_user_agent", // between clients' texts
        "$request_time$status",              // nothing between
        "$remote_addr:$status $host",        // a colon may be in the address
        "a\\ \"$request\" $status",
        "\"$request\" 0$status", // a digit that is not part of the status
        "$remote_addr ${status}0",
    ] {
        assert!(AccessFormat::from_nginx(template.as_bytes(), None).is_err(), "{template}");
    }
    // With escape=json a quote that a client sends is `\"`: it is not counted.
    let json = AccessFormat::from_nginx(b"$http_referer $status]", Some("json")).unwrap();
    assert_eq!(json.status(br#"x 200\" 502]"#), Some(502));
    assert!(AccessFormat::from_nginx(b"$http_referer $status\\\"", Some("json")).is_err());
    let unescaped = AccessFormat::from_nginx(b"\"$request\" $status", Some("none"));
    assert!(unescaped.is_err());
    assert!(AccessFormat::from_nginx(b"$status \"$request\"", Some("none")).is_ok());
}

#[test]
fn formats_are_recognised() {
    for (log, format) in [
        (NGINX, LogFormat::Nginx),
        (PHP_FPM, LogFormat::PhpFpm),
        (APACHE, LogFormat::Apache),
        (POSTGRESQL, LogFormat::Postgresql),
        (COMBINED, LogFormat::Access(AccessFormat::combined())),
        (APACHE_ACCESS, LogFormat::Access(AccessFormat::combined())),
        (PHP_ACCESS, LogFormat::Access(AccessFormat::combined())),
    ] {
        for line in log.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            let found = LogFormat::recognise(line);
            assert_eq!(found.as_ref(), Some(&format), "{}", String::from_utf8_lossy(line));
        }
    }
    for line in ["", "WARNING:  x", "hello \"world\" 200", "{\"level\":\"info\"}", "-\t\t200"] {
        assert_eq!(LogFormat::recognise(line.as_bytes()), None, "{line}");
    }
}

#[test]
fn complaints_are_bounded_and_first_lines_printable() {
    let mut log = Vec::new();
    for n in 0..1000 {
        log.extend_from_slice(
            format!(
                "2026/11/21 03:41:36 [error] 7#7: *9 connect() to 10.0.{}.{}:80 failed (111: \
                 Connection refused) \x1b[31m\u{202e}{}\n",
                n / 250,
                n % 250,
                "é".repeat(400)
            )
            .as_bytes(),
        );
    }
    let found = tally(&LogFormat::Nginx, &log).complaints();
    assert!(found.len() <= 257, "{}", found.len());
    assert_eq!(found.iter().map(|c| c.count).sum::<u64>(), 1000);
    for complaint in &found {
        assert!(complaint.first_line.len() <= 300, "{}", complaint.first_line.len());
        assert!(!complaint.first_line.contains(['\x1b', '\u{202e}']));
    }
}

/// Observing must cost little: at least 500 MB/s for access logs on the machine of the first
/// measurement. Run with `cargo test --release -p wire -- --ignored --nocapture speed`.
#[test]
#[ignore = "measures speed, which a shared machine cannot promise"]
fn speed() {
    for (name, format, log) in [
        ("combined", LogFormat::Access(AccessFormat::combined()), COMBINED),
        ("json", LogFormat::recognise(JSON.split(|b| *b == b'\n').next().unwrap()).unwrap(), JSON),
        ("nginx errors", LogFormat::Nginx, NGINX),
        ("php-fpm", LogFormat::PhpFpm, PHP_FPM),
    ] {
        let log = log.repeat((64 << 20) / log.len());
        let began = std::time::Instant::now();
        let tally = tally(&format, &log);
        let rate = log.len() as f64 / began.elapsed().as_secs_f64() / 1e6;
        println!("{name}: {rate:.0} MB/s, {} lines", tally.lines());
        assert!(rate > 500.0 || !matches!(format, LogFormat::Access(_)), "{name}: {rate:.0} MB/s");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        parse_all(&bytes);
    }

    #[test]
    fn cut_and_damaged_lines_are_parsed(
        which in 0..9usize, cut in 0..400usize, at in 0..400usize, byte in any::<u8>(),
    ) {
        let logs = [
            NGINX, PHP_FPM, APACHE, POSTGRESQL, COMBINED, STATUS_FIRST, JSON, APACHE_ACCESS,
            PHP_ACCESS,
        ];
        let mut bytes = logs[which][..cut.min(logs[which].len())].to_vec();
        if let Some(damaged) = bytes.get_mut(at) {
            *damaged = byte;
        }
        parse_all(&bytes);
    }

    #[test]
    fn any_template_is_accepted_or_refused(template in "[\"$ \\[\\]a-z{}_\\\\]{0,60}", line in "\\PC{0,60}") {
        if let Ok(format) = AccessFormat::from_nginx(template.as_bytes(), None) {
            format.status(line.as_bytes());
        }
    }

    /// Whatever a client sends, escaped as nginx and Apache do, the status stays what it was.
    #[test]
    fn requests_cannot_shift_the_status(
        request in proptest::collection::vec(any::<u8>(), 0..60),
        agent in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        for escape in [nginx_escape as fn(&[u8]) -> String, apache_escape] {
            let line = format!(
                "1.1.1.1 - {} [21/Nov/2026:03:41:36 +0000] \"{}\" 502 157 \"-\" \"{}\"",
                escape(&agent), escape(&request), escape(&agent),
            );
            prop_assert_eq!(AccessFormat::combined().status(line.as_bytes()), Some(502));
        }
    }
}

/// `ngx_http_log_escape`: quote, backslash, controls and bytes above 126 become `\xXX`.
fn nginx_escape(bytes: &[u8]) -> String {
    let escape = |b: &u8| match *b {
        b'"' | b'\\' | 0..32 | 127.. => format!("\\x{b:02X}"),
        plain => char::from(plain).to_string(),
    };
    bytes.iter().map(escape).collect()
}

/// `ap_escape_logitem`: quote and backslash take a backslash, others as in C.
fn apache_escape(bytes: &[u8]) -> String {
    let escape = |b: &u8| match *b {
        b'"' | b'\\' => format!("\\{}", char::from(*b)),
        b'\n' => "\\n".to_string(),
        0..32 | 127.. => format!("\\x{b:02x}"),
        plain => char::from(plain).to_string(),
    };
    bytes.iter().map(escape).collect()
}

fn parse_all(bytes: &[u8]) {
    for line in bytes.split(|b| *b == b'\n') {
        LogFormat::recognise(line);
    }
    for format in [
        LogFormat::Nginx,
        LogFormat::PhpFpm,
        LogFormat::Apache,
        LogFormat::Postgresql,
        LogFormat::Access(AccessFormat::combined()),
    ] {
        let tally = tally(&format, bytes);
        assert_eq!(tally.lines(), bytes.iter().filter(|b| **b == b'\n').count() as u64);
        assert!(tally.complaints().len() <= 257);
    }
}
