//! `netwhy http`: loads an HTTP server, measures it, and says why it was slow if it was.

use super::show;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use super::options::HttpOptions;
use anyhow::Context as _;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use model::{Evidence, Focus, HttpReport, MissingEvidence, Probes, Source};
use probe::http::{Histograms, LiveCounts as Live, LoadResult as Outcome, PreparedLoad as Ready};

use crate::failure::Failure;
use crate::job::Job as _;
use crate::options::PacketOptions;
use crate::output;
use crate::probing::{Probing, failure};
use crate::window::{self, What};
use sys::Stop;

/// A load that runs.
type Running = Probing<Outcome>;

/// `netwhy http`
pub(crate) fn run(options: &HttpOptions) -> anyhow::Result<u8> {
    window::enter(&options.netns)?;
    let plan = options.plan()?;
    let mut ready = Some(probe::http::prepare(plan).map_err(failure)?);
    let focus =
        Focus { ports: ready.as_ref().map(Ready::ports).unwrap_or_default(), ..Focus::default() };
    let log = options.hdr.as_ref().map(|path| {
        std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))
    });
    let log = log.transpose()?;
    let mut start = || match ready.take() {
        Some(ready) => self::start(ready),
        None => anyhow::bail!("the load ran already"),
    };
    let began = SystemTime::now();
    let (mut evidence, job) = if options.no_watch {
        (Evidence::default(), Some(alone(start()?)?))
    } else {
        let unix = focus.ports.is_empty();
        let packets = PacketOptions { capture: options.sample > 0 && !unix, interface: Vec::new() };
        let what = What {
            time: None,
            focus,
            packets: &packets,
            most_packets: Some(options.sample),
            netns: options.netns.netns.clone(),
        };
        window::observe(&what, Some(&mut start))?
    };
    let outcome = job.context("the load did not begin")?.result()?;
    if let (Some(file), Some(path)) = (log, &options.hdr) {
        write_log(file, &outcome, began)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let load = outcome.load;
    // What it costs to make a load is no cost of watching.
    let cpu_s = load.client.cpu_s.min(evidence.cost.cpu_ms / 1e3);
    evidence.cost.cpu_ms -= cpu_s * 1e3;
    let window_s = evidence.window.duration_ms as f64 / 1e3;
    evidence.cost.cpu_percent_of_one = evidence.cost.cpu_ms / 10.0 / window_s.max(1e-3);
    if evidence.packets.as_ref().is_some_and(|packets| packets.packets >= options.sample) {
        evidence.missing_evidence.push(MissingEvidence {
            capability: model::Capability::Available,
            source: Source::Packets,
            what: "packets of the rest of the load".to_string(),
            why: format!("the first {} are analysed", text::number(options.sample)),
            how_to_observe: Some("--sample".to_string()),
        });
    }
    evidence.probes = Some(Probes { http: Some(load.clone()), ..Probes::default() });
    let report = (!options.no_watch).then(|| diagnose::diagnose(&evidence));
    let text = if options.report.json {
        let told = HttpReport {
            schema_version: HttpReport::SCHEMA_VERSION,
            netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
            load,
            findings: report.as_ref().map(|r| r.findings.clone()).unwrap_or_default(),
            undecided: report.as_ref().map(|r| r.undecided.clone()).unwrap_or_default(),
            missing_evidence: report
                .as_ref()
                .map(|r| r.missing_evidence.clone())
                .unwrap_or_default(),
        };
        let mut text = serde_json::to_string_pretty(&told).context("cannot tell it as JSON")?;
        text.push('\n');
        text
    } else {
        let style = output::style(&options.report, false);
        let mut text = output::harmless(&show::text(&load, &outcome.histograms.latency, style));
        if let Some(report) = &report {
            text.push('\n');
            text += &report::text(report, style);
        }
        text
    };
    let answered = evidence.probes.iter().flat_map(|p| &p.http).any(|load| load.requests > 0);
    output::print(&text, options.report.output.as_deref(), false)?;
    if !answered {
        return Ok(Failure::OBSERVE);
    }
    Ok(report.map_or(0, |report| output::severity_code(&report, &options.report)))
}

/// Waits for a load, and watches nothing meanwhile.
fn alone(mut running: Running) -> anyhow::Result<Running> {
    let stop = Stop::on_signals()?;
    while !running.ended() {
        if stop.is_set() {
            running.interrupted();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(running)
}

/// Makes the load in a thread.
fn start(ready: Ready) -> anyhow::Result<Running> {
    let (live, begun) = (Arc::new(Live::default()), Instant::now());
    let figures = Arc::clone(&live);
    Probing::start("http", move |stop| ready.run(stop, &figures), move || so_far(&live, begun))
}

/// For the live line.
fn so_far(live: &Live, begun: Instant) -> String {
    let seconds = begun.elapsed().as_secs_f64().max(0.001);
    let requests = live.requests.load(Ordering::Relaxed);
    let bytes = live.bytes.load(Ordering::Relaxed);
    let errors = live.errors.load(Ordering::Relaxed);
    format!(
        "{seconds:.1} s: {} answers, {}/s, {}/s, {}",
        text::number(requests),
        text::number((requests as f64 / seconds) as u64),
        text::bytes((bytes as f64 / seconds) as u64),
        match errors {
            0 => "no errors".to_string(),
            1 => "1 error".to_string(),
            n => format!("{} errors", text::number(n)),
        }
    )
}

/// The histograms as HdrHistogram's own tools read them: values are microseconds, their largest is
/// told in milliseconds.
fn write_log(file: std::fs::File, outcome: &Outcome, began: SystemTime) -> anyhow::Result<()> {
    let Histograms { latency, intended, .. } = &outcome.histograms;
    let mut file = std::io::BufWriter::new(file);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("netwhy http: microseconds")
        .with_start_time(began)
        .with_base_time(began)
        .with_max_value_divisor(1_000.0)
        .begin_log_with(&mut file, &mut serializer)?;
    let lasted = std::time::Duration::from_secs_f64(outcome.load.duration_s);
    let zero = std::time::Duration::ZERO;
    let told = |error| anyhow::anyhow!("{error:?}");
    log.write_histogram(latency, zero, lasted, Tag::new("latency")).map_err(told)?;
    if let Some(intended) = intended {
        log.write_histogram(intended, zero, lasted, Tag::new("intended")).map_err(told)?;
    }
    drop(log);
    Ok(std::io::Write::flush(&mut file)?)
}
