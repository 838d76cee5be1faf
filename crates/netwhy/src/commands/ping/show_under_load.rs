//! Pings under load as text: the bottleneck, the round-trip times of each phase, the findings.

use model::{Finding, LimitedLink, LoadPhase, UnderLoad};
use text::figures::round_trip;
use text::{Column, Table, bit_rate, wrap};

use crate::output;

/// The experiment and what it shows.
pub(super) fn text(measured: &UnderLoad, findings: &[Finding]) -> String {
    let mut lines = wrap(&verdict(measured), "", "", output::columns());
    // A finding has the reasons as its proof.
    for reason in measured.verdict.reasons.iter().filter(|_| findings.is_empty()) {
        lines.extend(wrap(reason, "  ", "  ", output::columns()));
    }
    lines.push(String::new());
    let heading = format!("median round-trip time to {}, ms, from", measured.target);
    lines.extend(wrap(&heading, "", "  ", output::columns()));
    for (letter, vantage_point) in letters().zip(&measured.vantage_points) {
        lines.extend(wrap(&format!("{letter} {vantage_point}"), "  ", "    ", output::columns()));
    }
    lines.extend(table(measured).lines("", output::columns()));
    let mut errors: Vec<&str> =
        measured.phases.iter().filter_map(|phase| phase.error.as_deref()).collect();
    errors.dedup();
    for error in errors {
        lines.extend(wrap(error, "", "  ", output::columns()));
    }
    let legend = format!(
        "N at X: N downloads at X of {}; rates on the wire are estimates, with the headers of \
         full-size segments.",
        measured.url
    );
    lines.extend(wrap(&legend, "", "", output::columns()));
    let mut text: String = lines.into_iter().map(|line| line + "\n").collect();
    if !findings.is_empty() {
        text.push('\n');
        text.push_str(&report::findings(findings, output::plain_style()));
    }
    text
}

/// Letters of the vantage points.
fn letters() -> impl Iterator<Item = char> {
    'A'..='Z'
}

/// Where the bottleneck is.
fn verdict(measured: &UnderLoad) -> String {
    let verdict = &measured.verdict;
    let rate = verdict.wire_bits_per_s.map(bit_rate).unwrap_or_default();
    let names = |indices: &[usize]| {
        let names = indices.iter().filter_map(|at| measured.vantage_points.get(*at));
        names.map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    let (behind, before) = (names(&verdict.behind), names(&verdict.before));
    match verdict.link {
        LimitedLink::None => {
            "No bottleneck: round-trip times do not rise while the downloads run.".to_string()
        }
        LimitedLink::Middle => format!(
            "A link in the middle of the path is the bottleneck: about {rate} on the wire. Behind \
             it, seen from the server: {behind}; before it: {before}."
        ),
        LimitedLink::Shared => format!(
            "A link that all vantage points share is the bottleneck: about {rate} on the wire. It \
             is at the server, or between the server and {behind}."
        ),
        LimitedLink::Access => format!(
            "The access link of {behind} is the bottleneck: about {rate} on the wire. Round-trip \
             times from {before} do not rise."
        ),
        LimitedLink::Unclear => "The bottleneck cannot be located:".to_string(),
    }
}

/// The median round-trip times of each phase.
fn table(measured: &UnderLoad) -> Table {
    let letters = letters().take(measured.vantage_points.len());
    let columns = letters.map(|letter| Column::right(format!("{:>8}", letter)));
    let mut table = Table::new(std::iter::once(Column::left("")).chain(columns));
    for phase in &measured.phases {
        let times = phase.pings.iter().map(|ping| match ping {
            Some(times) => round_trip(times.p50_ms).trim_end_matches(" ms").to_string(),
            None => "*".to_string(),
        });
        table.row(std::iter::once(phase_name(phase)).chain(times));
    }
    table
}

fn phase_name(phase: &LoadPhase) -> String {
    match phase.loaded_vantage_point.and_then(|at| letters().nth(at)) {
        None => "idle".to_string(),
        Some(letter) => {
            let rate = phase.wire_bits_per_s.map_or("no data".to_string(), bit_rate);
            format!("{} at {letter}, {rate}", phase.downloads)
        }
    }
}

#[cfg(test)]
mod tests {
    use model::PingTimes;

    use super::*;

    #[test]
    fn text_fits_eighty_columns() {
        let phase = |loaded_vantage_point, downloads| LoadPhase {
            loaded_vantage_point,
            downloads,
            pings: vec![Some(PingTimes { p50_ms: 1234.5, ..PingTimes::default() }); 6],
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
        for link in
            [LimitedLink::None, LimitedLink::Middle, LimitedLink::Shared, LimitedLink::Access]
        {
            measured.verdict.link = link;
            let text = text(&measured, &[]);
            for line in text.lines() {
                assert!(line.chars().count() <= output::columns(), "{line}");
            }
            assert!(text.contains("\n64 at F, 123 Mbit/s    1234.5    1234.5"), "{text}");
        }
    }
}
