//! Packets of an interface, from a ring of blocks that the kernel fills and this process empties
//! (AF_PACKET, TPACKET_V3). Only packets that need a header or a tag put back are copied.
//!
//! - [`PacketRing`]: the socket and its ring
//! - [`frame`]: a block to frames, as capture files have them
//! - [`wait`]: waits for packets

use std::ffi::c_int;
use std::fs;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::netdevice::{index_to_name, name_to_index};
use wire::capture::LinkType;

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Instruction;

pub mod frame;
mod map;
mod socket;

pub use frame::Frame;

use frame::OUTGOING;
use map::Map;
use socket::{attach, bind, device_type, get, packet_socket, set};

/// The name for all interfaces.
pub const ANY: &str = "any";
/// Most bytes of a packet that are kept, by default: tcpdump's default too.
pub const SNAP_LENGTH: u32 = 262_144;
/// Smallest ring.
pub const MIN_BUFFER_BYTES: usize = 512 << 10;
/// Largest ring.
pub const MAX_BUFFER_BYTES: usize = 1 << 30;
/// How long the kernel holds back a block that is not full.
pub const BLOCK_TIMEOUT: Duration = Duration::from_millis(50);

/// Smallest and largest block. A packet longer than a block is cut to it.
const BLOCK_BYTES: std::ops::RangeInclusive<usize> = 128 << 10..=1 << 20;
/// Bytes of a frame: without meaning in TPACKET_V3, but checked by the kernel.
const FRAME_BYTES: usize = 2048;
/// Classic BPF: return a constant, the bytes to keep of a packet.
const RETURN: u16 = 0x06;

/// Longest program that the kernel accepts (`BPF_MAXINSNS`).
const MAX_PROGRAM_INSTRUCTIONS: usize = 4096;
/// Runs before a program for all interfaces: packets sent on the loopback come again as received, and
/// need not be in the ring twice. Reads the type of the device and the type of the packet.
const NOT_SENT_ON_LOOPBACK: [Instruction; 5] = [
    Instruction { code: LOAD, if_true: 0, if_false: 0, operand: ANCILLARY_OFFSET + 28 },
    Instruction { code: EQUAL, if_true: 0, if_false: 3, operand: libc::ARPHRD_LOOPBACK as u32 },
    Instruction { code: LOAD, if_true: 0, if_false: 0, operand: ANCILLARY_OFFSET + 4 },
    Instruction { code: EQUAL, if_true: 0, if_false: 1, operand: OUTGOING as u32 },
    return_constant(0),
];
/// Classic BPF: load a word; jump if it equals a constant; ancillary data of the packet (`SKF_AD_OFF`,
/// `SKF_AD_HATYPE`, `SKF_AD_PKTTYPE` of linux/filter.h).
const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const ANCILLARY_OFFSET: u32 = libc::SKF_AD_OFF as u32;

/// How to capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Most bytes of a packet that are kept.
    pub snap_length: u32,
    /// Whether to capture frames for other hosts.
    pub promiscuous: bool,
    /// Bytes of the ring; rounded to whole blocks, [`MIN_BUFFER_BYTES`] to [`MAX_BUFFER_BYTES`].
    pub buffer_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { snap_length: SNAP_LENGTH, promiscuous: false, buffer_bytes: 16 << 20 }
    }
}

/// A packet socket and its ring.
#[derive(Debug)]
pub struct PacketRing {
    socket: OwnedFd,
    map: Map,
    name: String,
    /// 0: all interfaces.
    index: u32,
    link: LinkType,
    settings: Settings,
    block_bytes: usize,
    blocks: usize,
    /// The block that the kernel fills next.
    next: usize,
    counts: Counts,
    scratch: Vec<u8>,
}

/// What the kernel counted since the ring was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that passed the kernel's filter, including those dropped.
    pub received: u64,
    /// Packets that found the ring full.
    pub dropped: u64,
}

/// What [`PacketRing::read_block`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockRead {
    /// Nothing yet.
    Empty,
    /// A block, of which every frame was read.
    Whole,
    /// A block, whose remaining frames the caller did not want; they are lost.
    Stopped,
}

/// What is wrong with an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceProblem {
    /// It is down; packets resume when it is up.
    Down,
    /// It was removed.
    Removed,
}

/// Names of the interfaces of the calling thread's network namespace.
pub fn interfaces() -> Vec<String> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let name = |line: &str| Some(line.rsplit_once(':')?.0.trim().to_string());
    text.lines().skip(2).filter_map(name).collect()
}

impl PacketRing {
    /// Opens the socket and the ring for an interface of the calling thread's network namespace, or for
    /// [`ANY`]. No packet comes before [`PacketRing::start`].
    ///
    /// # Errors
    ///
    /// No such interface (the error lists those that exist), no right to capture, no memory for the
    /// ring.
    pub fn open(name: &str, settings: Settings) -> Result<Self> {
        let index = if name == ANY { 0 } else { index(name)? };
        let mut socket = packet_socket(libc::SOCK_RAW, name)?;
        // Bound without a protocol: nothing comes yet, but the kernel reports the type of the device.
        bind(&socket, 0, index).map_err(|errno| failed("open", name, errno))?;
        let device_type = if index == 0 { None } else { device_type(&socket) };
        let link = device_type.map_or(LinkType::LINUX_SLL2, link_type);
        if link == LinkType::LINUX_SLL2 {
            // The kernel removes the link header, whatever it is; the cooked one replaces it.
            socket = packet_socket(libc::SOCK_DGRAM, name)?;
        }
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        set(&socket, libc::PACKET_VERSION, &version)
            .map_err(|errno| failed("open", name, errno))?;
        let wanted = settings.buffer_bytes.clamp(MIN_BUFFER_BYTES, MAX_BUFFER_BYTES);
        let block_bytes =
            (wanted / 16).next_power_of_two().clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
        let blocks = (wanted / block_bytes).max(2);
        // All of these are well below 32 bits.
        let request = libc::tpacket_req3 {
            tp_block_size: block_bytes as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (block_bytes / FRAME_BYTES * blocks) as u32,
            tp_retire_blk_tov: BLOCK_TIMEOUT.as_millis() as u32,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        let no_memory = |errno| {
            let mut error = failed("make the ring of packets for", name, errno);
            if errno == Errno::NOMEM {
                error.reason.push_str("; a smaller --buffer may fit");
            }
            error
        };
        set(&socket, libc::PACKET_RX_RING, &request).map_err(no_memory)?;
        let map = Map::new(&socket, block_bytes * blocks).map_err(no_memory)?;
        if device_type == Some(libc::ARPHRD_LOOPBACK) {
            // The loopback gives each packet twice, as sent and as received; the latter is kept.
            // Kernels before 4.20 cannot drop the former: `frame` does.
            let _ = set(&socket, libc::PACKET_IGNORE_OUTGOING, &1i32);
        }
        if settings.promiscuous && index != 0 {
            let member = libc::packet_mreq {
                mr_ifindex: index as c_int,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            set(&socket, libc::PACKET_ADD_MEMBERSHIP, &member)
                .map_err(|errno| failed("make promiscuous", name, errno))?;
        }
        Ok(PacketRing {
            socket,
            map,
            name: name.to_string(),
            index,
            link,
            settings,
            block_bytes,
            blocks,
            next: 0,
            counts: Counts::default(),
            scratch: Vec::new(),
        })
    }

    /// The name of its interface, or [`ANY`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Link type of its frames.
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Bytes of the ring.
    pub fn buffer_bytes(&self) -> usize {
        self.map.bytes
    }

    /// Starts capturing: packets that pass the program, or all.
    ///
    /// # Errors
    ///
    /// The kernel does not accept the program, or the interface was removed.
    pub fn start(&mut self, program: Option<&[Instruction]>) -> Result<()> {
        let all = [return_constant(self.settings.snap_length)];
        let program = program.unwrap_or(&all);
        let without_sent: Vec<Instruction> =
            NOT_SENT_ON_LOOPBACK.iter().chain(program).copied().collect();
        let fits = self.index == 0 && without_sent.len() <= MAX_PROGRAM_INSTRUCTIONS;
        attach(&self.socket, if fits { &without_sent } else { program })
            .map_err(|errno| failed("filter the packets of", &self.name, errno))?;
        bind(&self.socket, libc::ETH_P_ALL as u16, self.index)
            .map_err(|errno| failed("capture on", &self.name, errno))
    }

    /// Stops capturing. Packets in the ring can still be read; the last of them are there after
    /// [`BLOCK_TIMEOUT`].
    ///
    /// # Errors
    ///
    /// The kernel does not accept a program that drops all packets.
    pub fn stop(&mut self) -> Result<()> {
        attach(&self.socket, &[return_constant(0)])
            .map_err(|errno| failed("stop capturing on", &self.name, errno))
    }

    /// Calls for each frame of the next block, if there is one.
    pub fn read_block(&mut self, mut each: impl FnMut(Frame<'_>) -> ControlFlow<()>) -> BlockRead {
        let block = self.map.block(self.next, self.block_bytes);
        let Some(bytes) = block.bytes() else { return BlockRead::Empty };
        let snap = self.settings.snap_length as usize;
        let done = frame::for_each_frame(bytes, self.link, snap, &mut self.scratch, &mut each);
        block.return_to_kernel();
        self.next = (self.next + 1) % self.blocks;
        if done.is_break() { BlockRead::Stopped } else { BlockRead::Whole }
    }

    /// What the kernel has counted so far.
    ///
    /// # Errors
    ///
    /// The kernel returns no counts.
    pub fn counts(&mut self) -> Result<Counts> {
        let mut new = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        // Reading resets the kernel's counts to zero.
        get(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut new)
            .map_err(|errno| failed("count the packets of", &self.name, errno))?;
        self.counts.received += u64::from(new.tp_packets);
        self.counts.dropped += u64::from(new.tp_drops);
        Ok(self.counts)
    }

    /// What has happened to the interface since the last call.
    pub fn interface_problem(&self) -> Option<InterfaceProblem> {
        let mut error: c_int = 0;
        let read = get(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut error);
        if read.is_ok() && error == 0 {
            return None;
        }
        Some(if self.is_removed() { InterfaceProblem::Removed } else { InterfaceProblem::Down })
    }

    /// Whether the interface no longer exists. The kernel reports an error when it goes down and none
    /// when it is removed after that.
    pub fn is_removed(&self) -> bool {
        self.index != 0 && index_to_name(&self.socket, self.index).is_err()
    }
}

impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Waits until one of the rings has packets, a signal comes, or the time is over.
///
/// # Errors
///
/// The kernel cannot wait for that many.
pub fn wait<'a>(rings: impl Iterator<Item = &'a PacketRing>, time: Duration) -> Result<()> {
    let wanted = PollFlags::IN | PollFlags::ERR;
    let mut all: Vec<_> = rings.map(|ring| PollFd::new(ring, wanted)).collect();
    let time = Timespec::try_from(time).ok();
    match rustix::event::poll(&mut all, time.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(Error::from_errno("wait for", "packets", errno)),
    }
}

fn index(name: &str) -> Result<u32> {
    let missing = |reason: &str| {
        let names = interfaces().join(", ");
        let reason = format!("{reason}; there are: {names}, and {ANY} for all");
        Error::new("capture on", name, reason, ErrorKind::NotFound)
    };
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
        return Err(missing("no interface may have such a name"));
    }
    // Any socket will do; this one needs no rights.
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::DGRAM, None)
            .map_err(|errno| failed("open", name, errno))?;
    name_to_index(&socket, name).map_err(|errno| match errno {
        Errno::NODEV | Errno::NXIO => missing("there is no such interface"),
        _ => failed("open", name, errno),
    })
}

fn failed(action: &'static str, name: &str, errno: Errno) -> Error {
    Error::from_errno(action, name, errno)
}

const fn return_constant(value: u32) -> Instruction {
    Instruction { code: RETURN, if_true: 0, if_false: 0, operand: value }
}

/// Link type of the frames of a type of device (`ARPHRD_*`); cooked for all that are unknown.
fn link_type(device_type: u16) -> LinkType {
    /// Not in libc: `ARPHRD_RAWIP` of linux/if_arp.h.
    const RAW_IP: u16 = 519;
    match device_type {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkType::ETHERNET,
        libc::ARPHRD_NONE | RAW_IP | libc::ARPHRD_TUNNEL | libc::ARPHRD_SIT => LinkType::RAW,
        libc::ARPHRD_IEEE80211 => LinkType::IEEE802_11,
        libc::ARPHRD_IEEE80211_RADIOTAP => LinkType::IEEE802_11_RADIOTAP,
        _ => LinkType::LINUX_SLL2,
    }
}
