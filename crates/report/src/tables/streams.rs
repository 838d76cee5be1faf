//! The columns of the streams.

use std::net::SocketAddr;

use model::{CapturedDirection, CapturedStream, StreamEnd, TimeCategory};

use super::category;
use super::column::{Column, Columns};

/// The columns of `streams.csv`.
pub fn streams() -> Vec<Column<CapturedStream>> {
    let mut columns: Columns<CapturedStream> = Columns::new();
    let c = &mut columns;
    c.integer("stream", "number in the capture, from 0, as tcp.stream in Wireshark", |s| {
        Some(s.number)
    });
    end(c, "client", "the end that opened the connection", |s| s.client);
    end(c, "server", "the end that was connected to", |s| s.server);
    c.boolean(
        "roles_known",
        "whether the handshake shows which end is the client; if not, the client is the end with the \
         higher port",
        |s| s.roles_known,
    );
    c.integer("first_us", "time of its first packet since the first packet of the capture", |s| {
        Some(s.first_us)
    });
    c.unix_time("first_unix_us", "time of its first packet since 1970-01-01 UTC", |s| s.first_us);
    c.integer("span_us", "from its first packet to its last", |s| Some(s.span_us));
    c.integer(
        "handshake_us",
        "from the first SYN to the end of the handshake; empty: not captured",
        |s| s.handshake_us,
    );
    c.integer("syn_retransmissions", "SYNs beyond the first", |s| {
        Some(s.syn_retransmissions.into())
    });
    c.integer("syn_ack_retransmissions", "SYN-ACKs beyond the first", |s| {
        Some(s.syn_ack_retransmissions.into())
    });
    c.text("end", "open, half-closed, closed, reset or refused", |s| {
        Some(end_name(s.end).to_string())
    });
    c.text("tls_server_name", "server name (SNI) in the ClientHello; empty: none captured", |s| {
        s.tls.as_ref()?.server_name.clone()
    });
    c.integer(
        "tls_handshake_us",
        "from the ClientHello until both ends encrypt; empty: not captured",
        |s| s.tls.as_ref()?.handshake_us,
    );
    c.integer("tls_alert", "number of the alert that ended the TLS handshake", |s| {
        s.tls.as_ref()?.alert.map(u64::from)
    });
    c.integer(
        "exchanges",
        "exchanges: requests with their responses; opening and closing TLS is none",
        |s| Some(s.exchanges),
    );
    c.integer(
        "round_trip_us",
        "minimum round-trip time of the whole path; empty: not measurable",
        CapturedStream::round_trip_us,
    );
    c.integer("lost_us", "time lost: the sum of the categories that are marked as lost", |s| {
        Some(s.lost_us())
    });
    direction(c, "client", |s| &s.from_client);
    direction(c, "server", |s| &s.from_server);
    for category in TimeCategory::ALL {
        let lost = if category.is_lost() { " (lost)" } else { "" };
        let description = format!("time breakdown: {}{lost}", category.words());
        c.integer(&category::column_name(category), &description, move |s| {
            Some(s.time_us(category))
        });
    }
    columns.0
}

fn end(
    c: &mut Columns<CapturedStream>,
    name: &str,
    description: &str,
    address: fn(&CapturedStream) -> SocketAddr,
) {
    c.text(&format!("{name}_ip"), &format!("address of {description}"), move |stream| {
        Some(address(stream).ip().to_canonical().to_string())
    });
    c.integer(&format!("{name}_port"), &format!("port of {description}"), move |stream| {
        Some(address(stream).port().into())
    });
}

/// The columns of what one end sent.
fn direction(
    c: &mut Columns<CapturedStream>,
    end: &str,
    of: fn(&CapturedStream) -> &CapturedDirection,
) {
    let mut add = |name: &str, description: &str, value: fn(&CapturedDirection) -> Option<u64>| {
        c.integer(&format!("{end}_{name}"), &format!("{end}: {description}"), move |stream| {
            value(of(stream))
        });
    };
    add("packets", "packets sent, without duplicate packets of the capture", |d| Some(d.packets));
    add("data_segments", "segments with data", |d| Some(d.data_segments));
    add("new_bytes", "bytes of data, without retransmissions", |d| Some(d.new_bytes));
    add(
        "fast_retransmissions",
        "segments retransmitted after duplicate or selective acknowledgements",
        |d| Some(d.fast_retransmissions),
    );
    add("rto_retransmissions", "segments retransmitted after a retransmission timeout", |d| {
        Some(d.rto_retransmissions)
    });
    add(
        "retransmissions_original_not_captured",
        "segments retransmitted whose original was lost before the capture point",
        |d| Some(d.retransmissions_original_not_captured),
    );
    add(
        "retransmissions_kind_unknown",
        "segments retransmitted, kind unknown: a tail-loss probe, or spurious",
        |d| Some(d.retransmissions_kind_unknown),
    );
    add("duplicate_sacks", "segments that the peer reported as received twice (D-SACK)", |d| {
        Some(d.duplicate_sacks)
    });
    add("reordered", "segments that arrived out of order, without a retransmission", |d| {
        Some(d.reordered)
    });
    add("duplicate_acks", "duplicate acknowledgements", |d| Some(d.duplicate_acks));
    add("zero_windows", "packets that closed its own window", |d| Some(d.zero_windows));
    add("window_probes", "probes of its peer's closed window", |d| Some(d.window_probes));
    add("ecn_ce_marks", "packets with a congestion mark (ECN CE)", |d| Some(d.ecn_ce_marks));
    add("mss_bytes", "MSS option of its SYN: largest segment that it accepts", |d| {
        d.mss.map(u64::from)
    });
    add("window_scale", "window scale option of its SYN, bits", |d| d.window_scale.map(u64::from));
    add("max_window_bytes", "largest window that it advertised", |d| Some(d.max_window.into()));
    add("max_in_flight_bytes", "most bytes in flight at once", |d| Some(d.max_in_flight));
    add("round_trip_min_us", "round-trip time of its data: minimum", |d| {
        d.round_trip.map(|trips| trips.min_us)
    });
    add("round_trip_mean_us", "round-trip time of its data: mean", |d| {
        d.round_trip.map(|trips| trips.mean_us)
    });
    add("round_trip_max_us", "round-trip time of its data: maximum", |d| {
        d.round_trip.map(|trips| trips.max_us)
    });
    add("zero_window_us", "total time for which its peer's window was closed", |d| {
        Some(d.zero_window_stalls.total_us)
    });
    add("delayed_ack_us", "total time for which Nagle's algorithm waited for a delayed ACK", |d| {
        Some(d.delayed_ack_stalls.total_us)
    });
}

fn end_name(end: StreamEnd) -> &'static str {
    match end {
        StreamEnd::Open => "open",
        StreamEnd::HalfClosed => "half-closed",
        StreamEnd::Closed => "closed",
        StreamEnd::Reset => "reset",
        StreamEnd::Refused => "refused",
    }
}
