//! The figures of a workload, parsed from what its program printed.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::scenario::types::OutputFormat;

/// Figures by name; names end in their unit.
pub type Figures = BTreeMap<String, f64>;

/// Names of the figures in this output.
pub(crate) fn names(reads: OutputFormat) -> &'static [&'static str] {
    match reads {
        OutputFormat::Wrk => {
            &["requests_per_second", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "errors"]
        }
        OutputFormat::Ab => &[
            "requests_per_second",
            "mean_ms",
            "p50_ms",
            "p90_ms",
            "p99_ms",
            "longest_ms",
            "errors",
        ],
        OutputFormat::Iperf3 => &["mbit_per_second", "retransmits", "seconds"],
        OutputFormat::Lines | OutputFormat::Pattern => &[],
    }
}

/// Whether lower is better.
pub(crate) fn lower_is_better(figure: &str) -> bool {
    figure.ends_with("_ms") || matches!(figure, "seconds" | "errors" | "retransmits")
}

/// How many times better a figure has become: 2 is twice as good.
pub(crate) fn improvement(figure: &str, before: f64, after: f64) -> f64 {
    // Zero counts as one error, or as one thousandth of anything else.
    let floor = if matches!(figure, "errors" | "retransmits") { 1.0 } else { 1e-3 };
    let (before, after) = (before.max(floor), after.max(floor));
    if lower_is_better(figure) { before / after } else { after / before }
}

/// Parses an output.
pub(crate) fn read(reads: OutputFormat, pattern: Option<&str>, output: &str) -> Figures {
    match reads {
        OutputFormat::Wrk => wrk(output),
        OutputFormat::Ab => ab(output),
        OutputFormat::Iperf3 => iperf3(output),
        OutputFormat::Lines => lines(output),
        OutputFormat::Pattern => {
            pattern.map_or_else(Figures::new, |pattern| matched(pattern, output))
        }
    }
}

fn insert_finite(figures: &mut Figures, name: &str, value: Option<f64>) {
    if let Some(value) = value.filter(|value| value.is_finite()) {
        figures.insert(name.to_string(), value);
    }
}

/// wrk, with `--latency` for the percentiles. Error responses do not count as requests.
fn wrk(output: &str) -> Figures {
    let mut figures = Figures::new();
    let (mut errors, mut refused, mut all) = (0.0, 0.0, 0.0);
    for line in output.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Requests/sec:", rate] => {
                insert_finite(&mut figures, "requests_per_second", rate.parse().ok())
            }
            [percent @ ("50%" | "90%" | "99%"), time] => {
                let name = format!("p{}_ms", percent.trim_end_matches('%'));
                insert_finite(&mut figures, &name, milliseconds(time));
            }
            ["Latency", mean, ..] if *mean != "Distribution" => {
                insert_finite(&mut figures, "mean_ms", milliseconds(mean));
            }
            ["Socket", "errors:", rest @ ..] => {
                let counts =
                    rest.iter().filter_map(|word| word.trim_end_matches(',').parse::<f64>().ok());
                errors += counts.sum::<f64>();
            }
            ["Non-2xx", .., count] => refused = count.parse().unwrap_or(0.0),
            [count, "requests", "in", ..] => all = count.parse().unwrap_or(0.0),
            _ => {}
        }
    }
    subtract_failed(&mut figures, refused, all);
    if !figures.is_empty() {
        figures.insert("errors".to_string(), errors + refused);
    }
    figures
}

/// Subtracts error responses from the rate.
fn subtract_failed(figures: &mut Figures, bad: f64, all: f64) {
    if let Some(rate) = figures.get_mut("requests_per_second").filter(|_| all > 0.0) {
        *rate *= (1.0 - bad / all).clamp(0.0, 1.0);
    }
}

/// A time as wrk writes it: `44.12ms`, `1.20s`, `830.00us`.
fn milliseconds(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at_checked(at)?;
    let number: f64 = number.parse().ok()?;
    match unit {
        "us" => Some(number / 1000.0),
        "ms" => Some(number),
        "s" => Some(number * 1000.0),
        "m" => Some(number * 60_000.0),
        _ => None,
    }
}

/// ab.
fn ab(output: &str) -> Figures {
    let mut figures = Figures::new();
    let (mut errors, mut all) = (0.0, None);
    for line in output.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Requests", "per", "second:", rate, ..] => {
                insert_finite(&mut figures, "requests_per_second", rate.parse().ok());
            }
            ["Time", "per", "request:", ms, "[ms]", "(mean)"] => {
                insert_finite(&mut figures, "mean_ms", ms.parse().ok());
            }
            ["Failed", "requests:", count] | ["Non-2xx", "responses:", count] => {
                errors += count.parse().unwrap_or(0.0);
            }
            ["Complete", "requests:", count] => all = count.parse().ok(),
            [percent @ ("50%" | "90%" | "99%"), ms] => {
                let name = format!("p{}_ms", percent.trim_end_matches('%'));
                insert_finite(&mut figures, &name, ms.parse().ok());
            }
            ["100%", ms, ..] => insert_finite(&mut figures, "longest_ms", ms.parse().ok()),
            _ => {}
        }
    }
    if let Some(all) = all {
        subtract_failed(&mut figures, errors, all);
        figures.insert("errors".to_string(), errors);
    }
    figures
}

/// `iperf3 --json`: what the receiver received.
fn iperf3(output: &str) -> Figures {
    let mut figures = Figures::new();
    let Ok(value) = serde_json::from_str::<Value>(output) else {
        return figures;
    };
    let number = |path: &str| value.pointer(path).and_then(Value::as_f64);
    // UDP of older versions has only `sum`.
    let received = |name: &str| {
        number(&format!("/end/sum_received/{name}")).or_else(|| number(&format!("/end/sum/{name}")))
    };
    let rate = received("bits_per_second");
    insert_finite(&mut figures, "mbit_per_second", rate.map(|rate| rate / 1e6));
    insert_finite(&mut figures, "seconds", received("seconds"));
    insert_finite(&mut figures, "retransmits", number("/end/sum_sent/retransmits"));
    figures
}

/// Lines `NAME VALUE`; the last one of a name counts.
fn lines(output: &str) -> Figures {
    output
        .lines()
        .filter_map(|line| {
            let (name, value) = line.trim().split_once(' ')?;
            let value: f64 = value.trim().parse().ok()?;
            value.is_finite().then(|| (name.to_string(), value))
        })
        .collect()
}

/// Named groups of a regular expression.
fn matched(pattern: &str, output: &str) -> Figures {
    let mut figures = Figures::new();
    let Ok(regex) = regex::Regex::new(pattern) else { return figures };
    for captures in regex.captures_iter(output) {
        for name in regex.capture_names().flatten() {
            insert_finite(
                &mut figures,
                name,
                captures.name(name).and_then(|m| m.as_str().parse().ok()),
            );
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrk_is_parsed() {
        let output = "Running 3s test @ http://127.0.0.1/\n  2 threads and 100 connections\n  \
            Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency    43.97ms    1.20ms  \
            51.16ms   97.83%\n  Latency Distribution\n     50%   44.01ms\n     75%   44.10ms\n     \
            90%    1.20s\n     99%  830.00us\n  6804 requests in 3.01s, 5.61MB read\n  Socket \
            errors: connect 0, read 2, write 0, timeout 3\n  Non-2xx or 3xx responses: 5\n\
            Requests/sec:   2260.47\nTransfer/sec:      1.86MB\n";
        let figures = wrk(output);
        assert!((figures["requests_per_second"] - 2260.47 * (1.0 - 5.0 / 6804.0)).abs() < 1e-6);
        assert_eq!((figures["mean_ms"], figures["p50_ms"]), (43.97, 44.01));
        assert_eq!(figures["p90_ms"], 1200.0);
        assert_eq!(figures["p99_ms"], 0.83);
        assert_eq!(figures["errors"], 10.0);
        assert!(wrk("unable to connect to 127.0.0.1:80").is_empty());
    }

    #[test]
    fn ab_is_parsed() {
        let output = "Complete requests:      1000\nFailed requests:        12\n   (Connect: 12, \
            Receive: 0)\nNon-2xx responses:      3\nRequests per second:    412.50 [#/sec] (mean)\n\
            Time per request:       48.485 [ms] (mean)\nTime per request:       2.424 [ms] \
            (mean, across all concurrent requests)\n  50%     18\n  90%    210\n  99%   1042\n 100%   3011 (longest request)\n";
        let figures = ab(output);
        assert!((figures["requests_per_second"] - 412.5 * 0.985).abs() < 1e-6);
        assert_eq!(figures["mean_ms"], 48.485);
        assert_eq!((figures["p99_ms"], figures["longest_ms"]), (1042.0, 3011.0));
        assert_eq!(figures["errors"], 15.0);
    }

    #[test]
    fn iperf3_lines_and_patterns_are_parsed() {
        let output = r#"{"end":{"sum_sent":{"retransmits":7},
            "sum_received":{"bits_per_second":9.5e7,"seconds":3.01}}}"#;
        assert_eq!(iperf3(output)["mbit_per_second"], 95.0);
        assert_eq!(iperf3(output)["retransmits"], 7.0);
        assert!(iperf3("iperf3: error - unable to connect").is_empty());
        assert_eq!(lines("seconds 2.5\nnoise\nseconds 3")["seconds"], 3.0);
        assert_eq!(matched("took (?P<seconds>[0-9.]+)", "took 1.5")["seconds"], 1.5);
    }

    #[test]
    fn lower_is_better_for_times_and_errors() {
        assert_eq!(improvement("p50_ms", 44.0, 2.0), 22.0);
        assert_eq!(improvement("requests_per_second", 100.0, 450.0), 4.5);
        assert!(improvement("requests_per_second", 0.0, 450.0) > 1e5);
    }
}
