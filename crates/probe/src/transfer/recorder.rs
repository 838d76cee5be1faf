//! Records the TCP state of a sending connection: a bounded number of samples, and the time between
//! them by what the sender waited for.
//!
//! The kernel's own times come first (`tcpi_rwnd_limited`, `tcpi_sndbuf_limited`); the rest of an
//! interval belongs to the state at its end (see `category`).

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use model::{
    FirstSample, SendSample, SendStart, SenderTimeCategory, SenderTimeShare, Socket, SocketMemory,
    TcpInfo, TcpState, Timer, Transfer, TransferSender,
};

use super::category::{AppState, category, windows_have_room};

/// Time between two samples of the socket's memory.
const MEMORY_INTERVAL: Duration = Duration::from_millis(20);
/// `TCP_INFINITE_SSTHRESH` of linux/tcp.h.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Records one connection of a stream.
pub(super) struct Recorder {
    sender: TransferSender,
    /// Local and remote address, which a closed connection no longer has.
    ends: Option<(SocketAddr, SocketAddr)>,
    cookie: u64,
    transfer: CurrentTransfer,
    /// The kept samples are of a transfer that took this long, microseconds.
    longest_us: u64,
    previous: Option<Previous>,
    /// Since the last sample: time in write calls, and time waiting for the next buffer.
    in_write: Duration,
    waiting_for_data: Duration,
    memory: Option<(Instant, SocketMemory)>,
    first: Option<(Instant, FirstSample)>,
    last: Option<(Instant, TcpInfo)>,
    /// Samples of the socket's memory, and those of a full send buffer.
    memory_samples: u32,
    memory_samples_full: u32,
}

/// The transfer that is being sent.
struct CurrentTransfer {
    number: u32,
    start: Instant,
    /// Whether its state at the start is still to be recorded.
    is_new: bool,
    acked_before: u64,
    window_before: Option<u32>,
    samples: Vec<SendSample>,
    /// Shortest time between two samples.
    sample_interval_us: u64,
}

/// The kernel's times at the last sample.
struct Previous {
    at: Instant,
    rwnd_limited_us: u64,
    sndbuf_limited_us: u64,
}

impl Recorder {
    /// For a connection of this stream.
    pub(super) fn new(stream: u32, socket: &TcpStream) -> Self {
        let mut recorder = Self::unconnected(stream);
        recorder.ends = socket.local_addr().ok().zip(socket.peer_addr().ok());
        recorder.cookie = rustix::net::sockopt::socket_cookie(socket).unwrap_or(0);
        recorder.sender.congestion = rustix::net::sockopt::tcp_congestion(socket).ok();
        recorder
    }

    fn unconnected(stream: u32) -> Self {
        Recorder {
            sender: TransferSender { stream, connections: 1, ..TransferSender::default() },
            ends: None,
            cookie: 0,
            transfer: CurrentTransfer {
                number: 0,
                start: Instant::now(),
                is_new: false,
                acked_before: 0,
                window_before: None,
                samples: Vec::new(),
                sample_interval_us: 0,
            },
            longest_us: 0,
            previous: None,
            in_write: Duration::ZERO,
            waiting_for_data: Duration::ZERO,
            memory: None,
            first: None,
            last: None,
            memory_samples: 0,
            memory_samples_full: 0,
        }
    }

    /// A transfer starts.
    pub(super) fn begin_transfer(&mut self, number: u32) {
        self.end_transfer();
        let info = self.last.as_ref().map(|(_, info)| info);
        self.transfer = CurrentTransfer {
            number,
            start: Instant::now(),
            is_new: true,
            acked_before: info.and_then(|info| info.bytes_acked).unwrap_or(0),
            window_before: info.and_then(|info| info.snd_cwnd),
            samples: Vec::new(),
            sample_interval_us: 0,
        };
        (self.in_write, self.waiting_for_data) = (Duration::ZERO, Duration::ZERO);
        self.previous = None;
    }

    /// A write call took this long and wrote this many bytes.
    pub(super) fn record_write(&mut self, duration: Duration, bytes: u64) {
        self.in_write += duration;
        self.sender.writes += 1;
        self.sender.written_bytes = self.sender.written_bytes.saturating_add(bytes);
    }

    /// The application waited this long for its next buffer.
    pub(super) fn record_wait(&mut self, duration: Duration) {
        self.waiting_for_data += duration;
    }

    /// Takes a sample from the kernel; whether all written data is acknowledged.
    pub(super) fn sample(&mut self, socket: &TcpStream, app: AppState, written: u64) -> bool {
        let Ok(info) = sys::tcp_socket::tcp_info(socket) else { return true };
        let now = Instant::now();
        let is_due = self.memory.is_none_or(|(at, _)| now - at >= MEMORY_INTERVAL);
        if is_due && let Ok(memory) = sys::tcp_socket::socket_memory(socket) {
            self.memory = Some((now, memory));
            self.count_memory_sample(&info, &memory);
        }
        self.record_sample(now, info, app, written)
    }

    fn record_sample(&mut self, now: Instant, info: TcpInfo, app: AppState, written: u64) -> bool {
        self.attribute_time(now, &info, app);
        self.record_start(&info, written);
        self.keep_sample(now, &info, written);
        let sender = &mut self.sender;
        sender.retransmits = sender.retransmits.max(info.total_retrans.unwrap_or(0).into());
        let rate = info.delivery_rate.unwrap_or(0);
        if info.delivery_rate_app_limited == Some(false) {
            sender.best_delivery_rate = sender.best_delivery_rate.max(rate);
        }
        sender.best_delivery_rate_any = sender.best_delivery_rate_any.max(rate);
        let min_rtt_us = info.min_rtt_us.filter(|us| *us > 0 && *us < u32::MAX);
        sender.min_rtt_us = min(sender.min_rtt_us, min_rtt_us);
        if self.first.is_none() {
            self.first = Some((now, first_sample(&info)));
        }
        let all_acked = info.unacked == Some(0) && info.notsent_bytes.unwrap_or(0) == 0;
        self.last = Some((now, info));
        all_acked
    }

    /// Attributes the time since the last sample to what the sender waited for.
    fn attribute_time(&mut self, now: Instant, info: &TcpInfo, app: AppState) {
        let rwnd_limited_us = info.rwnd_limited_us.unwrap_or(0);
        let sndbuf_limited_us = info.sndbuf_limited_us.unwrap_or(0);
        let current = Previous { at: now, rwnd_limited_us, sndbuf_limited_us };
        let in_write_us = std::mem::take(&mut self.in_write).as_micros() as u64;
        let waiting_us = std::mem::take(&mut self.waiting_for_data).as_micros() as u64;
        let Some(previous) = self.previous.replace(current) else { return };
        let mut left_us = (now - previous.at).as_micros() as u64;
        let congestion = self.sender.congestion.as_deref();
        let mut category = category(info, app, congestion);
        let shares = &mut self.sender.time_breakdown;
        let mut attribute = |category, max_us: u64| {
            let us = max_us.min(left_us);
            left_us -= us;
            add_time(shares, category, us);
        };
        let receive_window_us = rwnd_limited_us.saturating_sub(previous.rwnd_limited_us);
        let send_buffer_us = sndbuf_limited_us.saturating_sub(previous.sndbuf_limited_us);
        attribute(SenderTimeCategory::ReceiveWindow, receive_window_us);
        attribute(SenderTimeCategory::SendBuffer, send_buffer_us);
        if category == SenderTimeCategory::Application {
            // Before it waited for data, the path carried what was written.
            attribute(category, waiting_us);
            attribute(SenderTimeCategory::Writing, in_write_us);
            category = SenderTimeCategory::Network;
        }
        attribute(category, u64::MAX);
    }

    /// Records the state in which the transfer started, after its first write.
    fn record_start(&mut self, info: &TcpInfo, written: u64) {
        if !self.transfer.is_new || written == 0 {
            return;
        }
        self.transfer.is_new = false;
        if let (Some(window_segments), Some(segment_bytes)) = (info.snd_cwnd, info.snd_mss)
            && self.sender.starts.len() < Transfer::MAX_TRANSFERS_KEPT
        {
            self.sender.starts.push(SendStart {
                number: self.transfer.number,
                window_segments,
                previous_window_segments: self.transfer.window_before,
                segment_bytes,
            });
        }
    }

    fn keep_sample(&mut self, now: Instant, info: &TcpInfo, written: u64) {
        let CurrentTransfer { start, acked_before, samples, sample_interval_us, .. } =
            &mut self.transfer;
        let at_us = (now - *start).as_micros() as u64;
        if samples.last().is_some_and(|last| at_us < last.at_us + *sample_interval_us) {
            return;
        }
        if samples.len() >= TransferSender::MAX_SAMPLES {
            let mut keep = false;
            samples.retain(|_| {
                keep = !keep;
                keep
            });
            let span = samples.last().map_or(0, |last| last.at_us);
            *sample_interval_us = span / (samples.len() as u64).max(1);
        }
        samples.push(SendSample {
            at_us,
            written_bytes: written,
            acked_bytes: info.bytes_acked.unwrap_or(0).saturating_sub(*acked_before),
            cwnd: info.snd_cwnd.unwrap_or(0),
            ssthresh: info.snd_ssthresh.filter(|segments| *segments < NO_THRESHOLD),
            unacked: info.unacked.unwrap_or(0),
            segment_bytes: info.snd_mss.unwrap_or(0),
            notsent_bytes: info.notsent_bytes,
            snd_wnd_bytes: info.snd_wnd,
            rtt_us: info.rtt_us,
            min_rtt_us: info.min_rtt_us,
            delivery_rate: info.delivery_rate,
            app_limited: info.delivery_rate_app_limited,
            busy_us: info.busy_time_us,
            rwnd_limited_us: info.rwnd_limited_us,
            sndbuf_limited_us: info.sndbuf_limited_us,
            retransmits: info.total_retrans,
        });
    }

    /// Counts whether the send buffer is full while both windows have room.
    fn count_memory_sample(&mut self, info: &TcpInfo, memory: &SocketMemory) {
        // The kernel wakes the writer when a third of the buffer is free (`sk_stream_is_writeable`).
        let full = u64::from(memory.queued_bytes) * 3 > u64::from(memory.send_buffer_bytes) * 2;
        let limits = full
            && memory.send_buffer_bytes > 0
            && info.notsent_bytes == Some(0)
            && windows_have_room(info) == Some(true);
        self.memory_samples += 1;
        self.memory_samples_full += u32::from(limits);
    }

    /// The transfer is over: its samples are kept if it took longest.
    pub(super) fn end_transfer(&mut self) {
        let samples = std::mem::take(&mut self.transfer.samples);
        let took_us = span_us(&samples);
        if took_us >= self.longest_us && !samples.is_empty() {
            self.longest_us = took_us;
            self.sender.sampled_transfer = self.transfer.number;
            self.sender.samples = samples;
        }
        self.previous = None;
    }

    /// The connection is over: its statistics.
    pub(super) fn finish(mut self) -> TransferSender {
        self.end_transfer();
        if let (Some((local, remote)), Some((first_at, first)), Some((last_at, info))) =
            (self.ends, self.first, self.last)
        {
            self.sender.socket = Some(Box::new(Socket {
                local,
                remote,
                state: TcpState::Established,
                inode: 0,
                cookie: self.cookie,
                uid: 0,
                interface: 0,
                pid: None,
                receive_queue_bytes: 0,
                send_queue_bytes: 0,
                timer: Timer::default(),
                memory: self.memory.map(|(_, memory)| memory),
                tcp: Some(Box::new(info)),
                congestion: self.sender.congestion.clone(),
                last_at_ms: (last_at - first_at).as_millis() as u64,
                first: Some(FirstSample {
                    samples: self.memory_samples,
                    samples_send_buffer_full: self.memory_samples_full,
                    ..first
                }),
            }));
        }
        self.sender
    }
}

/// Adds the statistics of one more connection of a stream.
pub(super) fn add_connection(all: &mut TransferSender, one: TransferSender) {
    let busy_us = |sender: &TransferSender| {
        let socket = sender.socket.as_ref()?;
        socket.tcp.as_ref()?.busy_time_us?.checked_sub(socket.first?.busy_us)
    };
    all.socket = match (busy_us(&one), busy_us(all)) {
        (Some(new), Some(old)) if new < old => all.socket.take(),
        _ => one.socket.or(all.socket.take()),
    };
    if span_us(&one.samples) >= span_us(&all.samples) {
        (all.sampled_transfer, all.samples) = (one.sampled_transfer, one.samples);
    }
    for share in one.time_breakdown {
        add_time(&mut all.time_breakdown, share.category, share.time_us);
    }
    all.stream = one.stream;
    all.connections += one.connections;
    all.congestion = one.congestion.or(all.congestion.take());
    all.writes += one.writes;
    all.written_bytes = all.written_bytes.saturating_add(one.written_bytes);
    all.retransmits += one.retransmits;
    all.best_delivery_rate = all.best_delivery_rate.max(one.best_delivery_rate);
    all.best_delivery_rate_any = all.best_delivery_rate_any.max(one.best_delivery_rate_any);
    all.min_rtt_us = min(all.min_rtt_us, one.min_rtt_us);
    all.starts.extend(one.starts);
    all.starts.truncate(Transfer::MAX_TRANSFERS_KEPT);
}

fn add_time(shares: &mut Vec<SenderTimeShare>, category: SenderTimeCategory, time_us: u64) {
    if time_us == 0 {
        return;
    }
    if let Some(known) = shares.iter_mut().find(|known| known.category == category) {
        known.time_us = known.time_us.saturating_add(time_us);
    } else {
        shares.push(SenderTimeShare { category, time_us });
    }
}

/// From the start of a transfer to its last sample, microseconds.
fn span_us(samples: &[SendSample]) -> u64 {
    samples.last().map_or(0, |last| last.at_us)
}

fn min(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    one.into_iter().chain(other).min()
}

fn first_sample(info: &TcpInfo) -> FirstSample {
    FirstSample {
        state: TcpState::Established,
        bytes_received: info.bytes_received.unwrap_or(0),
        bytes_acked: info.bytes_acked.unwrap_or(0),
        total_retrans: info.total_retrans.unwrap_or(0),
        rwnd_limited_us: info.rwnd_limited_us.unwrap_or(0),
        sndbuf_limited_us: info.sndbuf_limited_us.unwrap_or(0),
        busy_us: info.busy_time_us.unwrap_or(0),
        ..FirstSample::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::category::test_info;
    use super::*;

    #[test]
    fn the_kernels_times_come_first_and_samples_are_bounded() {
        let mut recorder = Recorder::unconnected(0);
        let start = Instant::now();
        recorder.begin_transfer(7);
        for step in 0..10_000_u64 {
            let now = start + Duration::from_millis(2 * step);
            let info = TcpInfo {
                rwnd_limited_us: Some(step * 1_000),
                sndbuf_limited_us: Some(step * 500),
                bytes_acked: Some(step * 1000),
                ..test_info(10, 10, 5000)
            };
            recorder.record_sample(now, info, AppState::Blocked, step * 1000);
            assert!(recorder.transfer.samples.len() <= TransferSender::MAX_SAMPLES);
        }
        recorder.end_transfer();
        let sender = recorder.sender;
        let us = |category| {
            let shares = &sender.time_breakdown;
            shares.iter().find(|one| one.category == category).map_or(0, |one| one.time_us)
        };
        assert_eq!(us(SenderTimeCategory::ReceiveWindow), 9_999_000);
        assert_eq!(us(SenderTimeCategory::SendBuffer), 4_999_500);
        assert_eq!(us(SenderTimeCategory::SlowStart), 4_999_500);
        assert_eq!((sender.sampled_transfer, sender.starts.len()), (7, 1));
        let samples = &sender.samples;
        assert!(samples.len() > TransferSender::MAX_SAMPLES / 3, "{}", samples.len());
        assert!(samples.last().unwrap().at_us > 19_000_000);
        let even = samples.windows(2).all(|two| two[1].at_us - two[0].at_us < 200_000);
        assert!(even, "samples are evenly spread");
    }

    #[test]
    fn connections_of_a_stream_are_added() {
        let mut all = TransferSender::default();
        for number in 0..3 {
            let sample = SendSample { at_us: 100 - u64::from(number), ..SendSample::default() };
            let category = SenderTimeCategory::Tail;
            let one = TransferSender {
                connections: 1,
                writes: 2,
                sampled_transfer: number,
                samples: vec![sample],
                time_breakdown: vec![SenderTimeShare { category, time_us: 5 }],
                min_rtt_us: Some(number + 1),
                ..TransferSender::default()
            };
            add_connection(&mut all, one);
        }
        assert_eq!((all.connections, all.writes, all.sampled_transfer), (3, 6, 0));
        assert_eq!((all.time_breakdown[0].time_us, all.min_rtt_us), (15, Some(1)));
    }
}
