//! Reports as `diagnose` would make them, for the tests of this crate.

use model::{
    Command, ConfigPlace, Consequence, Cost, ExpectedGain, Figure, Finding, Focus, GainFigure,
    Host, Impact, ImpactUnit, MissingEvidence, PredictedGain, ProcessName, Proof, Reach, Remedy,
    RemedyChange, Report, RuledOut, Severity, Source, Subject, SubjectKind, Undecided, Window,
};

/// A busy host on which nothing is wrong.
pub(crate) fn healthy() -> Report {
    Report {
        schema_version: Report::SCHEMA_VERSION,
        netwhy_version: "0.1.0".into(),
        host: Host {
            name: "web-3".into(),
            kernel: "6.18.1".into(),
            cpus: 2,
            memory_bytes: 8 << 30,
            page_bytes: 4096,
            netns: None,
            root: true,
        },
        window: Window {
            start_unix_ms: 1_790_000_000_000,
            duration_ms: 10_003,
            interrupted: false,
        },
        focus: Focus::default(),
        tcp_sockets: Some(20_113),
        findings: vec![],
        gains_together: Vec::new(),
        ruled_out: vec![
            ruled("accept-queue-overflow", "3 of 4,096 at most in the queue of 0.0.0.0:80"),
            ruled("conntrack-table-full", "180 of 262,144 entries"),
            ruled("ephemeral-ports-exhausted", "50 of 28,232 ports towards 127.0.0.1:9000"),
            ruled("time-wait-overflow", "TcpExtTCPTimeWaitOverflow +0"),
        ],
        undecided: vec![],
        not_checked: vec![],
        missing_evidence: vec![],
        cost: Cost {
            cpu_ms: 40.0,
            cpu_percent_of_one: 0.4,
            max_resident_bytes: 11 << 20,
            samples_planned: 100,
            samples_taken: 100,
            samples_late: 0,
        },
        packets: None,
        path: None,
        activity: vec![
            "busiest: nginx 0.0.0.0:80, 9,400 connections/s, accept queue 3 of 4,096 at most"
                .into(),
            "round trip p50 0.2 ms, p99 1.1 ms over 20,104 connections; 0.00 % retransmitted"
                .into(),
        ],
    }
}

/// A queue that overflows and a worker pool that is exhausted, with consequences and missing evidence.
pub(crate) fn slow_host() -> Report {
    let mut report = healthy();
    report.tcp_sockets = Some(1_193);
    report.activity.clear();
    report.ruled_out.remove(0);
    report.findings = vec![accept_queue(), workers()];
    report.undecided = vec![
        undecided("close-wait-leak", "two samples of the whole table", Some("netwhy --for 10s")),
        undecided("fd-exhausted", "the files of other users' processes", Some("run as root")),
        undecided("receiver-stalled", "two samples of the whole table", Some("netwhy --for 10s")),
    ];
    report.missing_evidence =
        vec![missing(Source::KernelLog, "the kernel's log", "/dev/kmsg: permission denied")];
    report
}

fn accept_queue() -> Finding {
    Finding {
        cause: "accept-queue-overflow".into(),
        title: "Connections are dropped: nginx accepts too slowly for its queue".into(),
        severity: Severity::Critical,
        subject: Subject {
            kind: SubjectKind::Listener,
            name: "0.0.0.0:80".into(),
            local: "0.0.0.0:80".parse().ok(),
            remote: None,
            processes: [10_490, 10_491].map(|pid| ProcessName { name: "nginx".into(), pid }).into(),
        },
        impact: Impact {
            text: "1,620 of 5,377 new connections dropped (30 %): clients see 1 s, 3 s, 7 s."
                .into(),
            unit: ImpactUnit::ConnectionsLost,
            amount: 1620.0,
            share: Some(0.301),
        },
        evidence: vec![
            proof(
                "queue",
                "up to 11 connections, limit 10; full in 97 of 100 samples\n\
                 limit: backlog 10, given to listen() (somaxconn is 4096)\n\
                 /etc/nginx/nginx.conf:12: listen 80 backlog=10",
                Source::Listeners,
            ),
            proof(
                "why",
                "nginx was runnable but not running 71 % of the time (2 of 2 CPUs busy)",
                Source::Processes,
            ),
            proof("proof", "TcpExtListenOverflows +1,620", Source::Counters),
            proof("proof", "drops of this listener +1,620", Source::Listeners),
        ],
        checks: vec![
            command(&[&["ss", "-ltnm", "sport = :80"]]),
            command(&[&[
                "nstat",
                "-az",
                "TcpExtListenOverflows",
                "TcpExtListenDrops",
                "TcpExtTCPReqQFullDrop",
                "TcpExtTCPReqQFullDoCookies",
            ]]),
        ],
        remedies: vec![
            Remedy {
                change: RemedyChange::ConfigLine {
                    application: "nginx".into(),
                    place: Some(ConfigPlace { file: "/etc/nginx/nginx.conf".into(), line: 12 }),
                    setting: "listen".into(),
                    current: Some("80 backlog=10".into()),
                    value: "80 backlog=4096".into(),
                    line: "listen 80 backlog=4096;".into(),
                },
                reaches: Reach::AfterListen,
                note: Some("Send-Q of ss -ltn shows the new limit.".into()),
                ..remedy("/etc/nginx/nginx.conf:12  listen 80 backlog=4096;")
            },
            Remedy {
                needs_root: false,
                ..remedy("give nginx more CPU: it was ready to accept and had none")
            },
        ],
        gain: ExpectedGain::Predicted(PredictedGain {
            figure: GainFigure::OpeningDelay,
            now: 1_430.0,
            expected: 0.0,
            lowest: 0.0,
            highest: 0.0,
        }),
        also_causes: vec![
            Consequence {
                cause: Some("syn-retransmitted".into()),
                text: "clients retransmitted 2,204 SYNs".into(),
            },
            Consequence { cause: None, text: "connect() took 1 s or longer in 412 cases".into() },
        ],
    }
}

fn workers() -> Finding {
    Finding {
        cause: "worker-pool-exhausted".into(),
        title: "php-fpm pool www has no free worker: requests wait, then fail with 502".into(),
        severity: Severity::Warning,
        subject: Subject {
            kind: SubjectKind::Process,
            name: "php-fpm pool www".into(),
            local: None,
            remote: None,
            processes: (0..9)
                .map(|n| ProcessName { name: "php-fpm8.2".into(), pid: 700 + n })
                .collect(),
        },
        impact: Impact {
            text: "31 of 4,010 requests answered with 502 or 504 (0.8 %).".into(),
            unit: ImpactUnit::RequestsFailed,
            amount: 31.0,
            share: Some(0.0077),
        },
        evidence: vec![proof(
            "log",
            "[pool www] server reached pm.max_children setting (5), consider raising it",
            Source::Logs,
        )],
        checks: vec![command(&[
            &["grep", "max_children", "/var/log/php8.2-fpm.log"],
            &["tail", "-n", "5"],
        ])],
        remedies: vec![Remedy {
            change: RemedyChange::Sysctl {
                name: "net.core.somaxconn".into(),
                current: Some("128".into()),
                value: "4096".into(),
            },
            command: Some(command(&[&["sysctl", "-w", "net.core.somaxconn=4096"]])),
            undo: Some(command(&[&["sysctl", "-w", "net.core.somaxconn=128"]])),
            reaches: Reach::AfterListen,
            ..remedy("set net.core.somaxconn to 4096 (now 128)")
        }],
        gain: ExpectedGain::Predicted(PredictedGain {
            figure: GainFigure::RequestRate,
            now: 401.0,
            expected: 1_610.0,
            lowest: 1_200.0,
            highest: 2_000.0,
        }),
        also_causes: vec![],
    }
}

/// Something that only a person can do.
fn remedy(text: &str) -> Remedy {
    Remedy {
        change: RemedyChange::Advice,
        host: None,
        netns: None,
        text: text.into(),
        command: None,
        undo: None,
        needs_root: true,
        reaches: Reach::Elsewhere,
        note: None,
    }
}

/// A command of programs with their arguments.
pub(crate) fn command(programs: &[&[&str]]) -> Command {
    let words = |words: &&[&str]| words.iter().map(|word| word.to_string()).collect();
    Command { argv: programs.iter().map(words).collect(), host: None }
}

fn ruled(cause: &str, because: &str) -> RuledOut {
    RuledOut { cause: cause.into(), because: because.into() }
}

pub(crate) fn undecided(cause: &str, needs: &str, how_to_observe: Option<&str>) -> Undecided {
    Undecided {
        cause: cause.into(),
        needs: needs.into(),
        sources: vec![Source::Processes],
        how_to_observe: how_to_observe.map(str::to_string),
    }
}

pub(crate) fn missing(source: Source, what: &str, why: &str) -> MissingEvidence {
    MissingEvidence {
        capability: model::Capability::NotPermitted,
        source,
        what: what.into(),
        why: why.into(),
        how_to_observe: Some("run as root (sudo netwhy)".into()),
    }
}

pub(crate) fn proof(label: &str, text: &str, source: Source) -> Proof {
    let figure = Figure { name: "n".into(), value: 1.0, unit: "1".into(), window_ms: 10_003 };
    Proof { label: label.into(), text: text.into(), figures: vec![figure], source }
}

/// Whether a line is one word after its label: such lines may be wider than the style.
pub(crate) fn is_one_word(line: &str) -> bool {
    const MAX_LABEL_COLUMNS: usize = 24;
    let longest = line.split(' ').map(::text::columns).max().unwrap_or(0);
    ::text::columns(line) <= longest + MAX_LABEL_COLUMNS
}
