//! Lines that the kernel logs in the window: `/dev/kmsg`.
//!
//! The log is one for the whole machine, also where a network namespace is watched; the kernel
//! limits the rate of most lines, so their number proves nothing.

use model::{Evidence, KernelLine, KernelLog, Source};
use wire::kmsg;

use crate::{Context, Observe};

/// Most lines kept.
const KEPT: usize = 200;
/// Longest text kept, bytes.
const TEXT: usize = 300;
/// Most records read at one look: a log that floods must not hold the window up.
const RECORDS: usize = 10_000;

/// Words of lines about the network, memory or files, in lower case.
const WORDS: &[&str] = &[
    "conntrack",
    "tcp:",
    "tcp_",
    "udp:",
    "syn flood",
    "out of memory",
    "oom-kill",
    "page allocation failure",
    "neighbour",
    "neighbor",
    "arp_cache",
    "ndisc_cache",
    "file-max",
    "netdev",
    "link is",
    "link becomes",
    "transmit queue",
    "martian",
    "too many orphaned",
    "netfilter",
    "nf_",
    "net_ratelimit",
    "socket",
    "promiscuous",
    "checksum",
];

/// Makes the observer.
pub fn observer() -> Box<dyn Observe> {
    Box::<Log>::default()
}

#[derive(Default)]
struct Log {
    reader: Option<Box<dyn sys::KernelLog>>,
    log: KernelLog,
}

impl Observe for Log {
    fn begin(&mut self, context: &mut Context<'_>) {
        match context.machine.kernel_log() {
            Ok(reader) => self.reader = Some(reader),
            Err(error) => context.missing(Source::KernelLog, "the kernel's log", &error),
        }
    }

    fn look(&mut self, context: &mut Context<'_>) {
        self.drain(context);
    }

    fn end(&mut self, context: &mut Context<'_>, evidence: &mut Evidence) {
        self.drain(context);
        if self.reader.is_some() {
            evidence.kernel_log = Some(std::mem::take(&mut self.log));
        }
    }
}

impl Log {
    fn drain(&mut self, context: &mut Context<'_>) {
        let Some(reader) = &mut self.reader else {
            return;
        };
        for _ in 0..RECORDS {
            match reader.next() {
                Ok(Some(bytes)) => take(&mut self.log, &bytes, context.at_ms),
                Ok(None) => return,
                Err(error) => {
                    self.reader = None;
                    return context.missing(Source::KernelLog, "the kernel's log", &error);
                }
            }
        }
    }
}

fn take(log: &mut KernelLog, bytes: &[u8], at_ms: u64) {
    let Ok(record) = kmsg::record(bytes) else {
        return;
    };
    log.lines += 1;
    let lower = record.text.to_lowercase();
    if log.network.len() < KEPT && WORDS.iter().any(|word| lower.contains(word)) {
        let mut text = record.text;
        text.truncate(text.floor_char_boundary(TEXT));
        log.network.push(KernelLine { at_ms, priority: record.priority, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_the_network_are_kept_and_the_others_counted() {
        let mut log = KernelLog::default();
        take(&mut log, b"4,1,2,-;nf_conntrack: nf_conntrack: table full, dropping packet", 700);
        take(&mut log, b"6,2,3,-;usb 1-1: new device", 800);
        take(&mut log, b"not a record", 900);
        assert_eq!(log.lines, 2);
        assert_eq!(log.network.len(), 1);
        assert_eq!((log.network[0].at_ms, log.network[0].priority), (700, 4));
        let long = format!("4,1,2,-;TCP: {}", "ä".repeat(400));
        take(&mut log, long.as_bytes(), 900);
        assert!(log.network[1].text.len() <= TEXT);
        for _ in 0..500 {
            take(&mut log, b"4,1,2,-;TCP: out of memory", 1);
        }
        assert_eq!((log.network.len(), log.lines), (KEPT, 503));
    }
}
