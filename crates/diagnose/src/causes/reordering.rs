//! # reordering
//!
//! ## What happens
//!
//! Segments overtake each other: several links carry one connection, or a router
//! has several queues for it. The receiver tells of a hole, the sender takes the
//! late segment for a lost one, sends it again and slows down.
//!
//! ## Evidence
//!
//! In packets: a segment fills a hole that is younger than a retransmission could
//! be, and was not asked for by three duplicate acknowledgements; at the sender,
//! segments that were sent again and that the receiver had twice (D-SACK).
//!
//! ## Threshold
//!
//! Three late segments and five in a thousand; or three that were sent again for
//! nothing, one in a thousand and half of all that were sent again, and not by
//! probes of the tail alone: those come too early where CPUs are busy. The shortest
//! round trip is 200 us or more, or not known.
//!
//! ## Looks like it, but is not
//!
//! - packet-loss: the hole lasts for a round trip, a copy fills it.
//! - A capture on several CPUs or interfaces that writes packets in another order,
//!   microseconds apart: their times go back. Nothing was late.
//! - A sender that moves to another CPU: for a moment its segments wait for two
//!   CPUs, tens of microseconds each. Senders take that for loss where round trips
//!   are as short, on one host or between its containers; so near it is not named.
//!
//! ## Check by hand
//!
//! ```sh
//! tshark -r FILE -Y 'tcp.analysis.out_of_order || tcp.options.sack.dsack_le'
//! nstat -az TcpExtTCPDSACKRecv TcpExtTCPSACKReorder TcpExtTCPTSReorder
//! ```
//!
//! ## Mend
//!
//! Keep a connection on one link: hash by connection in place of round robin in
//! the bond or router. Linux adapts (RACK, `net.ipv4.tcp_reordering`).
//!
//! ## References
//!
//! - RFC 4737 (reordering metrics), RFC 8985 (RACK), RFC 2883 (D-SACK)

use model::{Evidence, Finding};
use text::{number, percent, share};

use crate::Verdict;
use crate::captured::{Group, StreamDirection, verdict_from_packets};
use crate::make::{WithFigures as _, advice};

/// Hosts nearer than this, microseconds, shuffle packets by as much themselves.
const NEAR_US: u64 = 200;
/// Late segments that are no accident.
const SEVERAL: u64 = 3;
/// Share of the segments with data.
const SEGMENTS: f64 = 0.005;
/// The same of those that were sent again for nothing.
const NEEDLESS: f64 = 0.001;

pub(super) fn rule(evidence: &Evidence) -> Verdict {
    verdict_from_packets(evidence, hit, finding, |packets| {
        let late = packets.directions().map(|direction| direction.reordered).sum();
        format!("reordering ({} late)", number(late))
    })
}

fn hit(direction: StreamDirection<'_>) -> Option<u64> {
    let sent = direction.sent();
    let near = direction.stream.round_trip_us().is_some_and(|us| us < NEAR_US);
    if near || direction.is_within_one_host() {
        return None;
    }
    let often = share(sent.reordered as f64, sent.data_segments as f64) >= SEGMENTS;
    let late = sent.reordered >= SEVERAL && often;
    let needless = sent.spurious();
    let mistaken = needless >= SEVERAL
        && share(needless as f64, sent.data_segments as f64) >= NEEDLESS
        && needless * 2 >= sent.retransmitted()
        // Timeouts that were too early are another fault.
        && sent.fast_retransmissions + sent.retransmissions_kind_unknown > sent.rto_retransmissions
        // So are probes of the tail that were too early, on hosts whose CPUs are all busy: nothing
        // came late, and no acknowledgement said so.
        && (sent.fast_retransmissions >= SEVERAL || sent.reordered + sent.late_originals > 0);
    // What it costs is not in the packets: the sender slows down.
    (late || mistaken).then_some(0)
}

fn finding(evidence: &Evidence, group: &Group<'_>) -> Finding {
    let late = group.sum(|sent| sent.reordered);
    let data = group.sum(|sent| sent.data_segments);
    let needless = group.sum(|sent| sent.spurious() + sent.late_originals);
    let text = format!(
        "{} of {} segments came late ({}), {} were sent again\nfor nothing",
        number(late),
        number(data),
        percent(share(late as f64, data as f64)),
        number(needless)
    );
    let proof = group
        .proof(evidence, "proof", text)
        .over_window(evidence, "late segments", late as f64, "segments")
        .over_window(evidence, "needless retransmissions", needless as f64, "segments");
    let what =
        format!("{} segments late, {} sent again for nothing", number(late), number(needless));
    group.finding(
        evidence,
        "reordering",
        format!("Segments from {} overtake each other", short(&group.sender())),
        &what,
        vec![proof],
        vec![advice("one link for one connection: hash by connection in bonds and routers")],
    )
}

fn short(sender: &str) -> &str {
    if sender.chars().count() <= 40 { sender } else { "one end" }
}

#[cfg(test)]
mod tests {
    use model::Source;

    use super::*;
    use crate::fixtures::{add_stream, findings_of, healthy, remove_source};

    #[test]
    fn fires_for_late_segments_and_for_needless_ones() {
        let mut evidence = healthy();
        add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server.reordered = 40;
        assert_eq!(
            findings_of(rule(&evidence))[0].title,
            "Segments from 198.18.0.2:80 overtake each other"
        );
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        (sent.fast_retransmissions, sent.duplicate_sacks) = (9, 8);
        assert_eq!(findings_of(rule(&evidence)).len(), 1);
    }

    #[test]
    fn stays_quiet_for_a_few() {
        let mut evidence = healthy();
        let sent = &mut add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80").from_server;
        (sent.reordered, sent.fast_retransmissions, sent.duplicate_sacks) = (2, 9, 3);
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        // Many, where there is no line.
        let mut evidence = healthy();
        add_stream(&mut evidence, "127.0.0.1:4000", "127.0.0.1:80").from_client.reordered = 40;
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
        // Between two containers of one host.
        let mut evidence = healthy();
        let near = add_stream(&mut evidence, "198.18.0.1:4000", "198.18.0.2:80");
        near.from_client.reordered = 40;
        (near.to_client_us, near.to_server_us) = (Some(20), Some(30));
        assert!(matches!(rule(&evidence), Verdict::RuledOut(_)));
    }

    #[test]
    fn undecided_without_packets() {
        let mut evidence = healthy();
        remove_source(&mut evidence, Source::Packets);
        let verdict = crate::cause("reordering").unwrap().judge(&evidence);
        assert!(matches!(verdict, Verdict::Undecided { .. }));
    }
}
