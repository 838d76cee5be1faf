//! TCP sockets, listeners, use of local ports.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::{Change, Gauge};

/// State of a TCP socket (RFC 9293), as the kernel has it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs)]
pub enum TcpState {
    Established,
    SynSent,
    SynRecv,
    FinWait1,
    FinWait2,
    TimeWait,
    #[default]
    Close,
    CloseWait,
    LastAck,
    Listen,
    Closing,
    /// A half-open connection: a request that waits for the final ACK (kernel state 12).
    NewSynRecv,
    /// Bound, not connected (kernel state 13, Linux 6.8 and later).
    BoundInactive,
}

impl TcpState {
    /// All states, in the order of the kernel's numbers, which begin at 1.
    pub const ALL: [TcpState; 13] = [
        TcpState::Established,
        TcpState::SynSent,
        TcpState::SynRecv,
        TcpState::FinWait1,
        TcpState::FinWait2,
        TcpState::TimeWait,
        TcpState::Close,
        TcpState::CloseWait,
        TcpState::LastAck,
        TcpState::Listen,
        TcpState::Closing,
        TcpState::NewSynRecv,
        TcpState::BoundInactive,
    ];

    /// From the kernel's number (`include/net/tcp_states.h`).
    pub fn from_kernel(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// The kernel's number.
    pub fn kernel(self) -> u8 {
        self as u8 + 1
    }

    /// The name in the output, as `ss` prints it.
    pub fn name(self) -> &'static str {
        match self {
            TcpState::Established => "ESTAB",
            TcpState::SynSent => "SYN-SENT",
            TcpState::SynRecv | TcpState::NewSynRecv => "SYN-RECV",
            TcpState::FinWait1 => "FIN-WAIT-1",
            TcpState::FinWait2 => "FIN-WAIT-2",
            TcpState::TimeWait => "TIME-WAIT",
            TcpState::Close => "UNCONN",
            TcpState::CloseWait => "CLOSE-WAIT",
            TcpState::LastAck => "LAST-ACK",
            TcpState::Listen => "LISTEN",
            TcpState::Closing => "CLOSING",
            TcpState::BoundInactive => "BOUND",
        }
    }
}

/// The TCP sockets of one namespace over the window. Listeners are apart ([`Listener`]);
/// TIME_WAIT and half-open sockets are counted, not listed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketTable {
    /// Samples of the whole table, oldest first. At least two in a full window, more when the table is
    /// small: sampling must stay cheap.
    pub samples: Vec<TableSample>,
    /// Sockets of the last sample; at most [`SocketTable::MAX_SOCKETS`].
    pub sockets: Vec<Socket>,
    /// Sockets of the last sample that were not kept because of that limit.
    pub not_kept: u64,
    /// Local ports in use towards each destination that this host connects to, most used first,
    /// at most 64.
    pub port_use: Vec<PortUse>,
    /// Sockets in CLOSE_WAIT by process, most first, at most 64.
    pub close_wait: Vec<CloseWait>,
    /// Connections that this host was opening and whose SYN was retransmitted, by destination, most
    /// first, at most 64.
    pub syn_sent: Vec<SynSent>,
}

impl SocketTable {
    /// Most sockets of which all figures are kept.
    pub const MAX_SOCKETS: usize = 100_000;
}

/// One sample of the whole table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TableSample {
    /// When, in milliseconds since the window began.
    pub at_ms: u64,
    /// Sockets by state.
    pub by_state: BTreeMap<TcpState, u64>,
}

impl TableSample {
    /// Sockets in one state.
    pub fn count(&self, state: TcpState) -> u64 {
        self.by_state.get(&state).copied().unwrap_or(0)
    }

    /// Sockets in any state.
    pub fn total(&self) -> u64 {
        self.by_state.values().copied().fold(0, u64::saturating_add)
    }
}

/// A TCP socket at its last sample, and what it was at its first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Socket {
    /// Local end.
    pub local: SocketAddr,
    /// Remote end.
    pub remote: SocketAddr,
    /// State.
    pub state: TcpState,
    /// Inode; 0 when no process owns the socket.
    pub inode: u32,
    /// The kernel's cookie: differs from that of any other socket since boot.
    pub cookie: u64,
    /// Owner's user id.
    pub uid: u32,
    /// Index of the interface that it is bound to; 0: any.
    pub interface: u32,
    /// Process that owns it; the first when several do, `None` when none could be found.
    pub pid: Option<u32>,
    /// Bytes received that the process has not read yet.
    pub receive_queue_bytes: u32,
    /// Bytes that the process has written and the peer has not acknowledged yet.
    pub send_queue_bytes: u32,
    /// The timer that runs.
    pub timer: Timer,
    /// Buffer memory.
    pub memory: Option<SocketMemory>,
    /// The kernel's `tcp_info`.
    pub tcp: Option<Box<TcpInfo>>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// When it was last sampled, in milliseconds since the window began.
    pub last_at_ms: u64,
    /// Its first sample in the window; `None` when it was sampled only once.
    pub first: Option<FirstSample>,
}

impl Socket {
    /// Share of the receive buffer that unread data fills, 0 to 1 and a little more.
    pub fn receive_fill(&self) -> Option<f64> {
        let m = self.memory?;
        (m.receive_buffer_bytes > 0)
            .then(|| f64::from(m.receive_bytes) / f64::from(m.receive_buffer_bytes))
    }
}

/// A socket at its first sample: the figures whose change matters, and counts over all its samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FirstSample {
    /// When, in milliseconds since the window began.
    pub at_ms: u64,
    /// Samples of this socket in the window.
    pub samples: u32,
    /// Samples at which unread data filled the receive buffer so far that the window it could advertise
    /// was below one segment, or at which the peer's window was zero and data waited to be sent.
    pub samples_stalled: u32,
    /// Samples at which everything written was in flight and the send buffer was too full to wake its
    /// writer, while the congestion window and the peer's window had room.
    #[serde(default)]
    pub samples_send_buffer_full: u32,
    /// State.
    pub state: TcpState,
    /// Bytes received and not read yet.
    pub receive_queue_bytes: u32,
    /// Bytes written and not acknowledged yet.
    pub send_queue_bytes: u32,
    /// `tcpi_bytes_received`.
    pub bytes_received: u64,
    /// `tcpi_bytes_acked`.
    pub bytes_acked: u64,
    /// `tcpi_total_retrans`.
    pub total_retrans: u32,
    /// `tcpi_rwnd_limited`, microseconds.
    pub rwnd_limited_us: u64,
    /// `tcpi_sndbuf_limited`, microseconds.
    pub sndbuf_limited_us: u64,
    /// `tcpi_busy_time`, microseconds.
    pub busy_us: u64,
}

/// The timer of a socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timer {
    /// Which timer.
    pub kind: TimerKind,
    /// Milliseconds until it fires.
    pub expires_ms: u32,
    /// Retransmissions or probes sent so far without an acknowledgement.
    pub tries: u8,
}

/// Which timer runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TimerKind {
    /// No timer.
    #[default]
    Off,
    /// Retransmission, early retransmission or tail-loss probe.
    Retransmit,
    /// Keep-alive.
    KeepAlive,
    /// TIME_WAIT.
    TimeWait,
    /// Zero-window probe.
    Persist,
    /// A kind that this netwhy does not know.
    Unknown,
}

/// Buffer memory of a socket (`INET_DIAG_SKMEMINFO`), bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketMemory {
    /// Receive memory in use.
    pub receive_bytes: u32,
    /// Receive buffer limit.
    pub receive_buffer_bytes: u32,
    /// Send memory in use.
    pub send_bytes: u32,
    /// Send buffer limit.
    pub send_buffer_bytes: u32,
    /// Memory reserved in advance (`sk_forward_alloc`).
    pub forward_bytes: u32,
    /// Send memory queued.
    pub queued_bytes: u32,
    /// Ancillary memory.
    pub option_bytes: u32,
    /// Packets in the backlog, bytes.
    pub backlog_bytes: u32,
    /// Packets that this socket has dropped since it was opened. For a listener: handshakes dropped.
    pub drops: u32,
}

/// A TCP listener, sampled many times in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Listener {
    /// Address and port.
    pub local: SocketAddr,
    /// Inode.
    pub inode: u32,
    /// The kernel's cookie.
    pub cookie: u64,
    /// Owner's user id.
    pub uid: u32,
    /// Processes that own it, lowest id first; empty when none could be found.
    pub pids: Vec<u32>,
    /// Limit of the accept queue: the smaller of the backlog passed to listen() and
    /// `net.core.somaxconn` at that moment. The queue is full when its length is *above* the limit.
    pub limit: u32,
    /// Length of the accept queue: connections that are established and not yet accepted.
    pub queue: Gauge,
    /// Samples at which the queue was above its limit, so that a new connection was dropped.
    pub samples_full: u32,
    /// Samples at which the queue was not empty.
    #[serde(default)]
    pub samples_waiting: u32,
    /// Half-open connections to this listener.
    pub half_open: Option<Gauge>,
    /// Handshakes that this socket dropped, by its own counter; `None` when the kernel has none.
    pub drops: Option<Change>,
    /// Samples before which it dropped some, a second after it had dropped others: then a SYN that is
    /// retransmitted for the first time is dropped again. `None` when it was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_dropping_again: Option<u32>,
    /// Whether it was opened after the window began.
    pub new: bool,
}

/// A stream listener on a Unix socket: web servers and their upstreams often meet there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnixListener {
    /// Path, or `@name` when abstract.
    pub path: String,
    /// Inode of the socket.
    pub inode: u32,
    /// Processes that own it, lowest id first.
    pub pids: Vec<u32>,
    /// Limit of its queue. connect() blocks, or fails with EAGAIN, when the length is above it.
    pub limit: u32,
    /// Length of its queue.
    pub queue: Gauge,
    /// Samples at which the queue was above its limit.
    pub samples_full: u32,
    /// Samples at which the queue was not empty.
    #[serde(default)]
    pub samples_waiting: u32,
}

/// Local ports in use towards one destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortUse {
    /// Local address.
    pub local: IpAddr,
    /// Destination.
    pub remote: SocketAddr,
    /// Processes that own these sockets, most sockets first, at most 8.
    pub pids: Vec<u32>,
    /// Ports of the range in use towards it, TIME_WAIT included.
    pub in_use: Gauge,
    /// Those of them in TIME_WAIT.
    pub time_wait: Gauge,
    /// Sockets towards it that the sample before did not have.
    pub new_sockets: u64,
    /// Ports that connect() may use towards it: `ip_local_port_range` without
    /// `ip_local_reserved_ports`.
    pub available: u32,
}

/// Sockets of one process in CLOSE_WAIT: the peer has closed, the process has not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CloseWait {
    /// The process; `None` when it could not be found.
    pub pid: Option<u32>,
    /// Its sockets in CLOSE_WAIT, without those that still send.
    pub count: Gauge,
    /// Whether the number ever decreased from one sample to the next.
    pub decreased: bool,
    /// Sockets that were in CLOSE_WAIT at the first sample and still at the last.
    pub stayed: u64,
    /// Sockets that left CLOSE_WAIT between samples: the process does close some.
    pub left: u64,
    /// Sockets that have been in CLOSE_WAIT for the last three samples or longer: the process is not
    /// about to close them.
    #[serde(default)]
    pub settled: u64,
    /// Longest time since one of them last received from its peer, milliseconds.
    pub oldest_ms: Option<u32>,
    /// The local port that most of them share.
    pub local_port: Option<u16>,
    /// The remote address and port that most of them share.
    pub remote: Option<SocketAddr>,
}

/// Connections that this host was opening towards one destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SynSent {
    /// Destination.
    pub remote: SocketAddr,
    /// Processes, at most 8.
    pub pids: Vec<u32>,
    /// Connections whose SYN was retransmitted, each counted once.
    pub retransmitting: u64,
    /// Connections sampled in SYN_SENT at all, each counted once.
    pub connections: u64,
    /// Connections with a retransmitted SYN that were established at their last sample.
    pub completed: u64,
    /// Most retransmissions of the SYN of one of them.
    pub max_retransmissions: u8,
    /// Established connections to the same destination at the last sample.
    pub established: u64,
}

macro_rules! tcp_info {
    ($( $(#[$doc:meta])* $name:ident : $type:ty ),+ $(,)?) => {
        /// The kernel's `struct tcp_info` (`include/uapi/linux/tcp.h`, up to Linux 6.18) in its own
        /// names and units. A field is `None` when this kernel's struct ends before it.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[allow(missing_docs)]
        pub struct TcpInfo {
            $( $(#[$doc])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $name: Option<$type>, )+
        }
    };
}

tcp_info! {
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    /// 1 time stamps, 2 SACK, 4 window scale, 8 ECN, 16 ECN mark received, 32 SYN data acked, 64 usec time stamps.
    options: u8,
    snd_wscale: u8,
    rcv_wscale: u8,
    delivery_rate_app_limited: bool,
    fastopen_client_fail: u8,
    rto_us: u32,
    ato_us: u32,
    snd_mss: u32,
    rcv_mss: u32,
    /// Segments in flight.
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent_ms: u32,
    last_ack_sent_ms: u32,
    last_data_recv_ms: u32,
    last_ack_recv_ms: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt_us: u32,
    rttvar_us: u32,
    /// Segments; `0x7fffffff` means never set.
    snd_ssthresh: u32,
    /// Segments.
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt_us: u32,
    rcv_space: u32,
    total_retrans: u32,
    /// Bytes per second; all ones means no limit.
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt_us: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    /// Bytes per second.
    delivery_rate: u64,
    busy_time_us: u64,
    rwnd_limited_us: u64,
    sndbuf_limited_us: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    /// The peer's advertised window, bytes.
    snd_wnd: u32,
    /// The window this host advertises, bytes.
    rcv_wnd: u32,
    rehash: u32,
    total_rto: u16,
    total_rto_recoveries: u16,
    total_rto_time_ms: u32,
    received_ce: u32,
    delivered_e1_bytes: u32,
    delivered_e0_bytes: u32,
    delivered_ce_bytes: u32,
    received_e1_bytes: u32,
    received_e0_bytes: u32,
    received_ce_bytes: u32,
    accecn_fail_mode: u16,
    accecn_opt_seen: u16,
}
