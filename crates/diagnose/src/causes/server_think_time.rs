//! # server-think-time
//!
//! ## What happens
//!
//! The request has arrived, and the server takes its time before it begins to
//! respond: think time. The network does nothing meanwhile, and no setting of it
//! helps.
//!
//! ## Evidence
//!
//! In packets: the time from the last byte of a request to the first byte of its
//! response, less the shortest round trip between the capture point and the
//! server, summed over all exchanges. Where HTTP/1 is in clear, the requests with
//! the longest think time.
//!
//! With TLS the exchanges that open it do not count, though a server may take its
//! time there too. Session tickets, which TLS 1.3 servers send before they answer
//! the first request, are no answer: records of one length and at most 600 bytes,
//! two to four of them, the first that the server sends after the handshake.
//!
//! Time that the path took for certain is not think time either: a proxy or NAT
//! that acknowledges data long before the server can have it waited for the server
//! when it answered the SYN, so the handshake is the round trip; and a kernel
//! delays an acknowledgement 200 ms at most, so a request acknowledged later came
//! later.
//!
//! ## Threshold
//!
//! More than half of the active time (all but idle periods), and 100 ms or more for
//! each exchange, on average and for the median (p50 of the whole exchange): people
//! notice nothing below that, and one long-running command in a session is
//! expected. The median is also at least half longer than the path to the server.
//! Where it is not HTTP in clear, an end may send when it likes. At least half of
//! the exchanges of a stream take 100 ms or more then, and where no handshake was
//! captured the service has three or more: one long wait is for news as often as
//! for an answer. 5 s or more for each exchange is no finding when both ends send
//! less than 128 bytes for each exchange, or the handshake was not captured: either
//! end may be the client, and keepalives look the same.
//!
//! Messages are no answers either: where the server sends on, unasked, after pauses
//! that are a fifth of the think time or more, in three exchanges or more of 1 s or
//! more each; and where a request of at most 21 bytes (50 with TLS), after whose
//! answer the next one leaves within 20 ms, may only acknowledge a message (MQTT,
//! AMQP, HTTP/2). It is undecided where exchanges are shorter and not of TLS, or
//! where clients, in one of eight exchanges, send on after 100 ms or more though
//! nothing was answered: each end may send when it likes, as in games. Where there
//! is some of both, the parts add up: a tenth of the think time and one request of
//! sixteen.
//!
//! A tail: of ten HTTP requests or more with the same method and path, three or
//! more and one in twenty take 100 ms or more to be answered, although half of them
//! take less than 10 ms. A median hides it, and what differs is not the request.
//! They come in three tenths of a second or more: answers that are late together
//! wait for one thing, which may be the path.
//!
//! A late greeting: where the server speaks first (SMTP, POP3, IMAP, FTP, NNTP,
//! SSH, MySQL, rsync), at least half of the connections wait 1 s or more, and more
//! than four round trips to it, for its first data after the handshake. It has not
//! repeated its SYN-ACK: one that does has not got the connection yet.
//!
//! ## Looks like it, but is not
//!
//! - A request that was lost: it is retransmitted, that is packet-loss.
//! - Long polling, whose responses are meant to wait (RFC 6202). It is undecided
//!   where `GET` requests for one path wait for 500 ms or more on average, ten
//!   others or more are answered sooner, and the clients ask again at once. Other
//!   responses that are meant to wait: ask the owner of the service.
//! - Protocols in which either end sends when it likes (BGP, IRC, OpenFlow): what
//!   arrives 30 s later responds to nothing.
//! - A proxy on the path that answers even the SYN (its SYN/ACK offers no MSS): how
//!   far the server is behind it cannot be known, and nothing is named.
//! - A NAT or proxy near the client that acknowledges within a millisecond for a
//!   server of others on the Internet, where the handshake was not captured.
//! - A request that is never answered before an end closes the stream: whether an
//!   answer was to come is not known.
//! - A full accept queue: the request waits in the kernel, which acknowledges it.
//!   See accept-queue-overflow on that host.
//!
//! ## Check by hand
//!
//! ```sh
//! # HTTP: time from request to response
//! tshark -r FILE -Y http.response -T fields -e tcp.stream -e http.time
//! ```
//!
//! ## Fix
//!
//! Run netwhy on the server: it shows whether its process ran, waited for a CPU,
//! slept, or had no free worker. The reason is in the application. A greeting is
//! late most often because the server looks up the name of its client first (MySQL
//! without skip-name-resolve), or asks the client's identd.
//!
//! ## Expected gain
//!
//! Not predictable: packets do not show what the server does in this time. Of a
//! tail, the time of a late exchange, as long as the others without it (model
//! «difference»).
//!
//! ## References
//!
//! - Olshefski, Nieh: Understanding the management of client perceived response
//!   time (SIGMETRICS 2006)
//! - Nielsen: Usability Engineering (1993), section 5.5: 100 ms seem instantaneous

mod greeting;
mod long_polling;
mod messages;
mod tail;

use model::{Evidence, Finding, Service, Source, TimeCategory};
use text::{count, micros};

use self::messages::{MESSAGE_PAUSE_PART, MIN_MESSAGES};
use self::tail::{MAX_REQUEST_CHARACTERS, MAX_REQUESTS_LISTED};
use crate::captured::{
    Group, NO_EXCHANGE, NO_PACKETS, StreamDirection, group_directions, without_data,
};
use crate::cause::{Cause, Slows, Verdict};
use crate::gain;
use crate::reach::belongs_to_others;
use crate::remedies::advice_about;
use crate::words::shortened;

pub(super) const CAUSE: Cause = Cause {
    id: "server-think-time",
    title: "the server takes its time to answer",
    slows: Slows::Requests,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("server_think_time.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

/// Think time of an exchange from which on people notice it.
const MIN_NOTICED_US: u64 = 100_000;
/// Share of the active time.
const MIN_TIME_SHARE: f64 = 0.5;
/// Think time from which on it may be that nobody waited: keepalives are as rare, or rarer.
const MIN_KEEPALIVE_INTERVAL_US: u64 = 5_000_000;
/// Bytes of a keepalive.
const MAX_KEEPALIVE_BYTES: u64 = 128;
/// Think time from which on a server that also sends unasked may just have no news.
const MIN_MESSAGE_INTERVAL_US: u64 = 1_000_000;
/// No server of others on the Internet is nearer than this, there and back.
const MIN_WAY_TO_OTHERS_US: u64 = 1_000;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let Some(packets) = &evidence.packets else {
        return Verdict::not_checked(NO_PACKETS);
    };
    let mut groups = group_directions(packets, hit);
    groups.retain(|group| {
        // A long path is not the server's.
        let path_us = group.worst().stream.to_server_us.unwrap_or(0);
        let half_us = group.exchange_p50_us();
        group.time_share() > MIN_TIME_SHARE
            && !may_be_news(group)
            && half_us >= MIN_NOTICED_US.max(path_us.saturating_add(path_us / 2))
    });
    let mut undecided = None;
    groups.retain(|group| {
        let service = packets.service(group.server);
        let request = service.and_then(|service| long_polling::request(service, group));
        let may_wait = request.map(long_polling::may_wait);
        let may_wait = may_wait.or_else(|| messages::may_be_sent(group, packets));
        let is_decided = may_wait.is_none();
        undecided = undecided.take().or(may_wait);
        is_decided
    });
    let mut findings: Vec<Finding> = groups.iter().map(|group| finding(evidence, group)).collect();
    let is_found = |service: &Service| groups.iter().any(|group| group.server == service.server);
    let others = packets.services.iter().filter(|service| !is_found(service));
    findings.extend(others.filter_map(|service| tail::finding(evidence, packets, service)));
    findings.extend(greeting::findings(evidence, packets, &groups));
    Verdict::from_findings(findings, || {
        if let Some(needs) = undecided {
            return Verdict::Undecided { needs, sources: vec![], how_to_observe: None };
        }
        let exchanges = packets.services.iter().map(|one| one.exchanges);
        if exchanges.fold(0, u64::saturating_add) == 0 {
            return without_data(packets).unwrap_or_else(|| Verdict::not_checked(NO_EXCHANGE));
        }
        let longest = packets.services.iter().map(per_exchange).max().unwrap_or(0);
        Verdict::RuledOut(format!("think time (up to {} for each exchange)", micros(longest)))
    })
}

fn per_exchange(service: &Service) -> u64 {
    service.time_us(TimeCategory::ServerThink) / service.exchanges.max(1)
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let think_us = direction.sent().time_us(TimeCategory::ServerThink);
    let exchanges = direction.stream.exchanges.max(1);
    let mostly = think_us as f64 > MIN_TIME_SHARE * direction.stream.busy_us() as f64;
    let noticed = direction.server_sends && mostly && think_us / exchanges >= MIN_NOTICED_US;
    (noticed && !may_be_idle(direction, think_us / exchanges) && !may_be_the_path(direction))
        .then_some(think_us)
}

/// Whether something near the client acknowledges for a server on the Internet, and no handshake shows
/// how far it is behind that: a NAT of a virtual machine, a proxy.
fn may_be_the_path(direction: StreamDirection<'_>) -> bool {
    let stream = direction.stream;
    stream.handshake_us.is_none()
        && stream.to_server_us.is_some_and(|us| us < MIN_WAY_TO_OTHERS_US)
        && belongs_to_others(stream.server.ip(), stream.client.ip())
}

/// Whether the server may have sent something of its own accord: HTTP only responds, in other
/// protocols either end sends messages now and then.
fn may_be_idle(direction: StreamDirection<'_>, each_us: u64) -> bool {
    let stream = direction.stream;
    let exchanges = stream.exchanges.max(1);
    let few_late = stream.late_answers.saturating_mul(2) < exchanges;
    let small =
        stream.directions().iter().all(|sent| sent.new_bytes / exchanges < MAX_KEEPALIVE_BYTES);
    let seldom = each_us >= MIN_KEEPALIVE_INTERVAL_US && (small || !stream.roles_known);
    let pauses_us = direction.sent().time_us(TimeCategory::Application);
    let unasked = exchanges >= MIN_MESSAGES
        && each_us >= MIN_MESSAGE_INTERVAL_US
        && pauses_us >= each_us.saturating_mul(exchanges) / MESSAGE_PAUSE_PART;
    stream.statuses.is_empty() && (few_late || seldom || unasked)
}

/// Whether there are so few exchanges that the wait of one may have been for news, and not for an answer.
fn may_be_news(group: &Group<'_>) -> bool {
    let either_asks = |direction: &StreamDirection<'_>| {
        !direction.stream.roles_known && direction.stream.statuses.is_empty()
    };
    group.exchanges() < MIN_MESSAGES && group.directions.iter().all(either_asks)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let exchanges = group.exchanges();
    let each = group.lost_us / exchanges.max(1);
    let (server, host) = (group.server, group.server.ip().to_string());
    let mut text = format!(
        "stream {}: {} of think time in {}; the round trip to the \
         server takes {}",
        direction.stream.number,
        micros(direction.sent().time_us(TimeCategory::ServerThink)),
        count(direction.stream.exchanges, "exchange"),
        direction.stream.to_server_us.map_or_else(|| "an unknown time".to_string(), micros),
    );
    let slow = evidence.packets.as_ref().and_then(|packets| packets.service(server));
    for one in slow.iter().flat_map(|service| &service.slow_requests).take(MAX_REQUESTS_LISTED) {
        let each = micros(one.think_time_us / one.exchanges.max(1));
        let request = shortened(&one.request, MAX_REQUEST_CHARACTERS);
        let exchanges = count(one.exchanges, "exchange");
        text.push_str(&format!("\n{request}: {exchanges}, {each} on average"));
    }
    let proof = group.proof(evidence, "proof", text);
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        format!("{server} takes {} to answer", micros(each)),
        &format!("{} of think time in {}", group.lost_text(), count(exchanges, "exchange")),
        vec![proof],
        vec![advice_about(&host, format!("run netwhy on {host}: what does the process wait for?"))],
    );
    finding.gain = gain::not_predictable("what the server does in this time is not in the packets");
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use model::SlowRequest;

    use super::*;
    use crate::fixtures::{
        add_stream, add_up_services, findings_of, healthy, remove_source, set_time,
    };

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        let mut evidence = thinking(5_000_000);
        let service = &mut evidence.packets.as_mut().unwrap().services[0];
        service.slow_requests = vec![SlowRequest {
            request: "GET /report".to_string(),
            exchanges: 10,
            think_time_us: 4_000_000,
            ..SlowRequest::default()
        }];
        vec![evidence, tail::tests::example(), greeting::tests::example()]
    }

    pub(super) fn thinking(us: u64) -> Evidence {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        set_time(sent, TimeCategory::ServerThink, us);
        evidence.packets.as_mut().unwrap().worst[0].late_answers = 10;
        add_up_services(&mut evidence, 150_000);
        evidence
    }

    #[test]
    fn fires_when_most_of_the_time_is_think_time() {
        let finding = &findings_of(rule(&thinking(5_000_000)))[0];
        assert_eq!(finding.title, "198.18.0.2:80 takes 500 ms to answer");
    }

    #[test]
    fn a_long_path_is_not_the_servers() {
        let with_path = |us| {
            let mut evidence = thinking(5_000_000);
            evidence.packets.as_mut().unwrap().worst[0].to_server_us = Some(us);
            rule(&evidence)
        };
        assert!(matches!(with_path(95_000), Verdict::Found(_)), "half take 150 ms");
        assert!(matches!(with_path(105_000), Verdict::RuledOut(_)));
    }

    #[test]
    fn slow_requests_are_listed() {
        let mut evidence = thinking(5_000_000);
        let service = &mut evidence.packets.as_mut().unwrap().services[0];
        let slow = |request: &str| SlowRequest {
            request: request.to_string(),
            exchanges: 10,
            think_time_us: 4_000_000,
            ..SlowRequest::default()
        };
        service.slow_requests =
            vec![slow("GET /report"), slow(&format!("GET /{}/end", "x".repeat(80)))];
        let finding = &findings_of(rule(&evidence))[0];
        let text = &finding.evidence[0].text;
        assert!(text.ends_with("/end: 10 exchanges, 400 ms on average"), "{text}");
        assert!(
            text.contains("\nGET /report: 10 exchanges, 400 ms on average\nGET /xxxx"),
            "{text}"
        );
        assert!(text.lines().skip(1).all(|line| line.len() < 80), "{text}");
    }

    #[test]
    fn stays_quiet_for_short_think_times_and_for_a_small_share() {
        assert!(matches!(rule(&thinking(90_000)), Verdict::RuledOut(_)));
        let mut evidence = thinking(1_100_000);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        set_time(&mut stream.from_server, TimeCategory::Network, 3_000_000);
        add_up_services(&mut evidence, 150_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn stays_quiet_for_what_may_be_keepalives() {
        // Ten exchanges of 10 s each, 40 bytes each: keepalives.
        let seldom = |bytes: u64, roles_known: bool| {
            let mut evidence = thinking(100_000_000);
            let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
            (stream.exchanges, stream.late_answers, stream.roles_known) = (10, 10, roles_known);
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
        assert_eq!(findings_of(rule(&http)).len(), 1, "HTTP only responds");
    }

    #[test]
    fn stays_quiet_for_a_nat_that_acknowledges_for_a_server_on_the_internet() {
        let near = |server: &str, handshake_us: Option<u64>| {
            let mut evidence = healthy();
            let stream = add_stream(&mut evidence, "192.168.1.9:4000", server);
            (stream.handshake_us, stream.to_server_us) = (handshake_us, Some(300));
            stream.late_answers = 10;
            set_time(&mut stream.from_server, TimeCategory::ServerThink, 5_000_000);
            add_up_services(&mut evidence, 150_000);
            matches!(rule(&evidence), Verdict::RuledOut(_))
        };
        assert!(near("11.0.0.2:80", None));
        assert!(!near("11.0.0.2:80", Some(90_000)) && !near("192.168.1.2:80", None));
    }

    #[test]
    fn stays_quiet_for_a_server_that_also_sends_unasked() {
        // Ten exchanges of 2 s each; between them the server paused, and sent on.
        let chat = |pauses_us: u64| {
            let mut evidence = thinking(20_000_000);
            let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
            (stream.exchanges, stream.roles_known) = (10, true);
            stream.statuses.clear();
            set_time(&mut stream.from_server, TimeCategory::Application, pauses_us);
            add_up_services(&mut evidence, 150_000);
            evidence
        };
        assert!(matches!(rule(&chat(6_000_000)), Verdict::RuledOut(_)));
        assert_eq!(findings_of(rule(&chat(1_000_000))).len(), 1, "it answers");
        let mut http = chat(6_000_000);
        http.packets.as_mut().unwrap().worst[0].statuses =
            vec![model::StatusCount { status: 200, count: 10 }];
        assert_eq!(findings_of(rule(&http)).len(), 1, "HTTP only responds");
    }

    #[test]
    fn stays_quiet_for_one_long_wait_where_either_end_may_send_when_it_likes() {
        let messages = |exchanges: u64, late_answers: u64, roles_known: bool| {
            let mut evidence = thinking(3_000_000);
            let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
            (stream.exchanges, stream.late_answers) = (exchanges, late_answers);
            stream.roles_known = roles_known;
            add_up_services(&mut evidence, 150_000);
            matches!(rule(&evidence), Verdict::Found(_))
        };
        assert!(messages(6, 3, false) && !messages(6, 2, false) && !messages(6, 2, true));
        assert!(messages(1, 1, true) && !messages(2, 2, false));
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
