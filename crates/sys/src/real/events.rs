//! Events of this machine: the kernel log.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::machine::{EventSource, EventStream, Events};

const KERNEL_LOG: &str = "/dev/kmsg";
/// Room for one record of the kernel log (`PRINTK_MESSAGE_MAX` is 2048, and its keys come on top).
const KERNEL_RECORD_BYTES: usize = 16 << 10;

pub(super) struct RealEvents;

impl Events for RealEvents {
    fn open(&self, source: EventSource) -> Result<Box<dyn EventStream>> {
        match source {
            EventSource::KernelLog => Ok(Box::new(KernelLog::open_at_end()?)),
        }
    }
}

struct KernelLog {
    file: OwnedFd,
    buffer: Vec<u8>,
}

fn failed(errno: Errno) -> Error {
    Error::from_errno("read", KERNEL_LOG, errno)
}

impl KernelLog {
    fn open_at_end() -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(KERNEL_LOG, flags, Mode::empty()).map_err(failed)?;
        rustix::fs::seek(&file, SeekFrom::End(0)).map_err(failed)?;
        Ok(KernelLog { file, buffer: vec![0; KERNEL_RECORD_BYTES] })
    }
}

impl EventStream for KernelLog {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            match rustix::io::read(&self.file, &mut *self.buffer) {
                Ok(length) => return Ok(self.buffer.get(..length).map(<[u8]>::to_vec)),
                Err(Errno::AGAIN) => return Ok(None),
                // EPIPE: records were overwritten before they were read; the next one is newer.
                Err(Errno::INTR | Errno::PIPE) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
}
