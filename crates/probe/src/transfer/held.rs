//! What holds a stream at one moment, by what its kernel says and what its application does.
//!
//! All that was written is on its way and both windows have room: the application has more to say and
//! has not said it, or waits for room in the send buffer, or is done. Else the path holds it: slow
//! start as long as the congestion window is full, below its threshold, and the round trip is that of
//! an empty path.

use model::{SenderTimeCategory, TcpInfo};

/// `TCP_CA_Recovery` of linux/tcp.h: from here on lost segments are repeated.
const RECOVERY: u8 = 3;

/// What the application does at a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// It gets the next buffer.
    Getting,
    /// It writes.
    Writing,
    /// It waits until the send buffer has room.
    Blocked,
    /// It has written all.
    Done,
}

/// Whether both windows have room for another segment.
pub(super) fn room(info: &TcpInfo) -> Option<bool> {
    let (unacked, cwnd, segment) = (info.unacked?, info.snd_cwnd?, info.snd_mss?);
    let flight = unacked.saturating_mul(segment);
    let window = info.snd_wnd.is_none_or(|window| window >= flight.saturating_add(segment));
    Some(unacked < cwnd && window)
}

/// Whether the receiver's window has no room for another segment.
fn window_full(info: &TcpInfo) -> Option<bool> {
    let (unacked, segment) = (info.unacked?, info.snd_mss?);
    Some(info.snd_wnd? < unacked.saturating_add(1).saturating_mul(segment))
}

/// What held the stream, by the state at the end of an interval.
pub(super) fn part(info: &TcpInfo, doing: Doing, congestion: Option<&str>) -> SenderTimeCategory {
    if info.ca_state.is_some_and(|state| state >= RECOVERY) {
        return SenderTimeCategory::Loss;
    }
    let drained = info.notsent_bytes == Some(0);
    if !drained && window_full(info) == Some(true) && info.unacked < info.snd_cwnd {
        return SenderTimeCategory::ReceiveWindow;
    }
    match doing {
        Doing::Done if drained => return SenderTimeCategory::Tail,
        Doing::Blocked if drained && room(info) == Some(true) => {
            return SenderTimeCategory::SendBuffer;
        }
        Doing::Getting | Doing::Writing if drained && room(info) == Some(true) => {
            return SenderTimeCategory::Application;
        }
        _ => {}
    }
    // bbr has no threshold: it paces by what it knows of the path.
    let starts = !congestion.is_some_and(|name| name.starts_with("bbr"))
        && info.snd_cwnd < info.snd_ssthresh
        // The kernel's own test of a window that is in the way (`tcp_is_cwnd_limited`).
        && info.snd_cwnd.zip(info.unacked).is_some_and(|(cwnd, out)| cwnd / 2 < out);
    let trip = info.rtt_us.zip(info.min_rtt_us.filter(|us| *us > 0));
    let empty = trip.is_some_and(|(now, least)| now <= least.saturating_add(least / 4 + 1_000));
    if starts && empty { SenderTimeCategory::SlowStart } else { SenderTimeCategory::Network }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::record::NO_THRESHOLD;
    use super::*;

    pub(in super::super) fn info(unacked: u32, cwnd: u32, notsent: u32) -> TcpInfo {
        TcpInfo {
            unacked: Some(unacked),
            snd_cwnd: Some(cwnd),
            snd_ssthresh: Some(NO_THRESHOLD),
            snd_mss: Some(1448),
            notsent_bytes: Some(notsent),
            snd_wnd: Some(1 << 20),
            rtt_us: Some(40_500),
            min_rtt_us: Some(40_000),
            ..TcpInfo::default()
        }
    }

    #[test]
    fn an_interval_belongs_to_what_held_the_stream() {
        let cubic = Some("cubic");
        for (info, doing, expected) in [
            (info(3, 10, 0), Doing::Getting, SenderTimeCategory::Application),
            (info(3, 10, 0), Doing::Blocked, SenderTimeCategory::SendBuffer),
            (info(3, 10, 0), Doing::Done, SenderTimeCategory::Tail),
            (info(10, 10, 5000), Doing::Blocked, SenderTimeCategory::SlowStart),
            (info(10, 10, 5000), Doing::Done, SenderTimeCategory::SlowStart),
            (
                TcpInfo { rtt_us: Some(90_000), ..info(10, 10, 1) },
                Doing::Writing,
                SenderTimeCategory::Network,
            ),
            (
                TcpInfo { snd_ssthresh: Some(8), ..info(10, 10, 1) },
                Doing::Writing,
                SenderTimeCategory::Network,
            ),
            (
                TcpInfo { ca_state: Some(4), ..info(3, 10, 0) },
                Doing::Getting,
                SenderTimeCategory::Loss,
            ),
            (
                TcpInfo { snd_wnd: Some(9 * 1448), ..info(9, 99, 1) },
                Doing::Blocked,
                SenderTimeCategory::ReceiveWindow,
            ),
            (info(9, 99, 1), Doing::Blocked, SenderTimeCategory::Network),
            // An old kernel, which does not tell what was not sent.
            (
                TcpInfo { notsent_bytes: None, ..info(3, 10, 0) },
                Doing::Getting,
                SenderTimeCategory::Network,
            ),
        ] {
            assert_eq!(part(&info, doing, cubic), expected, "{info:?} {doing:?}");
        }
        assert_eq!(
            part(&info(10, 10, 1), Doing::Writing, Some("bbr")),
            SenderTimeCategory::Network
        );
    }
}
