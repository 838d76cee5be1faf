//! What a capture holds for rules to judge: without it, no cause is ruled out.

use model::{CapturedDirection, Packets, Source};
use text::count;

use super::direction::StreamDirection;
use crate::cause::Verdict;

/// What was not captured.
pub(crate) const NO_PACKETS: &str = "no packets";
pub(crate) const NO_SYN: &str = "no SYN was captured";
pub(crate) const NO_HANDSHAKE: &str = "no handshake was captured";
pub(crate) const NO_EXCHANGE: &str = "no request with a response";
pub(crate) const ONE_DIRECTION: &str = "only one direction was captured";

/// A sum over what all ends sent.
pub(crate) fn total(packets: &Packets, of: impl Fn(&CapturedDirection) -> u64) -> u64 {
    packets.directions().map(of).fold(0, u64::saturating_add)
}

/// The verdict of a rule about data where none was captured, or only in one direction: what became of
/// it is in the other.
pub(crate) fn without_data(packets: &Packets) -> Option<Verdict> {
    let with_data = || {
        let is_data = |sent: &&CapturedDirection| sent.new_bytes > 0;
        packets.worst.iter().filter(move |stream| stream.directions().iter().any(is_data))
    };
    let both = |stream: &model::CapturedStream| {
        stream.directions().iter().all(|direction| direction.packets > 0)
    };
    if packets.selected == Some(0) {
        Some(Verdict::not_checked("the filter selects no stream"))
    } else if packets.worst.is_empty() {
        Some(Verdict::not_checked("no TCP stream"))
    } else if with_data().next().is_none() {
        let streams = count(packets.worst.len() as u64, "stream");
        Some(Verdict::NotChecked(format!("no data in {streams}")))
    } else if !with_data().any(both) {
        Some(Verdict::not_checked(ONE_DIRECTION))
    } else {
        None
    }
}

/// The verdict of a rule about windows where most of the data went through windows of an unknown scale:
/// it is only in the SYNs. A flight that is small for the window without a scale fills none.
pub(crate) fn scale_unknown(packets: &Packets) -> Option<Verdict> {
    let is_unknown = |direction: &StreamDirection<'_>| {
        let captured = |end: &CapturedDirection| {
            end.window_scale.is_some() || (end.mss.is_some() && !end.options_truncated)
        };
        let window = u64::from(direction.reverse().max_window);
        !(captured(direction.sent()) && captured(direction.reverse()))
            && direction.sent().max_in_flight.saturating_mul(2) > window
    };
    let unknown = packets.worst.iter().flat_map(StreamDirection::both).filter(is_unknown);
    let bytes = unknown.map(|one| one.sent().new_bytes).fold(0, u64::saturating_add);
    let all = total(packets, |sent| sent.new_bytes);
    (bytes > 0 && bytes.saturating_mul(2) > all).then(|| Verdict::Undecided {
        needs: "the handshakes, which have the window scales".to_string(),
        sources: vec![Source::Packets],
        how_to_observe: Some(capture_again(packets)),
    })
}

/// The command that captures the service with most lost time again.
pub(crate) fn capture_again(packets: &Packets) -> String {
    let filter = packets.services.first().map_or(String::new(), |service| {
        format!(" host {} and port {}", service.server.ip(), service.server.port())
    });
    format!("netwhy capture -i any --analyse --for 1m{filter}")
}
