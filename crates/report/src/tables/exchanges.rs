//! The columns of the exchanges.

use model::{CapturedExchange, TimeCategory};

use super::category;
use super::column::{Column, Columns};

/// The columns of `exchanges.csv`.
pub fn exchanges() -> Vec<Column<CapturedExchange>> {
    let mut columns: Columns<CapturedExchange> = Columns::new();
    let c = &mut columns;
    c.integer("stream", "number of its stream", |e| Some(e.stream));
    c.integer("exchange", "number in the stream, from 0", |e| Some(e.exchange));
    c.text("requester", "the end that sent the request: client or server", |e| {
        Some(e.requester.name().to_string())
    });
    c.text("http_method", "HTTP/1 method; empty: none captured", |e| e.method.clone());
    c.text("http_target", "HTTP/1 request target, truncated at 160 bytes with the method", |e| {
        e.target.clone()
    });
    c.integer("http_status", "HTTP/1 status of the response", |e| e.status.map(u64::from));
    c.integer(
        "at_us",
        "time of the first byte of the request since the first packet of the capture",
        |e| Some(e.at_us),
    );
    c.unix_time("at_unix_us", "time of the first byte of the request since 1970-01-01 UTC", |e| {
        e.at_us
    });
    c.integer("request_bytes", "bytes of the request, without retransmissions", |e| {
        Some(e.request_bytes)
    });
    c.integer("request_us", "from the first byte of the request to its last", |e| {
        Some(e.request_us)
    });
    c.integer(
        "response_wait_us",
        "from the last byte of the request to the first byte of the response, as captured here; empty: \
         no response",
        |e| e.response_wait_us,
    );
    c.integer("response_bytes", "bytes of the response, without retransmissions", |e| {
        Some(e.response_bytes)
    });
    c.integer(
        "total_us",
        "from the first byte of the request to the last byte of the response; empty: no response",
        |e| e.total_us,
    );
    c.text("largest_category", "the category of its time breakdown with the most time", |e| {
        Some(category::name(e.largest()?.category).to_string())
    });
    let categories = TimeCategory::ALL.into_iter();
    for category in categories.filter(|category| *category != TimeCategory::ClientIdle) {
        let description = format!("time breakdown up to the next request: {}", category.words());
        c.integer(&category::column_name(category), &description, move |e| {
            Some(e.time_us(category))
        });
    }
    columns.0
}
