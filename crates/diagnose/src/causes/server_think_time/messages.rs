//! Messages that each end sends when it likes: what follows one of the other end is no answer.

use model::{CapturedStream, Packets, TimeCategory};
use text::share;

use crate::captured::Group;

/// Exchanges from which on pauses are a pattern: one response may come in pieces, one wait be for news.
pub(super) const MIN_MESSAGES: u64 = 3;
/// One in so many requests whose client did not wait for the answer: messages, or several requests at a time.
const UNWAITED_ONE_IN: u64 = 8;
/// The same where pauses may lie within an answer, so that they say anything at all.
const UNWAITED_ONE_IN_PIECES: u64 = 20;
/// Part of the think time that the pauses before what a server sends unasked are.
pub(super) const MESSAGE_PAUSE_PART: u64 = 5;

/// What is not known of a service whose ends may send when they like: where it is not HTTP in clear, its clients
/// do not wait for answers, or it sends unasked. Either is enough, or some of both: what is seen of each adds up.
pub(super) fn may_be_sent(group: &Group<'_>, packets: &Packets) -> Option<String> {
    let streams = || packets.worst.iter().filter(|stream| stream.server == group.server);
    let sum = |of: fn(&CapturedStream) -> u64| streams().map(of).fold(0, u64::saturating_add);
    let (exchanges, unwaited) =
        (sum(|stream| stream.exchanges), sum(|stream| stream.unwaited_requests));
    let pauses_us = sum(|stream| stream.from_server.time_us(TimeCategory::Application));
    let think_us = sum(|stream| stream.from_server.time_us(TimeCategory::ServerThink));
    let unwaited_weight = share(unwaited as f64, exchanges as f64) * UNWAITED_ONE_IN as f64;
    // One answer may come in pieces, and those of HTTP in TLS often do.
    let in_pieces = streams().any(|stream| stream.tls.is_some()) || exchanges < MIN_MESSAGES;
    let few_unwaited = unwaited.saturating_mul(UNWAITED_ONE_IN_PIECES) < exchanges;
    let unasked_weight = match in_pieces && few_unwaited {
        true => 0.0,
        false => share(pauses_us as f64, think_us as f64) * MESSAGE_PAUSE_PART as f64,
    };
    let is_sent = unwaited_weight + unasked_weight >= 1.0;
    let is_http = streams().any(|stream| !stream.statuses.is_empty());
    (is_sent && !is_http).then(|| {
        format!(
            "whether {} is slow to answer or sends when it has news, which its owner knows: {}",
            group.server,
            if unasked_weight > unwaited_weight {
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
            (0, 1_100_000, "it also sends unasked"),
            (1, 300_000, "its clients do not wait for answers"),
            (1, 900_000, "it also sends unasked"),
            (1, 100_000, ""),
            (0, 900_000, ""),
        ] {
            let mut evidence = thinking(5_000_000);
            let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
            stream.unwaited_requests = unwaited;
            set_time(&mut stream.from_server, TimeCategory::Application, pauses_us);
            match rule(&evidence) {
                Verdict::Undecided { needs, .. } => {
                    assert!(!why.is_empty() && needs.ends_with(why), "{unwaited} {needs}");
                }
                verdict => assert!(why.is_empty() && matches!(verdict, Verdict::Found(_)), "{why}"),
            }
        }
    }
}
