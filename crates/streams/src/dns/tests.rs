//! Tests of queries and answers.

use std::net::SocketAddr;

use model::Resolver;
use wire::packet::Tcp;
use wire::packet::icmp::Icmp;
use wire::payload::dns::Message;

use super::queries::MAX_PENDING;
use super::{DNS_PORT, DnsQueries};
use crate::time::Nanos;

const MS: Nanos = 1_000_000;
const CLIENT: &str = "198.18.0.1";
const FIRST: &str = "198.18.0.53";
const SECOND: &str = "198.18.0.54";

fn name(text: &str) -> Vec<u8> {
    let labels = text.split('.').map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    [labels.collect::<Vec<_>>().concat(), vec![0]].concat()
}

/// A capture of one client's look-ups.
#[derive(Default)]
struct TestCapture(DnsQueries);

impl TestCapture {
    /// A message: a query, or an answer with its code; its id, type and name.
    fn message(
        &mut self,
        server: &str,
        answers: Option<u8>,
        (id, kind, text): (u16, u16, &str),
        at_ms: Nanos,
    ) {
        let name = name(text);
        let message = Message {
            id,
            is_response: answers.is_some(),
            recursion_desired: true,
            response_code: answers.unwrap_or(0),
            name: &name,
            query_type: kind,
        };
        let client = CLIENT.parse().expect("an address");
        let server = SocketAddr::new(server.parse().expect("an address"), DNS_PORT);
        match answers {
            None => self.0.query(client, server, &message, at_ms * MS),
            Some(_) => self.0.answer(client, server, &message, at_ms * MS),
        }
    }

    fn resolver(&self, server: &str, end_ms: Nanos) -> Resolver {
        let resolvers = self.0.resolvers(end_ms * MS);
        let found = resolvers.into_iter().find(|one| one.server.ip().to_string() == server);
        found.unwrap_or_else(|| panic!("{server} is not reported"))
    }
}

#[test]
fn a_silent_server_costs_the_time_until_the_next_is_asked() {
    let mut capture = TestCapture::default();
    for (id, kind) in [(1, 1), (2, 28)] {
        capture.message(FIRST, None, (id, kind, "www.example.org"), 0);
    }
    for (id, kind) in [(1, 1), (2, 28)] {
        capture.message(SECOND, None, (id, kind, "WWW.example.org"), 5000);
        capture.message(SECOND, Some(0), (id, kind, "www.example.org"), 5003);
    }
    let silent = capture.resolver(FIRST, 6000);
    assert_eq!((silent.queries, silent.answers, silent.unanswered), (2, 0, 2));
    assert_eq!(silent.lost_us, 5_000_000, "A and AAAA were waited for at once");
    let worst = silent.worst.expect("a look-up");
    assert_eq!((&*worst.name, worst.waited_us), ("www.example.org", 5_000_000));
    let good = capture.resolver(SECOND, 6000);
    assert_eq!((good.queries, good.answers, good.unanswered, good.lost_us), (2, 2, 0, 0));
    assert!(good.answer_p50_us.is_some_and(|us| (2_500..3_500).contains(&us)), "{good:?}");
    assert!(capture.0.open.is_empty());
}

#[test]
fn a_client_that_still_waits_at_the_end_has_waited_in_vain() {
    let mut capture = TestCapture::default();
    capture.message(FIRST, None, (1, 1, "a.example"), 0);
    assert_eq!(capture.resolver(FIRST, 900).unanswered, 0, "an answer may take so long");
    let first = capture.resolver(FIRST, 3000);
    assert_eq!((first.unanswered, first.lost_us), (1, 3_000_000));
    // It was not retried: its answer was not captured.
    assert_eq!(capture.resolver(FIRST, 500_000).unanswered, 0);
}

#[test]
fn slow_answers_and_late_ones() {
    let mut capture = TestCapture::default();
    capture.message(FIRST, None, (1, 1, "a.example"), 0);
    capture.message(FIRST, Some(0), (1, 1, "a.example"), 1500);
    let first = capture.resolver(FIRST, 5000);
    assert_eq!((first.slow, first.unanswered, first.lost_us), (1, 0, 1_500_000));
    // The answer comes after the query was retried: the time counts once.
    capture.message(FIRST, None, (2, 1, "b.example"), 10_000);
    capture.message(SECOND, None, (2, 1, "b.example"), 12_000);
    capture.message(FIRST, Some(0), (2, 1, "b.example"), 12_500);
    capture.message(SECOND, Some(0), (2, 1, "b.example"), 12_501);
    let first = capture.resolver(FIRST, 20_000);
    assert_eq!((first.slow, first.unanswered, first.lost_us), (1, 1, 3_500_000));
    assert_eq!(capture.resolver(SECOND, 20_000).lost_us, 0);
}

#[test]
fn a_client_gives_up_and_waits_for_several_names_at_once() {
    let mut capture = TestCapture::default();
    for (at_ms, names) in [(0, ["a.example", "b.example"]), (5000, ["a.example", "b.example"])] {
        names.iter().for_each(|name| capture.message(FIRST, None, (1, 1, name), at_ms));
    }
    // Twenty minutes later it needs the name again.
    capture.message(FIRST, None, (2, 1, "a.example"), 1_200_000);
    let first = capture.resolver(FIRST, 1_200_100);
    assert_eq!((first.unanswered, first.lost_us), (2, 5_000_000));
    assert_eq!(first.worst.map(|worst| worst.waited_us), Some(5_000_000));
}

#[test]
fn answers_that_are_late_each_time_are_counted_apart() {
    let mut capture = TestCapture::default();
    for number in 0..4 {
        capture.message(FIRST, None, (number, 1, "a.example"), Nanos::from(number) * 2000);
        capture.message(FIRST, Some(0), (number, 1, "a.example"), Nanos::from(number) * 2000 + 600);
    }
    let first = capture.resolver(FIRST, 9000);
    assert_eq!((first.late, first.slow, first.lost_us), (4, 0, 0));
    assert_eq!(first.lost_late_us, 2_400_000);
}

#[test]
fn an_answer_is_one_whatever_its_flags_and_nobody_answers_for_all() {
    let datagram = |capture: &mut TestCapture, from: [u8; 4], to: [u8; 4], flags: u8, at: Nanos| {
        let mut dns = vec![0, 1, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        dns.extend(name("www.example.org"));
        dns.extend([0, 1, 0, 1]);
        let ports: [u16; 2] = if flags & 0x80 == 0 { [4000, DNS_PORT] } else { [DNS_PORT, 4000] };
        let mut udp: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
        udp.extend((8 + dns.len() as u16).to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(dns);
        let mut bytes = vec![0x45, 0];
        bytes.extend((20 + udp.len() as u16).to_be_bytes());
        bytes.extend([0, 1, 0x40, 0, 64, 17, 0, 0]);
        bytes.extend(from);
        bytes.extend(to);
        bytes.extend(&udp);
        let link = wire::capture::LinkType::RAW;
        let decoded = wire::packet::decode(link, &bytes, bytes.len() as u32).expect("IP");
        capture.0.take_datagram(&decoded.ip, at * MS);
        bytes
    };
    let (client, server) = ([198, 18, 0, 1], [198, 18, 0, 53]);
    let mut capture = TestCapture::default();
    datagram(&mut capture, client, server, 1, 0);
    datagram(&mut capture, server, client, 0x80, 10);
    datagram(&mut capture, client, [224, 0, 0, 251], 1, 20);
    let query = datagram(&mut capture, client, server, 1, 1000);
    let mut error = vec![3, 3, 0, 0, 0, 0, 0, 0];
    error.extend(query);
    let Some(Icmp::Error(error)) = Icmp::parse(false, &error) else { panic!("an error") };
    let quoted = error.quoted.expect("a quoted packet");
    capture.0.take_error(&quoted, error.kind, 1010 * MS);
    let first = capture.resolver(FIRST, 5000);
    let counts = (first.queries, first.answers, first.failures, first.unanswered);
    assert_eq!(counts, (2, 2, 1, 0));
    assert_eq!(capture.0.resolvers(5000 * MS).len(), 1, "multicast is no server");
}

#[test]
fn several_servers_at_once_duplicates_and_failures_are_no_retries() {
    let mut capture = TestCapture::default();
    for server in [FIRST, SECOND, FIRST] {
        capture.message(server, None, (7, 1, "a.example"), 0);
    }
    capture.message(SECOND, Some(0), (7, 1, "a.example"), 20);
    capture.message(FIRST, Some(0), (7, 1, "a.example"), 25);
    let first = capture.resolver(FIRST, 5000);
    assert_eq!((first.queries, first.answers, first.unanswered), (1, 1, 0));
    assert!(capture.0.open.is_empty());
    capture.message(FIRST, None, (8, 1, "b.example"), 6000);
    capture.message(FIRST, Some(2), (8, 1, "b.example"), 6001);
    capture.message(SECOND, None, (8, 1, "b.example"), 6200);
    capture.message(SECOND, Some(0), (8, 1, "b.example"), 6201);
    let first = capture.resolver(FIRST, 9000);
    assert_eq!((first.failures, first.unanswered, first.lost_us), (1, 0, 0));
}

#[test]
fn memory_is_bounded() {
    let mut capture = TestCapture::default();
    for number in 0..MAX_PENDING + 500 {
        capture.message(FIRST, None, (1, 1, &format!("n{number}.example")), 0);
    }
    for _ in 0..100 {
        capture.message(FIRST, None, (1, 1, "n1.example"), 200_000);
    }
    assert!(capture.0.open.len() <= MAX_PENDING);
    // A minute later there is room again.
    capture.message(FIRST, None, (1, 1, "new.example"), 400_000);
    capture.message(FIRST, Some(0), (1, 1, "new.example"), 400_001);
    assert_eq!(capture.resolver(FIRST, 400_002).answers, 1);
}

/// Of many pending queries, each costs as much as one of few.
#[test]
fn queries_that_find_no_room_take_constant_time() {
    let visited = |queries: usize| {
        let mut capture = TestCapture::default();
        for number in 0..queries {
            // 15,000 a second, as a flood has.
            let at_ms = number as Nanos / 15;
            capture.message(FIRST, None, (1, 1, &format!("n{number}.example")), at_ms);
        }
        assert!(capture.0.open.len() <= MAX_PENDING);
        assert_eq!(capture.0.refused as usize, queries - MAX_PENDING);
        capture.0.visited
    };
    let (few, many) = (visited(3 * MAX_PENDING), visited(30 * MAX_PENDING));
    assert!(few <= 9 * 3 * MAX_PENDING && many <= 9 * 30 * MAX_PENDING, "{few} {many}");
}

#[test]
fn names_are_looked_up_over_tcp_too() {
    let dns = |answers: bool, id: u16| {
        let mut message = vec![(id >> 8) as u8, id as u8, if answers { 0x81 } else { 1 }, 0];
        message.extend([0, 1, 0, 0, 0, 0, 0, 0]);
        message.extend(name("www.example.org"));
        message.extend([0, 1, 0, 1]);
        [(message.len() as u16).to_be_bytes().to_vec(), message].concat()
    };
    let segment = |queries: &mut DnsQueries, answers: bool, payload: &[u8], at_ms: Nanos| {
        let ends = if answers { [53, 1] } else { [1, 53] };
        let mut bytes = vec![0x45, 0];
        bytes.extend((40 + payload.len() as u16).to_be_bytes());
        bytes.extend([0, 1, 0x40, 0, 64, 6, 0, 0]);
        ends.iter().for_each(|host| bytes.extend([198, 18, 0, *host]));
        let ports: [u16; 2] = if answers { [DNS_PORT, 4000] } else { [4000, DNS_PORT] };
        ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        bytes.extend(payload);
        let link = wire::capture::LinkType::RAW;
        let decoded = wire::packet::decode(link, &bytes, bytes.len() as u32).expect("IP");
        let tcp = Tcp::of(&decoded.ip).expect("TCP");
        queries.take_segment(&decoded.ip, &tcp, at_ms * MS);
    };
    let mut capture = TestCapture::default();
    // Two at once, and answers one by one; the second is truncated.
    segment(&mut capture.0, false, &[dns(false, 1), dns(false, 2)].concat(), 0);
    segment(&mut capture.0, true, &dns(true, 1), 2000);
    segment(&mut capture.0, true, &dns(true, 2)[..35], 2001);
    segment(&mut capture.0, true, b"\x00\x05nothing of DNS", 2002);
    let first = capture.resolver(FIRST, 3000);
    assert_eq!((first.queries, first.answers, first.slow), (2, 2, 2));
}

#[test]
fn a_question_that_was_answered_before_takes_no_time() {
    let ask = |capture: &mut TestCapture, id: u16, text: &str, at_ms: Nanos, took_ms: Nanos| {
        capture.message(FIRST, None, (id, 1, text), at_ms);
        capture.message(FIRST, Some(0), (id, 1, text), at_ms + took_ms);
    };
    let mut capture = TestCapture::default();
    ask(&mut capture, 1, "a.example", 0, 200);
    ask(&mut capture, 2, "b.example", 1_000, 200);
    let first = capture.resolver(FIRST, 2_000);
    assert_eq!((first.late_again, first.lost_late_us), (0, 0), "it had to ask others");
    ask(&mut capture, 3, "A.example", 2_000, 250);
    ask(&mut capture, 4, "a.example", 3_000, 99);
    ask(&mut capture, 5, "a.example", 4_000, 400);
    let first = capture.resolver(FIRST, 5_000);
    assert_eq!((first.late_again, first.late, first.lost_late_us), (1, 1, 650_000));
    ask(&mut capture, 6, "b.example", 22_000, 200);
    assert_eq!(capture.resolver(FIRST, 23_000).late_again, 1, "no cache keeps it so long");
    // That a server has failed is no answer.
    let mut capture = TestCapture::default();
    for (id, at_ms) in [(1, 0), (2, 1_000)] {
        capture.message(FIRST, None, (id, 1, "a.example"), at_ms);
        capture.message(FIRST, Some(2), (id, 1, "a.example"), at_ms + 200);
    }
    assert_eq!(capture.resolver(FIRST, 2_000).late_again, 0);
}
