//! The connection-tracking table by ctnetlink (`include/uapi/linux/netfilter/
//! nfnetlink_conntrack.h`).
//!
//! Tables of 246,000 entries are read in tenths of a second: an [`Entry`] borrows its bytes, and parses an
//! attribute on demand.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::{self, Malformed, attributes};

/// NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET.
const GET: u16 = 0x101;
/// NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET_STATS_CPU.
const GET_STATISTICS: u16 = 0x104;
/// `struct nfgenmsg`.
const MESSAGE_BYTES: usize = 4;

const TUPLE_ORIGINAL: u16 = 1;
const TUPLE_REPLY: u16 = 2;
const STATUS: u16 = 3;
const PROTOCOL_INFO: u16 = 4;
const TIMEOUT: u16 = 7;
const MARK: u16 = 8;
const COUNTERS_ORIGINAL: u16 = 9;
const COUNTERS_REPLY: u16 = 10;
const ZONE: u16 = 18;

const STATUS_SEEN_REPLY: u32 = 1 << 1;
const STATUS_ASSURED: u32 = 1 << 2;
const STATUS_SOURCE_NAT: u32 = 1 << 4;
const STATUS_DESTINATION_NAT: u32 = 1 << 5;

/// Names of the states as `conntrack -L` prints them, in the order of `enum tcp_conntrack`.
const TCP_STATES: [&str; 10] = [
    "NONE",
    "SYN_SENT",
    "SYN_RECV",
    "ESTABLISHED",
    "FIN_WAIT",
    "CLOSE_WAIT",
    "LAST_ACK",
    "TIME_WAIT",
    "CLOSE",
    "SYN_SENT2",
];

/// Names of the per-CPU statistics by attribute (`enum ctattr_stats_cpu`), as in
/// `/proc/net/stat/nf_conntrack` and `conntrack -S`.
const STATISTICS: [&str; 14] = [
    "",
    "searched",
    "found",
    "new",
    "invalid",
    "ignore",
    "delete",
    "delete_list",
    "insert",
    "insert_failed",
    "drop",
    "early_drop",
    "error",
    "search_restart",
];

/// A request for the whole table, both families.
pub fn request_table() -> Vec<u8> {
    netlink::request(GET, netlink::DUMP, &[0; MESSAGE_BYTES])
}

/// A request for the statistics of each CPU.
pub fn request_statistics() -> Vec<u8> {
    netlink::request(GET_STATISTICS, netlink::DUMP, &[0; MESSAGE_BYTES])
}

/// Calls for each statistic in the payload of one message, which is one CPU's.
pub fn statistics(payload: &[u8], mut statistic: impl FnMut(&'static str, u64)) {
    for (kind, value) in attributes(payload.get(MESSAGE_BYTES..).unwrap_or_default()) {
        let name = match kind {
            14 => "clash_resolve",
            15 => "chaintoolong",
            _ => STATISTICS.get(usize::from(kind)).copied().unwrap_or_default(),
        };
        if !name.is_empty()
            && let Some(value) = be32(value)
        {
            statistic(name, u64::from(value));
        }
    }
}

/// One direction of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tuple {
    /// Source address.
    pub source: Option<IpAddr>,
    /// Destination address.
    pub destination: Option<IpAddr>,
    /// Protocol number.
    pub protocol: u8,
    /// Source port.
    pub source_port: Option<u16>,
    /// Destination port.
    pub destination_port: Option<u16>,
    /// Type, code and identifier of ICMP.
    pub icmp: Option<Icmp>,
}

/// Type, code and identifier of ICMP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Icmp {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Identifier.
    pub id: u16,
}

/// Packets and bytes of one direction; only counted with `nf_conntrack_acct=1`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One entry of the table.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entry<'a> {
    original: &'a [u8],
    reply: &'a [u8],
    protocol_info: &'a [u8],
    status: u32,
    timeout: Option<u32>,
    mark: Option<u32>,
    zone: Option<u16>,
    original_counters: &'a [u8],
    reply_counters: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Parses the payload of one message.
    ///
    /// # Errors
    ///
    /// The payload is too short, or has no original direction.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let bad = Malformed::new("entry of the connection-tracking table");
        let mut entry = Entry::default();
        for (kind, value) in attributes(payload.get(MESSAGE_BYTES..).ok_or(bad)?) {
            match kind {
                TUPLE_ORIGINAL => entry.original = value,
                TUPLE_REPLY => entry.reply = value,
                PROTOCOL_INFO => entry.protocol_info = value,
                STATUS => entry.status = be32(value).unwrap_or(0),
                TIMEOUT => entry.timeout = be32(value),
                MARK => entry.mark = be32(value),
                ZONE => entry.zone = be16(value),
                COUNTERS_ORIGINAL => entry.original_counters = value,
                COUNTERS_REPLY => entry.reply_counters = value,
                _ => {}
            }
        }
        if entry.original.is_empty() { Err(bad) } else { Ok(entry) }
    }

    /// The direction of the first packet.
    pub fn original(&self) -> Tuple {
        tuple(self.original)
    }

    /// The direction of the replies, as they arrive: after address translation.
    pub fn reply(&self) -> Tuple {
        tuple(self.reply)
    }

    /// Protocol number.
    pub fn protocol(&self) -> u8 {
        self.original().protocol
    }

    /// State of a TCP entry (`CTA_PROTOINFO_TCP_STATE`), as `conntrack -L` prints it.
    pub fn tcp_state_name(&self) -> Option<&'static str> {
        let (_, tcp) = attributes(self.protocol_info).find(|(kind, _)| *kind == 1)?;
        let (_, state) = attributes(tcp).find(|(kind, _)| *kind == 1)?;
        tcp_state_name(*state.first()?)
    }

    /// Whether a packet in the reply direction was seen (`IPS_SEEN_REPLY`).
    pub fn seen_reply(&self) -> bool {
        self.status & STATUS_SEEN_REPLY != 0
    }

    /// Whether early drop may not evict it (`IPS_ASSURED`).
    pub fn assured(&self) -> bool {
        self.status & STATUS_ASSURED != 0
    }

    /// Whether its source address is translated.
    pub fn source_nat(&self) -> bool {
        self.status & STATUS_SOURCE_NAT != 0
    }

    /// Whether its destination address is translated.
    pub fn destination_nat(&self) -> bool {
        self.status & STATUS_DESTINATION_NAT != 0
    }

    /// Seconds until it expires; offloaded entries have none.
    pub fn timeout_s(&self) -> Option<u32> {
        self.timeout
    }

    /// Mark.
    pub fn mark(&self) -> Option<u32> {
        self.mark
    }

    /// Zone.
    pub fn zone(&self) -> Option<u16> {
        self.zone
    }

    /// Packets and bytes of the original direction.
    pub fn original_counters(&self) -> Option<Counters> {
        counters(self.original_counters)
    }

    /// Packets and bytes of the reply direction.
    pub fn reply_counters(&self) -> Option<Counters> {
        counters(self.reply_counters)
    }
}

/// Name of a TCP state by the kernel's number.
pub fn tcp_state_name(number: u8) -> Option<&'static str> {
    TCP_STATES.get(usize::from(number)).copied()
}

/// Name of a protocol that is commonly tracked.
pub fn protocol_name(number: u8) -> Option<&'static str> {
    Some(match number {
        1 => "icmp",
        2 => "igmp",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        47 => "gre",
        58 => "icmpv6",
        132 => "sctp",
        136 => "udplite",
        _ => return None,
    })
}

fn tuple(bytes: &[u8]) -> Tuple {
    let mut tuple = Tuple::default();
    for (kind, value) in attributes(bytes) {
        match kind {
            1 => {
                for (kind, address) in attributes(value) {
                    match kind {
                        1 | 3 => tuple.source = ip(address),
                        2 | 4 => tuple.destination = ip(address),
                        _ => {}
                    }
                }
            }
            2 => protocol(value, &mut tuple),
            _ => {}
        }
    }
    tuple
}

fn protocol(bytes: &[u8], tuple: &mut Tuple) {
    for (kind, value) in attributes(bytes) {
        let byte = value.first().copied().unwrap_or(0);
        match kind {
            1 => tuple.protocol = byte,
            2 => tuple.source_port = be16(value),
            3 => tuple.destination_port = be16(value),
            4 | 7 => tuple.icmp.get_or_insert_default().id = be16(value).unwrap_or(0),
            5 | 8 => tuple.icmp.get_or_insert_default().kind = byte,
            6 | 9 => tuple.icmp.get_or_insert_default().code = byte,
            _ => {}
        }
    }
}

fn counters(bytes: &[u8]) -> Option<Counters> {
    if bytes.is_empty() {
        return None;
    }
    let mut counters = Counters::default();
    for (kind, value) in attributes(bytes) {
        match kind {
            1 => counters.packets = be64(value).unwrap_or(0),
            2 => counters.bytes = be64(value).unwrap_or(0),
            _ => {}
        }
    }
    Some(counters)
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::V4(Ipv4Addr::from(*bytes.first_chunk::<4>()?))),
        16 => Some(IpAddr::V6(Ipv6Addr::from(*bytes.first_chunk::<16>()?))),
        _ => None,
    }
}

fn be16(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|chunk| u16::from_be_bytes(*chunk))
}

fn be32(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|chunk| u32::from_be_bytes(*chunk))
}

fn be64(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|chunk| u64::from_be_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (value.len() as u16 + 4).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    const NESTED: u16 = 0x8000;

    fn entry() -> Vec<u8> {
        let addresses = [attribute(1, &[198, 18, 0, 1]), attribute(2, &[198, 18, 0, 2])].concat();
        let ports = [attribute(1, &[6]), attribute(2, &[0x9c, 0x40]), attribute(3, &[0, 80])];
        let tuple = [attribute(1 | NESTED, &addresses), attribute(2 | NESTED, &ports.concat())];
        let state = attribute(1 | NESTED, &attribute(1, &[7]));
        [
            vec![2, 0, 0, 0],
            attribute(TUPLE_ORIGINAL | NESTED, &tuple.concat()),
            attribute(TUPLE_REPLY | NESTED, &tuple.concat()),
            attribute(STATUS, &[0, 0, 0, 0x0e]),
            attribute(PROTOCOL_INFO | NESTED, &state),
            attribute(TIMEOUT, &[0, 0, 0, 119]),
        ]
        .concat()
    }

    #[test]
    fn an_entry_is_parsed() {
        let bytes = entry();
        let entry = Entry::parse(&bytes).unwrap();
        let original = entry.original();
        assert_eq!(original.source, Some("198.18.0.1".parse().unwrap()));
        assert_eq!(original.destination, Some("198.18.0.2".parse().unwrap()));
        assert_eq!((original.source_port, original.destination_port), (Some(40_000), Some(80)));
        assert_eq!(entry.tcp_state_name(), Some("TIME_WAIT"));
        assert!(entry.seen_reply() && entry.assured() && !entry.source_nat());
        assert_eq!((entry.timeout_s(), entry.protocol()), (Some(119), 6));
        assert_eq!(entry.original_counters(), None);
    }

    #[test]
    fn any_truncation_is_parsed_or_refused() {
        let bytes = entry();
        for length in 0..bytes.len() {
            if let Ok(entry) = Entry::parse(&bytes[..length]) {
                let _ = (entry.original(), entry.reply(), entry.tcp_state_name());
            }
        }
    }

    #[test]
    fn statistics_have_the_names_of_conntrack_tools() {
        let bytes = [vec![0, 0, 0, 2], attribute(10, &[0, 0, 0, 5]), attribute(14, &[0, 0, 0, 1])];
        let mut found = Vec::new();
        statistics(&bytes.concat(), |name, value| found.push((name, value)));
        assert_eq!(found, [("drop", 5), ("clash_resolve", 1)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            statistics(&bytes, |_, _| {});
            if let Ok(entry) = Entry::parse(&bytes) {
                let _ = (entry.original(), entry.reply(), entry.tcp_state_name());
                let _ = (entry.original_counters(), entry.reply_counters());
            }
        }
    }
}
