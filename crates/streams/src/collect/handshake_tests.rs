//! Tests of handshakes: which SYNs were waited for, and which connections were refused.

use model::{CapturedStream, StreamEnd, TimeCategory};

use super::test_connection::{ACK, SYN, TestConnection};

const FIN: u8 = 1;
const RST: u8 = 4;
const SYN_ACK: u8 = SYN | ACK;
const MILLI: u64 = 1_000;
const S: u64 = 1_000_000;

/// A stream of packets without data: when, whether to the server, flags, sequence, acknowledgement.
fn stream(packets: &[(u64, bool, u8, u32, u32)]) -> CapturedStream {
    let mut connection = TestConnection::new();
    for (at, to_server, flags, seq, ack) in packets {
        connection.packet(*at, *to_server, *flags, [*seq, *ack, 0, 0], 60_000);
    }
    connection.finish()
}

fn waited_ms(stream: &CapturedStream) -> u64 {
    stream.time_us(TimeCategory::SynWait) / 1000
}

const OPENED: [(u64, bool, u8, u32, u32); 2] =
    [(5 * S, false, SYN_ACK, 900, 101), (5 * S + 20, true, ACK, 101, 901)];

#[test]
fn a_syn_that_comes_again_after_a_second_was_waited_for() {
    let lost = [(4 * S, true, SYN, 100, 0), (5 * S - 20, true, SYN, 100, 0)];
    let stream = stream(&[lost.as_slice(), &OPENED].concat());
    assert_eq!((stream.syn_retransmissions, waited_ms(&stream)), (1, 999));
}

#[test]
fn what_comes_too_soon_or_is_no_syn_is_no_retransmission() {
    let copied = [(5 * S - 60 * MILLI, true, SYN, 100, 0), (5 * S - 20, true, SYN, 100, 0)];
    let soon = stream(&[copied.as_slice(), &OPENED].concat());
    assert_eq!((soon.syn_retransmissions, waited_ms(&soon)), (0, 0));
    let crafted = [(4 * S, true, SYN, 100, 0), (5 * S - 20, true, SYN | FIN, 100, 0)];
    let crafted = stream(&[crafted.as_slice(), &OPENED].concat());
    assert_eq!((crafted.syn_retransmissions, waited_ms(&crafted)), (0, 0));
}

#[test]
fn a_syn_ack_that_comes_again_was_waited_for_if_the_client_goes_on() {
    let begin = [(0, true, SYN, 100, 0), (20, false, SYN_ACK, 900, 101)];
    let again = [(S, false, SYN_ACK, 900, 101), (3 * S, false, SYN_ACK, 900, 101)];
    let scan = stream(&[begin, again].concat());
    assert_eq!((scan.syn_ack_retransmissions, waited_ms(&scan)), (2, 0), "half open");
    assert_eq!(scan.handshake_us, None);
    let ack = [(3 * S + 20, true, ACK, 101, 901)];
    let late = stream(&[&begin, &again, ack.as_slice()].concat());
    assert_eq!((late.syn_ack_retransmissions, waited_ms(&late)), (2, 2_999));
}

#[test]
fn after_the_last_ack_only_a_client_with_data_waits() {
    let deferred = |data_at: Option<u64>| {
        let mut connection = TestConnection::open(60_000);
        if let Some(at) = data_at {
            connection.packet(at, true, ACK, [1, 1, 0, 100], 60_000);
        }
        connection.packet(S, false, SYN_ACK, [0, 1, 0, 0], 60_000);
        connection.packet(S + 20, true, ACK, [1 + 100, 1, 0, 0], 60_000);
        waited_ms(&connection.finish())
    };
    assert_eq!(deferred(None), 0, "the server waits for data");
    assert_eq!(deferred(Some(S - 10 * MILLI)), 0, "the data had no time to arrive");
    assert_eq!(deferred(Some(100 * MILLI)), 900, "the server takes nothing");
}

#[test]
fn a_refusal_acknowledges_the_syn_and_is_final() {
    let syn = (0, true, SYN, 100, 0);
    let reset = (20, false, RST | ACK, 0, 101);
    let again = [(500 * MILLI, true, SYN, 100, 0), (500 * MILLI + 20, false, RST | ACK, 0, 101)];
    let refused = stream(&[[syn, reset], again].concat());
    assert_eq!((refused.end, refused.syn_retransmissions), (StreamEnd::Refused, 0));
    let opened = stream(&[&[syn, reset, again[0]], OPENED.as_slice()].concat());
    assert_eq!((opened.end, opened.syn_retransmissions), (StreamEnd::Open, 0));
    let forged = stream(&[syn, (20, false, RST | ACK, 0, 77)]);
    assert_eq!(forged.end, StreamEnd::Reset, "it acknowledges something else");
}

#[test]
fn a_syn_ack_with_another_number_is_of_another_handshake() {
    let other = (5 * S + 300 * MILLI, false, SYN_ACK, 77_000, 101);
    let syn = (4 * S, true, SYN, 100, 0);
    let mut connection = TestConnection::new();
    for (at, to_server, flags, seq, ack) in [syn, OPENED[0], OPENED[1], other] {
        connection.packet(at, to_server, flags, [seq, ack, 0, 0], 60_000);
    }
    connection.packet(6 * S, false, ACK, [901, 101, 0, 1000], 60_000);
    let stream = connection.finish();
    assert_eq!((stream.syn_ack_retransmissions, waited_ms(&stream)), (0, 0));
    assert_eq!((stream.from_server.new_bytes, stream.from_server.retransmitted()), (1000, 0));
}

#[test]
fn the_handshake_ends_where_its_answer_was_not_captured() {
    let sent = [(0, true, SYN, 100, 0), (S, true, SYN, 100, 0), (S + 40, true, ACK, 101, 901)];
    let one_direction = stream(&[sent.as_slice(), &[(9 * S, true, ACK, 101, 990)]].concat());
    assert_eq!((one_direction.syn_answered, waited_ms(&one_direction)), (true, 1_000));
    assert_eq!(one_direction.handshake_us, None);
}

#[test]
fn an_error_of_icmp_about_the_syn_is_a_refusal() {
    let refused = |sequence: u8, code: u8| {
        let mut connection = TestConnection::new();
        connection.packet(0, true, SYN, [100, 0, 0, 0], 60_000);
        let mut error = vec![0x45, 0, 0, 56, 0, 1, 0, 0, 64, 1, 0, 0, 198, 18, 0, 9, 198, 18, 0, 1];
        error.extend([3, code, 0, 0, 0, 0, 0, 0]);
        error.extend([0x45, 0, 0, 40, 0, 1, 0, 0, 63, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
        error.extend([15, 160, 0, 80, 0, 0, 0, sequence]);
        connection.take(10 * MILLI, &error, 56);
        connection.finish().end == StreamEnd::Refused
    };
    assert!(refused(100, 1) && refused(100, 3) && refused(100, 13));
    assert!(!refused(101, 1), "of another connection");
    assert!(!refused(100, 4), "too big");
}
