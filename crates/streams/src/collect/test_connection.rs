//! A connection for tests: requests of a client and responses of a server, packet by packet.

use model::{CapturedDirection, CapturedStream};
use wire::capture::{LinkType, Packet};

use super::Collector;
use crate::KnownSocket;

pub(super) const SYN: u8 = 2;
pub(super) const ACK: u8 = 16;
pub(super) const FIN: u8 = 1;
pub(super) const RST: u8 = 4;

/// A connection, captured at the client.
pub(super) struct TestConnection {
    /// Snap length: bytes of a packet that are captured.
    pub(super) snap_length: usize,
    /// A block of data that the next packets acknowledge selectively.
    pub(super) held: Option<(u32, u32)>,
    /// The time stamp of the next packets, in place of their millisecond.
    pub(super) clock: Option<u32>,
    /// Whether the next packets have a time stamp.
    pub(super) timestamps: bool,
    /// Hop limit of the next packets.
    pub(super) hops: u8,
    /// Identification of the next packet; the one after it has the next.
    pub(super) next_id: u16,
    /// Whether the server's SYN/ACK offers an MSS.
    pub(super) offers_mss: bool,
    /// What the next packets hold of their data; of the rest, and of the others, only the length is known.
    pub(super) payload: &'static [u8],
    collector: Collector,
}

impl TestConnection {
    /// Without a packet so far.
    pub(super) fn new() -> Self {
        TestConnection {
            snap_length: usize::MAX,
            held: None,
            clock: None,
            timestamps: true,
            hops: 64,
            next_id: 1,
            offers_mss: true,
            payload: &[],
            collector: Collector::default(),
        }
    }

    /// What a socket of the client knows: its MSS, and the shortest round trip.
    pub(super) fn know(&mut self, mss: u16, min_round_trip_us: i64) {
        let ends = ["198.18.0.1:4000", "198.18.0.2:80"].map(|end| end.parse().unwrap());
        let socket = KnownSocket {
            is_server: false,
            mss,
            window_scales: Some([8, 7]),
            min_round_trip: Some(min_round_trip_us * 1_000),
        };
        self.collector.know([(ends, socket)].into_iter().collect());
    }

    /// A packet whose time stamp is its millisecond; `tcp`: sequence number, acknowledgement, echoed
    /// time stamp, bytes of data.
    pub(super) fn packet(
        &mut self,
        us: u64,
        to_server: bool,
        flags: u8,
        tcp: [u32; 4],
        window: u16,
    ) {
        let [seq, ack, echo, length] = tcp;
        let mut options = Vec::new();
        if flags & SYN != 0 && (to_server || self.offers_mss) {
            options.extend([2, 4, 5, 180, 1, 3, 3, 8]);
        }
        if self.timestamps {
            options.extend([1, 1, 8, 10]);
            // The clock of the server does not matter.
            options.extend(self.clock.unwrap_or(timestamp(us)).to_be_bytes());
            options.extend(echo.to_be_bytes());
        }
        if let Some((from, to)) = self.held {
            options.extend([1, 1, 5, 10]);
            options.extend(from.to_be_bytes());
            options.extend(to.to_be_bytes());
        }
        let header = 20 + options.len();
        let total = 20 + header as u32 + length;
        let mut bytes = vec![0x45, 0];
        bytes.extend((total as u16).to_be_bytes());
        bytes.extend(self.next_id.to_be_bytes());
        self.next_id += 1;
        bytes.extend([0x40, 0, self.hops, 6, 0, 0]);
        let (from, to) = if to_server { (1, 2) } else { (2, 1) };
        bytes.extend([198, 18, 0, from, 198, 18, 0, to]);
        let (port, other): (u16, u16) = if to_server { (4000, 80) } else { (80, 4000) };
        bytes.extend(port.to_be_bytes());
        bytes.extend(other.to_be_bytes());
        bytes.extend(seq.to_be_bytes());
        bytes.extend(ack.to_be_bytes());
        bytes.extend([(header as u8 / 4) << 4, flags]);
        bytes.extend(window.to_be_bytes());
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(options);
        bytes.extend(self.payload);
        bytes.truncate(self.snap_length);
        self.take(us, &bytes, total);
    }

    /// Any packet, from its IP header on.
    pub(super) fn take(&mut self, us: u64, bytes: &[u8], length: u32) {
        let time_ns = Some(i128::from(us) * 1000);
        let link = LinkType::RAW;
        let packet = Packet { time_ns, interface: 0, link, bytes, length, drops: None };
        self.collector.take_by_ref(&packet);
    }

    /// After a handshake with a round trip of 40 ms.
    pub(super) fn open(window: u16) -> Self {
        let mut connection = TestConnection::new();
        connection.packet(0, true, SYN, [0, 0, 0, 0], window);
        connection.packet(40_000, false, SYN | ACK, [0, 1, 1, 0], 60_000);
        connection.packet(40_020, true, ACK, [1, 1, 41, 0], window);
        connection
    }

    pub(super) fn finish(self) -> CapturedStream {
        self.collector.finish(Vec::new(), 0).packets.worst.swap_remove(0)
    }

    pub(super) fn sent_by_client(self) -> CapturedDirection {
        self.finish().from_client
    }

    pub(super) fn sent_by_server(self) -> CapturedDirection {
        self.finish().from_server
    }
}

/// The time stamp of a packet that is sent then.
pub(super) fn timestamp(us: u64) -> u32 {
    us as u32 / 1000 + 1
}
