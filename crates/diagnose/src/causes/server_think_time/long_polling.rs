//! Requests that wait until there is news (long polling: RFC 6202, section 2): they look like slow ones.

use model::{CapturedStream, Service, SlowRequest, TimeCategory};
use text::share;

use super::tail::MAX_REQUEST_CHARACTERS;
use crate::captured::Group;
use crate::words::shortened;

/// Requests for one path, and for all others, that show how each is answered.
const MIN_REQUESTS: u64 = 3;
const MIN_OTHERS: u64 = 10;
/// News are rarer than this: mean think time.
const MIN_WAIT_US: u64 = 500_000;
/// Share of the requests for the path that wait, and of the others that do not.
const MOSTLY: f64 = 0.8;
/// Share of the think time that is theirs.
const MIN_TIME_SHARE: f64 = 0.9;
/// Clients that ask again at once are idle for no more than this share of the time of their streams, on
/// some of which they also send other requests.
const MAX_IDLE_SHARE: f64 = 0.2;

/// The request that waits for news, if it may be so: `GET`s of one path wait, those of any other are
/// answered at once, and one is always waiting, since its clients ask again at once.
pub(super) fn request<'a>(service: &'a Service, group: &Group<'_>) -> Option<&'a SlowRequest> {
    let polls = || service.slow_requests.iter().filter(|one| waits(one));
    let count = |of: fn(&SlowRequest) -> u64| polls().map(of).fold(0, u64::saturating_add);
    let waiting = count(|one| one.exchanges.saturating_add(one.quick));
    let others = service.exchanges.saturating_sub(waiting);
    let others_late = service.slow_requests.iter().filter(|one| !waits(one));
    let others_late = others_late.map(|one| one.noticed).fold(0, u64::saturating_add);
    let others_quick = others.saturating_sub(others_late) as f64;
    let think_us = service.time_us(TimeCategory::ServerThink) as f64;
    let is_theirs = count(|one| one.think_time_us) as f64 >= MIN_TIME_SHARE * think_us;
    let is_answered_else = others >= MIN_OTHERS && others_quick >= MOSTLY * others as f64;
    let sum = |of: fn(&CapturedStream) -> u64| {
        let streams = group.directions.iter().map(|one| of(one.stream));
        streams.fold(0, u64::saturating_add) as f64
    };
    let busy = share(sum(CapturedStream::busy_us), sum(|stream| stream.span_us));
    let asks_again = busy >= 1.0 - MAX_IDLE_SHARE;
    polls().next().filter(|_| is_theirs && is_answered_else && asks_again)
}

/// What is not known of it.
pub(super) fn may_wait(request: &SlowRequest) -> String {
    let path = shortened(&request.request, MAX_REQUEST_CHARACTERS);
    format!(
        "whether {path} is slow or waits for news (long polling), which its owner knows; other \
         requests are answered at once"
    )
}

fn waits(request: &SlowRequest) -> bool {
    let all = request.exchanges.saturating_add(request.quick);
    request.request.starts_with("GET ")
        && all >= MIN_REQUESTS
        && request.noticed as f64 >= MOSTLY * all as f64
        && request.think_time_us / all >= MIN_WAIT_US
}

#[cfg(test)]
mod tests {
    use model::{Evidence, StatusCount};

    use super::super::rule;
    use super::*;
    use crate::cause::Verdict;
    use crate::fixtures::{add_stream, add_up_services, findings_of, healthy, set_time};

    /// Ten `GET /poll` of 2 s, and so many other requests, of which so many take 300 ms.
    fn polling(others: u64, late: u64, method: &str) -> Evidence {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        stream.exchanges = 10 + others;
        stream.statuses = vec![StatusCount { status: 200, count: 10 + others }];
        stream.span_us = 20_200_000 + late * 300_000;
        set_time(&mut stream.from_server, TimeCategory::ServerThink, 20_000_000 + late * 300_000);
        set_time(&mut stream.from_server, TimeCategory::Network, 200_000);
        add_up_services(&mut evidence, 1_500_000);
        let service = &mut evidence.packets.as_mut().unwrap().services[0];
        let slow = |request: String, exchanges, quick, each_us| SlowRequest {
            request,
            exchanges,
            quick,
            think_time_us: exchanges * each_us,
            noticed: exchanges,
            noticed_us: exchanges * each_us,
            moments: None,
        };
        service.slow_requests = vec![
            slow(format!("{method} /poll"), 10, 0, 2_000_000),
            slow("GET /page".to_string(), late, others - late, 300_000),
        ];
        evidence
    }

    #[test]
    fn undecided_where_requests_for_one_path_wait_and_all_others_do_not() {
        let Verdict::Undecided { needs, .. } = rule(&polling(20, 1, "GET")) else {
            panic!("it may be long polling");
        };
        assert!(needs.contains("GET /poll"), "{needs}");
    }

    #[test]
    fn fires_where_the_requests_may_just_be_slow() {
        for (evidence, why) in [
            (polling(20, 1, "POST"), "no question for news"),
            (polling(5, 0, "GET"), "hardly any others"),
            (polling(20, 10, "GET"), "others are late too"),
        ] {
            assert!(!findings_of(rule(&evidence)).is_empty(), "{why}");
        }
        let mut evidence = polling(20, 1, "GET");
        evidence.packets.as_mut().unwrap().worst[0].span_us = 40_000_000;
        assert!(!findings_of(rule(&evidence)).is_empty(), "nobody asks again at once");
    }
}
