//! The figures of a load as text.

use std::time::Duration;

use hdrhistogram::Histogram;
use model::{HttpErrors, HttpLoad, Latency, SynRetransmissions};
use text::figures::significant;
use text::{Style, bytes, count, duration, micros, number, sanitize, share, wrap};

use super::distribution::{latency_lines, over_time_lines};
use super::error_responses::only_errors;

/// Columns of the labels.
const LABEL_WIDTH: usize = 11;
/// The intended latency exceeds the latency when one of its figures does so by a tenth, and by this much.
const MIN_LATENCY_DIFFERENCE_US: u64 = 500;
/// Statuses from here on are counted together.
const FIRST_OTHER_STATUS: u16 = 600;

/// The text of a load.
pub(super) fn text(load: &HttpLoad, latency: &Histogram<u64>, style: Style) -> String {
    let mut rows = Rows { lines: Vec::new(), width: style.width };
    if only_errors(load) {
        let text = match load.requests {
            1 => "the only response is an error".to_string(),
            n => format!("all {} responses are errors", number(n)),
        };
        rows.add("error", &format!("{text}: {}", statuses(load)));
    }
    rows.add("load", &plan(load));
    rows.add("responses", &responses(load));
    rows.add("status", &statuses(load));
    rows.add("errors", &errors(&load.errors));
    if load.requests > 0 {
        let of = of_responses(load);
        rows.add("latency", &format!("{}{of}", percentiles(&load.latency_us)));
    }
    if let Some(intended) = &load.intended_latency_us {
        let text = format!("{}, from when the request was due", percentiles(intended));
        rows.add("intended", &text);
        rows.add("", &coordinated_omission(load, intended));
    }
    phases(load, &mut rows);
    for counts in &load.syn_retransmissions {
        rows.add("SYN", &syn_retransmissions(counts));
    }
    client(load, &mut rows);
    let mut lines = rows.lines;
    lines.extend(latency_lines(latency, style.width));
    lines.extend(over_time_lines(load));
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Rows of a label and a text.
struct Rows {
    lines: Vec<String>,
    width: usize,
}

impl Rows {
    fn add(&mut self, label: &str, text: &str) {
        let first = format!("{label:<LABEL_WIDTH$}");
        self.lines.extend(wrap(text, &first, &" ".repeat(LABEL_WIDTH), self.width));
    }
}

/// What was requested, and how.
fn plan(load: &HttpLoad) -> String {
    let urls = match &load.urls[..] {
        [url] => sanitize::line(url).into_owned(),
        [url, others @ ..] => {
            format!("{} and {} more", sanitize::line(url), number(others.len() as u64))
        }
        [] => String::new(),
    };
    let connections = count(load.connections.into(), "connection");
    let mut text = format!("{urls}, {connections}, {}", count(load.threads.into(), "thread"));
    if load.version == "2" {
        text += ", HTTP/2";
    }
    if load.new_connections {
        text += ", a new one for each request";
    }
    match load.rate_per_s {
        Some(rate) => text += &format!(", open loop: {} requests a second", significant(rate)),
        None => text += ", closed loop",
    }
    text
}

/// Complete responses, in all and a second.
fn responses(load: &HttpLoad) -> String {
    let received_per_s = share(load.received_bytes as f64, load.duration_s);
    let unfinished = match load.unfinished {
        0 => String::new(),
        n => format!("; {} in flight at the end", number(n)),
    };
    format!(
        "{} in {}: {}/s, {}/s{unfinished}",
        number(load.requests),
        duration(Duration::try_from_secs_f64(load.duration_s).unwrap_or_default()),
        significant(load.requests_per_s),
        bytes(received_per_s as u64)
    )
}

fn percentiles(latency: &Latency) -> String {
    format!(
        "p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
        micros(latency.p50),
        micros(latency.p90),
        micros(latency.p99),
        micros(latency.p999),
        micros(latency.max)
    )
}

/// What the latencies leave out: requests without a response.
fn of_responses(load: &HttpLoad) -> String {
    match load.errors.total() + load.unfinished + load.unsent.unwrap_or(0) {
        0 => String::new(),
        n => format!(", of the {} answered; {} got no response", number(load.requests), number(n)),
    }
}

/// What the difference between latency and intended latency means.
fn coordinated_omission(load: &HttpLoad, intended: &Latency) -> String {
    let shown =
        |latency: &Latency| [latency.p50, latency.p90, latency.p99, latency.p999, latency.max];
    let mut figures = shown(&load.latency_us).into_iter().zip(shown(intended));
    let differ = figures
        .any(|(latency, intended)| intended > latency + latency / 10 + MIN_LATENCY_DIFFERENCE_US);
    match (load.unsent.unwrap_or(0), differ) {
        (0, false) => "all requests were sent when they were due".to_string(),
        (0, true) => "the difference is the time for which due requests waited for a connection; \
                      a closed loop leaves it out (coordinated omission)"
            .to_string(),
        (unsent, _) => format!(
            "{} due and never sent: the rate was not reached, and these figures lack their \
             latency",
            count(unsent, "request")
        ),
    }
}

fn statuses(load: &HttpLoad) -> String {
    let statuses = load.statuses.iter().map(|one| match one.status {
        FIRST_OTHER_STATUS.. => format!("{} × other", number(one.count)),
        status => format!("{} × {status}", number(one.count)),
    });
    let text = statuses.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "none".to_string() } else { text }
}

fn errors(errors: &HttpErrors) -> String {
    let mut lines = Vec::new();
    for (category, kinds) in [
        ("connect", &errors.connect),
        ("TLS", &errors.tls),
        ("write", &errors.write),
        ("read", &errors.read),
        ("malformed response", &errors.malformed),
    ] {
        let line = |(kind, count): (&String, &u64)| {
            format!("{} × {category}: {}", number(*count), sanitize::line(kind))
        };
        lines.extend(kinds.iter().map(line));
    }
    for (what, count) in [
        ("connection closed before the response", errors.closed_before_response),
        ("connection closed during the response", errors.closed_mid_response),
        ("timeout: not connected", errors.timeout_connect),
        ("timeout: no complete response", errors.timeout_response),
    ] {
        if count > 0 {
            lines.push(format!("{} × {what}", number(count)));
        }
    }
    if errors.tls.keys().any(|kind| kind.contains("certificate")) {
        lines.push("(--ca FILE trusts another issuer, --insecure any certificate)".to_string());
    }
    if lines.is_empty() { "none".to_string() } else { lines.join("\n") }
}

fn phases(load: &HttpLoad, rows: &mut Rows) {
    let phases = &load.phases_us;
    let mut label = "phases";
    for (name, latency) in [
        ("name lookup", &phases.name_lookup),
        ("connect", &phases.connect),
        ("TLS", &phases.tls),
        ("send", &phases.send),
        ("first byte", &phases.first_byte),
        ("receive", &phases.receive),
    ] {
        let Some(latency) = latency else { continue };
        let text = format!(
            "{name:<11}  p50 {:>8}  p99 {:>8}  max {:>8}  {:>9} ×",
            micros(latency.p50),
            micros(latency.p99),
            micros(latency.max),
            number(latency.count),
        );
        rows.add(label, &text);
        label = "";
    }
}

/// Connections whose SYN was retransmitted.
fn syn_retransmissions(counts: &SynRetransmissions) -> String {
    let mut parts: Vec<String> = counts
        .opened
        .iter()
        .zip(1..)
        .filter(|(opened, _)| **opened > 0)
        .map(|(opened, times)| match times {
            1 => format!("{} once", number(*opened)),
            2 => format!("{} twice", number(*opened)),
            7 => format!("{} 7 times or more", number(*opened)),
            times => format!("{} {times} times", number(*opened)),
        })
        .collect();
    for (count, what) in
        [(counts.timed_out, "timed out"), (counts.still_connecting, "not connected at the end")]
    {
        if count > 0 {
            parts.push(format!("{} {what}", number(count)));
        }
    }
    let slow = counts.opened.iter().sum::<u64>() + counts.timed_out + counts.still_connecting;
    format!(
        "retransmitted for {} of {} to {}: {}; {} of waiting in total",
        number(slow),
        count(counts.attempted, "connection"),
        counts.server,
        parts.join(", "),
        micros(counts.waited_us)
    )
}

/// What this client contributes to the figures.
fn client(load: &HttpLoad, rows: &mut Rows) {
    let client = &load.client;
    if load.requests > 0 {
        let text = format!(
            "{} of CPU time a request; {} requests in flight on average, rate × latency {}{}",
            micros(client.cpu_us_per_request.round() as u64),
            significant(client.in_flight),
            significant(client.rate_times_latency),
            littles_law(client.in_flight, client.rate_times_latency),
        );
        rows.add("client", &text);
    }
    if let Some(delay) = client.read_delay_us.filter(|delay| delay.p99 > 0) {
        let text = format!(
            "responses were read p50 {}, p99 {} after the kernel received them: not part of the \
             latencies",
            micros(delay.p50),
            micros(delay.p99)
        );
        rows.add("", &text);
    }
    for limit in &client.limits {
        rows.add("", &format!("! {limit}"));
    }
}

fn littles_law(in_flight: f64, rate_times_latency: f64) -> &'static str {
    let tolerance = 0.1 * in_flight.max(rate_times_latency) + 1.0;
    if (in_flight - rate_times_latency).abs() > tolerance {
        " (equal by Little's law, unless there are too few responses or the load changes)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use model::{HttpInterval, HttpPhases, StatusCount};

    use super::*;

    #[test]
    fn responses_that_are_all_errors_come_first_and_requests_without_one_are_left_out() {
        let status = |status, count| StatusCount { status, count };
        let mut load = HttpLoad {
            requests: 30,
            statuses: vec![status(404, 20), status(500, 10)],
            ..HttpLoad::default()
        };
        let text =
            |load: &HttpLoad| super::text(load, &Histogram::new(3).unwrap(), Style::default());
        assert!(
            text(&load).starts_with("error      all 30 responses are errors: 20 × 404, 10 × 500\n")
        );
        assert!(!text(&load).contains("answered"));
        load.statuses.push(status(200, 1));
        load.requests = 31;
        load.unfinished = 2;
        assert!(text(&load).starts_with("load "), "{}", text(&load));
        let words = text(&load).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(", of the 31 answered; 2 got no response"), "{words}");
    }

    #[test]
    fn equal_latencies_are_those_whose_figures_are_equal() {
        let latency = Latency { p50: 100, p99: 200, max: 300, ..Latency::default() };
        let load = HttpLoad { latency_us: latency, unsent: Some(0), ..HttpLoad::default() };
        let text = |max| coordinated_omission(&load, &Latency { max, ..latency });
        assert_eq!(text(800), "all requests were sent when they were due");
        assert!(text(900).contains("coordinated omission"));
    }

    #[test]
    fn text_fits_eighty_columns_and_cannot_act_on_a_terminal() {
        let us = 1_234_567;
        let latency = Latency { count: 1_000_000, p50: us, p99: us, max: us, ..Latency::default() };
        let mut load = HttpLoad {
            urls: vec!["http://a\x1b[2J/".to_string(), "http://b/".to_string()],
            connections: 10,
            threads: 1,
            new_connections: true,
            rate_per_s: Some(12_345.0),
            duration_s: 10.0,
            requests: 1_000_000,
            requests_per_s: 100_000.0,
            unfinished: 3,
            unsent: Some(12),
            statuses: [(200, 999_999), (600, 1)]
                .map(|(status, count)| StatusCount { status, count })
                .to_vec(),
            latency_us: latency,
            intended_latency_us: Some(latency),
            phases_us: HttpPhases { name_lookup: Some(latency), ..HttpPhases::default() },
            over_time: vec![
                HttpInterval { duration_s: 1.0, requests: 5, ..HttpInterval::default() };
                3
            ],
            ..HttpLoad::default()
        };
        load.errors.tls.insert("bad \x07 certificate".to_string(), 2);
        load.errors.timeout_connect = 1;
        load.syn_retransmissions.push(SynRetransmissions {
            server: "198.18.0.1:80".parse().unwrap(),
            attempted: 110_811,
            opened: vec![460, 0, 3],
            timed_out: 1,
            still_connecting: 0,
            waited_us: 463_000_000,
        });
        let text = text(&load, &Histogram::new(3).unwrap(), Style::default());
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
            assert!(!line.contains(['\x1b', '\x07']), "{line:?}");
        }
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "http://a\\x1b[2J/ and 1 more, 10 connections, 1 thread",
            "1,000,000 in 10.0 s: 100,000/s, 0 B/s; 3 in flight at the end",
            "999,999 × 200, 1 × other",
            "2 × TLS: bad \\x07 certificate 1 × timeout: not connected (--ca FILE",
            "12 requests due and never sent",
            "retransmitted for 464 of 110,811 connections to 198.18.0.1:80: 460 once, 3 3 times, 1 \
             timed out; 7 min 43 s of waiting in total",
            "responses a second over time, 5 to 5",
        ] {
            assert!(words.contains(part), "{part}\n{text}");
        }
    }
}
