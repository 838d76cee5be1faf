//! This machine.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::{Error, ErrorKind, Result};
use crate::{KernelLog, Machine, Netlink, OwnCost, READ_LIMIT, Stat, socket_inode};

/// Longest wait for one datagram of an answer.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// Receive buffer of a netlink socket: room for many datagrams while the last one is read.
const SOCKET_BUFFER: usize = 4 << 20;
/// Room for one datagram: the kernel makes dumps in pieces of at most 32 KiB
/// (`netlink_recvmsg`), or of the size that the reader offered before.
const DATAGRAM: usize = 256 << 10;
/// Most bytes of one record of the kernel log (`PRINTK_MESSAGE_MAX` is 2048, with its keys).
const KERNEL_RECORD: usize = 16 << 10;

/// This machine.
#[derive(Default)]
pub struct RealMachine {
    sockets: Mutex<HashMap<Netlink, NetlinkSocket>>,
}

struct NetlinkSocket {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl RealMachine {
    /// This machine; nothing is opened yet.
    pub fn new() -> Self {
        RealMachine::default()
    }

    fn sockets(&self) -> MutexGuard<'_, HashMap<Netlink, NetlinkSocket>> {
        // A thread that panicked left nothing half done that the next request would not notice.
        self.sockets.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Machine for RealMachine {
    fn read(&self, path: &Path, into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        let told = |errno| Error::from_errno("read", path.display().to_string(), errno);
        let file =
            rustix::fs::open(&*of_thread(path), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map_err(told)?;
        into.reserve(8 << 10);
        loop {
            if into.capacity() == into.len() {
                into.reserve(into.len());
            }
            match rustix::io::read(&file, rustix::buffer::spare_capacity(into)) {
                Ok(0) => return Ok(()),
                Ok(_) if into.len() > READ_LIMIT => {
                    let what = format!("it is longer than {READ_LIMIT} bytes");
                    return Err(Error::new(
                        "read",
                        path.display().to_string(),
                        what,
                        ErrorKind::Other,
                    ));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(told(errno)),
            }
        }
    }

    fn read_at(&self, path: &Path, offset: u64, into: &mut [u8]) -> Result<usize> {
        let told = |errno| Error::from_errno("read", path.display().to_string(), errno);
        // A log may have been replaced by a pipe: never wait for one.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(told)?;
        loop {
            match rustix::io::pread(&file, &mut *into, offset) {
                Err(Errno::INTR) => {}
                result => return result.map_err(told),
            }
        }
    }

    fn list(&self, path: &Path, name: &mut dyn FnMut(&str)) -> Result<()> {
        let told = |errno| Error::from_errno("list", path.display().to_string(), errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&*of_thread(path), flags, Mode::empty()).map_err(told)?;
        for entry in Dir::new(folder).map_err(told)? {
            let entry = entry.map_err(told)?;
            // A name that is not UTF-8 is none that anybody here asks for.
            if let Ok(text) = entry.file_name().to_str()
                && text != "."
                && text != ".."
            {
                name(text);
            }
        }
        Ok(())
    }

    fn link(&self, path: &Path) -> Result<PathBuf> {
        let target = rustix::fs::readlink(path, Vec::new())
            .map_err(|errno| Error::from_errno("follow", path.display().to_string(), errno))?;
        Ok(PathBuf::from(target.to_string_lossy().into_owned()))
    }

    fn sockets_of(&self, pid: u32, inode: &mut dyn FnMut(u32) -> ControlFlow<()>) -> Result<()> {
        let path = format!("/proc/{pid}/fd");
        let told = |errno| Error::from_errno("list", path.clone(), errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&path, flags, Mode::empty()).map_err(told)?;
        let mut target = [std::mem::MaybeUninit::uninit(); 64];
        for entry in Dir::read_from(&folder).map_err(told)? {
            let entry = entry.map_err(told)?;
            // Relative to the open folder: a third of the time that whole paths take. A file that
            // was closed since is not an error.
            let read = rustix::fs::readlinkat_raw(&folder, entry.file_name(), &mut target);
            if let Ok((link, _)) = read
                && let Some(number) = socket_inode(link)
                && inode(number).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        let stat = rustix::fs::statat(CWD, path, AtFlags::empty())
            .map_err(|errno| Error::from_errno("examine", path.display().to_string(), errno))?;
        Ok(Stat {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            inode: stat.st_ino,
            device: stat.st_dev,
            regular: rustix::fs::FileType::from_raw_mode(stat.st_mode)
                == rustix::fs::FileType::RegularFile,
        })
    }

    fn netlink(
        &self,
        protocol: Netlink,
        request: &[u8],
        datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        // Taken out while it is in use: a request that fails half-way leaves answers behind in
        // its socket, which is then not used again.
        let taken = self.sockets().remove(&protocol);
        let mut socket = match taken {
            Some(socket) => socket,
            None => NetlinkSocket::open(protocol)?,
        };
        if socket.ask(protocol, request, datagram)? {
            self.sockets().insert(protocol, socket);
        }
        Ok(())
    }

    fn kernel_log(&self) -> Result<Box<dyn KernelLog>> {
        let path = "/dev/kmsg";
        let told = |errno| Error::from_errno("read", path, errno);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(told)?;
        rustix::fs::seek(&file, SeekFrom::End(0)).map_err(told)?;
        Ok(Box::new(Kmsg { file, buffer: vec![0; KERNEL_RECORD] }))
    }

    fn now(&self) -> Duration {
        clock(rustix::time::ClockId::Monotonic)
    }

    fn unix_time(&self) -> Duration {
        clock(rustix::time::ClockId::Realtime)
    }

    fn sleep_until(&self, until: Duration) {
        let left = until.saturating_sub(self.now());
        if left.is_zero() {
            return;
        }
        let request = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        // Interrupted by a signal: the caller asks for the time again.
        let _ = rustix::thread::nanosleep(&request);
    }

    fn own_cost(&self) -> OwnCost {
        let cpu = clock(rustix::time::ClockId::ProcessCPUTime);
        let mut status = Vec::new();
        let resident = match self.read(Path::new("/proc/self/status"), &mut status) {
            Ok(()) => String::from_utf8_lossy(&status)
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"))
                .and_then(|kib| kib.trim().parse::<u64>().ok())
                .unwrap_or(0),
            Err(_) => 0,
        };
        OwnCost { cpu, max_resident_bytes: resident.saturating_mul(1024) }
    }

    fn user(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn page_bytes(&self) -> u64 {
        rustix::param::page_size() as u64
    }

    fn clock_ticks(&self) -> u64 {
        rustix::param::clock_ticks_per_second()
    }
}

/// `/proc/net` is the network namespace of the process's first thread; the calling thread's own
/// is meant.
fn of_thread(path: &Path) -> std::borrow::Cow<'_, Path> {
    match path.strip_prefix("/proc/net") {
        Ok(rest) => Path::new("/proc/thread-self/net").join(rest).into(),
        Err(_) => path.into(),
    }
}

fn clock(id: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(id);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

impl Netlink {
    fn name(self) -> &'static str {
        match self {
            Netlink::SockDiag => "sockets (NETLINK_SOCK_DIAG)",
            Netlink::Netfilter => "connection tracking (NETLINK_NETFILTER)",
        }
    }
}

impl NetlinkSocket {
    fn open(protocol: Netlink) -> Result<Self> {
        let told = |errno| Error::from_errno("ask netlink for", protocol.name(), errno);
        let number = match protocol {
            Netlink::SockDiag => netlink::SOCK_DIAG,
            Netlink::Netfilter => netlink::NETFILTER,
        };
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(number),
        )
        .map_err(told)?;
        // Without CAP_NET_ADMIN the smaller of this and rmem_max must do.
        if sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER);
        }
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0)).map_err(told)?;
        Ok(NetlinkSocket { socket, sequence: 0, buffer: vec![0; DATAGRAM] })
    }

    /// Sends a request and hands over the answers; whether the socket is clean after it.
    fn ask(
        &mut self,
        protocol: Netlink,
        request: &[u8],
        datagram: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<bool> {
        let told = |errno| Error::from_errno("ask netlink for", protocol.name(), errno);
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = request.to_vec();
        // nlmsghdr: length u32, type u16, flags u16, sequence u32, port u32.
        if let Some(sequence) = request.get_mut(8..12) {
            sequence.copy_from_slice(&self.sequence.to_ne_bytes());
        }
        rustix::net::send(&self.socket, &request, SendFlags::empty()).map_err(told)?;
        loop {
            let mut ready = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
            match poll(&mut ready, Some(&PATIENCE)) {
                Ok(0) => {
                    let what = "no answer within 5 seconds";
                    let name = protocol.name();
                    return Err(Error::new("ask netlink for", name, what, ErrorKind::TimedOut));
                }
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(told(errno)),
            }
            let (length, whole) =
                match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::TRUNC) {
                    Ok(lengths) => lengths,
                    Err(Errno::INTR) => continue,
                    Err(errno) => return Err(told(errno)),
                };
            if whole > length {
                // Cannot happen with dumps, whose size follows the buffer that is offered.
                let what = format!("a message of {whole} bytes did not fit {length}");
                return Err(Error::new("ask netlink for", protocol.name(), what, ErrorKind::Other));
            }
            let bytes = &self.buffer[..length];
            if bytes.get(8..12).is_some_and(|s| s != self.sequence.to_ne_bytes()) {
                continue; // the rest of an answer that nobody waited for
            }
            if datagram(bytes).is_break() {
                return Ok(is_end(bytes));
            }
        }
    }
}

/// Whether a datagram ends an answer: its last message is NLMSG_DONE or NLMSG_ERROR. Only then is
/// the socket empty.
fn is_end(datagram: &[u8]) -> bool {
    wire::netlink::messages(datagram).flatten().any(|message| message.is_end())
}

struct Kmsg {
    file: OwnedFd,
    buffer: Vec<u8>,
}

impl KernelLog for Kmsg {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            match rustix::io::read(&self.file, &mut self.buffer[..]) {
                Ok(length) => return Ok(self.buffer.get(..length).map(<[u8]>::to_vec)),
                Err(Errno::AGAIN) => return Ok(None),
                // EPIPE: records were overwritten before they were read; the next one is newer.
                Err(Errno::INTR | Errno::PIPE) => {}
                Err(errno) => return Err(Error::from_errno("read", "/dev/kmsg", errno)),
            }
        }
    }
}
