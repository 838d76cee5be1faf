//! `netwhy ping --under-load`: pings from several vantage points, idle and while downloads run at one of
//! them after the other.

use std::time::{Duration, Instant};

use diagnose::limited_link::locate;
use model::{Evidence, Finding, LoadPhase, Ping, PingReport, Probes, UnderLoad};
use probe::ping::download::{DownloadResult, Url};
use sys::Stop;

use super::json::{print_json, report};
use super::options::PingOptions;
use super::show_under_load;
use super::vantage_point::{RunningNetwhy, VantagePoint};
use crate::failure::Failure;
use crate::output;
use crate::probe_job::failure;

/// Duration of each phase.
const DEFAULT_PHASE: Duration = Duration::from_secs(5);
/// How long downloads run before a phase: until queues are full.
const WARM_UP: Duration = Duration::from_secs(2);
/// Time between two pings.
const PING_INTERVAL: &str = "20ms";
/// A reply through a full queue may take long.
const PING_TIMEOUT: &str = "3s";
/// What a vantage point may take in addition to the phase: a connection by ssh, a name look-up.
const MAX_EXTRA_TIME: Duration = Duration::from_secs(20);
/// Most vantage points: each is a column of the result.
const MAX_VANTAGE_POINTS: usize = 6;
/// Time between two checks of the stop during the warm-up.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// `netwhy ping --under-load URL HOST`
pub(super) fn run(options: &PingOptions, stop: &Stop) -> anyhow::Result<u8> {
    let experiment = Experiment::new(options)?;
    let mut measured = experiment.measure(stop)?;
    measured.verdict = locate(&measured);
    let findings = findings(&measured);
    let loads = measured.phases.get(1..).unwrap_or_default();
    let no_load = !loads.is_empty() && loads.iter().all(|phase| phase.received_bytes == 0);
    if options.json {
        let under_load = Some(measured);
        print_json(&PingReport { under_load, findings, ..report(Vec::new()) })?;
    } else {
        output::print(&show_under_load::text(&measured, &findings), false)?;
    }
    Ok(if no_load { Failure::OBSERVE } else { 0 })
}

/// `netwhy ping --download URL`: what a vantage point runs while others ping.
pub(super) fn download(options: &PingOptions, url: &str) -> anyhow::Result<u8> {
    let url: Url = url.parse().map_err(failure)?;
    let to = url.resolve(options.family()).map_err(failure)?;
    // Not before: Ctrl-C has to end a name look-up that takes long.
    let stop = Stop::on_signals()?;
    let duration = options.duration.unwrap_or(DEFAULT_PHASE);
    let downloads = options.load.downloads;
    let result = probe::ping::download::download(&url, to, downloads, WARM_UP, duration, &stop);
    let json = serde_json::to_string(&result)?;
    output::print(&text::sanitize::json(&json), false)?;
    Ok(0)
}

/// The causes that the experiment shows.
fn findings(measured: &UnderLoad) -> Vec<Finding> {
    let evidence = Evidence {
        schema_version: Evidence::SCHEMA_VERSION,
        netwhy_version: env!("CARGO_PKG_VERSION").to_string(),
        probes: Some(Probes { under_load: Some(measured.clone()), ..Probes::default() }),
        ..Evidence::default()
    };
    diagnose::diagnose(&evidence).findings
}

/// What is measured.
struct Experiment<'a> {
    options: &'a PingOptions,
    target: String,
    url: Url,
    phase: Duration,
    /// Those that download first, then those that only ping.
    vantage_points: Vec<VantagePoint>,
    /// How many of them download.
    downloading: usize,
}

impl<'a> Experiment<'a> {
    fn new(options: &'a PingOptions) -> anyhow::Result<Self> {
        let usage = |text: String| anyhow::Error::from(Failure::Usage(text));
        let url = options.load.under_load.as_deref().unwrap_or_default();
        let [target] = options.targets.as_slice() else {
            return Err(usage("--under-load takes one host to ping".to_string()));
        };
        let mut vantage_points = options.load.from.clone();
        if vantage_points.is_empty() {
            vantage_points.push(VantagePoint::Here);
        }
        let downloading = vantage_points.len();
        vantage_points.extend(options.load.ping_from.iter().cloned());
        for (index, one) in vantage_points.iter().enumerate() {
            if vantage_points.iter().take(index).any(|earlier| earlier == one) {
                return Err(usage(format!("{one} is given twice")));
            }
        }
        if vantage_points.len() > MAX_VANTAGE_POINTS {
            return Err(usage(format!("give at most {MAX_VANTAGE_POINTS} vantage points")));
        }
        Ok(Experiment {
            options,
            target: target.to_string(),
            url: url.parse().map_err(failure)?,
            phase: options.duration.unwrap_or(DEFAULT_PHASE),
            vantage_points,
            downloading,
        })
    }

    /// Measures all phases, or those before the user interrupted.
    fn measure(&self, stop: &Stop) -> anyhow::Result<UnderLoad> {
        let several = self.options.load.downloads;
        let counts = if several > 1 { vec![1, several] } else { vec![1] };
        let idle = std::iter::once((None, 0));
        let loads = (0..self.downloading)
            .flat_map(|at| counts.iter().map(move |downloads| (Some(at), *downloads)));
        let phases: Vec<(Option<usize>, u32)> = idle.chain(loads).collect();
        let total = (self.phase + WARM_UP) * phases.len() as u32;
        let count = text::count(phases.len() as u64, "phase");
        note(&format!("{count}, about {}", text::duration(total)));
        let mut measured = UnderLoad {
            target: self.target.clone(),
            url: self.url.to_string(),
            vantage_points: self.vantage_points.iter().map(VantagePoint::to_string).collect(),
            ..UnderLoad::default()
        };
        for (loaded, downloads) in phases {
            match self.measure_phase(loaded, downloads, stop)? {
                Some(phase) => measured.phases.push(phase),
                None => break,
            }
        }
        if measured.phases.is_empty() {
            let text = "interrupted before anything was measured";
            return Err(Failure::Observe(text.to_string()).into());
        }
        Ok(measured)
    }

    /// Measures one phase; `None`: the user interrupted.
    fn measure_phase(
        &self,
        loaded: Option<usize>,
        downloads: u32,
        stop: &Stop,
    ) -> anyhow::Result<Option<LoadPhase>> {
        let download = match loaded.and_then(|at| self.vantage_points.get(at)) {
            Some(at) => {
                note(&format!("{} from {at}", text::count(downloads.into(), "download")));
                Some(self.start_download(at, downloads)?)
            }
            None => {
                note("idle");
                None
            }
        };
        if download.is_some() && !wait(WARM_UP, stop) {
            return Ok(None);
        }
        let pings: Vec<RunningNetwhy> = self
            .vantage_points
            .iter()
            .map(|at| self.start_ping(at))
            .collect::<anyhow::Result<_>>()?;
        let loaded_vantage_point = loaded;
        let mut phase = LoadPhase { loaded_vantage_point, downloads, ..LoadPhase::default() };
        let max = self.phase + MAX_EXTRA_TIME;
        for ping in pings {
            let Some(output) = ping.output(max, stop)? else { return Ok(None) };
            let report: PingReport = serde_json::from_slice(&output)?;
            let ping = report.pings.into_iter().next().unwrap_or_default();
            phase.duration_ms = phase.duration_ms.max(ping.duration_ms);
            phase.loss.push(loss(&ping));
            phase.pings.push(ping.round_trip);
        }
        if let Some(download) = download {
            let Some(output) = download.output(max, stop)? else { return Ok(None) };
            let result: DownloadResult = serde_json::from_slice(&output)?;
            phase.received_bytes = result.bytes;
            phase.wire_bits_per_s = result.wire_bits_per_s();
            phase.error = result.error;
        }
        Ok(Some(phase))
    }

    fn start_ping(&self, at: &VantagePoint) -> anyhow::Result<RunningNetwhy> {
        let fixed = ["ping", "--json", "-i", PING_INTERVAL, "-W", PING_TIMEOUT, "--for"];
        let mut arguments: Vec<String> = fixed.map(str::to_string).to_vec();
        arguments.push(milliseconds(self.phase));
        arguments.extend(self.options.family_arguments());
        arguments.extend(self.options.protocol_arguments());
        arguments.push(self.target.clone());
        at.start(&arguments)
    }

    fn start_download(&self, at: &VantagePoint, downloads: u32) -> anyhow::Result<RunningNetwhy> {
        let options = [
            ("--download", self.url.to_string()),
            ("--downloads", downloads.to_string()),
            ("--for", milliseconds(self.phase)),
        ];
        let mut arguments = vec!["ping".to_string()];
        arguments.extend(options.into_iter().flat_map(|(name, value)| [name.to_string(), value]));
        arguments.extend(self.options.family_arguments());
        arguments.push(self.target.clone());
        at.start(&arguments)
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// Sleeps; `false`: the user interrupted.
fn wait(time: Duration, stop: &Stop) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if stop.is_set() {
            return false;
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    true
}

/// Share of the pings that were lost.
fn loss(ping: &Ping) -> f64 {
    text::share(ping.lost as f64, ping.sent.saturating_sub(ping.pending) as f64)
}

/// A line on standard error.
fn note(text: &str) {
    // Nobody may read it.
    let _ = output::print(&format!("netwhy: {text}\n"), true);
}
