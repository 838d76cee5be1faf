//! Requests for one path of which a few are answered late.

use model::{Evidence, Finding, GainFigure, Packets, Service, SlowRequest, TimeCategory};
use text::{count, micros, percent, share};

use crate::captured::{StreamDirection, group_directions};
use crate::gain;
use crate::proofs::WithFigures as _;
use crate::remedies::advice_about;
use crate::words::shortened;

/// Slow requests that are listed, and characters of each.
pub(super) const MAX_REQUESTS_LISTED: usize = 3;
pub(super) const MAX_REQUEST_CHARACTERS: usize = 44;
/// Requests for a path, those of them that are answered late, and the share that these are.
const MIN_REQUESTS: u64 = 10;
const MIN_LATE: u64 = 3;
const MIN_LATE_SHARE: f64 = 0.05;
/// Tenths of a second in which late answers come: all that wait at one moment, which may touch two of them, wait
/// for one thing, and whether that is the server, the path or this host is not known.
const MIN_MOMENTS: u64 = 3;

/// Whether few of the exchanges with this request are answered late, and half of them quickly.
fn has_tail(request: &SlowRequest) -> bool {
    let all = request.exchanges.saturating_add(request.quick);
    all >= MIN_REQUESTS
        && request.noticed >= MIN_LATE
        && request.moments.is_none_or(|moments| moments >= MIN_MOMENTS)
        && share(request.noticed as f64, all as f64) >= MIN_LATE_SHARE
        && request.quick.saturating_mul(2) > all
}

/// The requests of a service that have a tail, as one finding.
pub(super) fn finding(
    evidence: &Evidence,
    packets: &Packets,
    service: &Service,
) -> Option<Finding> {
    let requests: Vec<&SlowRequest> =
        service.slow_requests.iter().filter(|one| has_tail(one)).collect();
    if requests.is_empty() {
        return None;
    }
    let sum = |of: fn(&SlowRequest) -> u64| {
        requests.iter().map(|one| of(one)).fold(0, u64::saturating_add)
    };
    let (late, late_us) = (sum(|one| one.noticed), sum(|one| one.noticed_us));
    let all = sum(|one| one.exchanges.saturating_add(one.quick));
    // Its streams that wait longest show it best.
    let mut groups = group_directions(packets, |direction: StreamDirection<'_>| {
        let is_of_it = direction.server_sends && direction.stream.server == service.server;
        let think_us = direction.sent().time_us(TimeCategory::ServerThink);
        (is_of_it && think_us > 0).then_some(think_us)
    });
    let group = groups.first_mut()?;
    // What the others wait is not late.
    group.lost_us = late_us;
    let each = micros(late_us / late.max(1));
    let mut text = String::from("half of the answers begin within 10 ms");
    for one in requests.iter().take(MAX_REQUESTS_LISTED) {
        text.push_str(&format!(
            "\n{}: {} of {} take {} on average",
            shortened(&one.request, MAX_REQUEST_CHARACTERS),
            one.noticed,
            one.exchanges.saturating_add(one.quick),
            micros(one.noticed_us / one.noticed.max(1)),
        ));
    }
    let proof = group
        .proof(evidence, "proof", text)
        .over_window(evidence, "late", late as f64, "exchanges")
        .over_window(evidence, "think time of these", late_us as f64 / 1e3, "ms");
    let (server, host) = (group.server, group.server.ip().to_string());
    let part = percent(share(late as f64, all as f64));
    let mut finding = group.finding(
        evidence,
        "server-think-time",
        format!("{server} takes {each} to answer {part} of the requests for a path"),
        &format!("{late} of {} wait {} in all", count(all, "request"), micros(late_us)),
        vec![proof],
        vec![advice_about(
            &host,
            format!("run netwhy on {host}: what does the process wait for now and then?"),
        )],
    );
    // Without it they take as long as the others.
    let late_ms = late_us as f64 / 1e3 / late.max(1) as f64;
    let now_ms = late_ms + service.exchange_p50_us.unwrap_or(0) as f64 / 1e3;
    let least_ms = group.round_trip_ms().unwrap_or(0.0);
    finding.gain = gain::of_time(GainFigure::ExchangeTime, now_ms, late_ms, least_ms);
    Some(finding)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::rule;
    use super::*;
    use crate::cause::Verdict;
    use crate::fixtures::{add_stream, add_up_services, findings_of, healthy, set_time};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn example() -> Evidence {
        tail_of(200, 12)
    }

    /// So many requests, of which so many take 300 ms.
    fn tail_of(requests: u64, late: u64) -> Evidence {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        stream.exchanges = requests;
        set_time(&mut stream.from_server, TimeCategory::ServerThink, late * 300_000);
        set_time(&mut stream.from_server, TimeCategory::Network, requests * 30_000);
        add_up_services(&mut evidence, 30_000);
        let service = &mut evidence.packets.as_mut().unwrap().services[0];
        service.slow_requests = vec![SlowRequest {
            request: "GET /item".to_string(),
            exchanges: late + 1,
            think_time_us: late * 300_000 + 12_000,
            quick: requests - late - 1,
            noticed: late,
            noticed_us: late * 300_000,
            moments: Some(late.min(4)),
        }];
        evidence
    }

    #[test]
    fn fires_for_a_few_late_answers_to_equal_requests() {
        let finding = &findings_of(rule(&example()))[0];
        assert_eq!(
            finding.title,
            "198.18.0.2:80 takes 300 ms to answer 6.0 % of the requests for a path"
        );
        assert_eq!(finding.impact.amount, 3.6);
        let harm = "12 of 200 requests wait 3.6 s in all, 37 % of the service's active time";
        assert!(finding.impact.text.ends_with(harm), "{}", finding.impact.text);
        let gain = finding.gain.predicted().unwrap();
        assert_eq!((gain.now, gain.expected), (330.0, 30.0), "as long as the others");
        let text = &finding.evidence[0].text;
        assert!(text.ends_with("GET /item: 12 of 200 take 300 ms on average"), "{text}");
    }

    #[test]
    fn stays_quiet_where_all_late_answers_come_at_one_moment() {
        for (moments, is_found) in [(Some(2), false), (Some(3), true), (None, true)] {
            let mut evidence = example();
            evidence.packets.as_mut().unwrap().services[0].slow_requests[0].moments = moments;
            assert_eq!(matches!(rule(&evidence), Verdict::Found(_)), is_found, "{moments:?}");
        }
    }

    #[test]
    fn stays_quiet_for_few_and_for_requests_that_are_all_slow() {
        let quiet = |evidence: &Evidence| matches!(rule(evidence), Verdict::RuledOut(_));
        assert!(quiet(&tail_of(200, 2)));
        assert!(quiet(&tail_of(1000, 40)), "one in 25");
        let mut evidence = example();
        let slow = &mut evidence.packets.as_mut().unwrap().services[0].slow_requests[0];
        (slow.exchanges, slow.quick) = (110, 90);
        assert!(quiet(&evidence), "most take 10 ms or more");
    }
}
