//! The memory of a ring: blocks that belong to the kernel or to this process, by turns.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;

use super::frame;
use super::socket::last_error;

/// The memory that the kernel shares.
#[derive(Debug)]
pub(super) struct Map {
    start: NonNull<u8>,
    pub(super) bytes: usize,
}

/// One block of it.
pub(super) struct Block<'a> {
    map: &'a Map,
    at: usize,
    bytes: usize,
}

impl Map {
    #[allow(unsafe_code)]
    pub(super) fn map(socket: &OwnedFd, bytes: usize) -> rustix::io::Result<Self> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory of others.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, access, flags, socket.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(last_error());
        }
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Map { start, bytes })
    }

    /// The block of this number, of blocks of this size; within the mapping, whatever is asked.
    pub(super) fn block(&mut self, number: usize, bytes: usize) -> Block<'_> {
        let at = number.saturating_mul(bytes).min(self.bytes - bytes.min(self.bytes));
        Block { map: self, at, bytes: bytes.min(self.bytes) }
    }
}

impl Drop for Map {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and no slice of it outlives this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

impl Block<'_> {
    /// To whom the block belongs.
    #[allow(unsafe_code)]
    fn owner(&self) -> &AtomicU32 {
        // SAFETY: the word is within the mapping (a block has 128 KiB and more) and aligned: blocks
        // are multiples of a page. The kernel changes it, hence an atomic; so does nobody else.
        unsafe { AtomicU32::from_ptr(self.map.start.as_ptr().add(self.at + frame::STATUS).cast()) }
    }

    /// What is in it, once the kernel has handed it over.
    #[allow(unsafe_code)]
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        if self.owner().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: it is within the mapping. The kernel leaves a block alone until it gets it back,
        // which consumes `self`, so that no slice is left then.
        Some(unsafe {
            std::slice::from_raw_parts(self.map.start.as_ptr().add(self.at), self.bytes)
        })
    }

    /// Gives it to the kernel again.
    pub(super) fn give_back(self) {
        self.owner().store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}
