//! The columns of the events.

use model::CapturedEvent;

use super::column::{Column, Columns};

/// The columns of `events.csv`.
pub fn events() -> Vec<Column<CapturedEvent>> {
    let mut columns: Columns<CapturedEvent> = Columns::new();
    let c = &mut columns;
    c.integer("stream", "number of its stream", |e| Some(e.stream));
    c.integer(
        "packet",
        "number of the packet in the capture, from 1; empty: known only at the end of the stream",
        |e| e.packet,
    );
    c.integer("at_us", "time since the first packet of the capture", |e| Some(e.at_us));
    c.unix_time("at_unix_us", "time since 1970-01-01 UTC", |e| e.at_us);
    c.text(
        "side",
        "the sender of the packet; of a stall, the end that could not send: client or server",
        |e| Some(e.side.name().to_string()),
    );
    c.text(
        "event",
        "syn-retransmission, fast-retransmission, rto-retransmission, \
         retransmission-original-not-captured, retransmission-kind-unknown, reordered, zero-window, \
         window-probe, window-stall, delayed-ack-stall or reset",
        |e| Some(e.event.name().to_string()),
    );
    c.integer("bytes", "bytes of data of the packet", |e| Some(e.bytes));
    c.integer(
        "waited_us",
        "duration of the stall, or time until the retransmission; empty: the event has no duration",
        |e| e.waited_us,
    );
    columns.0
}

#[cfg(test)]
mod tests {
    use model::EventKind;

    use super::*;

    #[test]
    fn events_have_the_names_of_the_json_and_of_the_page() {
        let columns = events();
        let description = columns
            .iter()
            .find(|column| column.name == "event")
            .map(|column| column.description.replace(" or ", ", "));
        for kind in [
            EventKind::SynRetransmission,
            EventKind::FastRetransmission,
            EventKind::RtoRetransmission,
            EventKind::RetransmissionOriginalNotCaptured,
            EventKind::RetransmissionKindUnknown,
            EventKind::Reordered,
            EventKind::ZeroWindow,
            EventKind::WindowProbe,
            EventKind::WindowStall,
            EventKind::DelayedAckStall,
            EventKind::Reset,
        ] {
            assert_eq!(serde_json::json!(kind), kind.name());
            let described = description.iter().flat_map(|all| all.split(", "));
            assert!(described.into_iter().any(|name| name == kind.name()), "{}", kind.name());
        }
    }
}
