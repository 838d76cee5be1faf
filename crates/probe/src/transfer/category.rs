//! What a sender waits for at one moment, from its kernel's state and what the application does.
//!
//! When all written data is sent and both windows have room, the application has no more data, or it
//! waits for room in the send buffer, or it is done. Otherwise the path limits it: slow start as long as
//! the congestion window is full, below its threshold, and the round-trip time is that of an empty path.

use model::{SenderTimeCategory, TcpInfo};

/// `TCP_CA_Recovery` of linux/tcp.h: from this state on lost segments are retransmitted.
const CA_RECOVERY: u8 = 3;
/// The round-trip time of an empty path varies by a quarter, and by this much.
const RTT_VARIATION_US: u32 = 1_000;

/// What the application does at a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AppState {
    /// It waits for its next buffer.
    WaitingForData,
    /// It writes.
    Writing,
    /// It waits for room in the send buffer.
    Blocked,
    /// It has written all data.
    Done,
}

/// Whether both windows have room for another segment; `None`: not known.
pub(super) fn windows_have_room(info: &TcpInfo) -> Option<bool> {
    let (unacked, cwnd, segment) = (info.unacked?, info.snd_cwnd?, info.snd_mss?);
    let in_flight = unacked.saturating_mul(segment);
    let receive_window = info.snd_wnd;
    let room = receive_window.is_none_or(|window| window >= in_flight.saturating_add(segment));
    Some(unacked < cwnd && room)
}

/// Whether the receive window has no room for another segment; `None`: not known.
fn is_receive_window_full(info: &TcpInfo) -> Option<bool> {
    let (unacked, segment) = (info.unacked?, info.snd_mss?);
    Some(info.snd_wnd? < unacked.saturating_add(1).saturating_mul(segment))
}

/// What the sender waited for, by the state at the end of an interval.
pub(super) fn category(
    info: &TcpInfo,
    app: AppState,
    congestion: Option<&str>,
) -> SenderTimeCategory {
    if info.ca_state.is_some_and(|state| state >= CA_RECOVERY) {
        return SenderTimeCategory::Loss;
    }
    let all_sent = info.notsent_bytes == Some(0);
    if !all_sent && is_receive_window_full(info) == Some(true) && info.unacked < info.snd_cwnd {
        return SenderTimeCategory::ReceiveWindow;
    }
    let has_room = all_sent && windows_have_room(info) == Some(true);
    match app {
        AppState::Done if all_sent => return SenderTimeCategory::Tail,
        AppState::Blocked if has_room => return SenderTimeCategory::SendBuffer,
        AppState::WaitingForData | AppState::Writing if has_room => {
            return SenderTimeCategory::Application;
        }
        _ => {}
    }
    // bbr has no threshold: it paces by its model of the path.
    let in_slow_start = !congestion.is_some_and(|name| name.starts_with("bbr"))
        && info.snd_cwnd < info.snd_ssthresh
        // The kernel's own test for a limiting congestion window (`tcp_is_cwnd_limited`).
        && info.snd_cwnd.zip(info.unacked).is_some_and(|(cwnd, unacked)| cwnd / 2 < unacked);
    let rtt = info.rtt_us.zip(info.min_rtt_us.filter(|us| *us > 0));
    let path_is_empty =
        rtt.is_some_and(|(now, min)| now <= min.saturating_add(min / 4 + RTT_VARIATION_US));
    if in_slow_start && path_is_empty {
        SenderTimeCategory::SlowStart
    } else {
        SenderTimeCategory::Network
    }
}

/// TCP state for tests: segments in flight, congestion window, bytes not sent; 40 ms, no threshold.
#[cfg(test)]
pub(super) fn test_info(unacked: u32, cwnd: u32, notsent: u32) -> TcpInfo {
    TcpInfo {
        unacked: Some(unacked),
        snd_cwnd: Some(cwnd),
        // `TCP_INFINITE_SSTHRESH` of linux/tcp.h.
        snd_ssthresh: Some(0x7fff_ffff),
        snd_mss: Some(1448),
        notsent_bytes: Some(notsent),
        snd_wnd: Some(1 << 20),
        rtt_us: Some(40_500),
        min_rtt_us: Some(40_000),
        ..TcpInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::test_info as info;
    use super::*;

    #[test]
    fn states_belong_to_what_limits_the_sender() {
        use SenderTimeCategory::{
            Application, Loss, Network, ReceiveWindow, SendBuffer, SlowStart, Tail,
        };
        let cubic = Some("cubic");
        let long_rtt = TcpInfo { rtt_us: Some(90_000), ..info(10, 10, 1) };
        let above_threshold = TcpInfo { snd_ssthresh: Some(8), ..info(10, 10, 1) };
        let in_loss = TcpInfo { ca_state: Some(4), ..info(3, 10, 0) };
        let small_window = TcpInfo { snd_wnd: Some(9 * 1448), ..info(9, 99, 1) };
        // Before Linux 4.6 the kernel does not report unsent bytes.
        let old_kernel = TcpInfo { notsent_bytes: None, ..info(3, 10, 0) };
        for (info, app, expected) in [
            (info(3, 10, 0), AppState::WaitingForData, Application),
            (info(3, 10, 0), AppState::Blocked, SendBuffer),
            (info(3, 10, 0), AppState::Done, Tail),
            (info(10, 10, 5000), AppState::Blocked, SlowStart),
            (info(10, 10, 5000), AppState::Done, SlowStart),
            (long_rtt, AppState::Writing, Network),
            (above_threshold, AppState::Writing, Network),
            (in_loss, AppState::WaitingForData, Loss),
            (small_window, AppState::Blocked, ReceiveWindow),
            (info(9, 99, 1), AppState::Blocked, Network),
            (old_kernel, AppState::WaitingForData, Network),
        ] {
            assert_eq!(category(&info, app, cubic), expected, "{info:?} {app:?}");
        }
        assert_eq!(category(&info(10, 10, 1), AppState::Writing, Some("bbr")), Network);
    }
}
