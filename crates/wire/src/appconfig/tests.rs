//! Real configurations, and any bytes.

use std::rc::Rc;

use proptest::prelude::*;

use super::{ini, nginx};

const NGINX: &str = r#"user www-data;
worker_rlimit_nofile 4096; # a comment; with { signs
events { worker_connections 768; }
http {
    log_format main '$remote_addr "$request" '
                    '$status ${body_bytes_sent}b';
    access_log /var/log/nginx/access.log main buffer=32k;
    upstream backend {
        server unix:/run/php/fpm.sock;
        keepalive 16;
    }
    init_by_lua_block { local s = "}"; -- }
      if true then t = { a = 1 } end }
    server {
        listen 80 backlog=10 ;
        location ~ \.php$ { fastcgi_pass backend; }
        location "/a b" { return 200 "x;{}\"y"; }
        if ($host ~ ^(?<name>a{2})$) { set $x ${name}; }
    }
}
"#;

fn outside() -> Rc<[Rc<str>]> {
    Rc::from(Vec::new())
}

fn shown(text: &str) -> Vec<String> {
    nginx::directives(text.as_bytes(), &outside())
        .iter()
        .map(|d| format!("{}:{}:{} {}", d.line, d.section(), d.name, d.value()))
        .collect()
}

#[test]
fn directives_have_their_blocks_and_lines() {
    let found = shown(NGINX);
    for expected in [
        "2::worker_rlimit_nofile 4096",
        "3:events:worker_connections 768",
        "5:http:log_format main $remote_addr \"$request\"  $status ${body_bytes_sent}b",
        "9:http/upstream backend:server unix:/run/php/fpm.sock",
        "10:http/upstream backend:keepalive 16",
        "15:http/server:listen 80 backlog=10",
        "16:http/server/location ~ \\.php$:fastcgi_pass backend",
        "17:http/server/location /a b:return 200 x;{}\"y",
    ] {
        assert!(found.iter().any(|f| f == expected), "no {expected} in {found:#?}");
    }
}

#[test]
fn an_included_file_continues_in_its_blocks() {
    let outside: Rc<[Rc<str>]> = Rc::from([Rc::from("http")]);
    let found = nginx::directives(b"server { listen 81; } } }\nlisten 82;", &outside);
    assert_eq!(found[1].section(), "http/server");
    // Surplus braces close only blocks that this file has opened.
    assert_eq!((found[2].section(), found[2].line), ("http".to_string(), 2));
}

#[test]
fn nesting_is_bounded() {
    let text = "a {".repeat(100_000);
    let found = nginx::directives(text.as_bytes(), &outside());
    assert!(found.len() <= 50_000);
    assert!(found.iter().all(|d| d.blocks.len() <= 32));
    let balanced = format!("{}{} listen 1;", "a {".repeat(100), "}".repeat(100));
    assert_eq!(nginx::directives(balanced.as_bytes(), &outside()).last().unwrap().section(), "");
}

/// Copies of a long name, one for each of thousands of settings, would make gigabytes of a megabyte.
#[test]
fn long_names_of_blocks_and_sections_are_cut() {
    let long = "ä".repeat(100_000);
    let text = format!("{long} {long} {{{}", "a{b;}".repeat(20_000));
    let found = nginx::directives(text.as_bytes(), &outside());
    assert_eq!(found.len(), 40_001);
    assert!(found.iter().all(|d| d.section().len() <= 256 + 2), "cut at a character");
    assert!(long.starts_with(&*found[1].blocks[0]));
    let shared = std::ptr::addr_eq(found[1].blocks[0].as_ptr(), found[40_000].blocks[0].as_ptr());
    assert!(shared, "kept once");
    let text = format!("[{long}]\n{}", "a=\n".repeat(20_000));
    let mut section = String::new();
    let found = ini::entries(text.as_bytes(), &mut section);
    assert_eq!(found.len(), 20_000);
    assert!(section.len() <= 256 && found.iter().all(|entry| entry.section == section));
}

#[test]
fn php_fpm_pools() {
    let text = "error_log = /var/log/fpm.log ; where\n[www]\n;listen = 1\nlisten=/run/$pool.sock\n\
                pm.max_children = \"5\"\n\n[ api ]\nlisten = '127.0.0.1:9000'\nbroken line\n";
    let mut section = String::new();
    let found: Vec<String> = ini::entries(text.as_bytes(), &mut section)
        .iter()
        .map(|e| format!("{}:{}:{}={}", e.line, e.section, e.key, e.value))
        .collect();
    assert_eq!(
        found,
        [
            "1::error_log=/var/log/fpm.log",
            "4:www:listen=/run/$pool.sock",
            "5:www:pm.max_children=5",
            "8:api:listen=127.0.0.1:9000",
        ]
    );
    assert_eq!(section, "api");
}

#[test]
fn a_truncated_file_gives_its_whole_directives() {
    let whole = shown(NGINX);
    for end in 0..NGINX.len() {
        let found = shown(&NGINX[..end]);
        assert!(found.len() <= whole.len());
        assert_eq!(found[..], whole[..found.len()], "cut at {end}");
    }
    for end in 0..NGINX.len() {
        ini::entries(&NGINX.as_bytes()[..end], &mut String::new());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        nginx::directives(&bytes, &outside());
        ini::entries(&bytes, &mut String::new());
    }

    #[test]
    fn any_syntax_is_parsed(text in "[ab{};#\"'$ \\\\\n\\-=\\[\\]]{0,200}") {
        nginx::directives(text.as_bytes(), &outside());
        ini::entries(text.as_bytes(), &mut String::new());
    }
}
