//! The memory of a ring: blocks that belong alternately to the kernel and to this process.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;

use super::frame;
use super::socket::last_error;

/// The memory that is shared with the kernel.
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
    pub(super) fn new(socket: &OwnedFd, bytes: usize) -> rustix::io::Result<Self> {
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

    /// Block `number` of blocks of this size; within the mapping, whatever the numbers are.
    pub(super) fn block(&mut self, number: usize, bytes: usize) -> Block<'_> {
        let at = number.saturating_mul(bytes).min(self.bytes - bytes.min(self.bytes));
        Block { map: self, at, bytes: bytes.min(self.bytes) }
    }
}

impl Drop for Map {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and whole, and no slice of it outlives this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

impl Block<'_> {
    /// Who owns the block.
    #[allow(unsafe_code)]
    fn owner(&self) -> &AtomicU32 {
        // SAFETY: the word is within the mapping (a block has 128 KiB and more) and aligned: blocks
        // are multiples of a page. Only the kernel changes it meanwhile, hence an atomic.
        unsafe {
            AtomicU32::from_ptr(self.map.start.as_ptr().add(self.at + frame::STATUS_OFFSET).cast())
        }
    }

    /// Its bytes, once the kernel has passed it to this process.
    #[allow(unsafe_code)]
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        if self.owner().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: it is within the mapping. The kernel does not touch a block until it is returned,
        // which consumes `self`, so that no slice of it is left then.
        Some(unsafe {
            std::slice::from_raw_parts(self.map.start.as_ptr().add(self.at), self.bytes)
        })
    }

    /// Returns it to the kernel.
    pub(super) fn return_to_kernel(self) {
        self.owner().store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}
