//! The slowest exchanges of a stream.

use model::{CapturedExchange, CapturedStream, Side, StreamDepth, TimeCategory};
use text::{Column, Style, Table, bytes, micros, number};

/// Most exchanges shown.
const MAX_EXCHANGES_SHOWN: usize = 5;

pub(super) fn lines(stream: &CapturedStream, depth: &StreamDepth, style: Style) -> Vec<String> {
    let shown = depth.slowest_exchanges.iter().take(MAX_EXCHANGES_SHOWN);
    if shown.len() == 0 {
        return Vec::new();
    }
    let title = if stream.exchanges > shown.len() as u64 {
        format!("the slowest {} of {} exchanges", shown.len(), number(stream.exchanges))
    } else {
        "exchanges, the slowest first".to_string()
    };
    let mut table = Table::new([
        Column::right("exchange"),
        Column::right("start"),
        Column::right("request"),
        Column::right("think time"),
        Column::right("response"),
        Column::right("duration"),
        Column::left("mostly"),
    ]);
    for exchange in shown {
        table.row(row(exchange, stream));
        if let Some(http) = http(exchange) {
            table.note(&http);
        }
    }
    let mut lines = vec![String::new(), title];
    lines.extend(table.lines("", style.width));
    lines
}

fn row(exchange: &CapturedExchange, stream: &CapturedStream) -> [String; 7] {
    let largest = exchange.largest().map_or("", |share| share.category.words());
    let requester = if exchange.requester == Side::Server { " (the server's request)" } else { "" };
    [
        exchange.exchange.to_string(),
        micros(exchange.at_us.saturating_sub(stream.first_us)),
        bytes(exchange.request_bytes),
        micros(exchange.time_us(TimeCategory::ServerThink)),
        bytes(exchange.response_bytes),
        micros(exchange.spent_us()),
        format!("{largest}{requester}"),
    ]
}

/// The HTTP request and the status of its response.
fn http(exchange: &CapturedExchange) -> Option<String> {
    let request = exchange.method.as_ref().zip(exchange.target.as_ref());
    let request = request.map(|(method, target)| format!("{method} {target}"));
    let status = exchange.status.map(|status| format!("status {status}"));
    match (request, status) {
        (Some(request), Some(status)) => Some(format!("{request}: {status}")),
        (request, status) => request.or(status),
    }
}
