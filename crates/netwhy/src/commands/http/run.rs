//! Runs `netwhy http`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use model::{
    Capability, Evidence, Focus, HttpLoad, HttpReport, MissingEvidence, Probes, Report, Series,
    Source, Unit,
};
use probe::http::{LiveCounts, LoadResult, PreparedLoad};
use session::{Job as _, PacketPlan, Plan};
use sys::Stop;
use text::{bytes, count, duration, number};

use super::error_responses::{errors, only_errors};
use super::options::{HttpOptions, MaxErrors};
use super::{histogram_log, show};
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::probe_job::{ProbeJob, Progress, failure, value};
use crate::saved_file::SavedFile;
use crate::window;

/// Time between two checks whether a load without a window has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A load that is running.
type RunningLoad = ProbeJob<LoadResult>;

/// `netwhy http`
pub(crate) fn run(options: &HttpOptions) -> anyhow::Result<u8> {
    window::enter(&options.netns)?;
    let load = probe::http::prepare(options.plan()?).map_err(failure)?;
    let histogram_file = options
        .hdr
        .as_ref()
        .map(|path| SavedFile::create(path, options.report.force))
        .transpose()?;
    let report_file = Output::open(&options.report)?;
    let start = SystemTime::now();
    let (mut evidence, running) = run_load(options, load)?;
    let result = running.result()?;
    if let Some(mut file) = histogram_file {
        histogram_log::write(&mut file, &result, start)
            .with_context(|| format!("cannot write {}", file.path().display()))?;
        file.keep()?;
    }
    add_to_evidence(&mut evidence, &result.load, options);
    let report = (!options.no_watch).then(|| diagnose::diagnose(&evidence));
    let text = if options.report.json {
        json(&result.load, report.as_ref())?
    } else {
        let style = output::style(&options.report, false);
        let mut text = show::text(&result.load, &result.histograms.latency, style);
        if let Some(report) = &report {
            text.push('\n');
            text += &report::text(report, style);
            text = output::with_verdicts(text, report, &options.report, style);
        }
        text
    };
    report_file.write(&text)?;
    if result.load.requests == 0 {
        return Ok(Failure::OBSERVE);
    }
    let too_many = options.max_errors.is_some_and(|max| exceeds(max, &result.load))
        || (options.report.fail_on.is_some() && only_errors(&result.load));
    let code = report.map_or(0, |report| output::severity_code(&report, &options.report));
    Ok(code.max(too_many.into()))
}

/// Whether a load has more errors than are tolerated.
fn exceeds(max: MaxErrors, load: &HttpLoad) -> bool {
    let (errors, requests) = (errors(load), load.requests + load.errors.total());
    match max {
        MaxErrors::Count(count) => errors > count,
        MaxErrors::Share(share) => errors as f64 > share * requests as f64,
    }
}

/// Runs the load while this host is observed, unless `--no-watch` is given.
fn run_load(options: &HttpOptions, load: PreparedLoad) -> anyhow::Result<(Evidence, RunningLoad)> {
    if options.no_watch {
        return Ok((Evidence::default(), wait(start(load)?)?));
    }
    let focus = Focus { ports: load.ports(), ..Focus::default() };
    let samples_packets = options.sample > 0 && !focus.ports.is_empty();
    let packets = PacketPlan { max_packets: Some(options.sample), ..PacketPlan::default() };
    let plan = Plan {
        duration: None,
        focus,
        netns: options.netns.netns.clone(),
        packets: samples_packets.then_some(packets),
    };
    window::observe_job(&plan, || start(load))
}

/// Starts the load in a thread.
fn start(load: PreparedLoad) -> anyhow::Result<RunningLoad> {
    let live = Arc::new(LiveCounts::default());
    let counts = Arc::clone(&live);
    let progress = Progress { series: Box::new(move || series(&live)), line };
    ProbeJob::start("http", move |stop| load.run(stop, &counts), progress)
}

/// Waits for a load without observing this host.
fn wait(mut running: RunningLoad) -> anyhow::Result<RunningLoad> {
    let stop = Stop::on_signals()?;
    while !running.has_ended() {
        if stop.is_set() {
            running.interrupt();
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    Ok(running)
}

/// What the load has measured so far.
fn series(live: &LiveCounts) -> Vec<Series> {
    vec![
        Series::count("http_responses", live.requests.load(Ordering::Relaxed)),
        Series::new("http_received_bytes", Unit::Bytes, live.bytes.load(Ordering::Relaxed) as f64),
        Series::count("http_errors", live.errors.load(Ordering::Relaxed)),
    ]
}

/// The progress line.
fn line(series: &[Series], elapsed: Duration) -> String {
    let per_s = |count: u64| (count as f64 / elapsed.as_secs_f64().max(1e-3)) as u64;
    let responses = value(series, "http_responses");
    format!(
        "{}: {}, {}/s, {}/s, {}",
        duration(elapsed),
        count(responses, "response"),
        number(per_s(responses)),
        bytes(per_s(value(series, "http_received_bytes"))),
        count(value(series, "http_errors"), "error")
    )
}

/// Adds the load to the evidence, and takes its own cost out.
fn add_to_evidence(evidence: &mut Evidence, load: &HttpLoad, options: &HttpOptions) {
    // CPU time of the load is not a cost of watching.
    let cost = &mut evidence.cost;
    cost.cpu_ms -= (load.client.cpu_s * 1e3).min(cost.cpu_ms);
    let window_s = evidence.window.duration_ms as f64 / 1e3;
    cost.cpu_percent_of_one = cost.cpu_ms / 10.0 / window_s.max(1e-3);
    if evidence.packets.as_ref().is_some_and(|packets| packets.packets >= options.sample) {
        evidence.missing_evidence.push(MissingEvidence {
            capability: Capability::Available,
            source: Source::Packets,
            what: "the other packets of the load".to_string(),
            why: format!("only the first {} are analysed", number(options.sample)),
            how_to_observe: Some("--sample".to_string()),
        });
    }
    evidence.probes = Some(Probes { http: Some(load.clone()), ..Probes::default() });
}

/// The document of `netwhy http --json`.
fn json(load: &HttpLoad, report: Option<&Report>) -> anyhow::Result<String> {
    let mut document = HttpReport {
        schema_version: HttpReport::SCHEMA_VERSION,
        netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
        load: load.clone(),
        ..HttpReport::default()
    };
    if let Some(report) = report {
        document.findings.clone_from(&report.findings);
        document.undecided.clone_from(&report.undecided);
        document.missing_evidence.clone_from(&report.missing_evidence);
    }
    output::json(&document)
}
