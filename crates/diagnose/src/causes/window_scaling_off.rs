//! # window-scaling-off
//!
//! ## What happens
//!
//! Without the window scale option no receive window is larger than 64 KiB. A path
//! with a round trip of 100 ms then carries 5 Mbit/s for each connection, however
//! fast it is. Either end may have it off, and a middlebox that takes the option
//! out of a SYN does the same to both.
//!
//! ## Evidence
//!
//! In packets: both SYNs were seen, at least one without the option; the largest
//! window is near 64 KiB; and the sender waited for it: no room for another
//! segment was left, and the next one came after an acknowledgement.
//!
//! ## Threshold
//!
//! As receive-window-limited: eight round trips and more with a full window, a
//! twentieth of the sending time; and a window of 48 KiB or more that could not
//! grow.
//!
//! ## Looks like it, but is not
//!
//! - receive-window-limited: the window scales and is small, or is far below
//!   64 KiB: another setting rules.
//! - A short path: 64 KiB a round trip are enough for it.
//!
//! ## Check by hand
//!
//! ```sh
//! tshark -r FILE -Y tcp.flags.syn==1 -T fields -e ip.src \
//!   -e tcp.options.wscale.shift
//! sysctl net.ipv4.tcp_window_scaling    # on both hosts
//! ```
//!
//! ## Mend
//!
//! `net.ipv4.tcp_window_scaling=1` at the end whose SYN has no option. Where both
//! hosts have it on, something between them takes it out: capture at both.
//!
//! ## References
//!
//! - RFC 7323, section 2 (window scale)
//! - Linux: `tcp_window_scaling`, `Documentation/networking/ip-sysctl.rst`

use model::{Evidence, Finding, Reach};
use text::{bit_rate, bytes, micros};

use super::receive_window_limited::limited;
use crate::Verdict;
use crate::captured::{Group, StreamDirection, verdict_from_packets};
use crate::make::{WithFigures as _, advice, there};

/// A window that is as large as it can be without the option, or nearly.
const NEARLY: u32 = 48 * 1024;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    verdict_from_packets(
        evidence,
        |direction| limited(direction).filter(|_| is_unscaled(direction)),
        finding,
        |_| "window scaling".to_string(),
    )
}

/// Whether the handshake was seen to do without scaling, and the receiver's window is as large as
/// it can be then.
pub(super) fn is_unscaled(direction: StreamDirection<'_>) -> bool {
    let ends = direction.stream.directions();
    let seen = ends.iter().all(|end| end.mss.is_some() && !end.options_truncated);
    let off = ends.iter().any(|end| end.window_scale.is_none());
    seen && off && (NEARLY..=u32::from(u16::MAX)).contains(&direction.reverse().max_window)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let window = u64::from(direction.reverse().max_window);
    let [client, server] = direction.stream.directions().map(|end| end.window_scale.is_some());
    let ends = [(client, direction.stream.client), (server, direction.stream.server)];
    let without: Vec<String> =
        ends.into_iter().filter(|(has, _)| !has).map(|(_, end)| end.ip().to_string()).collect();
    // A server that is not asked does not offer it.
    let who = without.first().map_or("", String::as_str);
    let mut text = format!(
        "stream {}: the SYN of {} has no window scale; the window\nof {} was full for {}",
        direction.stream.number,
        without.join(" and that of "),
        bytes(window),
        micros(group.lost_us),
    );
    if let Some(trip) = direction.stream.round_trip_us().filter(|trip| *trip > 0) {
        let most = bit_rate(window as f64 * 8e6 / trip as f64);
        text.push_str(&format!(": over {} that is {most} at most", micros(trip)));
    }
    let proof = group.proof(evidence, "proof", text).at_moment("window", window as f64, "bytes");
    group.finding(
        evidence,
        "window-scaling-off",
        format!("Window scaling is off at {who}: at most {} a round trip", bytes(window)),
        &format!("{} with a full window", micros(group.lost_us)),
        vec![proof],
        vec![
            there(
                format!("at {who}: sysctl -w net.ipv4.tcp_window_scaling=1"),
                Reach::NewConnections,
            ),
            advice("if it is 1 there, a device on the way takes it out: capture at both ends"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use model::{Source, TimeCategory};

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source, set_time};

    fn limited_to(window: u32, scale: Option<u8>) -> Evidence {
        let mut evidence = healthy();
        let stream = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        (stream.from_client.max_window, stream.from_client.window_scale) = (window, scale);
        stream.from_server.window_scale = scale;
        set_time(&mut stream.from_server, TimeCategory::ReceiveWindow, 4_000_000);
        evidence
    }

    #[test]
    fn fires_for_a_full_window_that_cannot_grow() {
        let evidence = limited_to(65_535, None);
        let finding = &findings_of(rule(&evidence))[0];
        assert_eq!(
            finding.title,
            "Window scaling is off at 198.18.0.1: at most 64 KiB a round trip"
        );
        let other = super::super::receive_window_limited::rule(&evidence);
        assert!(matches!(other, Verdict::RuledOut(_)), "one name for it");
    }

    #[test]
    fn stays_quiet_for_a_window_that_scales_or_is_small_anyway() {
        assert!(matches!(rule(&limited_to(65_535, Some(7))), Verdict::RuledOut(_)));
        assert!(matches!(rule(&limited_to(16_384, None)), Verdict::RuledOut(_)));
        let mut evidence = limited_to(65_535, None);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        set_time(&mut stream.from_server, TimeCategory::ReceiveWindow, 1_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "not waited for");
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = crate::cause("window-scaling-off").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
