//! A TAP device: a network interface whose other end is this process, frame by frame.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, opcode};

use crate::error::{Error, ErrorKind, Result};

/// The device from which all TAP devices come.
const CLONE_DEVICE: &str = "/dev/net/tun";
/// `TUNSETIFF` of linux/if_tun.h.
const TUNSETIFF: Opcode = opcode::write::<i32>(b'T', 202);
/// Ethernet frames (`IFF_TAP`), without a header of four bytes before each (`IFF_NO_PI`).
const FLAGS: u16 = 0x0002 | 0x1000;
/// Room for a name of an interface and its final zero (`IFNAMSIZ`).
const NAME_BYTES: usize = 16;

/// Longest frame: the largest MTU of a TAP device (65,521), an Ethernet header, a VLAN tag.
pub const MAX_FRAME_BYTES: usize = 65_521 + 14 + 4;

/// `struct ifreq` of linux/if.h: a name, then a union of which only the flags are used here.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    flags: u16,
    rest: [u8; 22],
}

/// A TAP device, which is removed when this is dropped.
///
/// Offloads are off: the kernel fills in every checksum and segments before a frame is read, and
/// verifies the checksums of frames that are written. While the device is open it keeps its network
/// namespace alive, also without a name.
#[derive(Debug)]
pub struct Tap {
    file: OwnedFd,
    name: String,
}

impl Tap {
    /// Makes a TAP device in the network namespace of the calling thread. It is down and has no
    /// address; reading and writing never block.
    ///
    /// # Errors
    ///
    /// No `/dev/net/tun`, no right to make devices, a name that is in use or is none that an interface
    /// may have.
    pub fn open(name: &str) -> Result<Tap> {
        let action = "make the TAP device";
        if name.is_empty() || name.len() >= NAME_BYTES || name.contains(['\0', '%']) {
            let reason = format!("a name has 1 to {} bytes, none of them %", NAME_BYTES - 1);
            return Err(Error::new(action, name, reason, ErrorKind::Other));
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(CLONE_DEVICE, flags, Mode::empty()).map_err(|errno| {
            let mut error = Error::from_errno("open", CLONE_DEVICE, errno);
            error.reason.push_str(match errno {
                Errno::NOENT | Errno::NODEV | Errno::NXIO => {
                    "; load its module (modprobe tun), or in a container give it the device \
                     (--device /dev/net/tun)"
                }
                _ => "; run as root",
            });
            error
        })?;
        let mut request = Request { name: [0; NAME_BYTES], flags: FLAGS, rest: [0; 22] };
        // Shorter than the room for it: the rest stays zero.
        request.name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte);
        attach(&file, &mut request).map_err(|errno| {
            let mut error = Error::from_errno(action, name, errno);
            match errno {
                Errno::PERM | Errno::ACCESS => {
                    error.reason.push_str("; making it needs CAP_NET_ADMIN: run as root");
                }
                Errno::BUSY | Errno::EXIST => {
                    error.reason.push_str("; an interface of that name exists");
                }
                _ => {}
            }
            error
        })?;
        Ok(Tap { file, name: name.to_string() })
    }

    /// The name of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Receives the next frame that the kernel sent out of this interface: its length, or `None` when
    /// there is none now. A frame longer than the buffer is cut: [`MAX_FRAME_BYTES`] is enough.
    ///
    /// # Errors
    ///
    /// The device is gone.
    pub fn recv(&self, into: &mut [u8]) -> Result<Option<usize>> {
        loop {
            return match rustix::io::read(&self.file, &mut *into) {
                Ok(length) => Ok(Some(length.min(into.len()))),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Ok(None),
                Err(errno) => Err(Error::from_errno("read from the TAP device", &self.name, errno)),
            };
        }
    }

    /// Passes a frame to the kernel, as if it had arrived at this interface. `false` when the kernel
    /// did not accept it: the interface is down, the frame is shorter than its header, there is no
    /// memory.
    ///
    /// # Errors
    ///
    /// The device is gone.
    pub fn send(&self, frame: &[u8]) -> Result<bool> {
        loop {
            return match rustix::io::write(&self.file, frame) {
                Ok(_) => Ok(true),
                Err(Errno::INTR) => continue,
                Err(Errno::BADFD | Errno::BADF | Errno::NODEV) => {
                    let errno = Errno::NODEV;
                    Err(Error::from_errno("write to the TAP device", &self.name, errno))
                }
                Err(_) => Ok(false),
            };
        }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes the device and attaches the open file to it.
#[allow(unsafe_code)]
fn attach(file: &OwnedFd, request: &mut Request) -> rustix::io::Result<()> {
    // SAFETY: TUNSETIFF reads and writes a `struct ifreq`, 40 bytes on 64-bit machines and 32 on
    // others, and `Request` is laid out as one, 40 bytes long. The request outlives the call.
    unsafe {
        rustix::ioctl::ioctl(file, rustix::ioctl::Updater::<TUNSETIFF, Request>::new(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_the_kernels_layout() {
        assert_eq!(size_of::<Request>(), 40);
        assert_eq!(std::mem::offset_of!(Request, flags), 16);
    }

    #[test]
    fn names_that_no_interface_may_have_are_refused() {
        for name in ["", "sixteen-bytes-xx", "a%d", "a\0b"] {
            assert!(Tap::open(name).unwrap_err().reason.contains("a name has"), "{name}");
        }
    }
}
