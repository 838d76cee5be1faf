//! Reports of captures as they stand in a terminal: snapshots, and what must hold at every width.

mod samples;

use ::text::Style;
use model::{
    CapturedDirection, CapturedStream, ChangedField, Packets, Path, PathCapture, PathChange,
    PathClock, PathDelay, PathDirection, PathLoss, PathStream, Report, Service, Side, StreamEnd,
    TimeCategory, TimeShare,
};
use samples::{healthy, is_one_word, missing, slow_host};

const PLAIN: Style = Style { colour: false, width: 80 };

fn share(category: TimeCategory, time_us: u64) -> TimeShare {
    TimeShare { category, time_us, exchanges: 3 }
}

fn stream(number: u64, client: &str) -> CapturedStream {
    CapturedStream {
        number,
        client: client.parse().expect("an address"),
        server: "198.18.0.2:80".parse().expect("an address"),
        roles_known: true,
        first_us: 0,
        span_us: 2_362_000,
        handshake_us: Some(20_000),
        greeting_us: None,
        syn_retransmissions: 0,
        syn_ack_retransmissions: 0,
        syn_answered: true,
        end: StreamEnd::Closed,
        exchanges: 3,
        last_exchange_bytes: 0,
        late_answers: 0,
        unwaited_requests: 0,
        to_client_us: Some(0),
        to_server_us: Some(20_000),
        longest_survived_idle_us: 0,
        lost_after_idle: None,
        tls: None,
        statuses: Vec::new(),
        from_client: CapturedDirection { new_bytes: 1_500, ..CapturedDirection::default() },
        from_server: CapturedDirection {
            new_bytes: 11 << 20,
            rto_retransmissions: 1_027,
            time_breakdown: vec![share(TimeCategory::Loss, 300_000)],
            ..CapturedDirection::default()
        },
    }
}

/// A capture of two of 1,200 streams, some of it duplicated.
fn capture() -> Report {
    let packets = Packets {
        sources: vec!["web.pcapng".into()],
        packets: 48_000,
        segments: 47_000,
        duplicate_packets: 470,
        streams: 1_200,
        span_us: 2_500_000,
        services: vec![Service {
            server: "198.18.0.2:80".parse().expect("an address"),
            streams: 1_200,
            exchanges: 1,
            bytes: 11 << 20,
            data_segments: 9_000,
            retransmitted: 1_027,
            exchange_p50_us: Some(2_000),
            exchange_p99_us: Some(40_000),
            time_breakdown: vec![
                share(TimeCategory::ServerThink, 500_000),
                share(TimeCategory::Loss, 300_000),
                share(TimeCategory::Connect, 1_000),
            ],
            network_breakdown: Vec::new(),
            statuses: Vec::new(),
            slow_requests: Vec::new(),
        }],
        worst: vec![stream(7, "198.18.0.1:5000"), stream(1_024, "[fd00::1234:5678]:40000")],
        ..Packets::default()
    };
    let mut report = Report { packets: Some(packets), ..slow_host() };
    report.findings.truncate(1);
    report.missing_evidence =
        vec![missing(model::Source::Packets, "the end of web.pcapng", "7 bytes are no packet")];
    report
}

fn direction(number: u64, client: &str) -> PathStream {
    let delay = PathDelay { samples: 9, p99_us: 4_321.0, ..PathDelay::default() };
    PathStream {
        numbers: [number, number + 1],
        client: client.parse().expect("an address"),
        server: "198.18.0.2:80".parse().expect("an address"),
        rewritten: Some(
            ["203.0.113.9:40000", "198.18.0.2:80"].map(|end| end.parse().expect("an address")),
        ),
        to_server: PathDirection { delay: Some(delay), ..PathDirection::default() },
        to_client: PathDirection::default(),
    }
}

/// Two captures of one path, with losses and a changed option.
fn path() -> Report {
    let lost = |segments, first_packet| PathLoss {
        segments,
        bytes: segments * 1_448,
        first_packet,
        last_packet: first_packet + segments - 1,
    };
    let file = |file: &str, packets| PathCapture {
        file: file.into(),
        packets,
        streams: 12,
        first_unix_us: 1_790_000_000_000_000,
        span_us: 2_400_000,
    };
    let path = Path {
        captures: [file("client.pcap", 1_234), file("server.pcap", 1_229)],
        streams_in_both: 1_200,
        streams_rewritten: 1,
        streams_not_followed: 0,
        streams_opened_at_server: 0,
        syns_never_arrived: [1, 0],
        clock: PathClock {
            offset_us: Some(-5_000.0),
            uncertainty_us: Some(25_000.0),
            min_round_trip_us: Some(50_000.0),
            drift_ppm: Some(40.2),
            drift_uncertainty_ppm: Some(0.31),
            before_they_left: 0,
        },
        to_server: PathDirection { segments: 300, ..PathDirection::default() },
        to_client: PathDirection {
            segments: 500,
            delay: Some(PathDelay {
                samples: 490,
                min_us: Some(25_000.0),
                p50_us: 120.0,
                p99_us: 1_900.0,
                max_us: 5_010.0,
            }),
            lost_before: lost(1, 201),
            lost_between: lost(5, 15),
            bursts: 1,
            lost_in_bursts: 3,
            longest_burst: 3,
            spurious: 2,
            ..PathDirection::default()
        },
        changes: vec![PathChange {
            field: ChangedField::WindowScale,
            left_at: Side::Client,
            before: Some(7),
            after: None,
            packets: [1, 1],
            streams: 12,
        }],
        services: Vec::new(),
        worst: vec![direction(7, "198.18.0.1:5000"), direction(1_024, "198.18.0.1:5001")],
    };
    Report { path: Some(path), ..healthy() }
}

#[test]
fn a_capture() {
    insta::assert_snapshot!(report::capture(&capture(), Some(1), PLAIN));
}

#[test]
fn two_captures_of_one_path() {
    insta::assert_snapshot!(report::path(&path(), None, PLAIN));
}

/// Untrusted text must not reach a terminal unchanged.
#[test]
fn hostile_strings_are_escaped() {
    const EVIL: &str = "a\x1b]0;x\x07\u{9b}2J\r\u{202e}b\tc\n\u{0}";
    let mut capture = capture();
    let packets = capture.packets.as_mut().expect("packets");
    (packets.sources, packets.filter) = (vec![EVIL.into()], Some(EVIL.into()));
    capture.ruled_out[0].because = EVIL.into();
    capture.missing_evidence = vec![missing(model::Source::Packets, EVIL, EVIL)];
    let mut path = path();
    let captures = &mut path.path.as_mut().expect("a path").captures;
    captures.iter_mut().for_each(|capture| capture.file = EVIL.into());
    for text in [report::capture(&capture, None, PLAIN), report::path(&path, None, PLAIN)] {
        let acting = text.chars().find(|c| *c != '\n' && (c.is_control() || *c == '\u{202e}'));
        assert_eq!(acting, None, "in\n{text}");
        assert!(text.contains("a\\x1b]0;x"), "in\n{text}");
    }
}

/// Lines with commands are never broken; all others fit.
#[test]
fn lines_fit_into_every_width() {
    for width in [40, 60, 72, 80, 100, 132, 200] {
        let style = Style { width, ..PLAIN };
        let mut quiet = capture();
        quiet.findings.clear();
        for text in [
            report::capture(&quiet, Some(9), style),
            report::capture(&healthy(), None, style),
            report::path(&path(), Some(9), style),
        ] {
            for line in text.lines() {
                let columns = ::text::columns(line);
                assert!(
                    columns <= width || is_one_word(line),
                    "{columns} columns of {width}: {line:?}"
                );
                assert_eq!(line, line.trim_end(), "trailing space");
            }
        }
    }
}
