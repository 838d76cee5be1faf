//! One stream of a capture in depth: the facts, where its time went, then each view.

use model::{CapturedDirection, CapturedStream, StreamDepth, StreamEnd, TimeCategory};
use text::sanitize;
use text::{Style, bytes, count, micros, number, wrap};
use wire::payload::tls;

use super::super::filter::Filter;
use super::super::watcher::MAX_RECORDED_STREAMS;
use super::{exchanges, ladder, phases, plot};

/// A capture point is at an end of the path if the round trip to that end has a smaller share than this
/// of the whole round trip.
const MAX_SHARE_AT_AN_END: f64 = 0.1;

/// The whole text. `worst_of` is the filter of whose streams it lost most time.
pub(crate) fn stream(
    stream: &CapturedStream,
    depth: Option<&StreamDepth>,
    worst_of: Option<&Filter>,
    style: Style,
) -> String {
    let style = style.within_bounds();
    let mut lines = facts(stream, style);
    if let Some(filter) = worst_of {
        let filter = sanitize::line(filter.text());
        let text = format!("lost most time of the streams selected by: {filter}");
        lines.extend(wrap(&text, "  ", "    ", style.width));
    }
    lines.push(String::new());
    lines.push("where its time went".to_string());
    let times = TimeCategory::ALL.map(|category| (category, stream.time_us(category)));
    lines.extend(report::time_breakdown(&times, &stream.network_breakdown(), style));
    match depth {
        Some(depth) => {
            lines.extend(phases::lines(stream, depth, style));
            lines.extend(exchanges::lines(stream, depth, style));
            lines.extend(plot::lines(stream, &depth.curve, style));
            lines.extend(ladder::lines(stream, depth, style));
        }
        None => {
            lines.push(String::new());
            let text = format!(
                "Its packets are not shown: standard input and pipes can be read only once, and only \
                 the first {MAX_RECORDED_STREAMS} streams that the filter may select were recorded. \
                 Save the capture to a file, or use --stream {}.",
                stream.number
            );
            lines.extend(wrap(&text, "", "  ", style.width));
        }
    }
    lines.join("\n") + "\n"
}

/// What is known of the stream as a whole.
fn facts(stream: &CapturedStream, style: Style) -> Vec<String> {
    let roles =
        if stream.roles_known { "client > server" } else { "no handshake: roles are a guess" };
    let title =
        format!("stream {}: {} > {} ({roles})", stream.number, stream.client, stream.server);
    let mut lines = wrap(&title, "", "  ", style.width);
    let mut add = |text: &str| lines.extend(wrap(text, "  ", "    ", style.width));
    add(&format!(
        "{}; {}, duration {}, {}; {}",
        handshake(stream),
        end(stream.end),
        micros(stream.span_us),
        count(stream.exchanges, "exchange"),
        capture_point(stream),
    ));
    if let Some(text) = application_protocol(stream) {
        add(&text);
    }
    let [from_client, from_server] = stream.directions();
    add(&format!("{}: {}", stream.client, direction(from_client)));
    add(&format!("{}: {}", stream.server, direction(from_server)));
    lines
}

fn handshake(stream: &CapturedStream) -> String {
    let mut text = match stream.handshake_us {
        Some(handshake) => format!("opened in {}", micros(handshake)),
        None => "handshake not captured".to_string(),
    };
    for (retransmissions, what) in [
        (stream.syn_retransmissions, "SYN retransmission"),
        (stream.syn_ack_retransmissions, "SYN-ACK retransmission"),
    ] {
        if retransmissions > 0 {
            text.push_str(&format!(", {}", count(retransmissions.into(), what)));
        }
    }
    text
}

fn end(end: StreamEnd) -> &'static str {
    match end {
        StreamEnd::Open => "open at the end of the capture",
        StreamEnd::HalfClosed => "half-closed",
        StreamEnd::Closed => "closed",
        StreamEnd::Reset => "reset",
        StreamEnd::Refused => "refused",
    }
}

/// What one end sent.
fn direction(direction: &CapturedDirection) -> String {
    if direction.packets == 0 {
        return "no packets".to_string();
    }
    let mut text = format!(
        "{}, {} of new data",
        count(direction.packets, "packet"),
        bytes(direction.new_bytes)
    );
    for (segments, what) in [
        (direction.fast_retransmissions, "retransmitted (fast retransmission)"),
        (direction.rto_retransmissions, "retransmitted (RTO)"),
        (direction.retransmissions_kind_unknown, "retransmitted, kind unknown"),
        (
            direction.retransmissions_original_not_captured,
            "retransmitted, lost before the capture point",
        ),
        (direction.duplicate_sacks, "received twice (D-SACK)"),
        (direction.reordered, "reordered"),
    ] {
        if segments > 0 {
            text.push_str(&format!(", {} {what}", number(segments)));
        }
    }
    for (packets, what) in [
        (direction.duplicate_acks, "duplicate ACK"),
        (direction.zero_windows, "zero window"),
        (direction.window_probes, "window probe"),
        (direction.ecn_ce_marks, "ECN CE mark"),
    ] {
        if packets > 0 {
            text.push_str(&format!(", {}", count(packets, what)));
        }
    }
    if let Some(trips) = &direction.round_trip {
        text.push_str(&format!(
            "; RTT {} to {}, mean {}",
            micros(trips.min_us),
            micros(trips.max_us),
            micros(trips.mean_us)
        ));
    }
    text.push_str(&format!(
        "; at most {} in flight; advertised window up to {}",
        bytes(direction.max_in_flight),
        bytes(direction.max_window.into())
    ));
    text
}

/// TLS server name and handshake, HTTP statuses.
fn application_protocol(stream: &CapturedStream) -> Option<String> {
    let tls = stream.tls.as_ref().map(|tls| {
        let name = sanitize::line(tls.server_name.as_deref().unwrap_or("an unnamed server"));
        match (tls.handshake_us, tls.alert) {
            (_, Some(alert)) => {
                let words =
                    tls::alert(alert).map_or_else(String::new, |words| format!(" ({words})"));
                format!("TLS to {name}: handshake ended by alert {alert}{words}")
            }
            (Some(us), None) => format!("TLS to {name}: handshake {}", micros(us)),
            (None, None) => format!("TLS to {name}: handshake not completed"),
        }
    });
    let statuses: Vec<String> = stream
        .statuses
        .iter()
        .map(|one| match one.count {
            1 => one.status.to_string(),
            times => format!("{} ({})", one.status, count(times, "time")),
        })
        .collect();
    let http = (!statuses.is_empty()).then(|| format!("HTTP: status {}", statuses.join(", ")));
    match (tls, http) {
        (Some(tls), Some(http)) => Some(format!("{tls}; {http}")),
        (tls, http) => tls.or(http),
    }
}

/// Where it was captured, by the minimum round trips to both ends.
fn capture_point(stream: &CapturedStream) -> String {
    let (Some(client), Some(server)) = (stream.to_client_us, stream.to_server_us) else {
        return "capture point unknown".to_string();
    };
    let place = match client as f64 / client.saturating_add(server).max(1) as f64 {
        share if share < MAX_SHARE_AT_AN_END => "captured at the client",
        share if share > 1.0 - MAX_SHARE_AT_AN_END => "captured at the server",
        _ => "captured between client and server",
    };
    format!("{place} (RTT {} to the client, {} to the server)", micros(client), micros(server))
}
