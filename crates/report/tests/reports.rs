//! Reports as they stand in a terminal: snapshots, and what must hold for every report.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]

mod samples;

use ::text::Style;
use model::{Command, Report, Source};
use report::{json, text};
use samples::{command, healthy, is_one_word, missing, proof, slow_host, undecided};

const PLAIN: Style = Style { colour: false, width: 80 };

#[test]
fn a_host_with_two_findings() {
    insta::assert_snapshot!(text(&slow_host(), PLAIN));
}

#[test]
fn a_host_with_two_findings_in_colour() {
    let coloured = text(&slow_host(), Style { colour: true, width: 80 });
    insta::assert_snapshot!(coloured.replace('\x1b', "␛"));
}

#[test]
fn colours_change_no_word_and_no_line_break() {
    let mut coloured = text(&slow_host(), Style { colour: true, width: 80 });
    while let Some(at) = coloured.find('\x1b') {
        let length = coloured[at..].find('m').unwrap();
        coloured.replace_range(at..=at + length, "");
    }
    assert_eq!(coloured, text(&slow_host(), PLAIN));
}

#[test]
fn a_healthy_host() {
    insta::assert_snapshot!(text(&healthy(), PLAIN));
}

/// Missing evidence takes the all-clear back.
#[test]
fn a_healthy_host_with_missing_evidence() {
    let mut report = healthy();
    report.host.root = false;
    report.missing_evidence = vec![
        missing(Source::Processes, "files of 212 processes", "/proc/1/fd: permission denied"),
        missing(Source::Conntrack, "the table", "netlink: operation not permitted"),
    ];
    report.undecided = vec![undecided("fd-exhausted", "files of 212 processes", None)];
    report.ruled_out.truncate(1);
    insta::assert_snapshot!(text(&report, PLAIN));
}

#[test]
fn an_interrupted_window_with_a_focus() {
    let mut report = healthy();
    report.window.duration_ms = 3_210;
    report.window.interrupted = true;
    report.host.netns = Some("web".into());
    report.host.cpus = 1;
    report.focus.ports = vec![80, 443];
    report.focus.pids = vec![812];
    report.cost.samples_planned = 32;
    report.cost.samples_taken = 30;
    report.cost.samples_late = 2;
    insta::assert_snapshot!(text(&report, PLAIN));
}

/// Whether a healthy report still gives the all-clear after this change.
fn all_clear(change: impl Fn(&mut Report)) -> bool {
    let mut report = healthy();
    change(&mut report);
    text(&report, PLAIN).contains("Nothing slows this host's network down.")
}

#[test]
fn the_all_clear_needs_evidence_of_the_whole_host() {
    assert!(all_clear(|_| {}));
    assert!(!all_clear(|r| r.missing_evidence.push(missing(
        Source::Listeners,
        "listeners",
        "why"
    ))));
    assert!(!all_clear(|r| r.missing_evidence.push(missing(Source::Counters, "counters", "why"))));
    assert!(!all_clear(|r| r.undecided.push(undecided("x", "y", None))));
    assert!(!all_clear(|r| r.focus.ports.push(80)));
    assert!(all_clear(|r| r.missing_evidence.push(missing(Source::Softnet, "softnet", "why"))));
}

/// Untrusted text must not reach a terminal unchanged.
#[test]
fn hostile_strings_are_escaped() {
    const EVIL: &str = "a\x1b]0;x\x07\u{9b}2J\r\u{202e}b\tc\u{0}";
    let mut report = slow_host();
    report.host.name = EVIL.into();
    report.host.kernel = EVIL.into();
    report.host.netns = Some(EVIL.into());
    report.activity = vec![EVIL.into()];
    report.missing_evidence = vec![missing(Source::Logs, EVIL, EVIL)];
    report.missing_evidence[0].how_to_observe = Some(EVIL.into());
    report.undecided = vec![undecided(EVIL, EVIL, Some(EVIL))];
    for ruled in &mut report.ruled_out {
        ruled.cause = EVIL.into();
        ruled.because = EVIL.into();
    }
    let mut quiet = report.clone();
    quiet.findings.clear();
    for finding in &mut report.findings {
        finding.cause = EVIL.into();
        finding.title = EVIL.into();
        finding.subject.name = EVIL.into();
        finding.subject.processes[0].name = EVIL.into();
        finding.impact.text = EVIL.into();
        finding.evidence = vec![proof(EVIL, EVIL, Source::Logs)];
        finding.checks = vec![command(&[&[EVIL]]), command(&[&["ss", EVIL]])];
        for remedy in &mut finding.remedies {
            remedy.text = EVIL.into();
            remedy.host = Some(EVIL.into());
            remedy.command = Some(Command { host: Some(EVIL.into()), ..command(&[&[EVIL]]) });
            remedy.note = Some(EVIL.into());
        }
        for effect in &mut finding.also_causes {
            effect.text = EVIL.into();
            effect.cause = Some(EVIL.into());
        }
    }
    for report in [&report, &quiet] {
        for shown in [text(report, PLAIN), json(report)] {
            let acting = shown.chars().find(|c| *c != '\n' && (c.is_control() || *c == '\u{202e}'));
            assert_eq!(acting, None, "in\n{shown}");
        }
    }
    let back: Report = serde_json::from_str(&json(&report)).unwrap();
    assert_eq!(back, report);
}

/// Words of a command stay single words, whatever they hold.
#[test]
fn commands_can_be_pasted() {
    let mut report = slow_host();
    report.findings.truncate(1);
    let finding = &mut report.findings[0];
    finding.checks = vec![
        command(&[&["tshark", "-r", "$(x); rm -rf / `y`"], &["wc", "-l"]]),
        Command { host: Some("198.18.0.2".into()), ..command(&[&["ss", "-tin"]]) },
        Command { host: Some("198.18.0.2".into()), ..command(&[&["nstat", "-az"]]) },
        command(&[&["ls", "a\nb"]]),
    ];
    let text = text(&report, PLAIN);
    let checks = "   check   tshark -r '$(x); rm -rf / `y`' | wc -l\n   \
                          on 198.18.0.2:\n           ss -tin\n           nstat -az\n   fix";
    let squeezed: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted: String = checks.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(squeezed.contains(&wanted), "what a terminal cannot show is left out:\n{text}");
}

/// Texts of many shapes, made by a small generator with a fixed seed (Knuth's MMIX constants).
fn shapes(count: usize) -> Vec<String> {
    const PARTS: [&str; 12] = [
        "a",
        "word",
        " ",
        "  ",
        "\n",
        "30 %",
        "漢字漢字",
        "x̂",
        "·",
        "🦀🦀",
        "\x1b[1m",
        "/a/very/long/path/without/a/space/that/goes/on/and/on/until/it/is/longer/than/a/line/of/eighty",
    ];
    let mut state: u64 = 7;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    (0..count)
        .map(|_| {
            let mut text = String::new();
            for _ in 0..next() % 40 {
                text.push_str(PARTS[next() % PARTS.len()]);
                if next() % 2 == 0 {
                    text.push(' ');
                }
            }
            text
        })
        .collect()
}

#[test]
fn a_line_of_configuration_is_never_broken() {
    let mut report = slow_host();
    report.findings.truncate(1);
    let line = "listen 198.18.0.1:8080 default_server reuseport backlog=4096;";
    let place = "/etc/nginx/sites-enabled/shop:7";
    report.findings[0].remedies.truncate(1);
    report.findings[0].remedies[0].text = format!("{place}  {line}");
    report.findings[0].remedies[0].change = model::RemedyChange::ConfigLine {
        application: "nginx".into(),
        place: None,
        setting: "listen".into(),
        current: None,
        value: String::new(),
        line: line.into(),
    };
    let shown = |width| text(&report, Style { colour: false, width });
    assert!(shown(120).contains(&format!("fix         {place}  {line}\n")), "{}", shown(120));
    for width in [40, 80] {
        let below = format!("fix         {place}\n               {line}\n");
        assert!(shown(width).contains(&below), "{}", shown(width));
    }
}

#[test]
fn no_line_is_wider_than_the_style() {
    for shape in shapes(400) {
        let mut report = slow_host();
        report.host.name = shape.clone();
        report.ruled_out[0].because = shape.clone();
        report.missing_evidence[0].what = shape.clone();
        report.undecided[0].needs = shape.clone();
        report.findings[0].checks.clear();
        report.findings[1].checks.clear();
        for finding in &mut report.findings {
            finding.title = shape.clone();
            finding.subject.name = shape.clone();
            finding.impact.text = shape.clone();
            finding.evidence[0].text = shape.clone();
            finding.evidence[0].label = shape.chars().take(9).collect();
            finding.remedies[0].text = shape.clone();
            finding.remedies[0].command = None;
            finding.remedies[0].note = Some(shape.clone());
        }
        let mut quiet = report.clone();
        quiet.findings.clear();
        quiet.activity = vec![shape];
        for width in [40, 80, 132, 200] {
            for report in [&report, &quiet] {
                for line in text(report, Style { colour: false, width }).lines() {
                    let columns = text::columns(line);
                    assert!(
                        columns <= width || is_one_word(line),
                        "{columns} columns of {width}: {line:?}"
                    );
                    assert_eq!(line, line.trim_end(), "trailing space");
                }
            }
        }
    }
}

#[test]
fn json_is_stable_and_reads_back() {
    let report = slow_host();
    let once = json(&report);
    assert_eq!(once, json(&report));
    assert_eq!(serde_json::from_str::<Report>(&once).unwrap(), report);
    let value: serde_json::Value = serde_json::from_str(&once).unwrap();
    for key in ["schema_version", "findings", "ruled_out", "undecided", "missing_evidence", "cost"]
    {
        assert!(value.get(key).is_some(), "no {key}");
    }
    for key in ["cause", "severity", "subject", "impact", "evidence", "remedies", "also_causes"] {
        assert!(value["findings"][0].get(key).is_some(), "no {key} in a finding");
    }
    let check = &value["findings"][0]["checks"][0]["argv"][0];
    assert_eq!(check, &serde_json::json!(["ss", "-ltnm", "sport = :80"]));
}
