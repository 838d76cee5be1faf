//! Data as `Spoken` is given it: what it understands, and when a handshake is over.

use super::*;

/// New data of a stream in which nothing is lost.
fn say(spoken: &mut Spoken, side: usize, bytes: &[u8], at: Nanos, turn: u32, asks: bool) -> bool {
    spoken.data(Data { side, bytes, length: bytes.len() as u32, at, turn, asks })
}

fn turn(number: u32, asked: Nanos, answered: Nanos) -> Turn {
    Turn {
        number,
        asker: 0,
        asked,
        asked_last: asked,
        acknowledged: Maybe::default(),
        answered: answered.into(),
        answered_last: answered.into(),
        request_bytes: 1,
        answer_bytes: 1,
    }
}

const MS: Nanos = 1_000_000;

#[test]
fn requests_and_their_statuses_belong_to_their_turns() {
    let mut spoken = Spoken::default();
    assert!(say(&mut spoken, 0, b"GET /a?key=1 HTTP/1.1\r\n", 0, 0, true));
    assert!(say(&mut spoken, 1, b"HTTP/1.1 200 OK\r\n", 30, 0, false));
    assert!(!say(&mut spoken, 1, b"HELLO", 31, 0, false));
    spoken.turn_over(&turn(0, 0, 30 * MS), 5 * MS);
    assert!(say(&mut spoken, 0, b"POST /b HTTP/1.1\r\n", 40, 1, true));
    let asked = |turn| spoken.of_turn(turn).map(|said| (said.request, said.status));
    assert_eq!(asked(0), Some((Some(("GET", "/a?key=1")), Some(200))));
    assert_eq!(asked(1), Some((Some(("POST", "/b")), None)));
    assert_eq!(asked(2), None);
    assert_eq!(spoken.statuses(), [(200, 1)]);
    // 30 ms less the 5 that the way takes; the query is left out.
    let slow = Slow { request: "GET /a".to_string(), turns: 1, time: 25 * MS };
    assert_eq!(spoken.slow(), [slow]);
    spoken.turn_over(&turn(1, 40 * MS, 49 * MS), 0);
    // The same again, and again another one.
    say(&mut spoken, 0, b"POST /b HTTP/1.1\r\n", 60, 2, true);
    assert_eq!(spoken.of_turn(1), spoken.of_turn(2));
    say(&mut spoken, 0, b"POST /bcd HTTP/1.1\r\n", 70, 3, true);
    let target = |turn| spoken.of_turn(turn).and_then(|said| said.request).map(|asked| asked.1);
    assert_eq!((target(2), target(3)), (Some("/b"), Some("/bcd")));
    assert_eq!(spoken.slow().len(), 1, "9 ms are not slow");
}

#[test]
fn who_waits_for_100_continue_asks_once() {
    let mut spoken = Spoken::default();
    say(&mut spoken, 0, b"PUT /file HTTP/1.1\r\nExpect: 100-continue\r\n\r\n", 0, 0, true);
    say(&mut spoken, 1, b"HTTP/1.1 100 Continue\r\n\r\n", 1, 0, false);
    assert!(!say(&mut spoken, 0, b"the file", 2, 1, true));
    say(&mut spoken, 1, b"HTTP/1.1 201 Created\r\n", 3, 1, false);
    let said = spoken.of_turn(1).expect("the second turn");
    assert_eq!((said.request, said.status), (Some(("PUT", "/file")), Some(201)));
}

#[test]
fn targets_are_cut_and_told_apart_up_to_a_bound() {
    let mut spoken = Spoken::default();
    for number in 0..100 {
        let line = format!("GET /{number}/{} HTTP/1.1\r\n", "x".repeat(1000));
        assert!(say(&mut spoken, 0, line.as_bytes(), 0, number, true));
        let (_, target) = spoken.of_turn(number).and_then(|said| said.request).expect("a request");
        assert_eq!(target.len(), LINE - 4);
        spoken.turn_over(&turn(number, 0, 20 * MS), 0);
    }
    assert_eq!(spoken.slow().len(), TARGETS);
}

/// A record of TLS.
fn record(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

/// A ClientHello that asks for `a.example`, with other extensions before it.
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
    let mut spoken = Spoken::default();
    assert!(say(&mut spoken, 0, &hello(0), 10 * MS, 0, true));
    assert!(spoken.is_in_handshake());
    // The server's flight, in segments that end within a record.
    let flight = [record(22, &[2; 90]), change(), record(23, &[0; 3000])].concat();
    let (first, second) = flight.split_at(1448);
    say(&mut spoken, 1, first, 30 * MS, 0, false);
    say(&mut spoken, 1, second, 30 * MS, 0, false);
    assert!(spoken.is_in_handshake());
    let end = [change(), record(23, &[0; 50])].concat();
    say(&mut spoken, 0, &end, 52 * MS, 1, true);
    assert!(!spoken.is_in_handshake());
    let tls = spoken.tls().expect("TLS");
    assert_eq!(tls.server_name.as_deref(), Some("a.example"));
    assert_eq!(tls.handshake(), Some(42 * MS));
}

#[test]
fn a_client_that_does_not_say_when_it_encrypts_and_early_data() {
    let mut spoken = Spoken::default();
    say(&mut spoken, 0, &[hello(0), record(23, b"early")].concat(), 10 * MS, 0, true);
    assert!(spoken.is_in_handshake(), "what comes before the server's answer is early data");
    say(&mut spoken, 1, &record(22, &[2; 90]), 20 * MS, 0, false);
    say(&mut spoken, 0, &record(23, b"finished"), 31 * MS, 1, true);
    assert_eq!(spoken.tls().and_then(Tls::handshake), Some(21 * MS));
}

#[test]
fn a_handshake_of_tls_1_2_ends_with_the_server() {
    let mut spoken = Spoken::default();
    say(&mut spoken, 0, &hello(0), 0, 0, true);
    say(&mut spoken, 1, &record(22, &[2; 900]), 10 * MS, 0, false);
    let keys = [record(22, &[16; 60]), change(), record(22, &[9; 40])].concat();
    say(&mut spoken, 0, &keys, 11 * MS, 1, true);
    assert!(spoken.is_in_handshake());
    say(&mut spoken, 1, &[change(), record(22, &[9; 40])].concat(), 21 * MS, 1, false);
    assert_eq!(spoken.tls().and_then(Tls::handshake), Some(21 * MS));
}

#[test]
fn a_name_behind_the_end_of_the_first_segment() {
    let mut spoken = Spoken::default();
    let bytes = hello(1600);
    let (first, second) = bytes.split_at(1448);
    say(&mut spoken, 0, first, 0, 0, true);
    assert_eq!(spoken.tls().and_then(|tls| tls.server_name.as_deref()), None);
    say(&mut spoken, 0, second, 1, 0, false);
    assert_eq!(spoken.tls().and_then(|tls| tls.server_name.as_deref()), Some("a.example"));
}

#[test]
fn an_alert_ends_a_handshake() {
    let mut spoken = Spoken::default();
    say(&mut spoken, 0, &hello(0), 0, 0, true);
    say(&mut spoken, 1, &record(21, &[2, 112]), 10, 0, false);
    let tls = spoken.tls().expect("TLS");
    assert_eq!((tls.alert, tls.handshake()), (Some((1, 112)), None));
    assert!(!spoken.is_in_handshake());
}
