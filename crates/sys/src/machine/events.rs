//! The door to events: records that come while the machine runs, such as lines of the kernel log.

use crate::error::Result;

/// Sources of events of a machine.
pub trait Events: Send + Sync {
    /// Opens a source; its stream begins with the events that come from now on.
    fn open(&self, source: EventSource) -> Result<Box<dyn EventStream>>;
}

/// Events of one source, in the order in which they came.
pub trait EventStream: Send {
    /// The next event as the source gives it; `None` when there is none now.
    fn next(&mut self) -> Result<Option<Vec<u8>>>;
}

/// Where events come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventSource {
    /// The kernel log (`/dev/kmsg`), one record an event.
    KernelLog,
}

impl EventSource {
    /// Its name in a recording.
    pub(crate) fn name(self) -> &'static str {
        match self {
            EventSource::KernelLog => "kernel-log",
        }
    }
}
