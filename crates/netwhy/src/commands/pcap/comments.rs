//! Comments on packets: in annotated captures and in the ladder.

use std::time::Duration;

use model::TimeCategory;
use streams::depth::RecordedPacket;
use streams::{Nanos, SegmentKind, Stall, StallReason};
use wire::packet::tcp::Flags;

/// Shortest time before a packet that gets a comment, nanoseconds.
const MIN_WAIT_NS: Nanos = 5_000_000;
/// The same, of time that was lost.
const MIN_LOST_NS: Nanos = 1_000_000;

/// What a packet is, and which stall it ended.
pub(super) fn of_packet(kind: SegmentKind, stall: Option<&Stall>) -> Vec<String> {
    let kind = match kind {
        SegmentKind::NoData | SegmentKind::New | SegmentKind::AfterGap => None,
        SegmentKind::Reordered => Some("reordered: fills a hole, not retransmitted"),
        SegmentKind::OriginalNotCaptured => {
            Some("retransmission; the original was lost before the capture point")
        }
        SegmentKind::FastRetransmission => Some("fast retransmission"),
        SegmentKind::RtoRetransmission => Some("RTO retransmission"),
        SegmentKind::RetransmissionKindUnknown => {
            Some("retransmission, kind unknown (tail-loss probe or spurious)")
        }
        SegmentKind::DuplicatePacket => Some("duplicate packet of the capture"),
        SegmentKind::WindowProbe => Some("window probe, or data beyond the window: no loss"),
        SegmentKind::KeepAlive => Some("keep-alive"),
    };
    let mut comments: Vec<String> = kind.map(str::to_string).into_iter().collect();
    if let Some(Stall { reason, duration, .. }) = stall {
        let time = time(*duration);
        comments.push(match reason {
            StallReason::ClosedWindow => format!("the window opens again after {time}"),
            StallReason::DelayedAck => {
                format!("held for {time} by Nagle's algorithm, waiting for a delayed ACK")
            }
        });
    }
    comments
}

/// The comments on a packet of the ladder, which also say what the time before it was spent on.
pub(super) fn of_step(step: &RecordedPacket) -> Vec<String> {
    let is_syn = step.flags.all(Flags::SYN);
    let is_retransmission = step.kind.is_retransmission();
    let mut comments = match step.kind {
        _ if is_syn && is_retransmission => {
            let name = if step.flags.all(Flags::ACK) { "SYN-ACK" } else { "SYN" };
            vec![format!("{name} retransmission")]
        }
        SegmentKind::WindowProbe => vec!["window probe".to_string()],
        kind => of_packet(kind, step.stall.as_ref()),
    };
    if step.flags.all(Flags::RST) {
        comments.push("resets the connection".to_string());
    } else if step.window == 0 && !is_syn {
        let window =
            if step.window_was_closed { "its window is still closed" } else { "closes its window" };
        comments.push(window.to_string());
    }
    if step.duplicate_acks > 0 {
        comments.push(format!("duplicate ACK {}", step.duplicate_acks));
    }
    if let Some((category, waited)) = step.waited
        && waited >= if category.is_lost() { MIN_LOST_NS } else { MIN_WAIT_NS }
        && step.stall.is_none()
        && let Some(words) = spent_on(category)
    {
        comments.push(format!("{} {words}", time(waited)));
    }
    if let Some(exchange) = step.began_exchange {
        comments.push(format!("exchange {} begins", text::number(exchange)));
    }
    comments
}

/// What time was spent on, where that says more than the packets do.
fn spent_on(category: TimeCategory) -> Option<&'static str> {
    match category {
        TimeCategory::ServerThink => Some("of server think time"),
        TimeCategory::ClientIdle => Some("without a request"),
        TimeCategory::Loss => Some("lost"),
        TimeCategory::SynWait => Some("without a reply"),
        TimeCategory::ReceiverStalled => Some("with a closed window"),
        TimeCategory::ReceiveWindow => Some("with a full receive window"),
        TimeCategory::Application => Some("with nothing to send"),
        TimeCategory::Unexplained => Some("unexplained"),
        TimeCategory::Connect | TimeCategory::DelayedAck | TimeCategory::Network => None,
    }
}

fn time(nanos: Nanos) -> String {
    text::duration(Duration::from_nanos(nanos.max(0).cast_unsigned()))
}
