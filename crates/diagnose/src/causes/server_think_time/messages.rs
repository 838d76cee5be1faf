//! Messages that each end sends when it likes: what follows one of the other end is no answer.

use model::{CapturedStream, Packets, TimeCategory};

use crate::captured::Group;

/// Exchanges from which on pauses are a pattern: one response may come in pieces, one wait be for news.
pub(super) const MIN_MESSAGES: u64 = 3;
/// Part of the think time that the pauses before what a server sends unasked are.
pub(super) const MESSAGE_PAUSE_PART: u64 = 4;
/// One in so many requests whose client did not wait for the answer: messages, or several requests at a time.
const UNWAITED_ONE_IN: u64 = 8;
/// The same where the server also sends unasked, and the part of the think time that its pauses before are.
const UNWAITED_ONE_IN_UNASKED: u64 = 20;
const PAUSE_PART_UNWAITED: u64 = 8;

/// What is not known of a service whose ends may send when they like: where it is not HTTP in clear, its clients
/// do not wait for answers, or it sends unasked.
pub(super) fn may_be_sent(group: &Group<'_>, packets: &Packets) -> Option<String> {
    let streams = || packets.worst.iter().filter(|stream| stream.server == group.server);
    let sum = |of: fn(&CapturedStream) -> u64| streams().map(of).fold(0, u64::saturating_add);
    let unwaited = |one_in: u64| {
        let unwaited = sum(|stream| stream.unwaited_requests);
        unwaited > 0 && unwaited.saturating_mul(one_in) >= sum(|stream| stream.exchanges)
    };
    let pauses_us = sum(|stream| stream.from_server.time_us(TimeCategory::Application));
    let think_us = sum(|stream| stream.from_server.time_us(TimeCategory::ServerThink));
    let unasked = |part: u64| pauses_us >= think_us / part;
    // One answer may come in pieces, and those of HTTP in TLS often do.
    let in_pieces = streams().any(|stream| stream.tls.is_some())
        || sum(|stream| stream.exchanges) < MIN_MESSAGES;
    let is_sent = unwaited(UNWAITED_ONE_IN)
        || (unasked(MESSAGE_PAUSE_PART) && !in_pieces)
        || (unwaited(UNWAITED_ONE_IN_UNASKED) && unasked(PAUSE_PART_UNWAITED));
    let is_http = streams().any(|stream| !stream.statuses.is_empty());
    (is_sent && !is_http).then(|| {
        format!(
            "whether {} is slow to answer or sends when it has news, which its owner knows: {}",
            group.server,
            if unasked(PAUSE_PART_UNWAITED) {
                "it also sends unasked"
            } else {
                "its clients do not wait for answers"
            }
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::{rule, tests::thinking};
    use super::*;
    use crate::cause::Verdict;
    use crate::fixtures::set_time;

    #[test]
    fn undecided_where_an_end_does_not_wait_for_the_other() {
        // Of ten exchanges with 5 s of think time: so many that were not waited for, so long paused.
        for (unwaited, pauses_us, why) in [
            (2, 0, "its clients do not wait for answers"),
            (0, 1_300_000, "it also sends unasked"),
            (1, 700_000, "it also sends unasked"),
            (1, 600_000, ""),
            (0, 1_200_000, ""),
        ] {
            let mut evidence = thinking(5_000_000);
            let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
            stream.unwaited_requests = unwaited;
            set_time(&mut stream.from_server, TimeCategory::Application, pauses_us);
            match rule(&evidence) {
                Verdict::Undecided { needs, .. } => assert!(needs.ends_with(why), "{needs}"),
                verdict => assert!(why.is_empty() && matches!(verdict, Verdict::Found(_)), "{why}"),
            }
        }
    }
}
