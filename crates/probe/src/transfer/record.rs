//! What the sender's kernel tells of a stream while it sends: samples, bounded; the time between two
//! of them given to what held the stream.
//!
//! The kernel's own account goes first: `tcpi_rwnd_limited` and `tcpi_sndbuf_limited` are times. What
//! is left of an interval belongs to the state at its end: see `held`.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use model::{
    FirstSample, SendSample, SendStart, SenderTimeCategory, SenderTimeShare, Socket, SocketMemory,
    TcpInfo, TcpState, Timer, Transfer, TransferSender,
};

use super::held::{Doing, part, room};

/// Time between two questions about the memory of the socket.
const MEMORY_EVERY: Duration = Duration::from_millis(20);
/// `TCP_INFINITE_SSTHRESH`.
pub(super) const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Records one connection of a stream.
pub(super) struct Recorder {
    sender: TransferSender,
    /// Both ends; a connection that is over does not tell them any more.
    ends: Option<(SocketAddr, SocketAddr)>,
    cookie: u64,
    /// The transfer that is sent now.
    began: Instant,
    number: u32,
    writes: u64,
    acked_before: u64,
    window_before: Option<u32>,
    samples: Vec<SendSample>,
    /// Time between two samples that are kept.
    step_us: u64,
    /// The one that is kept took so long, microseconds.
    longest_us: u64,
    started: bool,
    previous: Option<Previous>,
    /// Since the last sample: in write calls, and getting the next buffer.
    in_write: Duration,
    getting: Duration,
    memory: Option<(Instant, SocketMemory)>,
    first: Option<(Instant, FirstSample)>,
    last: Option<(Instant, TcpInfo)>,
    looks: (u32, u32),
}

/// What the last sample said.
struct Previous {
    at: Instant,
    rwnd_limited_us: u64,
    sndbuf_limited_us: u64,
}

impl Recorder {
    /// For a connection of the stream with this number.
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
            began: Instant::now(),
            number: 0,
            writes: 0,
            acked_before: 0,
            window_before: None,
            samples: Vec::new(),
            step_us: 0,
            longest_us: 0,
            started: false,
            previous: None,
            in_write: Duration::ZERO,
            getting: Duration::ZERO,
            memory: None,
            first: None,
            last: None,
            looks: (0, 0),
        }
    }

    /// A transfer begins.
    pub(super) fn begin(&mut self, number: u32) {
        self.end();
        (self.began, self.number, self.writes) = (Instant::now(), number, 0);
        (self.step_us, self.started) = (0, true);
        (self.in_write, self.getting) = (Duration::ZERO, Duration::ZERO);
        self.previous = None;
        self.window_before = self.last.as_ref().and_then(|(_, info)| info.snd_cwnd);
        let acked = self.last.as_ref().and_then(|(_, info)| info.bytes_acked).unwrap_or(0);
        self.acked_before = acked;
    }

    /// One write call was made.
    pub(super) fn wrote(&mut self, took: Duration, bytes: u64) {
        self.in_write += took;
        self.writes += 1;
        self.sender.writes += 1;
        self.sender.written_bytes = self.sender.written_bytes.saturating_add(bytes);
    }

    /// The next buffer was so long in coming.
    pub(super) fn got(&mut self, took: Duration) {
        self.getting += took;
    }

    /// Asks the kernel. Whether all that was sent is acknowledged.
    pub(super) fn sample(&mut self, socket: &TcpStream, doing: Doing, written: u64) -> bool {
        let Ok(info) = sys::tcp_socket::tcp_info(socket) else { return true };
        let now = Instant::now();
        let old = self.memory.is_none_or(|(at, _)| now - at >= MEMORY_EVERY);
        if old && let Ok(memory) = sys::tcp_socket::socket_memory(socket) {
            self.memory = Some((now, memory));
            self.look(&info, &memory);
        }
        self.take(now, info, doing, written)
    }

    /// Takes what the kernel said at this moment.
    fn take(&mut self, now: Instant, info: TcpInfo, doing: Doing, written: u64) -> bool {
        let rwnd_limited_us = info.rwnd_limited_us.unwrap_or(0);
        let sndbuf_limited_us = info.sndbuf_limited_us.unwrap_or(0);
        if let Some(previous) = &self.previous {
            let mut left = (now - previous.at).as_micros() as u64;
            let mut give = |sender: &mut TransferSender, part, most: u64| {
                let us = most.min(left);
                left -= us;
                add(&mut sender.time_breakdown, part, us);
            };
            let window = rwnd_limited_us.saturating_sub(previous.rwnd_limited_us);
            let buffer = sndbuf_limited_us.saturating_sub(previous.sndbuf_limited_us);
            give(&mut self.sender, SenderTimeCategory::ReceiveWindow, window);
            give(&mut self.sender, SenderTimeCategory::SendBuffer, buffer);
            let mut part = part(&info, doing, self.sender.congestion.as_deref());
            if part == SenderTimeCategory::Application {
                // The rest of it went by before: the path took what was there.
                give(&mut self.sender, part, self.getting.as_micros() as u64);
                give(
                    &mut self.sender,
                    SenderTimeCategory::Writing,
                    self.in_write.as_micros() as u64,
                );
                part = SenderTimeCategory::Network;
            }
            give(&mut self.sender, part, u64::MAX);
        }
        self.previous = Some(Previous { at: now, rwnd_limited_us, sndbuf_limited_us });
        (self.in_write, self.getting) = (Duration::ZERO, Duration::ZERO);
        self.start(&info, written);
        self.keep(now, &info, written);
        let sender = &mut self.sender;
        sender.retransmits = sender.retransmits.max(info.total_retrans.unwrap_or(0).into());
        let rate = info.delivery_rate.unwrap_or(0);
        if info.delivery_rate_app_limited == Some(false) {
            sender.best_rate = sender.best_rate.max(rate);
        }
        sender.best_limited_rate = sender.best_limited_rate.max(rate);
        let trip = info.min_rtt_us.filter(|us| *us > 0 && *us < u32::MAX);
        sender.min_rtt_us = match (sender.min_rtt_us, trip) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if self.first.is_none() {
            self.first = Some((now, earlier(&info)));
        }
        let acknowledged = info.unacked == Some(0) && info.notsent_bytes.unwrap_or(0) == 0;
        self.last = Some((now, info));
        acknowledged
    }

    /// How this transfer began: the window after its first write.
    fn start(&mut self, info: &TcpInfo, written: u64) {
        let unknown = self.started && written > 0;
        if !unknown {
            return;
        }
        self.started = false;
        if let (Some(window), Some(segment)) = (info.snd_cwnd, info.snd_mss)
            && self.sender.starts.len() < Transfer::MAX_TRANSFERS_KEPT
        {
            self.sender.starts.push(SendStart {
                number: self.number,
                window_segments: window,
                before_segments: self.window_before,
                segment_bytes: segment,
            });
        }
    }

    fn keep(&mut self, now: Instant, info: &TcpInfo, written: u64) {
        let at_us = (now - self.began).as_micros() as u64;
        if self.samples.last().is_some_and(|last| at_us < last.at_us + self.step_us) {
            return;
        }
        if self.samples.len() >= TransferSender::MAX_SAMPLES {
            let mut place = 0;
            self.samples.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            let span = self.samples.last().map_or(0, |last| last.at_us);
            self.step_us = span / (self.samples.len() as u64).max(1);
        }
        self.samples.push(SendSample {
            at_us,
            written_bytes: written,
            acked_bytes: info.bytes_acked.unwrap_or(0).saturating_sub(self.acked_before),
            cwnd: info.snd_cwnd.unwrap_or(0),
            ssthresh: threshold(info),
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

    /// Whether the send buffer is full now, and both windows have room.
    fn look(&mut self, info: &TcpInfo, memory: &SocketMemory) {
        let full = u64::from(memory.queued_bytes) * 3 > u64::from(memory.send_buffer_bytes) * 2;
        let held = full
            && memory.send_buffer_bytes > 0
            && info.notsent_bytes == Some(0)
            && room(info) == Some(true);
        self.looks.0 += 1;
        self.looks.1 += u32::from(held);
    }

    /// The transfer is over: its samples are kept when it took longest.
    pub(super) fn end(&mut self) {
        let took = self.samples.last().map_or(0, |last| last.at_us);
        let samples = std::mem::take(&mut self.samples);
        if took >= self.longest_us && !samples.is_empty() {
            self.longest_us = took;
            self.sender.sampled = self.number;
            self.sender.samples = samples;
        }
        self.previous = None;
    }

    /// The connection is over.
    pub(super) fn finish(mut self) -> TransferSender {
        self.end();
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
                    samples: self.looks.0,
                    samples_send_buffer_full: self.looks.1,
                    ..first
                }),
            }));
        }
        self.sender
    }
}

/// Adds a connection of a stream to those before.
pub(super) fn merge(all: &mut TransferSender, one: TransferSender) {
    let busy = |sender: &TransferSender| {
        let socket = sender.socket.as_ref()?;
        socket.tcp.as_ref()?.busy_time_us?.checked_sub(socket.first?.busy_us)
    };
    all.socket = match (busy(&one), busy(all)) {
        (Some(new), Some(old)) if new < old => all.socket.take(),
        _ => one.socket.or(all.socket.take()),
    };
    let longest = |samples: &[SendSample]| samples.last().map_or(0, |last| last.at_us);
    if longest(&one.samples) >= longest(&all.samples) {
        (all.sampled, all.samples) = (one.sampled, one.samples);
    }
    for share in one.time_breakdown {
        add(&mut all.time_breakdown, share.category, share.time_us);
    }
    all.stream = one.stream;
    all.connections += one.connections;
    all.congestion = one.congestion.or(all.congestion.take());
    all.writes += one.writes;
    all.written_bytes = all.written_bytes.saturating_add(one.written_bytes);
    all.retransmits += one.retransmits;
    all.best_rate = all.best_rate.max(one.best_rate);
    all.best_limited_rate = all.best_limited_rate.max(one.best_limited_rate);
    all.min_rtt_us = match (all.min_rtt_us, one.min_rtt_us) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    all.starts.extend(one.starts);
    all.starts.truncate(Transfer::MAX_TRANSFERS_KEPT);
}

fn add(shares: &mut Vec<SenderTimeShare>, part: SenderTimeCategory, us: u64) {
    if us == 0 {
        return;
    }
    if let Some(known) = shares.iter_mut().find(|known| known.category == part) {
        known.time_us = known.time_us.saturating_add(us);
    } else {
        shares.push(SenderTimeShare { category: part, time_us: us });
    }
}

fn threshold(info: &TcpInfo) -> Option<u32> {
    info.snd_ssthresh.filter(|segments| *segments < NO_THRESHOLD)
}

fn earlier(info: &TcpInfo) -> FirstSample {
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
    use super::super::held::tests::info;
    use super::*;

    #[test]
    fn the_kernels_own_account_goes_first_and_samples_are_bounded() {
        let mut recorder = Recorder::unconnected(0);
        let began = Instant::now();
        recorder.begin(7);
        for step in 0..10_000_u64 {
            let now = began + Duration::from_millis(2 * step);
            let told = TcpInfo {
                rwnd_limited_us: Some(step * 1_000),
                sndbuf_limited_us: Some(step * 500),
                bytes_acked: Some(step * 1000),
                ..info(10, 10, 5000)
            };
            recorder.take(now, told, Doing::Blocked, step * 1000);
            assert!(recorder.samples.len() <= TransferSender::MAX_SAMPLES);
        }
        recorder.end();
        let sender = recorder.sender;
        let us = |part| {
            sender.time_breakdown.iter().find(|s| s.category == part).map_or(0, |s| s.time_us)
        };
        assert_eq!(us(SenderTimeCategory::ReceiveWindow), 9_999_000);
        assert_eq!(us(SenderTimeCategory::SendBuffer), 4_999_500);
        assert_eq!(us(SenderTimeCategory::SlowStart), 4_999_500);
        assert_eq!((sender.sampled, sender.starts.len()), (7, 1));
        let samples = &sender.samples;
        assert!(samples.len() > TransferSender::MAX_SAMPLES / 3, "{}", samples.len());
        assert!(samples.last().unwrap().at_us > 19_000_000);
        let even = samples.windows(2).all(|two| two[1].at_us - two[0].at_us < 200_000);
        assert!(even, "evenly spread");
    }

    #[test]
    fn connections_of_a_stream_are_added_up() {
        let mut all = TransferSender::default();
        for number in 0..3 {
            let sample = SendSample { at_us: 100 - u64::from(number), ..SendSample::default() };
            merge(
                &mut all,
                TransferSender {
                    connections: 1,
                    writes: 2,
                    sampled: number,
                    samples: vec![sample],
                    time_breakdown: vec![SenderTimeShare {
                        category: SenderTimeCategory::Tail,
                        time_us: 5,
                    }],
                    min_rtt_us: Some(number + 1),
                    ..TransferSender::default()
                },
            );
        }
        assert_eq!((all.connections, all.writes, all.sampled), (3, 6, 0));
        assert_eq!((all.time_breakdown[0].time_us, all.min_rtt_us), (15, Some(1)));
    }
}
