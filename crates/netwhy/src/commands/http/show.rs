//! The figures of a load in a terminal: 80 columns, the worst first.

use std::time::Duration;

use hdrhistogram::Histogram;
use model::{HttpErrors, HttpLoad, Latency, SynRetransmissions};
use text::chart::{bar, sparkline};
use text::{Style, bytes, duration, micros, number, percent, wrap};

/// Columns of the longest bar.
const BAR: usize = 34;
/// Bars of a histogram.
const BARS: usize = 12;
/// Points of the course over time.
const COURSE: usize = 60;

pub(super) fn text(load: &HttpLoad, latency: &Histogram<u64>, style: Style) -> String {
    let mut lines = Vec::new();
    let mut line = |first: &str, text: &str| {
        lines.extend(wrap(text, &format!("{first:<11}"), "           ", style.width));
    };
    line("load", &how(load));
    let received = load.received_bytes as f64 / load.duration_s.max(1e-9);
    line(
        "answered",
        &format!(
            "{} requests in {}: {}/s, {}/s{}",
            number(load.requests),
            duration(Duration::from_secs_f64(load.duration_s)),
            rate(load.requests_per_s),
            bytes(received as u64),
            match load.unfinished {
                0 => String::new(),
                n => format!("; {} under way at the end", number(n)),
            }
        ),
    );
    line("status", &statuses(load));
    line("errors", &errors(&load.errors));
    if load.requests > 0 {
        line("latency", &percentiles(&load.latency_us));
    }
    if let Some(intended) = &load.intended_latency_us {
        line("if due", &format!("{}, from when it was due", percentiles(intended)));
        line("", &omission(load, intended));
    }
    phases(load, &mut line);
    for one in &load.syn_retransmissions {
        line("SYNs", &repeated(one));
    }
    let client = &load.client;
    if load.requests > 0 {
        line(
            "client",
            &format!(
                "{:.1} µs of CPU a request; {:.1} requests under way on average, rate times \
                 latency {:.1}{}",
                client.cpu_us_per_request,
                client.in_flight,
                client.rate_times_latency,
                little(client.in_flight, client.rate_times_latency),
            ),
        );
    }
    if let Some(late) = client.read_delay_us.filter(|late| late.p99 > 0) {
        let text = format!(
            "answers lay unread for p50 {}, p99 {}: not counted, the kernel's stamps are",
            micros(late.p50),
            micros(late.p99)
        );
        line("", &text);
    }
    for limit in &client.limits {
        line("", &format!("! {limit}"));
    }
    bars(latency, &mut lines);
    course(load, &mut lines);
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn how(load: &HttpLoad) -> String {
    let urls = match &load.urls[..] {
        [url] => url.clone(),
        [url, rest @ ..] => format!("{url} and {} more", number(rest.len() as u64)),
        [] => String::new(),
    };
    let one = |count: u32, word: &str| match count {
        1 => format!("1 {word}"),
        n => format!("{} {word}s", number(n.into())),
    };
    let mut text =
        format!("{urls}, {}, {}", one(load.connections, "connection"), one(load.threads, "thread"));
    if load.version == "2" {
        text += ", HTTP/2";
    }
    if load.new_connections {
        text += ", a new one for each request";
    }
    match load.rate_per_s {
        Some(rate) => text += &format!(", {} requests a second intended", self::rate(rate)),
        None => text += ", closed loop",
    }
    text
}

fn rate(per_s: f64) -> String {
    if per_s < 99.5 { format!("{per_s:.1}") } else { number(per_s.round() as u64) }
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

/// What the two latencies tell together.
fn omission(load: &HttpLoad, intended: &Latency) -> String {
    let unsent = load.unsent.unwrap_or(0);
    let late = intended.p99 > load.latency_us.p99 + load.latency_us.p99 / 10 + 500;
    match (unsent, late) {
        (0, false) => "requests went out when they were due: both are the same".to_string(),
        (0, true) => "the difference is time that due requests waited for a connection: a client \
                      that waits for answers would not have seen it (coordinated omission)"
            .to_string(),
        (n, _) => format!(
            "{} requests that were due were never sent: the rate was not kept, and the latency \
             of those is not among these",
            number(n)
        ),
    }
}

fn statuses(load: &HttpLoad) -> String {
    let all: Vec<String> = load
        .statuses
        .iter()
        .map(|one| match one.status {
            600.. => format!("{} with others", number(one.count)),
            status => format!("{} with {status}", number(one.count)),
        })
        .collect();
    if all.is_empty() { "none".to_string() } else { all.join(", ") }
}

fn errors(errors: &HttpErrors) -> String {
    let mut all = Vec::new();
    for (words, kinds) in [
        ("connect", &errors.connect),
        ("TLS", &errors.tls),
        ("write", &errors.write),
        ("read", &errors.read),
        ("not HTTP", &errors.malformed),
    ] {
        all.extend(kinds.iter().map(|(kind, n)| format!("{} {words}: {kind}", number(*n))));
    }
    for (words, n) in [
        ("closed before the answer", errors.closed_before_response),
        ("closed in the middle of the answer", errors.closed_mid_response),
        ("timeout: no connection", errors.timeout_connect),
        ("timeout: no whole answer", errors.timeout_response),
    ] {
        if n > 0 {
            all.push(format!("{} {words}", number(n)));
        }
    }
    if errors.tls.keys().any(|kind| kind.contains("certificate")) {
        all.push("(--ca FILE believes who made a certificate, --insecure anybody)".to_string());
    }
    if all.is_empty() { "none".to_string() } else { all.join("\n") }
}

fn phases(load: &HttpLoad, line: &mut impl FnMut(&str, &str)) {
    let phases = &load.phases_us;
    let all = [
        ("name", &phases.name_lookup),
        ("connect", &phases.connect),
        ("TLS", &phases.tls),
        ("send", &phases.send),
        ("first byte", &phases.first_byte),
        ("rest", &phases.receive),
    ];
    let mut first = "phases";
    for (name, latency) in all {
        let Some(latency) = latency else { continue };
        let text = format!(
            "{name:<10} p50 {:>8}  p99 {:>8}  max {:>8}  {:>11}",
            micros(latency.p50),
            micros(latency.p99),
            micros(latency.max),
            format!("{}×", number(latency.count)),
        );
        line(first, &text);
        first = "";
    }
}

/// Connections that opened late: `463 of 110,811 connections opened late: 460 repeated their SYN once`.
fn repeated(one: &SynRetransmissions) -> String {
    let opened: Vec<String> = one
        .opened
        .iter()
        .enumerate()
        .filter(|(_, n)| **n > 0)
        .map(|(at, n)| match at {
            0 => format!("{} once", number(*n)),
            1 => format!("{} twice", number(*n)),
            6 => format!("{} 7 times and more", number(*n)),
            at => format!("{} {} times", number(*n), at + 1),
        })
        .collect();
    let mut given_up = match one.timed_out {
        0 => String::new(),
        n => format!(", {} given up", number(n)),
    };
    if one.still_connecting > 0 {
        given_up += &format!(", {} not open at the end", number(one.still_connecting));
    }
    format!(
        "of {} connections to {} these repeated their SYN: {}{given_up}; {} waited in all",
        number(one.attempted),
        one.server,
        if opened.is_empty() { "none that opened".to_string() } else { opened.join(", ") },
        micros(one.waited_us)
    )
}

fn little(in_flight: f64, other: f64) -> &'static str {
    let apart = (in_flight - other).abs() > 0.1 * in_flight.max(other) + 1.0;
    if apart {
        " (Little's law: they should agree; too few answers, or a load that changes)"
    } else {
        ""
    }
}

/// How the latencies are spread, in steps that grow.
fn bars(latency: &Histogram<u64>, lines: &mut Vec<String>) {
    if latency.len() < 2 || latency.max() <= latency.min().max(1) {
        return;
    }
    let (from, to) = (latency.min().max(1) as f64, latency.max() as f64);
    let step = (to / from).powf(1.0 / BARS as f64).max(1.05);
    let mut edges = vec![from];
    while edges[edges.len() - 1] < to {
        edges.push(edges[edges.len() - 1] * step);
    }
    let counts: Vec<u64> = edges
        .windows(2)
        .enumerate()
        .map(|(at, edge)| {
            let low = if at == 0 { 0 } else { edge[0] as u64 + 1 };
            latency.count_between(low, edge[1] as u64)
        })
        .collect();
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    lines.push(String::new());
    lines.push("latency".to_string());
    for (edge, count) in edges.windows(2).zip(&counts) {
        let bar = bar(*count as f64 / most as f64, BAR);
        let share = *count as f64 / latency.len() as f64;
        let upto = micros(edge[1] as u64);
        lines.push(
            format!("  up to {upto:>8}  {:>7}  {bar:<BAR$} {:>11}", percent(share), number(*count))
                .trim_end()
                .to_string(),
        );
    }
}

/// Requests a second over time, one line.
fn course(load: &HttpLoad, lines: &mut Vec<String>) {
    let whole: Vec<f64> = load
        .over_time
        .iter()
        .filter(|one| one.duration_s > 0.2)
        .map(|one| one.requests as f64 / one.duration_s)
        .collect();
    if whole.len() < 3 || load.requests == 0 {
        return;
    }
    let each = whole.len().div_ceil(COURSE);
    let points: Vec<f64> =
        whole.chunks(each).map(|some| some.iter().sum::<f64>() / some.len() as f64).collect();
    let most = points.iter().copied().fold(0.0, f64::max);
    let least = points.iter().copied().fold(f64::INFINITY, f64::min);
    let line = sparkline(&points);
    lines.push(String::new());
    lines.push(format!("answers a second over time, {} to {}", rate(least), rate(most)));
    lines.push(format!("  {line}"));
}
