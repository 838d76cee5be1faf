//! Queries and answers as `Lookups` is given them.

use super::*;

const MS: Nanos = 1_000_000;
const CLIENT: &str = "198.18.0.1";
const FIRST: &str = "198.18.0.53";
const SECOND: &str = "198.18.0.54";

fn name(text: &str) -> Vec<u8> {
    let labels = text.split('.').map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    [labels.collect::<Vec<_>>().concat(), vec![0]].concat()
}

struct Play(Lookups);

impl Play {
    fn say(&mut self, server: &str, answers: Option<u8>, ask: (u16, u16, &str), at_ms: Nanos) {
        let (id, kind, text) = ask;
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
        let server = SocketAddr::new(server.parse().expect("an address"), PORT);
        match answers {
            None => self.0.query(client, server, &message, at_ms * MS),
            Some(_) => self.0.answer(client, server, &message, at_ms * MS),
        }
    }

    fn told(&self, server: &str, end_ms: Nanos) -> Resolver {
        let told = self.0.told(end_ms * MS);
        let found = told.into_iter().find(|one| one.server.ip().to_string() == server);
        found.unwrap_or_else(|| panic!("{server} is not told"))
    }
}

#[test]
fn a_silent_server_costs_the_time_until_the_next_is_asked() {
    let mut play = Play(Lookups::default());
    for (id, kind) in [(1, 1), (2, 28)] {
        play.say(FIRST, None, (id, kind, "www.example.org"), 0);
    }
    for (id, kind) in [(1, 1), (2, 28)] {
        play.say(SECOND, None, (id, kind, "WWW.example.org"), 5000);
        play.say(SECOND, Some(0), (id, kind, "www.example.org"), 5003);
    }
    let silent = play.told(FIRST, 6000);
    assert_eq!((silent.queries, silent.answers, silent.unanswered), (2, 0, 2));
    assert_eq!(silent.lost_us, 5_000_000, "IPv4 and IPv6 were waited for at once");
    let worst = silent.worst.expect("a look-up");
    assert_eq!((&*worst.name, worst.waited_us), ("www.example.org", 5_000_000));
    let good = play.told(SECOND, 6000);
    assert_eq!((good.queries, good.answers, good.unanswered, good.lost_us), (2, 2, 0, 0));
    assert!(good.answer_p50_us.is_some_and(|us| (2_500..3_500).contains(&us)), "{good:?}");
    assert!(play.0.open.is_empty());
}

#[test]
fn who_still_waits_at_the_end_has_waited_in_vain() {
    let mut play = Play(Lookups::default());
    play.say(FIRST, None, (1, 1, "a.example"), 0);
    assert_eq!(play.told(FIRST, 900).unanswered, 0, "an answer may take so long");
    let told = play.told(FIRST, 3000);
    assert_eq!((told.unanswered, told.lost_us), (1, 3_000_000));
    // It was not repeated: its answer was not captured.
    assert_eq!(play.told(FIRST, 500_000).unanswered, 0);
}

#[test]
fn slow_answers_and_late_ones() {
    let mut play = Play(Lookups::default());
    play.say(FIRST, None, (1, 1, "a.example"), 0);
    play.say(FIRST, Some(0), (1, 1, "a.example"), 1500);
    let told = play.told(FIRST, 5000);
    assert_eq!((told.slow, told.unanswered, told.lost_us), (1, 0, 1_500_000));
    // The answer comes after the question was repeated: the time counts once.
    play.say(FIRST, None, (2, 1, "b.example"), 10_000);
    play.say(SECOND, None, (2, 1, "b.example"), 12_000);
    play.say(FIRST, Some(0), (2, 1, "b.example"), 12_500);
    play.say(SECOND, Some(0), (2, 1, "b.example"), 12_501);
    let told = play.told(FIRST, 20_000);
    assert_eq!((told.slow, told.unanswered, told.lost_us), (1, 1, 3_500_000));
    assert_eq!(play.told(SECOND, 20_000).lost_us, 0);
}

#[test]
fn several_servers_at_once_copies_and_failures_are_no_repetitions() {
    let mut play = Play(Lookups::default());
    for server in [FIRST, SECOND, FIRST] {
        play.say(server, None, (7, 1, "a.example"), 0);
    }
    play.say(SECOND, Some(0), (7, 1, "a.example"), 20);
    play.say(FIRST, Some(0), (7, 1, "a.example"), 25);
    let told = play.told(FIRST, 5000);
    assert_eq!((told.queries, told.answers, told.unanswered), (1, 1, 0));
    assert!(play.0.open.is_empty());
    play.say(FIRST, None, (8, 1, "b.example"), 6000);
    play.say(FIRST, Some(2), (8, 1, "b.example"), 6001);
    play.say(SECOND, None, (8, 1, "b.example"), 6200);
    play.say(SECOND, Some(0), (8, 1, "b.example"), 6201);
    let told = play.told(FIRST, 9000);
    assert_eq!((told.failures, told.unanswered, told.lost_us), (1, 0, 0));
}

#[test]
fn memory_is_bounded() {
    let mut play = Play(Lookups::default());
    for number in 0..OPEN + 500 {
        play.say(FIRST, None, (1, 1, &format!("n{number}.example")), 0);
    }
    for _ in 0..100 {
        play.say(FIRST, None, (1, 1, "n1.example"), 200_000);
    }
    assert!(play.0.open.len() <= OPEN);
    // A minute later there is room again.
    play.say(FIRST, None, (1, 1, "new.example"), 400_000);
    play.say(FIRST, Some(0), (1, 1, "new.example"), 400_001);
    assert_eq!(play.told(FIRST, 400_002).answers, 1);
}

#[test]
fn names_are_asked_for_over_tcp_too() {
    let dns = |answers: bool, id: u16| {
        let mut message = vec![(id >> 8) as u8, id as u8, if answers { 0x81 } else { 1 }, 0];
        message.extend([0, 1, 0, 0, 0, 0, 0, 0]);
        message.extend(name("www.example.org"));
        message.extend([0, 1, 0, 1]);
        [(message.len() as u16).to_be_bytes().to_vec(), message].concat()
    };
    let segment = |lookups: &mut Lookups, answers: bool, payload: &[u8], at_ms: Nanos| {
        let ends = if answers { [53, 1] } else { [1, 53] };
        let mut bytes = vec![0x45, 0];
        bytes.extend((40 + payload.len() as u16).to_be_bytes());
        bytes.extend([0, 1, 0x40, 0, 64, 6, 0, 0]);
        ends.iter().for_each(|host| bytes.extend([198, 18, 0, *host]));
        let ports: [u16; 2] = if answers { [PORT, 4000] } else { [4000, PORT] };
        ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        bytes.extend(payload);
        let link = wire::capture::LinkType::RAW;
        let decoded = wire::packet::decode(link, &bytes, bytes.len() as u32).expect("IP");
        let tcp = Tcp::of(&decoded.ip).expect("TCP");
        lookups.segment(&decoded.ip, &tcp, at_ms * MS);
    };
    let mut play = Play(Lookups::default());
    // Two at once, and answers one by one; the second is cut.
    segment(&mut play.0, false, &[dns(false, 1), dns(false, 2)].concat(), 0);
    segment(&mut play.0, true, &dns(true, 1), 2000);
    segment(&mut play.0, true, &dns(true, 2)[..35], 2001);
    segment(&mut play.0, true, b"\x00\x05nothing of DNS", 2002);
    let told = play.told(FIRST, 3000);
    assert_eq!((told.queries, told.answers, told.slow), (2, 2, 2));
}
