//! Captures as tables: one row for each stream, turn and event, their columns with units. Who writes
//! CSV or Parquet, and the page that explains the columns, go by these lists.

use std::net::SocketAddr;

use model::{
    CapturedDirection, CapturedEvent, CapturedExchange, CapturedStream, StreamEnd, TimeCategory,
};

/// What stands in one cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing: not known, or there is none.
    Missing,
    /// A whole number.
    Whole(i64),
    /// A number.
    Real(f64),
    /// Words: an address, a name of these lists.
    Words(String),
    /// Yes or no.
    Truth(bool),
}

/// What stands in all cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// Whole numbers.
    Whole,
    /// Numbers.
    Real,
    /// Words.
    Words,
    /// Yes or no.
    Truth,
}

impl CellKind {
    /// The word in the docs.
    pub fn name(self) -> &'static str {
        match self {
            CellKind::Whole => "integer",
            CellKind::Real => "number",
            CellKind::Words => "text",
            CellKind::Truth => "true or false",
        }
    }
}

/// One column. The second argument of `of` is the time of the first packet of the capture,
/// microseconds since 1970-01-01 UTC.
pub struct Column<Row> {
    /// Name; ends with the unit: `_us`, `_bytes`.
    pub name: String,
    /// What stands in it.
    pub kind: CellKind,
    /// What it means.
    pub is: String,
    /// The cell of a row.
    pub of: Box<Of<Row>>,
}

/// The cell of a row.
type Of<Row> = dyn Fn(&Row, i64) -> Cell + Send + Sync;

/// The tables: name of the file, what a row is.
pub const TABLES: [(&str, &str); 3] = [
    ("streams", "one row for each TCP stream, when it is over"),
    ("exchanges", "one row for each request and its answer"),
    ("events", "one row for each thing that happened and may cost time"),
];

type Columns<Row> = Vec<Column<Row>>;

fn column<Row>(
    columns: &mut Columns<Row>,
    kind: CellKind,
    name: &str,
    is: &str,
    of: impl Fn(&Row, i64) -> Cell + Send + Sync + 'static,
) {
    columns.push(Column { name: name.into(), kind, is: is.into(), of: Box::new(of) });
}

fn whole<Row>(
    columns: &mut Columns<Row>,
    name: &str,
    is: &str,
    of: impl Fn(&Row) -> Option<u64> + Send + Sync + 'static,
) {
    column(columns, CellKind::Whole, name, is, move |row, _| count(of(row)));
}

fn words<Row>(
    columns: &mut Columns<Row>,
    name: &str,
    is: &str,
    of: impl Fn(&Row) -> String + Send + Sync + 'static,
) {
    column(columns, CellKind::Words, name, is, move |row, _| Cell::Words(of(row)));
}

fn maybe<Row>(
    columns: &mut Columns<Row>,
    name: &str,
    is: &str,
    of: impl Fn(&Row) -> Option<String> + Send + Sync + 'static,
) {
    column(columns, CellKind::Words, name, is, move |row, _| {
        of(row).map_or(Cell::Missing, Cell::Words)
    });
}

fn count(value: Option<u64>) -> Cell {
    value.map_or(Cell::Missing, |value| Cell::Whole(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// When a row was, as microseconds since 1970.
fn unix<Row>(
    columns: &mut Columns<Row>,
    name: &str,
    is: &str,
    of: impl Fn(&Row) -> u64 + Send + Sync + 'static,
) {
    column(columns, CellKind::Whole, name, is, move |row, began| {
        Cell::Whole(began.saturating_add(i64::try_from(of(row)).unwrap_or(i64::MAX)))
    });
}

fn end(
    columns: &mut Columns<CapturedStream>,
    name: &'static str,
    is: &str,
    of: fn(&CapturedStream) -> SocketAddr,
) {
    words(columns, &format!("{name}_ip"), &format!("address of {is}"), move |stream| {
        of(stream).ip().to_canonical().to_string()
    });
    whole(columns, &format!("{name}_port"), &format!("port of {is}"), move |stream| {
        Some(of(stream).port().into())
    });
}

/// Columns of the streams.
pub fn streams() -> Vec<Column<CapturedStream>> {
    let mut columns: Columns<CapturedStream> = Vec::new();
    let c = &mut columns;
    whole(c, "stream", "number in the capture, from 0: tcp.stream of Wireshark", |s| {
        Some(s.number)
    });
    end(c, "client", "the end that asked for the connection", |s| s.client);
    end(c, "server", "the end that was asked", |s| s.server);
    column(
        c,
        CellKind::Truth,
        "roles_known",
        "whether the handshake told which end is the client; if not, it is the higher port",
        |s: &CapturedStream, _| Cell::Truth(s.roles_known),
    );
    whole(c, "first_us", "first packet, since the first of the capture", |s| Some(s.first_us));
    unix(c, "first_unix_us", "the same, since 1970-01-01 UTC", |s: &CapturedStream| s.first_us);
    whole(c, "span_us", "from its first packet to its last", |s| Some(s.span_us));
    let handshake = "from the first SYN to the end of the handshake; empty: not seen";
    whole(c, "handshake_us", handshake, |s: &CapturedStream| s.handshake_us);
    whole(c, "syn_retransmissions", "SYNs beyond the first", |s| {
        Some(s.syn_retransmissions.into())
    });
    whole(c, "syn_ack_retransmissions", "answers to a SYN beyond the first", |s| {
        Some(s.syn_ack_retransmissions.into())
    });
    words(c, "end", "open, half-closed, closed, reset or refused", |s| name(s.end).to_string());
    let asked = "the host that its TLS asked for; empty: none was seen";
    maybe(c, "tls_server_name", asked, |s: &CapturedStream| s.tls.as_ref()?.server_name.clone());
    let ready = "from the ClientHello until both ends encrypt; empty: not seen";
    whole(c, "tls_handshake_us", ready, |s: &CapturedStream| s.tls.as_ref()?.handshake_us);
    whole(c, "tls_alert", "number of the alert that ended the handshake of TLS", |s| {
        s.tls.as_ref()?.alert.map(u64::from)
    });
    whole(c, "exchanges", "requests, or what looks like them", |s| Some(s.exchanges));
    let trip = "shortest round trip of the whole path; empty: not seen";
    whole(c, "round_trip_us", trip, CapturedStream::round_trip_us);
    whole(c, "lost_us", "time lost: the sum of the budget's parts that are lost", |s| {
        Some(s.lost_us())
    });
    for (side, of) in [
        ("client", (|s| &s.from_client) as fn(&CapturedStream) -> &CapturedDirection),
        ("server", |s| &s.from_server),
    ] {
        direction(c, side, of);
    }
    for part in TimeCategory::ALL {
        let lost = if part.is_lost() { " (lost)" } else { "" };
        let is = format!("budget: {}{lost}", part.words());
        whole(c, &part_name(part), &is, move |s: &CapturedStream| Some(s.time_us(part)));
    }
    columns
}

fn direction(
    c: &mut Columns<CapturedStream>,
    side: &str,
    of: fn(&CapturedStream) -> &CapturedDirection,
) {
    let mut add = |name: &str, is: &str, value: fn(&CapturedDirection) -> Option<u64>| {
        whole(c, &format!("{side}_{name}"), &format!("{side}: {is}"), move |stream| {
            value(of(stream))
        });
    };
    add("packets", "packets, those captured twice count once", |d| Some(d.packets));
    add("data_segments", "segments with data", |d| Some(d.data_segments));
    add("new_bytes", "bytes of data, each counted once", |d| Some(d.new_bytes));
    add("fast_retransmissions", "segments sent again after duplicate or selective ACKs", |d| {
        Some(d.fast_retransmissions)
    });
    add("rto_retransmissions", "the same, after a timeout", |d| Some(d.rto_retransmissions));
    add(
        "retransmissions_original_not_captured",
        "the same, lost before the place of capture",
        |d| Some(d.retransmissions_original_not_captured),
    );
    add("retransmissions_kind_unknown", "the same, for another reason", |d| {
        Some(d.retransmissions_kind_unknown)
    });
    add("duplicate_sacks", "data that its peer told to have had twice (D-SACK)", |d| {
        Some(d.duplicate_sacks)
    });
    add("reordered", "segments that were late and not sent again", |d| Some(d.reordered));
    add("duplicate_acks", "acknowledgements of the same byte again", |d| Some(d.duplicate_acks));
    add("zero_windows", "packets that closed its own window", |d| Some(d.zero_windows));
    add("window_probes", "probes of its peer's closed window", |d| Some(d.window_probes));
    add("ecn_ce_marks", "packets with a congestion mark (ECN)", |d| Some(d.ecn_ce_marks));
    add("mss_bytes", "largest segment that it takes, by its SYN", |d| d.mss.map(u64::from));
    add("window_scale", "bits by which its windows are shifted, by its SYN", |d| {
        d.window_scale.map(u64::from)
    });
    add("max_window_bytes", "largest window that it offered", |d| Some(d.max_window.into()));
    add("max_in_flight_bytes", "most bytes that it had out at once", |d| Some(d.max_in_flight));
    add("round_trip_min_us", "shortest round trip of its data", |d| {
        d.round_trip.map(|trips| trips.min_us)
    });
    add("round_trip_mean_us", "the same, mean", |d| d.round_trip.map(|trips| trips.mean_us));
    add("round_trip_max_us", "the same, longest", |d| d.round_trip.map(|trips| trips.max_us));
    add("zero_window_us", "times that its peer's window was closed to it, added up", |d| {
        Some(d.zero_window_stalls.total_us)
    });
    add("delayed_ack_us", "times that Nagle's algorithm waited for a delayed ACK, added up", |d| {
        Some(d.delayed_ack_stalls.total_us)
    });
}

/// Columns of the turns.
pub fn exchanges() -> Vec<Column<CapturedExchange>> {
    let mut columns: Columns<CapturedExchange> = Vec::new();
    let c = &mut columns;
    whole(c, "stream", "number of its stream", |t| Some(t.stream));
    whole(c, "exchange", "number in the stream, from 0", |t| Some(t.exchange));
    words(c, "requester", "who asked: client or server", |t: &CapturedExchange| {
        t.requester.name().to_string()
    });
    maybe(c, "http_method", "method of HTTP/1; empty: none was seen", |t: &CapturedExchange| {
        t.method.clone()
    });
    maybe(c, "http_target", "what it asked for, cut at 160 bytes with the method", |t| {
        t.target.clone()
    });
    whole(c, "http_status", "status of the answer", |t: &CapturedExchange| t.status.map(u64::from));
    whole(c, "at_us", "first byte of the request, since the first packet of the capture", |t| {
        Some(t.at_us)
    });
    unix(c, "at_unix_us", "the same, since 1970-01-01 UTC", |t: &CapturedExchange| t.at_us);
    whole(c, "request_bytes", "bytes of the request, each counted once", |t| Some(t.request_bytes));
    whole(c, "request_us", "from the first byte of the request to its last", |t| {
        Some(t.request_us)
    });
    let wait = "from there to the first byte of the answer, as seen here; empty: no answer";
    whole(c, "response_wait_us", wait, |t: &CapturedExchange| t.response_wait_us);
    whole(c, "response_bytes", "bytes of the answer, each counted once", |t| {
        Some(t.response_bytes)
    });
    let took = "from the first byte of the request to the last of the answer; empty: no answer";
    whole(c, "total_us", took, |t: &CapturedExchange| t.total_us);
    let largest = "the part of its budget that took most of it";
    column(c, CellKind::Words, "largest_category", largest, |t: &CapturedExchange, _| {
        t.largest()
            .map_or(Cell::Missing, |share| Cell::Words(short_name(share.category).to_string()))
    });
    for part in TimeCategory::ALL.into_iter().filter(|part| *part != TimeCategory::ClientIdle) {
        let is = format!("budget, up to the next request: {}", part.words());
        whole(c, &part_name(part), &is, move |t: &CapturedExchange| Some(t.time_us(part)));
    }
    columns
}

/// Columns of the events.
pub fn events() -> Vec<Column<CapturedEvent>> {
    let mut columns: Columns<CapturedEvent> = Vec::new();
    let c = &mut columns;
    whole(c, "stream", "number of its stream", |e| Some(e.stream));
    let packet = "number of the packet in the capture, from 1; empty: seen at the stream's end";
    whole(c, "packet", packet, |e: &CapturedEvent| e.packet);
    whole(c, "at_us", "when, since the first packet of the capture", |e| Some(e.at_us));
    unix(c, "at_unix_us", "the same, since 1970-01-01 UTC", |e: &CapturedEvent| e.at_us);
    words(
        c,
        "side",
        "whose packet it was; of a stall, who could not send: client or server",
        |e: &CapturedEvent| e.side.name().to_string(),
    );
    words(
        c,
        "event",
        "syn-repeated, repeated-fast, repeated-timeout, repeated-unseen, repeated-other, reordered, \
         zero-window, window-probe, window-stall, delayed-ack-stall or reset",
        |e: &CapturedEvent| e.event.name().to_string(),
    );
    whole(c, "bytes", "bytes of data of the packet", |e| Some(e.bytes));
    let waited = "how long the stall lasted, or was waited for what is repeated; empty: no length";
    whole(c, "waited_us", waited, |e: &CapturedEvent| e.waited_us);
    columns
}

fn name(end: StreamEnd) -> &'static str {
    match end {
        StreamEnd::Open => "open",
        StreamEnd::HalfClosed => "half-closed",
        StreamEnd::Closed => "closed",
        StreamEnd::Reset => "reset",
        StreamEnd::Refused => "refused",
    }
}

fn short_name(part: TimeCategory) -> &'static str {
    match part {
        TimeCategory::Connect => "connect",
        TimeCategory::SynWait => "syn-wait",
        TimeCategory::ServerThink => "server-think",
        TimeCategory::ClientIdle => "client-idle",
        TimeCategory::DelayedAck => "delayed-ack",
        TimeCategory::Loss => "loss",
        TimeCategory::ReceiverStalled => "receiver-stalled",
        TimeCategory::ReceiveWindow => "receive-window",
        TimeCategory::Application => "application",
        TimeCategory::Network => "network",
        TimeCategory::Unexplained => "unexplained",
    }
}

fn part_name(part: TimeCategory) -> String {
    format!("{}_us", short_name(part).replace('-', "_"))
}

/// The page of all columns, as Markdown.
pub fn page() -> String {
    fn table<Row>(text: &mut String, (name, is): (&str, &str), columns: &Columns<Row>) {
        text.push_str(&format!("\n## {name}\n\n{name}.csv, {name}.parquet: {is}.\n\n"));
        text.push_str("| column | holds | is |\n|---|---|---|\n");
        for Column { name, kind, is, .. } in columns {
            text.push_str(&format!("| `{name}` | {} | {is} |\n", kind.name()));
        }
    }
    let mut text = "\
# Captures as tables

`netwhy pcap FILE --csv FOLDER` and `--parquet FOLDER` write three tables. Columns that end with
`_us` are microseconds, with `_bytes` bytes; all others are counts or words. An empty cell of CSV, or
a null of Parquet, is not known, never zero. Rows are written as they come: streams when they are
over, turns and events in the order of the capture.
"
    .to_string();
    table(&mut text, TABLES[0], &streams());
    table(&mut text, TABLES[1], &exchanges());
    table(&mut text, TABLES[2], &events());
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names<Row>(columns: &Columns<Row>) -> BTreeSet<String> {
        let names: BTreeSet<String> = columns.iter().map(|column| column.name.clone()).collect();
        assert_eq!(names.len(), columns.len(), "a name twice");
        for column in columns {
            assert!(column.is.len() > 10, "{}", column.name);
            assert!(!column.is.contains(['|', '\n']), "{}", column.name);
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(column.name.chars().all(plain), "{}", column.name);
        }
        names
    }

    #[test]
    fn columns_are_named_once_and_explained() {
        assert!(names(&streams()).contains("server_round_trip_min_us"));
        assert!(names(&exchanges()).contains("server_think_us"));
        assert!(names(&events()).contains("waited_us"));
        assert!(
            page().contains("| `loss_us` | integer | budget: lost segments were repeated (lost) |")
        );
    }
}
