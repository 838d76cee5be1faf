//! `netwhy ping --under-load`: pings from several places, idle and while downloads run at one of them
//! after the other.

use std::fmt::Write as _;
use std::time::Duration;

use diagnose::limited_link::locate;
use model::{Evidence, Finding, LimitedLink, LoadPhase, Ping, PingReport, Probes, UnderLoad};
use probe::ping::load::{Downloaded, Url, download};
use text::{bit_rate, wrap};

use super::options::PingOptions;
use super::place::{Place, Running};
use crate::failure::Failure;
use crate::output;
use sys::Stop;

/// How long each phase is measured, unless asked otherwise.
const PHASE: Duration = Duration::from_secs(5);
/// How long downloads run before: until queues are full.
const WARM_UP: Duration = Duration::from_secs(2);
/// From one ping to the next.
const INTERVAL: &str = "20ms";
/// An answer behind a full queue may take long.
const TIMEOUT: &str = "3s";
/// What a place may take beyond what it measures: a connection by ssh, a name.
const BEYOND: Duration = Duration::from_secs(20);
/// Most places: they are columns.
const PLACES: usize = 6;
/// Columns.
const WIDTH: usize = 80;
const FIRST: usize = 26;
const OTHERS: usize = 9;

/// `netwhy ping --under-load URL HOST`
pub(super) fn run(options: &PingOptions, stop: &Stop) -> anyhow::Result<u8> {
    let Some(url) = &options.load.under_load else { return Ok(2) };
    let url: Url = url.parse().map_err(crate::probing::failure)?;
    let [target] = options.targets.as_slice() else {
        let words = "--under-load pings one host";
        return Err(Failure::Usage(words.to_string()).into());
    };
    let mut loading = options.load.from.clone();
    if loading.is_empty() {
        loading.push(Place::Here);
    }
    let mut places = loading.clone();
    places.extend(options.load.ping_from.iter().cloned());
    for (index, place) in places.iter().enumerate() {
        if places[..index].contains(place) {
            let words = format!("{place} is given twice");
            return Err(Failure::Usage(words).into());
        }
    }
    if places.len() > PLACES {
        let words = format!("at most {PLACES} places at once");
        return Err(Failure::Usage(words).into());
    }
    let many = options.load.transfers;
    let time = options.time.unwrap_or(PHASE);
    let mut measured = UnderLoad {
        target: target.to_string(),
        url: url.to_string(),
        vantage_points: places.iter().map(Place::to_string).collect(),
        ..UnderLoad::default()
    };
    let counts = if many > 1 { vec![1, many] } else { vec![1] };
    let loads = (0..loading.len()).flat_map(|place| counts.iter().map(move |n| (place, *n)));
    let phases: Vec<(Option<usize>, u32)> =
        std::iter::once((None, 0)).chain(loads.map(|(place, n)| (Some(place), n))).collect();
    let whole = time.as_secs_f64() + WARM_UP.as_secs_f64();
    note(&format!("{} phases, about {:.0} s", phases.len(), whole * phases.len() as f64));
    for (loaded, transfers) in phases {
        note(&match loaded.and_then(|at| places.get(at)) {
            None => "idle".to_string(),
            Some(place) => format!("{} at {place}", downloads(transfers)),
        });
        let what = Phase { target: &measured.target, url: &url, options, time, transfers };
        match what.measure(&places, loaded, stop)? {
            Some(phase) => measured.phases.push(phase),
            None => break,
        }
    }
    if measured.phases.is_empty() {
        let words = "interrupted before anything was measured";
        return Err(Failure::Observe(words.to_string()).into());
    }
    measured.verdict = locate(&measured);
    let findings = findings(&measured);
    let (_, loads) = measured.phases.split_at(1);
    let nothing = !loads.is_empty() && loads.iter().all(|phase| phase.received_bytes == 0);
    if options.json {
        let under_load = Some(measured);
        super::json::print_json(PingReport { under_load, findings, ..PingReport::default() })?;
    } else {
        let all = format!("{}{}", text(&measured, &findings), found(&findings));
        output::print(&output::harmless(&all), None, false)?;
    }
    Ok(if nothing { Failure::OBSERVE } else { 0 })
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

/// They as text.
fn found(findings: &[Finding]) -> String {
    match findings {
        [] => String::new(),
        findings => format!(
            "
{}",
            report::findings(findings, text::Style::default())
        ),
    }
}

/// `netwhy ping --download URL`: what a place runs while others ping.
pub(super) fn load(options: &PingOptions, url: &str, stop: &Stop) -> anyhow::Result<u8> {
    let url: Url = url.parse().map_err(crate::probing::failure)?;
    let time = options.time.unwrap_or(PHASE);
    let transfers = options.load.transfers;
    let done = download(&url, options.family(), transfers, WARM_UP, time, stop);
    output::print(&serde_json::to_string(&done.map_err(crate::probing::failure)?)?, None, false)?;
    Ok(0)
}

/// One phase.
struct Phase<'a> {
    target: &'a str,
    url: &'a Url,
    options: &'a PingOptions,
    time: Duration,
    transfers: u32,
}

impl Phase<'_> {
    /// Measures it; `None` when the user interrupts.
    fn measure(
        &self,
        places: &[Place],
        loaded: Option<usize>,
        stop: &Stop,
    ) -> anyhow::Result<Option<LoadPhase>> {
        let load =
            loaded.and_then(|at| places.get(at)).map(|place| self.load(place)).transpose()?;
        if load.is_some() {
            let until = std::time::Instant::now() + WARM_UP;
            while std::time::Instant::now() < until {
                if stop.is_set() {
                    return Ok(None);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let pings: Vec<Running> =
            places.iter().map(|place| self.ping(place)).collect::<anyhow::Result<_>>()?;
        let mut phase = LoadPhase { loaded, transfers: self.transfers, ..LoadPhase::default() };
        let most = self.time + BEYOND;
        for ping in pings {
            let Some(output) = ping.output(most, stop)? else { return Ok(None) };
            let report: PingReport = serde_json::from_slice(&output)?;
            let ping = report.pings.into_iter().next().unwrap_or_default();
            phase.duration_ms = phase.duration_ms.max(ping.duration_ms);
            phase.lost.push(lost(&ping));
            phase.pings.push(ping.round_trip);
        }
        if let Some(load) = load {
            let Some(output) = load.output(most, stop)? else { return Ok(None) };
            let done: Downloaded = serde_json::from_slice(&output)?;
            phase.received_bytes = done.bytes;
            phase.wire_bits_per_s = done.wire_bits_per_s();
            phase.failed = done.failed;
        }
        Ok(Some(phase))
    }

    fn ping(&self, place: &Place) -> anyhow::Result<Running> {
        let time = format!("{}ms", self.time.as_millis());
        let mut words = vec!["ping", "--json", "-i", INTERVAL, "-W", TIMEOUT, "--for", &time];
        words.extend(self.options.words());
        words.push(self.target);
        place.start(&words.into_iter().map(str::to_string).collect::<Vec<_>>())
    }

    fn load(&self, place: &Place) -> anyhow::Result<Running> {
        let (time, transfers) =
            (format!("{}ms", self.time.as_millis()), self.transfers.to_string());
        let url = self.url.to_string();
        let mut words = vec!["ping", "--download", &url, "--transfers", &transfers, "--for", &time];
        words.extend(
            self.options
                .words()
                .into_iter()
                .filter(|word| word.starts_with('-') && word.len() == 2),
        );
        words.push(self.target);
        place.start(&words.into_iter().map(str::to_string).collect::<Vec<_>>())
    }
}

fn lost(ping: &Ping) -> f64 {
    let over = ping.sent.saturating_sub(ping.waiting);
    if over > 0 { ping.lost as f64 / over as f64 } else { 0.0 }
}

fn downloads(transfers: u32) -> String {
    if transfers == 1 { "1 download".to_string() } else { format!("{transfers} downloads") }
}

/// The experiment as text.
fn text(measured: &UnderLoad, findings: &[Finding]) -> String {
    let mut text = String::new();
    let mut say = |words: &str, start: &str, hang: &str| {
        for line in wrap(words, start, hang, WIDTH) {
            let _ = writeln!(text, "{line}");
        }
    };
    let verdict = &measured.verdict;
    let rate = verdict.wire_bits_per_s.map(bit_rate).unwrap_or_default();
    let names = |all: &[usize]| {
        let names: Vec<&str> = all
            .iter()
            .filter_map(|at| measured.vantage_points.get(*at))
            .map(String::as_str)
            .collect();
        names.join(", ")
    };
    let (behind, before) = (names(&verdict.behind), names(&verdict.before));
    say(
        &match verdict.link {
            LimitedLink::None => "No link is limited by these downloads.".to_string(),
            LimitedLink::Middle => format!(
                "A link in the middle is limited: about {rate} on the wire. Behind it, away from \
                 the server: {behind}; before it: {before}."
            ),
            LimitedLink::Shared => format!(
                "A link that all places share is limited: about {rate} on the wire. It is at the \
                 server or between it and {behind}."
            ),
            LimitedLink::Own => format!(
                "The own link of {behind} is limited: about {rate} on the wire; {before} does not \
                 feel it."
            ),
            LimitedLink::Unclear => "No link can be named by this:".to_string(),
        },
        "",
        "",
    );
    // A finding has them as its proof.
    for reason in verdict.reasons.iter().filter(|_| findings.is_empty()) {
        say(reason, "  ", "  ");
    }
    let _ = writeln!(text, "\nround trip to {}, p50 in ms, from", measured.target);
    let letters: Vec<char> = ('A'..='Z').take(measured.vantage_points.len()).collect();
    for (letter, place) in letters.iter().zip(&measured.vantage_points) {
        let _ = writeln!(text, "  {letter} {place}");
    }
    let _ = write!(text, "{:<FIRST$}", "");
    for letter in &letters {
        let _ = write!(text, "{letter:>OTHERS$}");
    }
    text.push('\n');
    for phase in &measured.phases {
        let name = match phase.loaded.and_then(|at| letters.get(at)) {
            None => "idle".to_string(),
            Some(letter) => {
                let rate = phase.wire_bits_per_s.map_or("no bytes".to_string(), bit_rate);
                format!("{} at {letter}, {rate}", phase.transfers)
            }
        };
        let _ = write!(text, "{name:<FIRST$}");
        for ping in &phase.pings {
            let ms = ping.map_or("*".to_string(), |ping| {
                text::figures::round_trip(ping.p50_ms).trim_end_matches(" ms").to_string()
            });
            let _ = write!(text, "{ms:>OTHERS$}");
        }
        text.push('\n');
    }
    let mut failed: Vec<&str> =
        measured.phases.iter().filter_map(|phase| phase.failed.as_deref()).collect();
    failed.dedup();
    for why in failed {
        for line in wrap(why, "", "  ", WIDTH) {
            let _ = writeln!(text, "{line}");
        }
    }
    let words = format!(
        "N at X: N downloads at X of {}; rates with the headers of full segments, an estimate.",
        measured.url
    );
    for line in wrap(&words, "", "", WIDTH) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// A line to standard error; nobody may be there to read it.
fn note(words: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "netwhy: {}", output::harmless(words));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fits_eighty_columns() {
        let phase = |loaded, transfers| LoadPhase {
            loaded,
            transfers,
            pings: vec![None; 6],
            wire_bits_per_s: Some(123_456_789.0),
            ..LoadPhase::default()
        };
        let mut measured = UnderLoad {
            target: "a-host-with-a-long-name.example.org".to_string(),
            url: "http://a-host-with-a-long-name.example.org/a/long/path/to/a/file".to_string(),
            vantage_points: (0..6).map(|n| format!("ssh:place-{n}")).collect(),
            phases: vec![phase(None, 0), phase(Some(0), 1), phase(Some(5), 64)],
            ..UnderLoad::default()
        };
        measured.verdict.behind = vec![0, 1, 2];
        for link in [LimitedLink::None, LimitedLink::Middle, LimitedLink::Shared, LimitedLink::Own]
        {
            measured.verdict.link = link;
            let text = text(&measured, &[]);
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }
}
