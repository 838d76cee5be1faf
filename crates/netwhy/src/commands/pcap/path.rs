//! `--client FILE --server FILE`: two captures of one path. Each is diagnosed as if it were alone, what
//! both name is told once; then both are held against each other.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path as FilePath;

use model::{
    Evidence, Figure, Finding, MissingEvidence, Path, PathCapture, PathService, Proof, Report,
    Source,
};
use streams::path::{Glimpse, Merge, Survey};
use streams::{Collector, Nanos};
use sys::capture::{Capture, ReadEnd};

use super::options::PcapOptions;
use super::read::{Read, open};
use crate::failure::Failure;
use crate::output;
use sys::Stop;

/// How often a user's wish to stop is asked for, in packets.
const GLANCE: u64 = 4096;
/// What each place is called.
const PLACES: [&str; 2] = ["client", "server"];

/// One capture, seen for the first time.
struct First {
    survey: Survey,
    report: Report,
    capture: PathCapture,
}

pub(super) fn run(options: &PcapOptions, files: [&FilePath; 2], stop: &Stop) -> anyhow::Result<u8> {
    let report = merged(files, stop)?;
    let style = output::style(&options.report, false);
    let text = if options.report.json {
        report::json(&report)
    } else {
        report::path(&report, options.top, style)
    };
    output::print(&text, options.report.output.as_deref(), false)?;
    Ok(crate::output::severity_code(&report, &options.report))
}

fn merged(files: [&FilePath; 2], stop: &Stop) -> anyhow::Result<Report> {
    let [a, b] = [first(files[0], stop)?, first(files[1], stop)?];
    let reports = [a.report, b.report];
    let surveys = [a.survey, b.survey];
    let captures = [a.capture, b.capture];
    let Some(mut merge) = Merge::of(&surveys) else {
        return Err(Failure::Observe(nothing_in_common(&surveys, &captures)).into());
    };
    drop(surveys);
    let mut sides = [Side::open(files[0], 0)?, Side::open(files[1], 1)?];
    let mut taken = 0u64;
    loop {
        for side in &mut sides {
            side.fill(&merge)?;
        }
        let next = match [&sides[0].next, &sides[1].next] {
            [None, None] => break,
            [Some(_), None] => 0,
            [None, Some(_)] => 1,
            [Some((a, _)), Some((b, _))] => usize::from(b < a),
        };
        if let Some((_, seen)) = sides[next].next.take() {
            merge.take(next, seen);
        }
        taken += 1;
        if taken.is_multiple_of(GLANCE) && stop.is_set() {
            break;
        }
    }
    let path = merge.finish(captures);
    let [client, server] = reports;
    Ok(both(client, server, path, stop.is_set()))
}

/// The first look at a capture, and its own diagnosis.
fn first(file: &FilePath, stop: &Stop) -> anyhow::Result<First> {
    let name = file.display().to_string();
    let other = file.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
    if file == FilePath::new("-") || other {
        return Err(Failure::Usage(format!(
            "cannot compare {name}: it is read twice, and is no regular file; write it to one first"
        ))
        .into());
    }
    let mut read = Read::of(vec![name.clone()], stop);
    let mut capture = open(file)?;
    let mut survey = Survey::default();
    let mut last = 0;
    let end = capture.for_each_packet(|packet| {
        let seen = read.take(&packet);
        if let Some(seen) = seen
            && let Some(seen) = Glimpse::of(&packet, read.packets(), &seen, last)
        {
            last = seen.at;
            survey.add(&seen);
        }
        if read.packets().is_multiple_of(GLANCE) && stop.is_set() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    let end = end.map_err(|error| Failure::Observe(error.to_string()))?;
    read.ended(&capture, &end, &name, 0)?;
    let evidence: Evidence = read.finish(None)?.evidence;
    let report = diagnose::diagnose(&evidence);
    let packets = evidence.packets.unwrap_or_default();
    let capture = PathCapture {
        file: name,
        packets: packets.packets,
        streams: packets.streams,
        first_unix_us: packets.first_unix_us,
        span_us: packets.span_us,
    };
    Ok(First { survey, report, capture })
}

fn nothing_in_common(surveys: &[Survey; 2], captures: &[PathCapture; 2]) -> String {
    let mut text = format!(
        "cannot compare {} and {}: no TCP stream is in both",
        captures[0].file, captures[1].file
    );
    for ((survey, capture), place) in surveys.iter().zip(captures).zip(PLACES) {
        let streams = text::number(survey.streams());
        let s = if survey.streams() == 1 { "" } else { "s" };
        text.push_str(&format!("\n  {place}: {streams} stream{s} in {}", capture.file));
        if let Some([client, server]) = survey.example() {
            text.push_str(&format!(", such as {client} > {server}"));
        }
    }
    text.push_str(
        "\nBoth must show the same connections at the same time. Streams are found by their \
         addresses;\nbehind a translation by the first sequence numbers, or by three packets; not \
         behind a proxy,\nwhich makes connections of its own.",
    );
    text
}

/// A capture that is read for the second time, packet by packet.
struct Side {
    place: usize,
    capture: Capture,
    collector: Collector,
    /// The next segment, and when it passed by the first clock.
    next: Option<(Nanos, Glimpse)>,
    last: Nanos,
    over: bool,
}

impl Side {
    fn open(file: &FilePath, place: usize) -> anyhow::Result<Self> {
        let (capture, collector) = (open(file)?, Collector::new(None));
        Ok(Side { place, capture, collector, next: None, last: 0, over: false })
    }

    /// Reads up to the next segment.
    fn fill(&mut self, merge: &Merge) -> anyhow::Result<()> {
        let Side { collector, next, last, place, .. } = self;
        if next.is_some() || self.over {
            return Ok(());
        }
        let end = self.capture.for_each_packet(|packet| {
            let Some(seen) = collector.take(&packet) else { return ControlFlow::Continue(()) };
            let Some(seen) = Glimpse::of(&packet, collector.packets(), &seen, *last) else {
                return ControlFlow::Continue(());
            };
            *last = seen.at;
            *next = Some((merge.time(*place, seen.at), seen));
            ControlFlow::Break(())
        });
        let end = end.map_err(|error| Failure::Observe(error.to_string()))?;
        self.over = end != ReadEnd::Stopped;
        Ok(())
    }
}

/// Two reports as one.
fn both(client: Report, server: Report, path: Path, interrupted: bool) -> Report {
    let names = path.captures.each_ref().map(|capture| capture.file.clone());
    // Addresses may have been rewritten: those of the server's capture as the client's has them.
    let mut same: HashMap<SocketAddr, SocketAddr> = HashMap::new();
    for PathService { servers: [here, there], .. } in &path.services {
        same.insert(*there, *here);
    }
    let key = |finding: &Finding, place: usize| {
        let local = finding.subject.local;
        let local =
            local.map(|local| if place == 1 { *same.get(&local).unwrap_or(&local) } else { local });
        (finding.cause.clone(), local)
    };
    let keys: Vec<_> = client.findings.iter().map(|finding| key(finding, 0)).collect();
    let mut findings: Vec<(usize, bool, Finding)> =
        client.findings.iter().map(|finding| (0, false, finding.clone())).collect();
    for finding in server.findings {
        let known = keys.iter().position(|known| *known == key(&finding, 1));
        // A service may be told for each direction: one for one.
        let known = known.filter(|known| !findings[*known].1).or_else(|| {
            let wanted = key(&finding, 1);
            (0..keys.len()).find(|place| keys[*place] == wanted && !findings[*place].1)
        });
        match known {
            None => findings.push((1, false, finding)),
            Some(known) => {
                findings[known].1 = true;
                // As it is told where it costs more: nearer to the sender, what was lost is seen.
                if finding.impact.amount > findings[known].2.impact.amount {
                    (findings[known].0, findings[known].2) = (1, finding);
                }
            }
        }
    }
    let mut report = client;
    report.findings = findings
        .into_iter()
        .map(|(place, in_both, mut finding)| {
            let local = key(&finding, place).1;
            if finding.cause == "packet-loss"
                && let Some(service) =
                    path.services.iter().find(|service| Some(service.servers[0]) == local)
            {
                finding.evidence.extend(where_lost(service));
            }
            let text = if in_both {
                format!("in both captures; figures are those of {}", names[place])
            } else {
                format!("in {} alone", names[place])
            };
            finding.evidence.push(proof("seen", text, Vec::new()));
            finding
        })
        .collect();
    let named = |cause: &str| report.findings.iter().any(|finding| finding.cause == cause);
    report.ruled_out.retain(|ruled| {
        let other = server.ruled_out.iter().any(|other| other.cause == ruled.cause);
        other && !named(&ruled.cause)
    });
    report.undecided.retain(|undecided| !named(&undecided.cause));
    report.missing_evidence.extend(server.missing_evidence);
    report.missing_evidence.extend(gaps(&path));
    report.window.interrupted = interrupted;
    diagnose::with_path(&mut report, path);
    report
}

fn proof(label: &str, text: String, figures: Vec<Figure>) -> Proof {
    Proof { label: label.to_string(), text, figures, source: Source::Packets }
}

/// On which part of the path the segments of a service were lost.
fn where_lost(service: &PathService) -> Vec<Proof> {
    let ways = [(service.to_server, 0, 1), (service.to_client, 1, 0)];
    let mut proofs = Vec::new();
    for ([before, between, behind], from, to) in ways {
        let all = before + between + behind;
        if all == 0 {
            continue;
        }
        let number = text::number;
        let mut text = format!(
            "from {} to {}: {} of {} lost between the two captures",
            PLACES[from],
            PLACES[to],
            number(between),
            number(all)
        );
        if before > 0 {
            text.push_str(&format!(",\n{} before the {}'s capture", number(before), PLACES[from]));
        }
        if behind > 0 {
            text.push_str(&format!(",\n{} behind the {}'s", number(behind), PLACES[to]));
        }
        let figure = |name: &str, value: u64| Figure {
            name: name.to_string(),
            value: value as f64,
            unit: "segments".to_string(),
            window_ms: 0,
        };
        let figures = vec![
            figure("lost before the first capture", before),
            figure("lost between the captures", between),
            figure("lost behind the second capture", behind),
        ];
        proofs.push(proof("where", text, figures));
    }
    proofs
}

/// What two captures did not show.
fn gaps(path: &Path) -> Vec<MissingEvidence> {
    let mut gaps = Vec::new();
    let mut gap = |what: String, why: &str| {
        gaps.push(MissingEvidence {
            capability: model::Capability::Available,
            source: Source::Packets,
            what,
            why: why.to_string(),
            how_to_observe: None,
        });
    };
    let segments = |count: u64| {
        format!("{} segment{}", text::number(count), if count == 1 { "" } else { "s" })
    };
    for (way, from, to) in [(&path.to_server, 0, 1), (&path.to_client, 1, 0)] {
        if way.not_captured_arriving > 0 {
            let what = segments(way.not_captured_arriving);
            let what = format!("{what} arriving in {}", path.captures[to].file);
            gap(what, "they were acknowledged: the capture missed them, or they took another way");
        }
        if way.not_captured_leaving > 0 {
            let what = segments(way.not_captured_leaving);
            let what = format!("{what} leaving in {}", path.captures[from].file);
            gap(what, "they arrived: the capture missed them, or they took another way");
        }
    }
    if path.clock.before_they_left > 0 {
        let what = format!("delays of {}", segments(path.clock.before_they_left));
        gap(what, "they arrive before they leave: a clock was set meanwhile");
    }
    if path.streams_not_followed > 0 {
        let what = format!("{} streams in both captures", text::number(path.streams_not_followed));
        gap(what, "at most 200,000 streams, 50,000 at once, are followed");
    }
    for (place, capture) in path.captures.iter().enumerate() {
        let more = capture.streams.saturating_sub(path.streams_in_both);
        if more > 0 {
            let what = format!("{} streams of {}", text::number(more), capture.file);
            gap(what, &format!("they are not in {}", path.captures[1 - place].file));
        }
    }
    gaps
}
