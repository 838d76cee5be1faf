//! Lines that the kernel logs in the window: `/dev/kmsg`.
//!
//! There is one log for the whole machine, also where a network namespace is observed. The kernel limits
//! the rate of most lines, so that their number proves nothing.

use model::{Evidence, KernelLine, KernelLog, Series, Source};
use sys::{EventSource, EventStream};
use wire::kmsg;

use crate::context::Context;
use crate::observer::Observe;

const WHAT: &str = "the kernel's log";
/// Most lines kept.
const MAX_LINES: usize = 200;
/// Longest text kept, bytes.
const MAX_TEXT_BYTES: usize = 300;
/// Most records read at one sample: a flood of lines must not delay the window.
const MAX_RECORDS_PER_SAMPLE: usize = 10_000;

/// Words of lines about the network, memory or files, in lower case.
const NETWORK_WORDS: &[&str] = &[
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
    Box::<KernelLogObserver>::default()
}

#[derive(Default)]
struct KernelLogObserver {
    stream: Option<Box<dyn EventStream>>,
    failed: Option<sys::Error>,
    log: KernelLog,
}

impl Observe for KernelLogObserver {
    fn begin(&mut self, context: &mut Context<'_>) {
        match context.machine.events().open(EventSource::KernelLog) {
            Ok(stream) => self.stream = Some(stream),
            Err(error) => self.fail(context, error),
        }
    }

    fn sample(&mut self, context: &mut Context<'_>) {
        self.read(context);
    }

    fn series(&self, into: &mut Vec<Series>) {
        if self.stream.is_some() {
            into.push(Series::count("kernel_log_lines", self.log.lines));
            into.push(Series::count("kernel_log_network_lines", self.log.network.len() as u64));
        }
    }

    fn evidence(&mut self, context: &mut Context<'_>, evidence: &mut Evidence) {
        self.read(context);
        match &self.failed {
            None => evidence.kernel_log = Some(self.log.clone()),
            Some(error) => context.missing(Source::KernelLog, WHAT, error),
        }
    }
}

impl KernelLogObserver {
    /// Reads the lines that have come since.
    fn read(&mut self, context: &mut Context<'_>) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        for _ in 0..MAX_RECORDS_PER_SAMPLE {
            match stream.next() {
                Ok(Some(bytes)) => add(&mut self.log, &bytes, context.at_ms),
                Ok(None) => return,
                Err(error) => return self.fail(context, error),
            }
        }
    }

    fn fail(&mut self, context: &mut Context<'_>, error: sys::Error) {
        context.missing(Source::KernelLog, WHAT, &error);
        self.stream = None;
        self.failed = Some(error);
    }
}

fn add(log: &mut KernelLog, bytes: &[u8], at_ms: u64) {
    let Ok(record) = kmsg::record(bytes) else {
        return;
    };
    log.lines += 1;
    let lower = record.text.to_lowercase();
    if log.network.len() < MAX_LINES && NETWORK_WORDS.iter().any(|word| lower.contains(word)) {
        let mut text = record.text;
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        log.network.push(KernelLine { at_ms, priority: record.priority, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_the_network_are_kept_and_others_counted() {
        let mut log = KernelLog::default();
        add(&mut log, b"4,1,2,-;nf_conntrack: nf_conntrack: table full, dropping packet", 700);
        add(&mut log, b"6,2,3,-;usb 1-1: new device", 800);
        add(&mut log, b"not a record", 900);
        assert_eq!(log.lines, 2);
        assert_eq!(log.network.len(), 1);
        assert_eq!((log.network[0].at_ms, log.network[0].priority), (700, 4));
        let long = format!("4,1,2,-;TCP: {}", "ä".repeat(400));
        add(&mut log, long.as_bytes(), 900);
        assert!(log.network[1].text.len() <= MAX_TEXT_BYTES);
        for _ in 0..500 {
            add(&mut log, b"4,1,2,-;TCP: out of memory", 1);
        }
        assert_eq!((log.network.len(), log.lines), (MAX_LINES, 503));
    }
}
