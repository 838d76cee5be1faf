//! TCP sockets, listeners, use of local ports.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::{Change, Gauge};

/// State of a TCP socket, in the words of RFC 9293 as `ss` and `/proc/net/tcp` know them.
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
    /// Looks at the whole table, oldest first. At least two in a full window, more when the
    /// table is small: looking must stay cheap.
    pub samples: Vec<TableSample>,
    /// Sockets of the last look, and those of earlier looks that are kept because they were
    /// stuck; at most [`SocketTable::MAX_SOCKETS`].
    pub sockets: Vec<Socket>,
    /// Sockets that were seen but not kept because of that limit.
    pub not_kept: u64,
    /// Local ports in use towards each destination that this host connects to, most used first,
    /// at most 64.
    pub port_use: Vec<PortUse>,
    /// Sockets in CLOSE_WAIT by process, most first, at most 64.
    pub close_wait: Vec<CloseWait>,
    /// Connections being opened by this host that had to repeat their SYN, by destination, most
    /// first, at most 64.
    pub syn_sent: Vec<SynSent>,
}

impl SocketTable {
    /// Most sockets that are kept with all their figures.
    pub const MAX_SOCKETS: usize = 100_000;
}

/// One look at the whole table.
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
        self.by_state.values().sum()
    }
}

/// A TCP socket as last seen, with what it was when first seen in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Socket {
    /// Local end.
    pub local: SocketAddr,
    /// Remote end.
    pub remote: SocketAddr,
    /// State when last seen.
    pub state: TcpState,
    /// Inode; 0 when no process holds the socket.
    pub inode: u32,
    /// The kernel's cookie: tells this socket from any other since boot.
    pub cookie: u64,
    /// Owner's user id.
    pub uid: u32,
    /// Interface it is bound to; 0: any.
    pub interface: u32,
    /// Process that holds it; the first when several do, `None` when it could not be found.
    pub pid: Option<u32>,
    /// Bytes received and not yet read by the process.
    pub receive_queue_bytes: u32,
    /// Bytes written by the process and not yet acknowledged.
    pub send_queue_bytes: u32,
    /// Timer that runs.
    pub timer: Timer,
    /// Buffer memory.
    pub memory: Option<SocketMemory>,
    /// The kernel's `tcp_info`.
    pub tcp: Option<Box<TcpInfo>>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// When last seen, in milliseconds since the window began.
    pub last_at_ms: u64,
    /// What it was when first seen in the window; `None` when it was seen once.
    pub first: Option<FirstSample>,
}

impl Socket {
    /// Share of the last receive buffer that unread data fills, 0 to 1 and a little more.
    pub fn receive_fill(&self) -> Option<f64> {
        let m = self.memory?;
        (m.receive_buffer_bytes > 0)
            .then(|| f64::from(m.receive_bytes) / f64::from(m.receive_buffer_bytes))
    }
}

/// What a socket was at an earlier look: the figures whose change matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FirstSample {
    /// When, in milliseconds since the window began.
    pub at_ms: u64,
    /// Looks at this socket in the window.
    pub samples: u32,
    /// Looks at which unread data filled the receive buffer so far that the window it could
    /// offer was below one segment, or the peer's window was closed with data waiting to go.
    pub samples_stalled: u32,
    /// Looks at which all that was written was on its way, the send buffer had no room for more
    /// that would wake its writer, and the congestion window and the peer's window had.
    #[serde(default)]
    pub samples_send_buffer_full: u32,
    /// State.
    pub state: TcpState,
    /// Bytes received and not yet read.
    pub receive_queue_bytes: u32,
    /// Bytes written and not yet acknowledged.
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
    /// Retransmissions or probes sent so far without an answer.
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
    /// Memory reserved ahead.
    pub forward_bytes: u32,
    /// Send memory queued.
    pub queued_bytes: u32,
    /// Ancillary memory.
    pub option_bytes: u32,
    /// Packets in the backlog, bytes.
    pub backlog_bytes: u32,
    /// Packets that this socket dropped since it was made. For a listener: handshakes dropped.
    pub drops: u32,
}

/// A TCP listener, looked at many times in the window.
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
    /// Processes that hold it, lowest id first; empty when none could be found.
    pub pids: Vec<u32>,
    /// Limit of the accept queue: the smaller of the backlog given to listen() and
    /// `net.core.somaxconn` at that moment. The kernel refuses when the length is *above* it.
    pub limit: u32,
    /// Length of the accept queue: connections complete, not yet accepted.
    pub queue: Gauge,
    /// Looks at which the queue was above its limit, so that a new connection was dropped.
    pub samples_full: u32,
    /// Looks at which somebody waited in the queue.
    #[serde(default)]
    pub samples_waiting: u32,
    /// Connections half open for this port, over the looks at the whole table.
    pub half_open: Option<Gauge>,
    /// Handshakes that this socket dropped (its own counter); `None` when the kernel gave none.
    pub drops: Option<Change>,
    /// Whether it was made after the window began.
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
    /// Processes that hold it, lowest id first.
    pub pids: Vec<u32>,
    /// Limit of its queue. connect() fails with EAGAIN, or waits, when the length is above it.
    pub limit: u32,
    /// Length of its queue.
    pub queue: Gauge,
    /// Looks at which the queue was above its limit.
    pub samples_full: u32,
    /// Looks at which somebody waited in the queue.
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
    /// Processes that hold these sockets, most sockets first, at most 8.
    pub pids: Vec<u32>,
    /// Ports of the range in use towards it, TIME_WAIT included.
    pub in_use: Gauge,
    /// Those of them in TIME_WAIT.
    pub time_wait: Gauge,
    /// Sockets towards it that were not there at the look before: the turnover.
    pub new_sockets: u64,
    /// Ports that can be used towards it: `ip_local_port_range` less
    /// `ip_local_reserved_ports`.
    pub available: u32,
}

/// Sockets of one process in CLOSE_WAIT: the peer has closed, the process has not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CloseWait {
    /// The process; `None` when it could not be found.
    pub pid: Option<u32>,
    /// Its sockets in CLOSE_WAIT over the looks; those not counted that still send.
    pub count: Gauge,
    /// Whether the number ever fell from one look to the next.
    pub decreased: bool,
    /// Sockets that were in CLOSE_WAIT at the first look and still are at the last.
    pub stayed: u64,
    /// Sockets that left CLOSE_WAIT between looks: the process does close some.
    pub left: u64,
    /// Sockets in CLOSE_WAIT at the last three looks and maybe longer: not about to be closed.
    #[serde(default)]
    pub settled: u64,
    /// Longest time since one of them last heard from its peer, milliseconds.
    pub oldest_ms: Option<u32>,
    /// The local end most of them share, when it is a listener's port.
    pub local_port: Option<u16>,
    /// The remote end that most of them share.
    pub remote: Option<SocketAddr>,
}

/// Connections that this host tries to open towards one destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SynSent {
    /// Destination.
    pub remote: SocketAddr,
    /// Processes, at most 8.
    pub pids: Vec<u32>,
    /// Connections seen waiting for an answer to a repeated SYN, each counted once.
    pub retransmitting: u64,
    /// Connections seen in SYN_SENT at all, each counted once.
    pub connections: u64,
    /// Connections of them that had completed when last seen.
    pub completed: u64,
    /// Most SYNs repeated by one of them.
    pub max_retransmissions: u8,
    /// Established connections to the same destination at the last look.
    pub established: u64,
}

macro_rules! tcp_info {
    ($( $(#[$doc:meta])* $name:ident : $type:ty ),+ $(,)?) => {
        /// The kernel's `struct tcp_info` (`include/uapi/linux/tcp.h`, to Linux 6.18) in its own
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
    /// 1 time stamps, 2 SACK, 4 window scale, 8 ECN, 16 ECN seen, 32 SYN data acked, 64 usec time stamps.
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
