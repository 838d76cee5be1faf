//! What there is to say of a packet, in words: in annotated captures and in the ladder.

use std::time::Duration;

use model::TimeCategory;
use streams::depth::recorder::Step;
use streams::{Kind, Nanos, Reason, Stall};
use wire::packet::tcp::Flags;

/// Shortest wait that is told of a packet, nanoseconds; and that of time that was lost.
const WAITED: Nanos = 5_000_000;
const LOST: Nanos = 1_000_000;

/// What a packet was and what it ended.
pub(super) fn of(kind: Kind, stall: Option<&Stall>) -> Vec<String> {
    let kind = match kind {
        Kind::Pure | Kind::New | Kind::Ahead => None,
        Kind::Reordered => Some("late: fills a hole, was not sent again"),
        Kind::RepeatedUnseen => Some("sent again: the first was lost before this place"),
        Kind::RepeatedFast => Some("sent again after duplicate acknowledgements"),
        Kind::RepeatedTimeout => Some("sent again after a retransmission timeout"),
        Kind::Repeated => Some("sent again: a tail-loss probe, or needless"),
        Kind::Copy => Some("captured twice: no packet of its own"),
        Kind::WindowProbe => Some("probe of a closed window, or data it had no room for: no loss"),
        Kind::KeepAlive => Some("keep-alive"),
    };
    let mut all: Vec<String> = kind.map(str::to_string).into_iter().collect();
    if let Some(Stall { reason, lasted, .. }) = stall {
        let time = time(*lasted);
        all.push(match reason {
            Reason::Window => format!("the window opens again, it was closed for {time}"),
            Reason::DelayedAck => {
                format!("held by Nagle's algorithm for {time} of delayed acknowledgement")
            }
        });
    }
    all
}

/// The same of a packet of the ladder, and what was waited for before it.
pub(super) fn of_step(step: &Step) -> Vec<String> {
    let syn = step.flags.all(Flags::SYN);
    let repeated = matches!(
        step.kind,
        Kind::Repeated | Kind::RepeatedFast | Kind::RepeatedTimeout | Kind::RepeatedUnseen
    );
    let mut all = match step.kind {
        _ if syn && repeated => vec!["the handshake again".to_string()],
        Kind::WindowProbe => vec!["probe of the closed window".to_string()],
        kind => of(kind, step.stall.as_ref()),
    };
    if step.flags.all(Flags::RST) {
        all.push("breaks the connection off".to_string());
    } else if step.window == 0 && !syn {
        let still =
            if step.still_closed { "its window is still closed" } else { "closes its window" };
        all.push(still.to_string());
    }
    if step.duplicate > 0 {
        all.push(format!("duplicate acknowledgement, number {}", step.duplicate));
    }
    if let Some((part, waited)) = step.waited
        && waited >= if part.is_lost() { LOST } else { WAITED }
        && step.stall.is_none()
        && let Some(words) = waited_for(part)
    {
        all.push(format!("{} {words}", time(waited)));
    }
    if let Some(turn) = step.began_turn {
        all.push(format!("turn {} begins", text::number(turn)));
    }
    all
}

/// What was waited for, where that says more than the packets do.
fn waited_for(part: TimeCategory) -> Option<&'static str> {
    match part {
        TimeCategory::ServerThink => Some("of thought before the answer"),
        TimeCategory::ClientIdle => Some("in which the client asked for nothing"),
        TimeCategory::Loss => Some("lost by that"),
        TimeCategory::SynWait => Some("without an answer"),
        TimeCategory::ReceiverStalled => Some("of a closed window"),
        TimeCategory::ReceiveWindow => Some("in which the receive window was full"),
        TimeCategory::Application => Some("in which the sender had nothing to send"),
        TimeCategory::Unexplained => Some("that nothing explains"),
        TimeCategory::Connect | TimeCategory::DelayedAck | TimeCategory::Network => None,
    }
}

fn time(nanos: Nanos) -> String {
    text::duration(Duration::from_nanos(nanos.max(0).cast_unsigned()))
}
