//! Runs `netwhy http`.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use model::{
    Capability, Evidence, Focus, HttpLoad, HttpReport, MissingEvidence, Probes, Report, Source,
};
use probe::http::{LiveCounts, LoadResult, PreparedLoad};
use sys::Stop;
use text::{bytes, count, duration, number};

use super::options::HttpOptions;
use super::{histogram_log, show};
use crate::failure::Failure;
use crate::job::Job as _;
use crate::options::PacketOptions;
use crate::output;
use crate::probing::{Probing, failure};
use crate::window::{self, What};

/// Time between two checks whether a load has ended that is not watched.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A load that is running.
type RunningLoad = Probing<LoadResult>;

/// `netwhy http`
pub(crate) fn run(options: &HttpOptions) -> anyhow::Result<u8> {
    window::enter(&options.netns)?;
    let load = probe::http::prepare(options.plan()?).map_err(failure)?;
    let histogram_file = options
        .hdr
        .as_ref()
        .map(|path| File::create(path).with_context(|| format!("cannot write {}", path.display())));
    let histogram_file = histogram_file.transpose()?;
    let start = SystemTime::now();
    let (mut evidence, running) = run_load(options, load)?;
    let result = running.context("the load did not start")?.result()?;
    if let (Some(file), Some(path)) = (histogram_file, &options.hdr) {
        histogram_log::write(file, &result, start)
            .with_context(|| format!("cannot write {}", path.display()))?;
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
        }
        text
    };
    output::print(&text, options.report.output.as_deref(), false)?;
    if result.load.requests == 0 {
        return Ok(Failure::OBSERVE);
    }
    Ok(report.map_or(0, |report| output::severity_code(&report, &options.report)))
}

/// Runs the load while this host is watched, unless `--no-watch` is given.
fn run_load(
    options: &HttpOptions,
    load: PreparedLoad,
) -> anyhow::Result<(Evidence, Option<RunningLoad>)> {
    let focus = Focus { ports: load.ports(), ..Focus::default() };
    if options.no_watch {
        return Ok((Evidence::default(), Some(wait(start(load)?)?)));
    }
    let is_tcp = !focus.ports.is_empty();
    let packets = PacketOptions { capture: options.sample > 0 && is_tcp, interface: Vec::new() };
    let what = What {
        time: None,
        focus,
        packets: &packets,
        most_packets: Some(options.sample),
        netns: options.netns.netns.clone(),
    };
    let mut load = Some(load);
    let mut start = || match load.take() {
        Some(load) => start(load),
        None => anyhow::bail!("the load has run already"),
    };
    window::observe(&what, Some(&mut start))
}

/// Starts the load in a thread.
fn start(load: PreparedLoad) -> anyhow::Result<RunningLoad> {
    let (live, start) = (Arc::new(LiveCounts::default()), Instant::now());
    let counts = Arc::clone(&live);
    Probing::start("http", move |stop| load.run(stop, &counts), move || progress(&live, start))
}

/// Waits for a load without watching anything.
fn wait(mut running: RunningLoad) -> anyhow::Result<RunningLoad> {
    let stop = Stop::on_signals()?;
    while !running.ended() {
        if stop.is_set() {
            running.interrupted();
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    Ok(running)
}

/// The progress line.
fn progress(live: &LiveCounts, start: Instant) -> String {
    let elapsed = start.elapsed();
    let per_s = |count: u64| (count as f64 / elapsed.as_secs_f64().max(1e-3)) as u64;
    let requests = live.requests.load(Ordering::Relaxed);
    let received = live.bytes.load(Ordering::Relaxed);
    let errors = live.errors.load(Ordering::Relaxed);
    format!(
        "{}: {}, {}/s, {}/s, {}",
        duration(elapsed),
        count(requests, "response"),
        number(per_s(requests)),
        bytes(per_s(received)),
        count(errors, "error")
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
    let json = serde_json::to_string_pretty(&document).context("cannot serialize the report")?;
    Ok(format!("{}\n", text::sanitize::json(&json)))
}
