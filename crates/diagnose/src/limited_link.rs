//! Which link is limited, by pings under load. Packets queue before a limited link: every host whose
//! path crosses it waits there while somebody fills the queue, and no other host does.

use model::{LimitedLink, LoadPhase, LoadVerdict, PingTimes, UnderLoad};
use text::{bit_rate, micros};

use crate::words::line;

/// A round trip has risen by at least so much: milliseconds, and a share of the idle one.
const MIN_RISE_MS: f64 = 2.0;
const MIN_RISE_SHARE: f64 = 0.25;
/// The rise also exceeds the spread of idle round trips (p90 less p50) so many times.
const MIN_RISE_SPREADS: f64 = 3.0;
/// Answered pings that make a median.
const MIN_SAMPLES: u64 = 20;

/// Judges an experiment: where the limited link is, and its rate. A verdict that the experiment has
/// already is ignored.
pub fn locate(measured: &UnderLoad) -> LoadVerdict {
    let unclear = |why: &str| LoadVerdict {
        link: LimitedLink::Unclear,
        reasons: vec![why.to_string()],
        ..LoadVerdict::default()
    };
    let phases = measured.phases.split_first();
    let Some((idle, loads)) =
        phases.filter(|(idle, loads)| idle.loaded_vantage_point.is_none() && !loads.is_empty())
    else {
        return unclear(
            "The experiment ended before a phase under load: there is nothing to compare.",
        );
    };
    let places = measured.vantage_points.len();
    let answered = |at| median(idle, at).is_some_and(|times| times.samples >= MIN_SAMPLES);
    if !(0..places).all(answered) {
        return unclear("Some place got too few answers while nothing was downloaded.");
    }
    // Of each place that downloads: the phase with most downloads, if bytes arrived.
    let mut most: Vec<&LoadPhase> = Vec::new();
    for phase in loads.iter().filter(|phase| phase.wire_bits_per_s.is_some()) {
        match most.iter_mut().find(|known| known.loaded_vantage_point == phase.loaded_vantage_point)
        {
            Some(known) if known.downloads < phase.downloads => *known = phase,
            Some(_) => {}
            None => most.push(phase),
        }
    }
    if most.is_empty() {
        return unclear("Nothing could be downloaded.");
    }
    let risen = |phase: &LoadPhase| -> Vec<usize> {
        (0..places).filter(|at| has_risen(idle, phase, *at)).collect()
    };
    // Downloads that raised a round trip filled the limited link; others were limited elsewhere.
    let sets = most.iter().map(|phase| (*phase, risen(phase)));
    let most_places = sets.filter(|(_, set)| !set.is_empty()).max_by_key(|(_, set)| set.len());
    let Some((phase, behind)) = most_places else {
        let fastest = most.iter().filter_map(|phase| phase.wire_bits_per_s).fold(0.0, f64::max);
        let why = format!("No round trip rose at {}: no queue was filled.", bit_rate(fastest));
        return LoadVerdict { reasons: vec![why], ..LoadVerdict::default() };
    };
    let before: Vec<usize> = (0..places).filter(|at| !behind.contains(at)).collect();
    let itself = phase.loaded_vantage_point.is_some_and(|loaded| behind.contains(&loaded));
    let link = match (itself && places > 1, before.is_empty(), behind.len()) {
        (false, ..) => LimitedLink::Unclear,
        (true, true, _) => LimitedLink::Shared,
        (true, false, 1) => LimitedLink::Access,
        (true, false, _) => LimitedLink::Middle,
    };
    let mut reasons: Vec<String> =
        (0..places).map(|at| reason(measured, idle, phase, at, behind.contains(&at))).collect();
    if places == 1 {
        let why = "One place alone does not show whose link it is: add others with --from.";
        reasons.push(why.to_string());
    } else if link == LimitedLink::Unclear {
        let why = "The place that downloads does not wait itself: the queue is elsewhere.";
        reasons.push(why.to_string());
    }
    let wire_bits_per_s = phase.wire_bits_per_s;
    LoadVerdict { link, wire_bits_per_s, behind, before, reasons }
}

/// What one place shows, in words.
fn reason(
    measured: &UnderLoad,
    idle: &LoadPhase,
    phase: &LoadPhase,
    at: usize,
    behind: bool,
) -> String {
    let name = |at: usize| measured.vantage_points.get(at).map_or("?".to_string(), |at| line(at));
    let words = |phase: &LoadPhase| {
        median(phase, at).map_or("*".to_string(), |times| micros((times.p50_ms * 1e3) as u64))
    };
    let (who, before, now) = (name(at), words(idle), words(phase));
    if !behind {
        return format!("{who}: {before} idle, {now} meanwhile: not across that link");
    }
    let one = measured.phases.iter().find(|other| {
        other.loaded_vantage_point == phase.loaded_vantage_point
            && other.downloads == 1
            && phase.downloads > 1
    });
    let one = one.map(|one| format!(", {} with 1 download", words(one))).unwrap_or_default();
    let loaded = phase.loaded_vantage_point.unwrap_or(at);
    let whose =
        if loaded == at { "of its own".to_string() } else { format!("of {}", name(loaded)) };
    format!("{who}: {before} idle{one}, {now} with {} {whose}", phase.downloads)
}

/// Of the places behind the link, the one whose round trip rose most while another place downloads:
/// round trips idle and under load, milliseconds, and its name.
pub(crate) fn worst_place<'a>(
    measured: &'a UnderLoad,
    verdict: &LoadVerdict,
) -> Option<(f64, f64, &'a str)> {
    let (idle, loads) = measured.phases.split_first()?;
    let of = |at: usize| {
        let idle = median(idle, at)?.p50_ms;
        let others = loads.iter().filter(|phase| phase.loaded_vantage_point != Some(at));
        let full = others.filter_map(|phase| median(phase, at)).map(|times| times.p50_ms);
        let full = full.fold(f64::NAN, f64::max);
        Some((idle, full, measured.vantage_points.get(at)?.as_str()))
    };
    let all =
        verdict.behind.iter().filter_map(|at| of(*at)).filter(|(_, full, _)| full.is_finite());
    all.max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)))
}

fn median(phase: &LoadPhase, at: usize) -> Option<PingTimes> {
    phase.pings.get(at).copied().flatten()
}

/// Whether the round trip of a place is longer in a phase. A place that gets no answers any more does
/// not count as waiting.
fn has_risen(idle: &LoadPhase, phase: &LoadPhase, at: usize) -> bool {
    let (Some(idle), Some(now)) = (median(idle, at), median(phase, at)) else { return false };
    let spread = (idle.p90_ms - idle.p50_ms) * MIN_RISE_SPREADS;
    let least = MIN_RISE_MS.max(idle.p50_ms * MIN_RISE_SHARE).max(spread);
    now.samples >= MIN_SAMPLES && now.p50_ms - idle.p50_ms > least
}

/// Phases for tests: where downloads run, how many, and medians of three places.
#[cfg(test)]
pub(crate) fn fixture(phases: &[(Option<usize>, u32, [f64; 3])]) -> UnderLoad {
    let ping = |ms: &f64| {
        Some(PingTimes { samples: 100, p50_ms: *ms, p90_ms: *ms, ..PingTimes::default() })
    };
    let phases = phases.iter().map(|(loaded, transfers, medians)| LoadPhase {
        loaded_vantage_point: *loaded,
        downloads: *transfers,
        wire_bits_per_s: loaded.map(|_| 40e6),
        pings: medians.iter().map(ping).collect(),
        loss: vec![0.0; 3],
        ..LoadPhase::default()
    });
    UnderLoad {
        target: "server".to_string(),
        vantage_points: ["loader", "inner", "outer"].map(str::to_string).to_vec(),
        phases: phases.collect(),
        ..UnderLoad::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_wait_together_are_behind_one_link() {
        let idle = (None, 0, [10.0, 10.0, 1.0]);
        for (medians, link) in [
            ([90.0, 92.0, 1.0], LimitedLink::Middle),
            ([90.0, 92.0, 80.0], LimitedLink::Shared),
            ([90.0, 10.5, 1.0], LimitedLink::Access),
            ([10.0, 11.0, 1.0], LimitedLink::None),
            ([10.0, 50.0, 1.0], LimitedLink::Unclear),
        ] {
            let one = (Some(0), 1, [60.0, 60.0, 1.0]);
            let found = locate(&fixture(&[idle, one, (Some(0), 4, medians)]));
            assert_eq!(found.link, link, "{medians:?}: {found:?}");
            let rate = (link != LimitedLink::None).then_some(40e6);
            assert_eq!(found.wire_bits_per_s, rate);
        }
    }

    #[test]
    fn an_incomplete_experiment_is_unclear() {
        assert_eq!(locate(&UnderLoad::default()).link, LimitedLink::Unclear);
        assert_eq!(locate(&fixture(&[(None, 0, [1.0; 3])])).link, LimitedLink::Unclear);
        let mut silent = fixture(&[(None, 0, [1.0; 3]), (Some(0), 1, [9.0; 3])]);
        silent.phases[0].pings[1] = None;
        assert_eq!(locate(&silent).link, LimitedLink::Unclear);
    }

    #[test]
    fn one_place_alone_is_unclear() {
        let mut alone = fixture(&[(None, 0, [10.0; 3]), (Some(0), 4, [90.0; 3])]);
        alone.vantage_points.truncate(1);
        let found = locate(&alone);
        assert_eq!(found.link, LimitedLink::Unclear);
        assert!(found.reasons.last().is_some_and(|why| why.contains("--from")));
    }
}
