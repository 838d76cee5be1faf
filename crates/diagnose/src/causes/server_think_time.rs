//! # server-think-time
//!
//! ## What happens
//!
//! The request has arrived and the server takes its time before it begins to
//! answer. The network does nothing meanwhile, and no setting of it helps.
//!
//! ## Evidence
//!
//! In packets: the time from the last byte of a request to the first byte of its
//! answer, less the shortest time that the way from the place of capture to the
//! server and back has taken, added up over all turns. Where HTTP/1 is in clear,
//! the requests that were waited for longest.
//!
//! ## Threshold
//!
//! More than half of the time in which somebody waited, and 100 ms a turn and more
//! on average and in the middle (p50 of the whole turn): below that people notice
//! nothing, and a command that runs for long in a session is what was asked for.
//! Where it is not HTTP in clear, 5 s a turn and more are not named when both ends
//! send less than 128 bytes a turn, or the handshake was not seen: either may be
//! the one that asks, and keepalives look the same.
//!
//! ## Looks like it, but is not
//!
//! - A request that was lost: it is sent again, that is packet-loss.
//! - Long polling and other answers that are meant to wait: ask its owner.
//! - Protocols in which either end speaks when it likes (BGP, IRC, OpenFlow): what
//!   comes 30 s later answers nothing.
//! - A full accept queue: the request waits in the kernel, which acknowledges it.
//!   See accept-queue-overflow on that host.
//!
//! ## Check by hand
//!
//! ```sh
//! # HTTP: time from request to answer
//! tshark -r FILE -Y http.response -T fields -e tcp.stream -e http.time
//! ```
//!
//! ## Mend
//!
//! Run netwhy on the server: it says whether its process ran, waited for a CPU,
//! slept, or had no free worker. The answer is in the application.
//!
//! ## References
//!
//! - Olshefski, Nieh: Understanding the management of client perceived response
//!   time (SIGMETRICS 2006)

use model::{Evidence, Finding, TimeCategory};
use text::{count, micros, number};

use crate::Verdict;
use crate::captured::{Group, StreamDirection, group_directions};
use crate::make::advice;

/// Think time of a turn from which it is felt (Nielsen 1993: what seems to happen at once).
const FELT_US: u64 = 100_000;
/// Share of the time in which somebody waited.
const MOST: f64 = 0.5;
/// Waits from which on it may be that nobody waited: keepalives come as seldom, or less often.
const SELDOM_US: u64 = 5_000_000;
/// Bytes of a keepalive, at most.
const KEEPALIVE: u64 = 128;
/// Requests that are told, and how many letters of each.
const REQUESTS: usize = 3;
const REQUEST: usize = 44;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::RuledOut("no packets".to_string());
    };
    let mut groups = group_directions(packets, hit);
    groups.retain(|group| group.time_share() > MOST && group.exchange_p50_us() >= FELT_US);
    let findings = groups.iter().map(|group| finding(evidence, group)).collect();
    Verdict::from_findings(findings, || {
        let most = packets.services.iter().map(per_turn).max().unwrap_or(0);
        format!("think time (at most {} a turn)", micros(most))
    })
}

fn per_turn(service: &model::Service) -> u64 {
    service.time_us(TimeCategory::ServerThink) / service.exchanges.max(1)
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let thought = direction.sent().time_us(TimeCategory::ServerThink);
    let turns = direction.stream.exchanges.max(1);
    let most = thought as f64 > MOST * direction.stream.busy_us() as f64;
    let felt = direction.server_sends && most && thought / turns >= FELT_US;
    (felt && !may_be_idle(direction, thought / turns)).then_some(thought)
}

/// Whether the server may have spoken because it liked to, not because it was asked: HTTP is asked for,
/// other protocols have words that either end sends now and then.
fn may_be_idle(direction: StreamDirection<'_>, each_us: u64) -> bool {
    let stream = direction.stream;
    let turns = stream.exchanges.max(1);
    let small = stream.directions().iter().all(|sent| sent.new_bytes / turns < KEEPALIVE);
    each_us >= SELDOM_US && stream.statuses.is_empty() && (small || !stream.roles_known)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let turns: u64 = group.directions.iter().map(|direction| direction.stream.exchanges).sum();
    let each = group.lost_us / turns.max(1);
    let server = group.server;
    let mut text = format!(
        "stream {}: {} of thought in {}, while the way to the server\n\
         and back takes {}",
        direction.stream.number,
        micros(direction.sent().time_us(TimeCategory::ServerThink)),
        count(direction.stream.exchanges, "turn"),
        direction.stream.to_server_us.map_or_else(|| "an unknown time".to_string(), micros),
    );
    let slow = evidence.packets.as_ref().and_then(|packets| packets.service(server));
    for one in slow.iter().flat_map(|service| &service.slow_requests).take(REQUESTS) {
        let each = micros(one.think_time_us / one.exchanges.max(1));
        let asked = shortened(&one.request, REQUEST);
        text.push_str(&format!("\n{asked}: {}, {each} each", count(one.exchanges, "turn")));
    }
    let proof = group.proof(evidence, "proof", text);
    group.finding(
        evidence,
        "server-think-time",
        format!("{server} thinks {} before it answers", micros(each)),
        &format!("{} of thought in {} turns", micros(group.lost_us), number(turns)),
        vec![proof],
        vec![advice(format!("run netwhy on {}: what does the process wait for?", server.ip()))],
    )
}

/// A request that fits into a line: its beginning and its end tell most.
fn shortened(request: &str, most: usize) -> String {
    if request.chars().count() <= most {
        return request.to_string();
    }
    let letters: Vec<char> = request.chars().collect();
    let (head, tail) = (most / 2 - 1, most / 2 - 2);
    let part = |letters: &[char]| letters.iter().collect::<String>();
    format!("{}...{}", part(&letters[..head]), part(&letters[letters.len() - tail..]))
}

#[cfg(test)]
mod tests {
    use model::{SlowRequest, Source};

    use super::*;
    use crate::fixtures::{
        add_stream, add_up_services, findings_of, healthy, remove_source, set_time,
    };

    fn thinking(us: u64) -> Evidence {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        set_time(sent, TimeCategory::ServerThink, us);
        add_up_services(&mut evidence, 150_000);
        evidence
    }

    #[test]
    fn fires_when_most_of_the_time_is_thought() {
        let finding = &findings_of(rule(&thinking(5_000_000)))[0];
        assert_eq!(finding.title, "198.18.0.2:80 thinks 500 ms before it answers");
    }

    #[test]
    fn tells_what_was_asked_for() {
        let mut evidence = thinking(5_000_000);
        let service = &mut evidence.packets.as_mut().unwrap().services[0];
        let slow = |request: &str| SlowRequest {
            request: request.to_string(),
            exchanges: 10,
            think_time_us: 4_000_000,
        };
        service.slow_requests =
            vec![slow("GET /report"), slow(&format!("GET /{}/end", "x".repeat(80)))];
        let finding = &findings_of(rule(&evidence))[0];
        let text = &finding.evidence[0].text;
        assert!(text.ends_with("/end: 10 turns, 400 ms each"), "{text}");
        assert!(text.contains("\nGET /report: 10 turns, 400 ms each\nGET /xxxx"), "{text}");
        assert!(text.lines().all(|line| line.len() < 76), "{text}");
    }

    #[test]
    fn stays_quiet_for_short_thoughts_and_for_a_small_part() {
        assert!(matches!(rule(&thinking(90_000)), Verdict::RuledOut(_)));
        let mut evidence = thinking(1_100_000);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        set_time(&mut stream.from_server, TimeCategory::Network, 3_000_000);
        add_up_services(&mut evidence, 150_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_where_nobody_may_have_asked() {
        // Ten turns of 10 s each, 40 bytes a turn: keepalives.
        let seldom = |bytes: u64, roles_known: bool| {
            let mut evidence = thinking(100_000_000);
            let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
            (stream.exchanges, stream.roles_known) = (10, roles_known);
            stream.statuses.clear();
            (stream.from_client.new_bytes, stream.from_server.new_bytes) = (bytes, bytes);
            evidence
        };
        assert!(matches!(rule(&seldom(400, true)), Verdict::RuledOut(_)));
        assert!(matches!(rule(&seldom(40_000, false)), Verdict::RuledOut(_)));
        assert_eq!(findings_of(rule(&seldom(40_000, true))).len(), 1, "a long report");
        let mut http = seldom(400, false);
        http.packets.as_mut().unwrap().worst[0].statuses =
            vec![model::StatusCount { status: 200, count: 10 }];
        assert_eq!(findings_of(rule(&http)).len(), 1, "it was asked for");
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = crate::cause("server-think-time").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
