//! Tests of what is the server's think time, and what is the path's.

use model::{CapturedDirection, TimeCategory};

use super::test_connection::{ACK, SYN, TestConnection, timestamp};

const FIN: u8 = 1;

/// A handshake in which the SYN is answered after so many microseconds.
fn opened(mut connection: TestConnection, answered: u64) -> TestConnection {
    connection.packet(0, true, SYN, [0, 0, 0, 0], 60_000);
    connection.packet(answered, false, SYN | ACK, [0, 1, 1, 0], 60_000);
    connection.packet(answered + 20, true, ACK, [1, 1, timestamp(answered), 0], 60_000);
    connection
}

/// A request at 500 ms; a bare acknowledgement and the response come so many microseconds later.
fn request(connection: &mut TestConnection, acknowledged: Option<u64>, answered: u64) {
    let at = 500_000;
    connection.packet(at, true, ACK, [1, 1, 0, 100], 60_000);
    if let Some(after) = acknowledged {
        connection.packet(at + after, false, ACK, [1, 101, timestamp(at), 0], 60_000);
    }
    let answered = at + answered;
    connection.packet(answered, false, ACK, [1, 101, timestamp(at), 1_000], 60_000);
    connection.packet(answered + 20, true, ACK, [101, 1_001, timestamp(answered), 0], 60_000);
}

fn think_ms(sent: &CapturedDirection) -> u64 {
    sent.time_us(TimeCategory::ServerThink) / 1_000
}

/// The think time of a request on a path whose SYN is answered so late.
fn think_time(syn: u64, acknowledged: Option<u64>, answered: u64) -> u64 {
    let mut connection = opened(TestConnection::new(), syn);
    request(&mut connection, acknowledged, answered);
    think_ms(&connection.sent_by_server())
}

#[test]
fn behind_a_proxy_that_acknowledges_for_the_server_the_handshake_is_the_path() {
    assert_eq!(think_time(180_000, Some(200), 190_000), 10, "one round trip");
    assert_eq!(think_time(180_000, Some(200), 900_000), 720, "and the server's own time");
    // Far from a proxy: the server itself acknowledges.
    assert_eq!(think_time(40_000, Some(40_000), 190_000), 150);
}

#[test]
fn a_proxy_that_answers_the_syn_hides_the_path() {
    let behind = |offers_mss: bool| {
        let mut connection = TestConnection::new();
        connection.offers_mss = offers_mss;
        let mut connection = opened(connection, 900);
        request(&mut connection, Some(200), 350_000);
        let sent = connection.sent_by_server();
        (think_ms(&sent), sent.time_us(TimeCategory::Unexplained) / 1_000)
    };
    assert_eq!(behind(false), (0, 349));
    assert_eq!(behind(true), (349, 0));
}

#[test]
fn a_request_that_is_acknowledged_late_came_late() {
    // No delayed acknowledgement waits longer than 200 ms.
    assert_eq!(think_time(40_000, None, 900_000), 200);
    assert_eq!(think_time(40_000, Some(700_000), 900_000), 400);
    assert_eq!(think_time(40_000, Some(80_000), 900_000), 860);
    assert_eq!(think_time(40_000, None, 190_000), 150);
}

#[test]
fn an_answer_that_never_came_is_no_think_time() {
    let unanswered = |closes: bool| {
        let mut connection = opened(TestConnection::new(), 40_000);
        connection.packet(500_000, true, ACK, [1, 1, 0, 100], 60_000);
        connection.packet(540_000, false, ACK, [1, 101, timestamp(500_000), 0], 60_000);
        let end = if closes { FIN } else { 0 };
        connection.packet(5_000_000, true, ACK | end, [101, 1, 0, 0], 60_000);
        think_ms(&connection.sent_by_server())
    };
    assert_eq!(unanswered(true), 0);
    assert_eq!(unanswered(false), 4_460, "it may come yet");
}

#[test]
fn an_answer_that_never_came_is_late_only_where_one_was_to_come() {
    let late_answers = |payload: &'static [u8]| {
        let mut connection = opened(TestConnection::new(), 40_000);
        connection.payload = payload;
        connection.packet(500_000, true, ACK, [1, 1, 0, 100], 60_000);
        connection.packet(540_000, false, ACK, [1, 101, timestamp(500_000), 0], 60_000);
        connection.packet(5_000_000, true, ACK, [101, 1, 0, 0], 60_000);
        connection.finish().late_answers
    };
    assert_eq!(late_answers(b"GET / HTTP/1.1\r\n\r\n"), 1);
    assert_eq!(late_answers(b"<34>Oct 11 22:14:15 host su: failed"), 0);
}

#[test]
fn who_sends_on_after_a_pause_does_not_wait_for_an_answer() {
    // Each message is acknowledged 40 ms later; so much after that its sender sends the next.
    let unwaited = |pauses: &[u64]| {
        let mut connection = opened(TestConnection::new(), 40_000);
        let (mut at, mut next) = (500_000, 1);
        for pause in pauses {
            connection.packet(at, true, ACK, [next, 1, 0, 100], 60_000);
            next += 100;
            connection.packet(at + 40_000, false, ACK, [1, next, timestamp(at), 0], 60_000);
            at += 40_000 + pause;
        }
        connection.packet(at, false, ACK, [1, next, timestamp(at), 50], 60_000);
        connection.packet(at + 500_000, true, ACK, [next, 51, timestamp(at), 100], 60_000);
        connection.finish().unwaited_requests
    };
    assert_eq!((unwaited(&[300_000]), unwaited(&[300_000, 200_000, 300_000])), (0, 2));
    assert_eq!(unwaited(&[20, 90_000, 300_000]), 0, "a request in pieces");
}

#[test]
fn what_acknowledges_a_message_at_once_is_no_request() {
    // The client asks once. The server sends a message each second; its client sends so much, so long after
    // each.
    let late_answers = |bytes: u32, after_us: u64| {
        let mut connection = opened(TestConnection::new(), 40_000);
        connection.packet(500_000, true, ACK, [1, 1, 0, 100], 60_000);
        for message in 0..6_u32 {
            let at = 540_000 + 1_000_000 * u64::from(message);
            let (next, acknowledged) = (1 + 200 * message, 101 + bytes * message);
            connection.packet(at, false, ACK, [next, acknowledged, timestamp(at), 200], 60_000);
            let (received, sent) = (at + 40_000, at + 500 + after_us);
            if received < sent {
                connection.packet(received, true, ACK, [acknowledged, next + 200, 0, 0], 60_000);
            }
            connection.packet(sent, true, ACK, [acknowledged, next + 200, 0, bytes], 60_000);
        }
        connection.finish().late_answers
    };
    assert_eq!((late_answers(4, 0), late_answers(21, 10_000)), (0, 0));
    assert_eq!((late_answers(22, 0), late_answers(4, 300_000)), (5, 5), "a request");
}

/// The server speaks first, 1.5 s after the handshake began; each command is then answered after 700 ms, and
/// the client sends the next 5 s later.
fn server_speaks_first(first: &'static [u8]) -> model::CapturedStream {
    let mut connection = opened(TestConnection::new(), 40_000);
    connection.payload = first;
    connection.packet(1_500_000, false, ACK, [1, 1, 41, 30], 60_000);
    connection.payload = &[];
    let mut at = 1_600_000;
    for number in 0..3 {
        let (seq, ack) = (1 + number * 10, 31 + number * 20);
        connection.packet(at, true, ACK, [seq, ack, timestamp(at), 10], 60_000);
        connection.packet(at + 40_000, false, ACK, [ack, seq + 10, timestamp(at), 0], 60_000);
        let answered = at + 700_000;
        connection.packet(answered, false, ACK, [ack, seq + 10, timestamp(at), 20], 60_000);
        at = answered + 5_000_000;
    }
    connection.finish()
}

#[test]
fn after_a_greeting_the_client_asks() {
    let stream = server_speaks_first(b"220 mail.example.org ESMTP\r\n");
    assert_eq!(stream.greeting_us.map(|us| us / 1_000), Some(1_419));
    assert_eq!(stream.exchanges, 3);
    assert_eq!(think_ms(&stream.from_server), 1_419 + 3 * 660);
}

#[test]
fn after_the_greeting_of_ssh_either_end_may_speak() {
    let stream = server_speaks_first(b"SSH-2.0-OpenSSH_9.6\r\n");
    assert_eq!(stream.greeting_us.map(|us| us / 1_000), Some(1_419));
    assert_eq!(think_ms(&stream.from_server), 1_419, "what comes after 5 s may be a keepalive");
}

#[test]
fn in_an_unknown_protocol_whoever_speaks_first_asks() {
    let stream = server_speaks_first(b"{\"ask\": \"your name\"}");
    assert_eq!((stream.greeting_us, stream.exchanges), (None, 4));
    assert_eq!(think_ms(&stream.from_server), 1_419, "until it speaks, it is waited for");
}

/// A request over TLS 1.3, with the end of the handshake; two records come at once, the second of these
/// bytes, and more after a second.
fn over_tls(second: &'static [u8]) -> model::CapturedStream {
    let mut connection = opened(TestConnection::new(), 40_000);
    let (mut client, mut server) = (1, 1);
    let mut send = |at: u64, to_server: bool, flags: u8, payload: &'static [u8], length: u32| {
        connection.payload = payload;
        let (own, peer) = if to_server { (&mut client, &server) } else { (&mut server, &client) };
        connection.packet(at, to_server, flags, [*own, *peer, timestamp(at), length], 60_000);
        *own += length;
    };
    send(100_000, true, ACK, b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03", 205);
    send(141_000, false, ACK, b"\x16\x03\x03\x00\x5a", 95);
    send(141_010, false, ACK, b"\x17\x03\x03\x03\xe8", 1005);
    send(142_000, true, ACK, b"\x14\x03\x03\x00\x01\x01\x17\x03\x03\x00\x35", 64);
    send(142_100, true, ACK, b"\x17\x03\x03\x00\x64", 105);
    send(183_000, false, ACK, b"\x17\x03\x03\x00\xfa", 255);
    send(183_100, false, ACK, second, 255);
    send(1_183_000, false, ACK, b"\x17\x03\x03\x02\x58", 605);
    send(1_184_000, true, ACK | FIN, b"\x17\x03\x03\x00\x13", 24);
    connection.finish()
}

#[test]
fn session_tickets_are_no_response() {
    let stream = over_tls(b"\x17\x03\x03\x00\xfa");
    assert_eq!((stream.exchanges, stream.late_answers), (1, 1), "{stream:?}");
    assert_eq!(think_ms(&stream.from_server), 961, "less the round trip");
    // A short record, and the beginning of a long one: the response.
    let stream = over_tls(b"\x17\x03\x03\x02\x58");
    assert_eq!((stream.exchanges, stream.late_answers), (1, 0), "{stream:?}");
    assert_eq!(think_ms(&stream.from_server), 1);
}
