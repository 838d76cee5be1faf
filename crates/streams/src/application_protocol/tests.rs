//! Tests of requests, statuses and TLS handshakes.

use model::Side::{self, Client, Server};

use super::http::{MAX_LINE_BYTES, MAX_SLOW_REQUESTS, RequestHash};
use super::*;
use crate::time::{Nanos, OptionalTime};

/// New data of a stream on which nothing is lost.
fn send(
    protocol: &mut ApplicationProtocol,
    sender: Side,
    bytes: &[u8],
    at: Nanos,
    exchange: u32,
    begins_request: bool,
) -> bool {
    let length = bytes.len() as u32;
    protocol.take(&Payload { sender, bytes, length, at, exchange, begins_request })
}

const MS: Nanos = 1_000_000;

#[test]
fn requests_and_statuses_belong_to_their_exchanges() {
    let mut protocol = ApplicationProtocol::default();
    assert!(send(&mut protocol, Client, b"GET /a?key=1 HTTP/1.1\r\n", 0, 0, true));
    assert!(send(&mut protocol, Server, b"HTTP/1.1 200 OK\r\n", 30, 0, false));
    assert!(!send(&mut protocol, Server, b"HELLO", 31, 0, false));
    protocol.end_exchange(0, 25 * MS, OptionalTime::default());
    assert!(send(&mut protocol, Client, b"POST /b HTTP/1.1\r\n", 40, 1, true));
    let found = |number| protocol.http_exchange(number).map(|http| (http.request, http.status));
    assert_eq!(found(0), Some((Some(("GET", "/a?key=1")), Some(200))));
    assert_eq!(found(1), Some((Some(("POST", "/b")), None)));
    assert_eq!(found(2), None);
    assert_eq!(protocol.statuses(), [(200, 1)]);
    // The query is left out.
    let request = "GET /a".to_string();
    let slow = SlowRequest { request, exchanges: 1, think_time: 25 * MS, ..SlowRequest::default() };
    assert_eq!(protocol.slow_requests(), [slow]);
    protocol.end_exchange(1, 9 * MS, OptionalTime::default());
    // The same again, then another one.
    send(&mut protocol, Client, b"POST /b HTTP/1.1\r\n", 60, 2, true);
    assert_eq!(protocol.http_exchange(1), protocol.http_exchange(2));
    send(&mut protocol, Client, b"POST /bcd HTTP/1.1\r\n", 70, 3, true);
    let request = |number| protocol.http_exchange(number).and_then(|http| http.request);
    let target = |number| request(number).map(|(_, target)| target);
    assert_eq!((target(2), target(3)), (Some("/b"), Some("/bcd")));
    assert_eq!(protocol.slow_requests().len(), 1, "9 ms are not slow");
}

#[test]
fn a_client_that_waits_for_100_continue_sends_one_request() {
    let mut protocol = ApplicationProtocol::default();
    send(&mut protocol, Client, b"PUT /file HTTP/1.1\r\nExpect: 100-continue\r\n\r\n", 0, 0, true);
    send(&mut protocol, Server, b"HTTP/1.1 100 Continue\r\n\r\n", 1, 0, false);
    assert!(!send(&mut protocol, Client, b"the file", 2, 1, true));
    send(&mut protocol, Server, b"HTTP/1.1 201 Created\r\n", 3, 1, false);
    let http = protocol.http_exchange(1).expect("the second exchange");
    assert_eq!((http.request, http.status), (Some(("PUT", "/file")), Some(201)));
}

#[test]
fn targets_are_cut_and_counted_apart_up_to_a_bound() {
    let mut protocol = ApplicationProtocol::default();
    for number in 0..100 {
        let line = format!("GET /{number}/{} HTTP/1.1\r\n", "x".repeat(1000));
        assert!(send(&mut protocol, Client, line.as_bytes(), 0, number, true));
        let http = protocol.http_exchange(number).expect("an exchange");
        let (_, target) = http.request.expect("a request");
        assert_eq!(target.len(), MAX_LINE_BYTES - 4);
        protocol.end_exchange(number, 20 * MS, OptionalTime::default());
    }
    assert_eq!(protocol.slow_requests().len(), MAX_SLOW_REQUESTS);
}

#[test]
fn quick_and_noticed_responses_are_counted_by_request() {
    let mut protocol = ApplicationProtocol::default();
    let mut ask = |number: u32, target: &str, think_time| {
        let line = format!("GET {target} HTTP/1.1\r\n");
        send(&mut protocol, Client, line.as_bytes(), 0, number, true);
        let answered_at = Nanos::from(number / 20) * 1_000 * MS;
        protocol.end_exchange(number, think_time, answered_at.into());
    };
    // Three targets, asked in turn, with queries.
    for number in 0..30 {
        let think_time = if number % 10 == 1 { 120 * MS } else { MS };
        ask(number, &format!("/{}?{}", number % 3, number / 6), think_time);
    }
    // 1, 11 and 21: each of another target.
    let slow: Vec<_> =
        protocol.slow_requests().iter().map(|one| (one.noticed, one.noticed_time)).collect();
    assert_eq!(slow, [(1, 120 * MS); 3]);
    assert!(protocol.slow_requests().iter().all(|one| one.moments.count() == 1));
    let quick = |target: &str| {
        let hash = RequestHash::of(target);
        protocol
            .quick_requests()
            .filter(|(one, _)| *one == hash)
            .map(|(_, count)| count)
            .sum::<u32>()
    };
    assert_eq!(["GET /0", "GET /1", "GET /2", "GET /3"].map(quick), [9, 9, 9, 0]);
}

/// A record of TLS.
fn record(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

/// A ClientHello with the server name `a.example`, behind another extension.
fn hello(before: usize) -> Vec<u8> {
    let name = b"\0\0\0\x0e\0\x0c\0\0\x09a.example";
    let other = [&[0, 51][..], &(before as u16).to_be_bytes(), &vec![7; before]].concat();
    let extensions = [&other[..], name].concat();
    let body = [
        &[3, 3][..],
        &[1; 32],
        &[0, 0, 2, 0x13, 1, 1, 0],
        &(extensions.len() as u16).to_be_bytes(),
        &extensions,
    ]
    .concat();
    let length = (body.len() as u32).to_be_bytes();
    record(22, &[&[1][..], &length[1..], &body].concat())
}

fn change() -> Vec<u8> {
    record(20, &[1])
}

#[test]
fn a_handshake_of_tls_1_3() {
    let mut protocol = ApplicationProtocol::default();
    assert!(send(&mut protocol, Client, &hello(0), 10 * MS, 0, true));
    assert!(protocol.is_in_handshake());
    // The server's flight, in segments that end within a record.
    let flight = [record(22, &[2; 90]), change(), record(23, &[0; 3000])].concat();
    let (first, second) = flight.split_at(1448);
    send(&mut protocol, Server, first, 30 * MS, 0, false);
    send(&mut protocol, Server, second, 30 * MS, 0, false);
    assert!(protocol.is_in_handshake());
    let end = [change(), record(23, &[0; 50])].concat();
    send(&mut protocol, Client, &end, 52 * MS, 1, true);
    let tls = protocol.tls().expect("TLS");
    assert_eq!(tls.server_name.as_deref(), Some("a.example"));
    assert_eq!(tls.duration(), Some(42 * MS));
    // A request, two session tickets, the response.
    let mut next = |sender, bytes: &[u8]| {
        send(&mut protocol, sender, bytes, 53 * MS, 1, false);
        (protocol.tls().map(TlsHandshake::latest), protocol.is_in_handshake())
    };
    assert_eq!(next(Client, &record(23, &[0; 90])), (Some(TlsPart::Data), true));
    let ticket = record(23, &[0; 250]);
    assert_eq!(next(Server, &ticket), (Some(TlsPart::Data), true), "it may be the response");
    let (first, second) = ticket.split_at(100);
    assert_eq!(next(Server, first), (Some(TlsPart::Tickets), true));
    assert_eq!(next(Server, second), (Some(TlsPart::Tickets), true));
    assert_eq!(next(Server, &record(23, &[0; 900])), (Some(TlsPart::Data), false));
}

#[test]
fn the_handshake_ends_before_the_request_that_comes_with_it() {
    let after = |server: Vec<u8>, end: &[Vec<u8>]| {
        let mut protocol = ApplicationProtocol::default();
        send(&mut protocol, Client, &hello(0), 10 * MS, 0, true);
        send(&mut protocol, Server, &server, 30 * MS, 0, false);
        send(&mut protocol, Client, &end.concat(), 52 * MS, 1, true);
        protocol.tls().map(TlsHandshake::latest)
    };
    let finished = [change(), record(23, &[0; 50])];
    let request = [&finished[..], &[record(23, &[0; 90])]].concat();
    let server_1_3 = [record(22, &[2; 90]), change(), record(23, &[0; 900])].concat();
    assert_eq!(after(server_1_3.clone(), &finished), Some(TlsPart::Handshake));
    assert_eq!(after(server_1_3, &request), Some(TlsPart::Data));
    // The same of a session of TLS 1.2 that is resumed.
    let finished = [change(), record(22, &[9; 40])];
    let request = [&finished[..], &[record(23, &[0; 90])]].concat();
    let server_1_2 = [record(22, &[2; 90]), change(), record(22, &[9; 40])].concat();
    assert_eq!(after(server_1_2.clone(), &finished), Some(TlsPart::Handshake));
    assert_eq!(after(server_1_2, &request), Some(TlsPart::Data));
}

#[test]
fn records_of_one_length_are_no_tickets_if_they_are_many_large_or_late() {
    let last = |count: i64, bytes: usize, pause: i64| {
        let mut protocol = ApplicationProtocol::default();
        send(&mut protocol, Client, &hello(0), 10 * MS, 0, true);
        send(&mut protocol, Server, &record(23, &[0; 900]), 30 * MS, 0, false);
        send(&mut protocol, Client, &record(23, &[0; 50]), 52 * MS, 1, true);
        for number in 0..count {
            let at = (90 + number * pause) * MS;
            send(&mut protocol, Server, &record(23, &vec![0; bytes]), at, 1, false);
        }
        protocol.tls().map(TlsHandshake::latest)
    };
    assert_eq!(last(1, 250, 0), Some(TlsPart::Data));
    assert_eq!(
        (last(2, 250, 0), last(2, 250, 200)),
        (Some(TlsPart::Tickets), Some(TlsPart::Tickets))
    );
    assert_eq!((last(5, 250, 0), last(2, 250, 1_000)), (Some(TlsPart::Data), Some(TlsPart::Data)));
    assert_eq!((last(2, 1370, 0), last(2, 30, 0)), (Some(TlsPart::Data), Some(TlsPart::Data)));
}

#[test]
fn a_client_that_does_not_announce_that_it_encrypts_and_early_data() {
    let mut protocol = ApplicationProtocol::default();
    send(&mut protocol, Client, &[hello(0), record(23, b"early")].concat(), 10 * MS, 0, true);
    assert!(protocol.is_in_handshake(), "before the response of the server it is early data");
    send(&mut protocol, Server, &record(22, &[2; 90]), 20 * MS, 0, false);
    send(&mut protocol, Client, &record(23, b"finished"), 31 * MS, 1, true);
    assert_eq!(protocol.tls().and_then(TlsHandshake::duration), Some(21 * MS));
}

#[test]
fn a_handshake_of_tls_1_2_ends_with_the_server() {
    let mut protocol = ApplicationProtocol::default();
    send(&mut protocol, Client, &hello(0), 0, 0, true);
    send(&mut protocol, Server, &record(22, &[2; 900]), 10 * MS, 0, false);
    let keys = [record(22, &[16; 60]), change(), record(22, &[9; 40])].concat();
    send(&mut protocol, Client, &keys, 11 * MS, 1, true);
    assert!(protocol.is_in_handshake());
    send(&mut protocol, Server, &[change(), record(22, &[9; 40])].concat(), 21 * MS, 1, false);
    assert_eq!(protocol.tls().and_then(TlsHandshake::duration), Some(21 * MS));
}

#[test]
fn a_server_name_in_the_second_segment() {
    let mut protocol = ApplicationProtocol::default();
    let bytes = hello(1600);
    let (first, second) = bytes.split_at(1448);
    send(&mut protocol, Client, first, 0, 0, true);
    assert_eq!(protocol.tls().and_then(|tls| tls.server_name.as_deref()), None);
    send(&mut protocol, Client, second, 1, 0, false);
    assert_eq!(protocol.tls().and_then(|tls| tls.server_name.as_deref()), Some("a.example"));
}

#[test]
fn an_alert_ends_a_handshake() {
    let mut protocol = ApplicationProtocol::default();
    send(&mut protocol, Client, &hello(0), 0, 0, true);
    send(&mut protocol, Server, &record(21, &[2, 112]), 10, 0, false);
    let tls = protocol.tls().expect("TLS");
    let alert = TlsAlert { sender: Server, number: 112 };
    assert_eq!((tls.alert, tls.duration()), (Some(alert), None));
    assert!(!protocol.is_in_handshake());
}

#[test]
fn tickets_and_the_version_are_known_where_only_the_first_bytes_are_captured() {
    let last = |server_length: u32, reply: &[Vec<u8>]| {
        let mut protocol = ApplicationProtocol::default();
        send(&mut protocol, Client, &hello(0), 10 * MS, 0, true);
        let mut begins = |sender, bytes: &[u8], length: u32| {
            let bytes = bytes.get(..60).unwrap_or(bytes);
            let (at, exchange, begins_request) = (50 * MS, 1, sender == Client);
            protocol.take(&Payload { sender, bytes, length, at, exchange, begins_request });
            protocol.tls().map(TlsHandshake::latest)
        };
        begins(Server, &record(22, &[2; 90]), 1400);
        let reply = reply.concat();
        let of_reply = begins(Client, &reply, reply.len() as u32);
        (of_reply, begins(Server, &record(23, &[0; 250]), server_length))
    };
    let (handshake, data, tickets) =
        (Some(TlsPart::Handshake), Some(TlsPart::Data), Some(TlsPart::Tickets));
    let reply_1_3 = [change(), record(23, &[0; 50])];
    assert_eq!(last(510, &reply_1_3), (handshake, tickets));
    assert_eq!(last(255, &reply_1_3), (handshake, data), "one record");
    assert_eq!(last(700, &reply_1_3), (handshake, data));
    let reply_1_2 = [record(22, &[16; 20]), change(), record(22, &[9; 40])];
    assert_eq!(last(510, &reply_1_2), (handshake, data));
}
