//! TCP sockets by sock_diag (`include/uapi/linux/inet_diag.h`): requests and records.
//!
//! Tens of thousands of records are read at a time: a [`Record`] borrows the bytes and parses a figure on
//! demand. `struct tcp_info` grows with the kernel: a field beyond the end of this kernel's struct is
//! `None`, bytes beyond the last known field are ignored.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::BitOr;

use model::{Socket, SocketMemory, TcpInfo, TcpState, Timer, TimerKind};

use crate::netlink::{self, Malformed, attributes, u8_at, u16_at, u32_at, u64_at};

const TCPDIAG_GETSOCK: u16 = 18;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;

/// `struct inet_diag_sockid`.
const ID_BYTES: usize = 48;
/// `struct inet_diag_msg`: four bytes, the id, five words.
const MESSAGE_BYTES: usize = 4 + ID_BYTES + 20;

const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;

/// The address families of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Both in one walk of the kernel's hash: the older request TCPDIAG_GETSOCK, whose handler
    /// (`inet_diag_rcv_msg_compat`) ignores the family. Takes half the time of two requests.
    Both,
}

/// A set of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct States(u32);

impl States {
    /// No state.
    pub const NONE: States = States(0);
    /// Every state.
    pub const ALL: States = States(u32::MAX);

    /// One state.
    pub fn only(state: TcpState) -> Self {
        States(1 << state.kernel())
    }

    /// This set without a state.
    #[must_use]
    pub fn without(self, state: TcpState) -> Self {
        States(self.0 & !(1 << state.kernel()))
    }
}

impl BitOr for States {
    type Output = States;

    fn bitor(self, other: States) -> States {
        States(self.0 | other.0)
    }
}

/// The attributes of a request; each costs the kernel time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extensions(u8);

impl Extensions {
    /// None.
    pub const NONE: Extensions = Extensions(0);
    /// `tcp_info`.
    pub const INFO: Extensions = Extensions(1 << (INET_DIAG_INFO - 1));
    /// The name of the congestion control.
    pub const CONGESTION: Extensions = Extensions(1 << (INET_DIAG_CONG - 1));
    /// Buffer memory and drops.
    pub const MEMORY: Extensions = Extensions(1 << (INET_DIAG_SKMEMINFO - 1));
}

impl BitOr for Extensions {
    type Output = Extensions;

    fn bitor(self, other: Extensions) -> Extensions {
        Extensions(self.0 | other.0)
    }
}

/// A request for all TCP sockets of these families and states.
pub fn request(family: Family, states: States, extensions: Extensions) -> Vec<u8> {
    let mut payload = Vec::with_capacity(8 + ID_BYTES);
    let kind = match family {
        Family::Both => {
            // struct inet_diag_req: family, source length, destination length, extensions, id,
            // states, dump base. A dump ignores its family.
            payload.extend_from_slice(&[AF_INET, 0, 0, extensions.0]);
            payload.extend_from_slice(&[0; ID_BYTES]);
            payload.extend_from_slice(&states.0.to_ne_bytes());
            payload.extend_from_slice(&[0; 4]);
            TCPDIAG_GETSOCK
        }
        Family::V4 | Family::V6 => {
            // struct inet_diag_req_v2: family, protocol, extensions, pad, states, id.
            let family = if family == Family::V4 { AF_INET } else { AF_INET6 };
            payload.extend_from_slice(&[family, IPPROTO_TCP, extensions.0, 0]);
            payload.extend_from_slice(&states.0.to_ne_bytes());
            payload.extend_from_slice(&[0; ID_BYTES]);
            SOCK_DIAG_BY_FAMILY
        }
    };
    netlink::request(kind, netlink::DUMP, &payload)
}

/// One socket as the kernel lists it.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    head: &'a [u8; MESSAGE_BYTES],
    state: TcpState,
    info: &'a [u8],
    memory: &'a [u8],
    congestion: &'a [u8],
}

impl<'a> Record<'a> {
    /// Parses the payload of one message.
    ///
    /// # Errors
    ///
    /// The payload is shorter than a record, or its family or state is unknown.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let (head, rest) = payload
            .split_first_chunk::<MESSAGE_BYTES>()
            .ok_or(Malformed::new("record of a socket: it is too short"))?;
        if !matches!(head[0], AF_INET | AF_INET6) {
            return Err(Malformed::new("record of a socket: neither IPv4 nor IPv6"));
        }
        let state = TcpState::from_kernel(head[1])
            .ok_or(Malformed::new("record of a socket: unknown state"))?;
        let mut record = Record { head, state, info: &[], memory: &[], congestion: &[] };
        for (kind, value) in attributes(rest) {
            match kind {
                INET_DIAG_INFO => record.info = value,
                INET_DIAG_SKMEMINFO => record.memory = value,
                INET_DIAG_CONG => record.congestion = value,
                _ => {}
            }
        }
        Ok(record)
    }

    fn word(&self, at: usize) -> u32 {
        u32_at(self.head, at).unwrap_or(0)
    }

    /// The address and port at two offsets.
    fn end(&self, port: usize, address: usize) -> SocketAddr {
        let port = self.chunk(port).map_or(0, u16::from_be_bytes);
        let bytes: [u8; 16] = self.chunk(address).unwrap_or_default();
        let ip = if self.head[0] == AF_INET {
            IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
        } else {
            IpAddr::V6(Ipv6Addr::from(bytes))
        };
        SocketAddr::new(ip, port)
    }

    fn chunk<const BYTES: usize>(&self, at: usize) -> Option<[u8; BYTES]> {
        self.head.get(at..)?.first_chunk().copied()
    }

    /// State.
    pub fn state(&self) -> TcpState {
        self.state
    }

    /// Local end.
    pub fn local(&self) -> SocketAddr {
        self.end(4, 8)
    }

    /// Remote end.
    pub fn remote(&self) -> SocketAddr {
        self.end(6, 24)
    }

    /// Index of the interface it is bound to; 0: any.
    pub fn interface(&self) -> u32 {
        self.word(40)
    }

    /// The kernel's cookie.
    pub fn cookie(&self) -> u64 {
        u64::from(self.word(48)) << 32 | u64::from(self.word(44))
    }

    /// Which timer runs (`idiag_timer`).
    pub fn timer(&self) -> TimerKind {
        match self.head[2] {
            0 => TimerKind::Off,
            1 => TimerKind::Retransmit,
            2 => TimerKind::KeepAlive,
            3 => TimerKind::TimeWait,
            4 => TimerKind::Persist,
            _ => TimerKind::Unknown,
        }
    }

    /// Retransmissions or probes sent without an acknowledgement (`idiag_retrans`).
    pub fn tries(&self) -> u8 {
        self.head[3]
    }

    /// Milliseconds until the timer fires.
    pub fn expires_ms(&self) -> u32 {
        self.word(52)
    }

    /// Bytes not read yet; for a listener the length of its accept queue.
    pub fn receive_queue(&self) -> u32 {
        self.word(56)
    }

    /// Bytes not acknowledged yet; for a listener the limit of its accept queue.
    pub fn send_queue(&self) -> u32 {
        self.word(60)
    }

    /// Owner's user id.
    pub fn uid(&self) -> u32 {
        self.word(64)
    }

    /// Inode; 0 when no process owns it.
    pub fn inode(&self) -> u32 {
        self.word(68)
    }

    /// Buffer memory, if it was requested. Fields that an older kernel does not have are 0.
    pub fn memory(&self) -> Option<SocketMemory> {
        if self.memory.is_empty() {
            return None;
        }
        let word = |index: usize| u32_at(self.memory, 4 * index).unwrap_or(0);
        Some(SocketMemory {
            receive_bytes: word(0),
            receive_buffer_bytes: word(1),
            send_bytes: word(2),
            send_buffer_bytes: word(3),
            forward_bytes: word(4),
            queued_bytes: word(5),
            option_bytes: word(6),
            backlog_bytes: word(7),
            drops: word(8),
        })
    }

    /// Name of the congestion control, if it was requested.
    pub fn congestion(&self) -> Option<&'a str> {
        let name = self.congestion.split(|byte| *byte == 0).next()?;
        std::str::from_utf8(name).ok().filter(|name| !name.is_empty())
    }

    /// The bytes of `struct tcp_info`; empty when it was not requested or does not apply.
    pub fn tcp_info_bytes(&self) -> &'a [u8] {
        self.info
    }

    /// The socket with all its figures. Its process is not known here.
    pub fn to_socket(&self) -> Socket {
        Socket {
            local: self.local(),
            remote: self.remote(),
            state: self.state,
            inode: self.inode(),
            cookie: self.cookie(),
            uid: self.uid(),
            interface: self.interface(),
            pid: None,
            receive_queue_bytes: self.receive_queue(),
            send_queue_bytes: self.send_queue(),
            timer: Timer { kind: self.timer(), expires_ms: self.expires_ms(), tries: self.tries() },
            memory: self.memory(),
            tcp: self.tcp_info().map(Box::new),
            congestion: self.congestion().map(str::to_string),
            last_at_ms: 0,
            first: None,
        }
    }
}

/// All of `tcp_info` from the bytes of `getsockopt(TCP_INFO)`; `None` without any.
pub fn tcp_info(bytes: &[u8]) -> Option<TcpInfo> {
    let empty = Record {
        head: &[0; MESSAGE_BYTES],
        state: TcpState::Close,
        info: bytes,
        memory: &[],
        congestion: &[],
    };
    empty.tcp_info()
}

/// Buffer memory from the bytes of `SO_MEMINFO`; `None` without any.
pub fn socket_memory(bytes: &[u8]) -> Option<SocketMemory> {
    let empty = Record {
        head: &[0; MESSAGE_BYTES],
        state: TcpState::Close,
        info: &[],
        memory: bytes,
        congestion: &[],
    };
    empty.memory()
}

/// Declares the fields of `struct tcp_info`: name, type, how it is read, offset.
macro_rules! fields {
    ($( $name:ident : $type:ty = $read:ident ( $at:literal ) ),+ $(,)?) => {
        impl Record<'_> {
            $(
                #[doc = concat!("`", stringify!($name), "` of [`TcpInfo`], if this kernel has it.")]
                #[inline]
                pub fn $name(&self) -> Option<$type> {
                    $read(self.info, $at)
                }
            )+

            /// All of `tcp_info`; `None` when it was not requested or does not apply.
            pub fn tcp_info(&self) -> Option<TcpInfo> {
                if self.info.is_empty() {
                    return None;
                }
                let scales = u8_at(self.info, 6);
                let bits = u8_at(self.info, 7);
                Some(TcpInfo {
                    snd_wscale: scales.map(|byte| byte & 0xf),
                    rcv_wscale: scales.map(|byte| byte >> 4),
                    delivery_rate_app_limited: bits.map(|byte| byte & 1 != 0),
                    fastopen_client_fail: bits.map(|byte| byte >> 1 & 3),
                    $( $name: self.$name(), )+
                })
            }
        }

        #[cfg(test)]
        const FIELDS: &[(&str, usize, usize)] =
            &[$( (stringify!($name), $at, size_of::<$type>()) ),+];
    };
}

fields! {
    ca_state: u8 = u8_at(1),
    retransmits: u8 = u8_at(2),
    probes: u8 = u8_at(3),
    backoff: u8 = u8_at(4),
    options: u8 = u8_at(5),
    rto_us: u32 = u32_at(8),
    ato_us: u32 = u32_at(12),
    snd_mss: u32 = u32_at(16),
    rcv_mss: u32 = u32_at(20),
    unacked: u32 = u32_at(24),
    sacked: u32 = u32_at(28),
    lost: u32 = u32_at(32),
    retrans: u32 = u32_at(36),
    fackets: u32 = u32_at(40),
    last_data_sent_ms: u32 = u32_at(44),
    last_ack_sent_ms: u32 = u32_at(48),
    last_data_recv_ms: u32 = u32_at(52),
    last_ack_recv_ms: u32 = u32_at(56),
    pmtu: u32 = u32_at(60),
    rcv_ssthresh: u32 = u32_at(64),
    rtt_us: u32 = u32_at(68),
    rttvar_us: u32 = u32_at(72),
    snd_ssthresh: u32 = u32_at(76),
    snd_cwnd: u32 = u32_at(80),
    advmss: u32 = u32_at(84),
    reordering: u32 = u32_at(88),
    rcv_rtt_us: u32 = u32_at(92),
    rcv_space: u32 = u32_at(96),
    total_retrans: u32 = u32_at(100),
    pacing_rate: u64 = u64_at(104),
    max_pacing_rate: u64 = u64_at(112),
    bytes_acked: u64 = u64_at(120),
    bytes_received: u64 = u64_at(128),
    segs_out: u32 = u32_at(136),
    segs_in: u32 = u32_at(140),
    notsent_bytes: u32 = u32_at(144),
    min_rtt_us: u32 = u32_at(148),
    data_segs_in: u32 = u32_at(152),
    data_segs_out: u32 = u32_at(156),
    delivery_rate: u64 = u64_at(160),
    busy_time_us: u64 = u64_at(168),
    rwnd_limited_us: u64 = u64_at(176),
    sndbuf_limited_us: u64 = u64_at(184),
    delivered: u32 = u32_at(192),
    delivered_ce: u32 = u32_at(196),
    bytes_sent: u64 = u64_at(200),
    bytes_retrans: u64 = u64_at(208),
    dsack_dups: u32 = u32_at(216),
    reord_seen: u32 = u32_at(220),
    rcv_ooopack: u32 = u32_at(224),
    snd_wnd: u32 = u32_at(228),
    rcv_wnd: u32 = u32_at(232),
    rehash: u32 = u32_at(236),
    total_rto: u16 = u16_at(240),
    total_rto_recoveries: u16 = u16_at(242),
    total_rto_time_ms: u32 = u32_at(244),
    received_ce: u32 = u32_at(248),
    delivered_e1_bytes: u32 = u32_at(252),
    delivered_e0_bytes: u32 = u32_at(256),
    delivered_ce_bytes: u32 = u32_at(260),
    received_e1_bytes: u32 = u32_at(264),
    received_e0_bytes: u32 = u32_at(268),
    received_ce_bytes: u32 = u32_at(272),
    accecn_fail_mode: u16 = u16_at(276),
    accecn_opt_seen: u16 = u16_at(278),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(family: u8, state: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; MESSAGE_BYTES];
        bytes[0] = family;
        bytes[1] = state;
        bytes[4..8].copy_from_slice(&[0, 80, 0x1f, 0x90]);
        bytes[8..12].copy_from_slice(&[198, 18, 0, 1]);
        bytes[24..28].copy_from_slice(&[198, 18, 0, 2]);
        bytes[44..52].copy_from_slice(&7u64.to_ne_bytes());
        bytes[68..72].copy_from_slice(&1234u32.to_ne_bytes());
        for (kind, value) in attributes {
            bytes.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
            bytes.extend_from_slice(&kind.to_ne_bytes());
            bytes.extend_from_slice(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn a_record_is_parsed() {
        let memory: Vec<u8> = (1..=9u32).flat_map(u32::to_ne_bytes).collect();
        let bytes = record(AF_INET, 8, &[(4, b"cubic\0"), (7, &memory), (99, b"?")]);
        let socket = Record::parse(&bytes).unwrap().to_socket();
        assert_eq!(socket.local, "198.18.0.1:80".parse().unwrap());
        assert_eq!(socket.remote, "198.18.0.2:8080".parse().unwrap());
        assert_eq!(socket.state, TcpState::CloseWait);
        assert_eq!((socket.cookie, socket.inode), (7, 1234));
        assert_eq!(socket.congestion.as_deref(), Some("cubic"));
        assert_eq!(socket.memory.unwrap().drops, 9);
        assert_eq!(socket.tcp, None);
    }

    #[test]
    fn fields_are_contiguous() {
        let mut end = 8;
        for (name, at, size) in FIELDS.iter().filter(|(_, at, _)| *at >= 8) {
            assert_eq!(*at, end, "{name}");
            end += size;
        }
        assert_eq!(end, 280, "struct tcp_info of Linux 6.18");
    }

    #[test]
    fn shorter_and_longer_structs_are_parsed() {
        let info: Vec<u8> = (0..=255).chain(0..100).collect();
        for length in 1..info.len() {
            let bytes = record(AF_INET6, 1, &[(2, &info[..length])]);
            let record = Record::parse(&bytes).unwrap();
            let tcp = record.tcp_info().unwrap();
            assert_eq!(tcp.rto_us.is_some(), length >= 12, "{length}");
            assert_eq!(tcp.bytes_received.is_some(), length >= 136, "{length}");
            assert_eq!(tcp.accecn_opt_seen.is_some(), length >= 280, "{length}");
            assert_eq!(tcp.snd_wnd, record.snd_wnd());
            assert_eq!(tcp_info(&info[..length]), Some(tcp));
        }
        let whole = record(AF_INET, 1, &[(2, &info)]);
        let tcp = Record::parse(&whole).unwrap().tcp_info().unwrap();
        assert_eq!(tcp.rto_us, Some(u32::from_ne_bytes([8, 9, 10, 11])));
        assert_eq!((tcp.snd_wscale, tcp.rcv_wscale), (Some(6), Some(0)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            if let Ok(record) = Record::parse(&bytes) {
                record.to_socket();
            }
        }

        #[test]
        fn any_truncation_is_parsed_or_refused(info in proptest::collection::vec(any::<u8>(), 0..300)) {
            let bytes = record(AF_INET, 1, &[(2, &info), (4, b"bbr\0"), (7, &[1; 36])]);
            for length in 0..bytes.len() {
                let read = Record::parse(&bytes[..length]);
                prop_assert_eq!(read.is_ok(), length >= MESSAGE_BYTES);
            }
        }
    }

    #[test]
    fn requests_have_the_lengths_that_the_kernel_expects() {
        let both = request(Family::Both, States::ALL, Extensions::INFO | Extensions::MEMORY);
        assert_eq!(both.len(), 16 + 60);
        assert_eq!(both[19], 0x42);
        let v6 = request(Family::V6, States::only(TcpState::Listen), Extensions::NONE);
        assert_eq!(v6.len(), 16 + 56);
        assert_eq!(v6[20..24], 0x400u32.to_ne_bytes());
    }
}
