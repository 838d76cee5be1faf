//! One stream of a capture in depth: the facts, then each view.

use std::fmt::Write as _;

use model::{CapturedStream, StreamDepth, StreamEnd, TimeCategory};
use text::micros;
use wire::payload::tls;

use super::super::filter::Filter;
use super::lines::{WIDTH, put};
use super::{ladder, plot, turns};

/// The whole text. `of` is the filter of which it is the worst stream.
pub(crate) fn stream(
    stream: &CapturedStream,
    depth: Option<&StreamDepth>,
    of: Option<&Filter>,
) -> String {
    let mut out = facts(stream);
    if let Some(filter) = of {
        let text = format!("it lost most time of those selected by: {}", filter.text());
        put(&mut out, "  ", &text);
    }
    out.push_str("\nwhere its time went\n");
    let budget: Vec<(TimeCategory, u64)> =
        TimeCategory::ALL.into_iter().map(|part| (part, stream.time_us(part))).collect();
    out.push_str(&report::budget(&budget, WIDTH));
    match depth {
        Some(depth) => {
            turns::put(&mut out, stream, depth);
            plot::put(&mut out, stream, &depth.curve);
            ladder::put(&mut out, stream, depth);
        }
        None => {
            out.push('\n');
            let text = format!(
                "Its packets are not shown: standard input and pipes are read once, and only the \
                 first {} streams that may be selected were recorded. Save the capture to a file, \
                 or ask for --stream {}.",
                super::super::watcher::CANDIDATES,
                stream.number
            );
            put(&mut out, "", &text);
        }
    }
    out
}

/// What is known of it as a whole.
fn facts(stream: &CapturedStream) -> String {
    let mut out = String::new();
    let roles = if stream.roles_known { "client > server" } else { "no handshake: roles guessed" };
    let head = format!("stream {}: {} > {} ({roles})", stream.number, stream.client, stream.server);
    put(&mut out, "", &head);
    let mut opened = match stream.handshake_us {
        Some(handshake) => format!("opened in {}", micros(handshake)),
        None => "its handshake is not in the capture".to_string(),
    };
    if stream.syn_retransmissions + stream.syn_ack_retransmissions > 0 {
        // Nothing of a String fails.
        let _ = write!(
            opened,
            ", SYN repeated {} times, SYN-ACK {}",
            stream.syn_retransmissions, stream.syn_ack_retransmissions
        );
    }
    let end = match stream.end {
        StreamEnd::Open => "open at the end",
        StreamEnd::HalfClosed => "half closed",
        StreamEnd::Closed => "closed",
        StreamEnd::Reset => "reset",
        StreamEnd::Refused => "refused",
    };
    let text = format!(
        "{opened}; {end}, {} in all, {} turn{}; {}",
        micros(stream.span_us),
        text::number(stream.exchanges),
        if stream.exchanges == 1 { "" } else { "s" },
        place(stream),
    );
    put(&mut out, "  ", &text);
    if let Some(text) = said(stream) {
        put(&mut out, "  ", &text);
    }
    for (end, direction) in [stream.client, stream.server].into_iter().zip(stream.directions()) {
        let mut text = format!(
            "{} packets, {} of new data",
            text::number(direction.packets),
            text::bytes(direction.new_bytes)
        );
        for (count, what) in [
            (direction.fast_retransmissions, "repeated after duplicate acknowledgements"),
            (direction.rto_retransmissions, "repeated after a timeout"),
            (direction.retransmissions_kind_unknown, "repeated for another reason"),
            (direction.retransmissions_original_not_captured, "repeated, lost before this place"),
            (direction.duplicate_sacks, "had twice by the receiver (D-SACK)"),
            (direction.reordered, "late, not repeated"),
            (direction.duplicate_acks, "duplicate acknowledgements"),
            (direction.zero_windows, "closed windows"),
            (direction.window_probes, "probes of a closed window"),
            (direction.ecn_ce_marks, "congestion marks"),
        ] {
            if count > 0 {
                let _ = write!(text, ", {} {what}", text::number(count));
            }
        }
        if let Some(trips) = &direction.round_trip {
            let _ = write!(
                text,
                "; round trip {} to {}, {} on average",
                micros(trips.min_us),
                micros(trips.max_us),
                micros(trips.mean_us)
            );
        }
        let window = text::bytes(u64::from(direction.max_window));
        let flight = text::bytes(direction.max_in_flight);
        let _ = write!(text, "; at most {flight} out; offered a window of {window}");
        put(&mut out, "  ", &format!("{end}: {text}"));
    }
    out
}

/// What its bytes say in clear.
fn said(stream: &CapturedStream) -> Option<String> {
    let tls = stream.tls.as_ref().map(|tls| {
        let name = tls.server_name.as_deref().unwrap_or("a host without a name");
        match (tls.handshake_us, tls.alert) {
            (_, Some(alert)) => {
                let words =
                    tls::alert(alert).map_or_else(String::new, |words| format!(" ({words})"));
                format!("TLS to {name}: ended in its handshake by alert {alert}{words}")
            }
            (Some(us), None) => format!("TLS to {name}: handshake {}", micros(us)),
            (None, None) => format!("TLS to {name}: its handshake is not over"),
        }
    });
    let statuses: Vec<String> = stream
        .statuses
        .iter()
        .map(|one| match one.count {
            1 => one.status.to_string(),
            count => format!("{} ({} times)", one.status, text::number(count)),
        })
        .collect();
    let http = (!statuses.is_empty()).then(|| format!("HTTP: status {}", statuses.join(", ")));
    match (tls, http) {
        (Some(tls), Some(http)) => Some(format!("{tls}; {http}")),
        (tls, http) => tls.or(http),
    }
}

/// Where it was captured, by the shortest ways to both ends.
fn place(stream: &CapturedStream) -> String {
    let (Some(client), Some(server)) = (stream.to_client_us, stream.to_server_us) else {
        return "where it was captured is unknown".to_string();
    };
    let place = match (client as f64) / (client + server).max(1) as f64 {
        share if share < 0.1 => "captured at the client",
        share if share > 0.9 => "captured at the server",
        _ => "captured between them",
    };
    format!("{place} ({} to the client and back, {} to the server)", micros(client), micros(server))
}
