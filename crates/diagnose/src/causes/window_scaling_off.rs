//! # window-scaling-off
//!
//! ## What happens
//!
//! Without the window scale option no receive window is larger than 64 KiB. A path
//! with a round trip of 100 ms then carries 5 Mbit/s for each connection, however
//! fast it is. Either end may have it off, and a middlebox that removes the option
//! from a SYN does the same to both.
//!
//! ## Evidence
//!
//! In packets: both SYNs were captured, at least one without the option; the
//! largest window is near 64 KiB; and the sender waited for it: there was no room
//! for another segment, and the next one followed an acknowledgement.
//!
//! ## Threshold
//!
//! As receive-window-limited: eight round trips or more with a full window, a
//! twentieth of the sending time; and a window of 48 KiB or more that could not
//! grow.
//!
//! ## Looks like it, but is not
//!
//! - receive-window-limited: the window scales and is small, or is far below 64
//!   KiB: another setting limits it.
//! - A short path: 64 KiB for each round trip suffice.
//!
//! ## Check by hand
//!
//! ```sh
//! tshark -r FILE -Y tcp.flags.syn==1 -T fields -e ip.src \
//!   -e tcp.options.wscale.shift
//! sysctl net.ipv4.tcp_window_scaling    # on both hosts
//! ```
//!
//! ## Fix
//!
//! `net.ipv4.tcp_window_scaling=1` at the end whose SYN lacks the option. Where
//! both hosts have it on, something between them removes it: capture at both ends.
//!
//! ## Expected gain
//!
//! The rate of a transfer: the rate at which the path delivers a flight, shared
//! by the streams that send at a time, or what losses allow, whichever is lower
//! (model «next limit»). Not predictable where the sender paces.
//!
//! ## References
//!
//! - RFC 7323, section 2 (window scale)
//! - Linux: `tcp_window_scaling`, `Documentation/networking/ip-sysctl.rst`

use model::{CapturedStream, Evidence, Finding, Reach, Source};
use text::{bit_rate, bytes, count, micros, number};

use crate::captured::{
    Group, NO_HANDSHAKE, StreamDirection, is_unscaled, scale_unknown, verdict_from_packets,
    window_limited_us, without_data,
};
use crate::cause::{Cause, Slows, Verdict};
use crate::proofs::WithFigures as _;
use crate::remedies::{advice, sysctl_on};
use crate::words::title;

pub(super) const CAUSE: Cause = Cause {
    id: "window-scaling-off",
    title: "no receive window can exceed 64 KiB",
    slows: Slows::Transfers,
    needs: &[&[Source::Packets]],
    rule,
    source: include_str!("window_scaling_off.rs"),
    #[cfg(test)]
    examples: tests::examples,
};

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    let limited = |direction: StreamDirection<'_>| {
        window_limited_us(direction).filter(|_| is_unscaled(direction))
    };
    verdict_from_packets(evidence, limited, finding, |packets| {
        let known = |stream: &&CapturedStream| {
            stream.directions().iter().all(|end| {
                end.window_scale.is_some() || (end.mss.is_some() && !end.options_truncated)
            })
        };
        let scales = |stream: &&CapturedStream| {
            stream.directions().iter().all(|end| end.window_scale.is_some())
        };
        let all = packets.worst.iter().filter(known).count() as u64;
        let unscaled = packets.worst.iter().filter(known).filter(|one| !scales(one)).count();
        if let Some(not_checked) = without_data(packets) {
            return not_checked;
        }
        match all {
            0 => scale_unknown(packets).unwrap_or_else(|| Verdict::not_checked(NO_HANDSHAKE)),
            _ => Verdict::RuledOut(format!(
                "windows without scaling ({} of {}, none full)",
                number(unscaled as u64),
                count(all, "handshake")
            )),
        }
    })
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let direction = group.worst();
    let window = u64::from(direction.reverse().max_window);
    let [client, server] = direction.stream.directions().map(|end| end.window_scale.is_some());
    let ends = [(client, direction.stream.client), (server, direction.stream.server)];
    let without: Vec<String> =
        ends.into_iter().filter(|(has, _)| !has).map(|(_, end)| end.ip().to_string()).collect();
    // A server whose client does not offer the option does not offer it either.
    let host = without.first().cloned().unwrap_or_default();
    let mut text = format!(
        "stream {}: no window scale in the SYN of {}; the window of {} was full for {}",
        direction.stream.number,
        without.join(" and in that of "),
        bytes(window),
        group.lost_text(),
    );
    if let Some(trip) = direction.stream.round_trip_us().filter(|trip| *trip > 0) {
        let max = bit_rate(window as f64 * 8e6 / trip as f64);
        text.push_str(&format!(": at most {max} over {}", micros(trip)));
    }
    let proof = group.proof(evidence, "proof", text).at_moment("window", window as f64, "bytes");
    let mut finding = group.finding(
        evidence,
        CAUSE.id,
        title(
            format!("Window scaling is off at {host}: at most {} per round trip", bytes(window)),
            "Window scaling is off: at most 64 KiB per round trip",
        ),
        &format!("the window was full for {}", group.lost_text()),
        vec![proof],
        vec![
            sysctl_on(&host, "net.ipv4.tcp_window_scaling", 1, Reach::NewConnections),
            advice("if it is 1 there, something on the path removes it: capture at both ends"),
        ],
    );
    finding.gain = group.gain_without_window();
    finding
}

#[cfg(test)]
pub(super) mod tests {
    use model::TimeCategory;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source, set_time};

    /// Evidence on which the rule fires.
    pub(in crate::causes) fn examples() -> Vec<Evidence> {
        vec![limited_to(65_535, None)]
    }

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
            "Window scaling is off at 198.18.0.1: at most 64 KiB per round trip"
        );
        let other = crate::cause("receive-window-limited").unwrap().judge(&evidence);
        assert!(matches!(other, Verdict::RuledOut(_)), "one name for it");
    }

    #[test]
    fn stays_quiet_for_a_window_that_scales_or_is_small_anyway() {
        assert!(matches!(rule(&limited_to(65_535, Some(7))), Verdict::RuledOut(_)));
        assert!(matches!(rule(&limited_to(16_384, None)), Verdict::RuledOut(_)));
        let mut evidence = limited_to(65_535, None);
        let stream = &mut evidence.packets.as_mut().unwrap().worst[0];
        set_time(&mut stream.from_server, TimeCategory::ReceiveWindow, 1_000);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)), "nothing waited for it");
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = CAUSE.judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
