//! The report of two captures of one path: findings first, then the path: clocks, delays, where what
//! was lost was lost, what was changed on the way; then the streams that lost most.

use std::time::Duration;

use model::{
    ChangedField, Path, PathChange, PathDelay, PathDirection, PathLoss, PathStream, Report, Side,
};

use crate::capture::footer;
use crate::findings;
use text::Style;
use text::sanitize;
use text::wrap;
use text::{Paint, paint};
use text::{bytes, duration, number, percent};

/// Streams that are shown when the user does not say how many.
const STREAMS: usize = 5;
/// Changes that are shown.
const CHANGES: usize = 8;

/// The report of two captures as text, each line at most [`Style::width`] columns wide but for
/// commands to be pasted. `top` is how many streams are shown.
pub fn path(report: &Report, top: Option<usize>, style: Style) -> String {
    let mut lines = Vec::new();
    if let Some(path) = &report.path {
        lines.extend(wrap(&head(path, report.window.interrupted), "", "  ", style.width));
        lines.push(String::new());
        if report.findings.is_empty() {
            let line = "Nothing slows these streams down, as far as packets show it.";
            lines.push(paint(line, Paint::Good, style));
            lines.push(String::new());
        }
        for (at, finding) in report.findings.iter().enumerate() {
            findings::lines(finding, at + 1, style, &mut lines);
        }
        body(path, style, &mut lines);
        streams(path, top.unwrap_or(STREAMS), style, &mut lines);
    }
    footer(report, style, &mut lines);
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn head(path: &Path, interrupted: bool) -> String {
    let [a, b] = &path.captures;
    let mut text = format!(
        "{} (client) and {} (server): {} and {} packets in {} and {}; {} stream{} in both",
        sanitize::line(&a.file),
        sanitize::line(&b.file),
        number(a.packets),
        number(b.packets),
        duration(Duration::from_micros(a.span_us)),
        duration(Duration::from_micros(b.span_us)),
        number(path.streams_in_both),
        if path.streams_in_both == 1 { " is" } else { "s are" },
    );
    if path.streams_rewritten > 0 {
        text.push_str(&format!(
            ", {} with other addresses or ports at the server's end",
            number(path.streams_rewritten)
        ));
    }
    if path.streams_opened_at_server * 2 > path.streams_in_both {
        text.push_str(&format!(
            "; {} of them opened from the server's end: were both files exchanged?",
            number(path.streams_opened_at_server)
        ));
    }
    if interrupted {
        text.push_str("; interrupted: what was read so far");
    }
    text
}

fn body(path: &Path, style: Style, lines: &mut Vec<String>) {
    lines.push(paint("the path between the two captures", Paint::Strong, style));
    let mut add = |text: String| lines.extend(wrap(&text, "  ", "    ", style.width));
    clock(path, &mut add);
    lines.push(String::new());
    table(path, lines);
    lines.push(String::new());
    let losses = lines_of_losses(path);
    if losses.is_empty() && path.changes.is_empty() {
        return;
    }
    let mut add = |text: String| lines.extend(wrap(&text, "  ", "    ", style.width));
    losses.into_iter().for_each(&mut add);
    for change in path.changes.iter().take(CHANGES) {
        add(changed(change));
    }
    if path.changes.len() > CHANGES {
        add(format!("{} more changes: --json", number((path.changes.len() - CHANGES) as u64)));
    }
    lines.push(String::new());
}

fn clock(path: &Path, add: &mut impl FnMut(String)) {
    let clock = &path.clock;
    let (Some(offset), Some(unsure), Some(trip)) =
        (clock.offset_us, clock.uncertainty_us, clock.min_round_trip_us)
    else {
        add(
            "clocks: packets of one way alone are in both captures: how far apart the clocks are, \
             and how long that way takes at least, is not known"
                .to_string(),
        );
        return;
    };
    if trip < 0.0 {
        add(format!(
            "clocks: the shortest round trip would be {}: one of them was set meanwhile, or \
             drifts unevenly; delays are wrong by as much",
            signed(trip)
        ));
        return;
    }
    let ahead = if offset < 0.0 { "behind" } else { "ahead of" };
    add(format!(
        "clocks: the server's is {} {ahead} the client's if both ways are equally long, else \
         within ±{} of that",
        fine(offset.abs()),
        fine(unsure)
    ));
    match (clock.drift_ppm, clock.drift_uncertainty_ppm) {
        (Some(drift), unsure) => add(format!(
            "drift: the server's {} {:.1} µs each second (±{:.1}); times here are free of it",
            if drift < 0.0 { "loses" } else { "gains" },
            drift.abs(),
            unsure.unwrap_or(0.0)
        )),
        (None, Some(unsure)) => {
            add(format!("drift: none to be seen; both ways agree to {unsure:.1} µs each second"));
        }
        (None, None) => {}
    }
    add(format!("round trip between both: {} at least; no clock is needed for that", fine(trip)));
}

/// Both ways side by side.
fn table(path: &Path, lines: &mut Vec<String>) {
    let ways = [&path.to_server, &path.to_client];
    lines.push(format!("  {:<34}{:>20}{:>20}", "", "client to server", "server to client"));
    let mut row = |name: &str, of: &dyn Fn(&PathDirection) -> Option<String>| {
        let cells = ways.map(|way| of(way).unwrap_or_else(|| "-".to_string()));
        lines.push(format!("  {name:<34}{:>20}{:>20}", cells[0], cells[1]));
    };
    let delay = |of: fn(&PathDelay) -> Option<f64>| {
        move |way: &PathDirection| way.delay.as_ref().and_then(of).map(fine)
    };
    row("one way, at least (half a trip)", &delay(|delay| delay.min_us));
    row("  beyond that: median", &delay(|delay| Some(delay.p50_us)));
    row("  99 % of the packets within", &delay(|delay| Some(delay.p99_us)));
    row("  the longest", &delay(|delay| Some(delay.max_us)));
    row("segments seen leaving", &|way| Some(number(way.segments)));
    let lost = |way: &PathDirection, lost: u64| {
        let share = percent(lost as f64 / way.segments.max(1) as f64);
        Some(if lost == 0 { "0".to_string() } else { format!("{} ({share})", number(lost)) })
    };
    row("lost before the sender's capture", &|way| lost(way, way.lost_before.segments));
    row("lost between the two captures", &|way| lost(way, way.lost_between.segments));
    row("lost behind the receiver's capture", &|way| lost(way, way.lost_after.segments));
    type Count = fn(&PathDirection) -> u64;
    let counts: [(&str, Count); 4] = [
        ("packets overtaken between them", |way| way.reordered),
        ("arrived twice (or captured twice)", |way| way.duplicated),
        ("sent again for nothing, segments", |way| way.spurious),
        ("empty packets lost between them", |way| way.pure_acks_lost),
    ];
    for (name, of) in counts {
        if ways.iter().any(|way| of(way) > 0) {
            row(name, &|way| Some(number(of(way))));
        }
    }
}

/// Where to look for what was lost, by packet numbers.
fn lines_of_losses(path: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let names = path.captures.each_ref().map(|capture| sanitize::line(&capture.file));
    for (place, syns) in path.syns_never_arrived.iter().enumerate().filter(|(_, syns)| **syns > 0) {
        all.push(format!(
            "connections that were never opened: the SYNs of {} in {} do not arrive in {}",
            number(*syns),
            names[place],
            names[1 - place]
        ));
    }
    let ways = [(&path.to_server, "client", 0, 1), (&path.to_client, "server", 1, 0)];
    for (way, sender, from, to) in ways {
        let between = &way.lost_between;
        if between.segments > 0 {
            let mut text = format!(
                "lost between, from the {sender}: {}, {} of {}",
                bytes(between.bytes),
                packets(between),
                names[from]
            );
            let single = between.segments.saturating_sub(way.lost_in_bursts);
            if single > 0 {
                text.push_str(&format!("; {} alone", number(single)));
            }
            if way.bursts > 0 {
                text.push_str(&format!(
                    "{} {} in {} burst{} of up to {}",
                    if single > 0 { "," } else { ";" },
                    number(way.lost_in_bursts),
                    number(way.bursts),
                    if way.bursts == 1 { "" } else { "s" },
                    number(way.longest_burst)
                ));
            }
            all.push(text);
        }
        let others = [("before", &way.lost_before, from), ("behind", &way.lost_after, to)];
        for (word, loss, capture) in others {
            if loss.segments > 0 {
                all.push(format!(
                    "lost {word}, from the {sender}: {}, sent again in {} of {}",
                    bytes(loss.bytes),
                    packets(loss),
                    names[capture]
                ));
            }
        }
    }
    all
}

fn packets(loss: &PathLoss) -> String {
    if loss.first_packet == loss.last_packet {
        return format!("packet {}", number(loss.first_packet));
    }
    format!("packets {} to {}", number(loss.first_packet), number(loss.last_packet))
}

fn changed(change: &PathChange) -> String {
    let (left, arrived) = match change.left_at {
        Side::Client => ("client", "server"),
        Side::Server => ("server", "client"),
    };
    let value = |value: Option<u64>| match (change.field, value) {
        (_, None) => "not there".to_string(),
        (ChangedField::SegmentSize | ChangedField::Window, Some(value)) => {
            format!("{} bytes", number(value))
        }
        (ChangedField::WindowScale, Some(value)) => format!("2^{value}"),
        (ChangedField::OtherOptions, Some(kind)) => format!("kind {kind}"),
        (_, Some(_)) => "there".to_string(),
    };
    let [client, server] = change.packets;
    format!(
        "changed between: {} is {} when it leaves the {left}'s end and {} at the {arrived}'s \
         (packets {} and {}; {} stream{})",
        change.field.words(),
        value(change.before),
        value(change.after),
        number(client),
        number(server),
        number(change.streams),
        if change.streams == 1 { "" } else { "s" },
    )
}

fn streams(path: &Path, top: usize, style: Style, lines: &mut Vec<String>) {
    let shown = top.min(path.worst.len());
    if shown == 0 {
        return;
    }
    lines.push(format!(
        "{:>11} {:>6} {:>7} {:>6} {:>8} {:>8}  ends",
        "streams", "before", "between", "behind", "p99 to s", "p99 to c"
    ));
    for stream in &path.worst[..shown] {
        lines.extend(wrap(&row(stream), "", &" ".repeat(53), style.width.max(76)));
    }
    let more = path.streams_in_both.saturating_sub(shown as u64);
    if more > 0 {
        lines.push(format!("{} more: --top {}", number(more), number(path.streams_in_both)));
    }
    lines.push(String::new());
}

fn row(stream: &PathStream) -> String {
    let sum = |of: fn(&PathDirection) -> u64| number(stream.directions().into_iter().map(of).sum());
    let late = stream
        .directions()
        .map(|way| way.delay.as_ref().map_or_else(|| "-".to_string(), |delay| fine(delay.p99_us)));
    let columns = format!(
        "{:>11} {:>6} {:>7} {:>6} {:>8} {:>8} ",
        format!("{} = {}", stream.numbers[0], stream.numbers[1]),
        sum(|way| way.lost_before.segments),
        sum(|way| way.lost_between.segments),
        sum(|way| way.lost_after.segments),
        late[0],
        late[1],
    );
    let mut text = format!("{columns} {} > {}", stream.client, stream.server);
    if let Some([client, server]) = stream.rewritten {
        text.push_str(&format!(", there {client} > {server}"));
    }
    text
}

/// A time in microseconds; a long one with its milliseconds, as clocks are compared.
fn fine(us: f64) -> String {
    let us = if us.is_finite() { us.max(0.0) } else { 0.0 };
    match us {
        us if us >= 1e8 => format!("{} s", number((us / 1e6).round() as u64)),
        us if us >= 1e6 => format!("{:.3} s", us / 1e6),
        us if us >= 1e5 => format!("{:.0} ms", us / 1e3),
        us if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        us => format!("{us:.0} µs"),
    }
}

fn signed(us: f64) -> String {
    format!("{}{}", if us < 0.0 { "-" } else { "" }, fine(us.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let all = [0.4, 999.0, 1_250.0, 80_000.0, 250_000.0, 3_602_000.0, 3.6e12, f64::NAN];
        let said = all.map(fine).join(", ");
        let expected = "0 µs, 999 µs, 1.2 ms, 80.0 ms, 250 ms, 3.602 s, 3,600,000 s, 0 µs";
        assert_eq!(said, expected);
        assert_eq!(signed(-40.0), "-40 µs");
    }

    #[test]
    fn a_change_is_told_with_both_packets() {
        let change = PathChange {
            field: ChangedField::SegmentSize,
            left_at: Side::Client,
            before: Some(1460),
            after: Some(1380),
            packets: [1, 7],
            streams: 1,
        };
        let said = changed(&change);
        assert!(said.contains("1,460 bytes when it leaves the client's end"), "{said}");
        assert!(said.contains("1,380 bytes at the server's (packets 1 and 7; 1 stream)"), "{said}");
    }
}
