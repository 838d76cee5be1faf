//! Sums of the sockets that have something in common.

use std::collections::HashMap;
use std::io::Write;

use text::figures::round_trip;
use text::{Column, Table};
use wire::sock_diag::Record;

use super::options::{Figure, GroupBy, SocketsOptions};
use super::owners::Owners;

/// Sums of sockets by group.
pub(super) struct Groups {
    by: GroupBy,
    groups: HashMap<String, Sum>,
}

#[derive(Default)]
struct Sum {
    sockets: u64,
    receive_queue: u64,
    send_queue: u64,
    received: u64,
    acked: u64,
    segments: u64,
    retransmitted: u64,
    rtt_us: u64,
    rtts: u64,
}

impl Groups {
    pub(super) fn new(by: GroupBy) -> Self {
        Groups { by, groups: HashMap::new() }
    }

    /// Adds one socket.
    pub(super) fn add(&mut self, record: &Record<'_>, owners: &Owners) {
        let key = match self.by {
            GroupBy::Process => owners.get(&record.inode()).cloned().unwrap_or_else(|| {
                if record.inode() == 0 { "(no process)" } else { "(unknown)" }.to_string()
            }),
            GroupBy::State => record.state().name().to_string(),
            GroupBy::LocalPort => record.local().port().to_string(),
            GroupBy::Peer => record.remote().ip().to_canonical().to_string(),
            GroupBy::RemotePort => record.remote().port().to_string(),
            GroupBy::Congestion => record.congestion().unwrap_or("(none)").to_string(),
        };
        let sum = self.groups.entry(key).or_default();
        sum.sockets += 1;
        sum.receive_queue += u64::from(record.receive_queue());
        sum.send_queue += u64::from(record.send_queue());
        sum.received += record.bytes_received().unwrap_or(0);
        sum.acked += record.bytes_acked().unwrap_or(0);
        sum.segments += u64::from(record.segs_out().unwrap_or(0));
        sum.retransmitted += u64::from(record.total_retrans().unwrap_or(0));
        if let Some(rtt) = record.rtt_us().filter(|rtt| *rtt > 0) {
            sum.rtt_us += u64::from(rtt);
            sum.rtts += 1;
        }
    }

    /// Prints the groups, largest first.
    pub(super) fn write(self, options: &SocketsOptions, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        let order = |sum: &Sum| match options.sort {
            Some(Figure::RecvQueue) => sum.receive_queue,
            Some(Figure::SendQueue) => sum.send_queue,
            Some(Figure::Rtt) => sum.rtt_us.checked_div(sum.rtts).unwrap_or(0),
            Some(Figure::Retrans) => sum.retransmitted,
            Some(Figure::Sent) => sum.acked,
            Some(Figure::Received) => sum.received,
            _ => sum.sockets,
        };
        groups.sort_by(|a, b| order(&b.1).cmp(&order(&a.1)).then(a.0.cmp(&b.0)));
        groups.truncate(options.top.unwrap_or(usize::MAX));
        if options.json {
            for (key, sum) in &groups {
                let json = serde_json::json!({
                    "key": key, "sockets": sum.sockets,
                    "receive_queue_bytes": sum.receive_queue,
                    "send_queue_bytes": sum.send_queue,
                    "bytes_received": sum.received, "bytes_acked": sum.acked,
                    "segments_out": sum.segments, "retransmitted": sum.retransmitted,
                    "rtt_mean_us": sum.rtt_us.checked_div(sum.rtts),
                });
                writeln!(out, "{json}")?;
            }
            return Ok(out.flush()?);
        }
        let mut table = Table::new([
            Column::right("SOCKETS"),
            Column::right("RECV-Q"),
            Column::right("SEND-Q"),
            Column::right("RECEIVED"),
            Column::right("ACKED"),
            Column::right("RETRANS"),
            Column::right("MEAN RTT"),
            Column::left("GROUP"),
        ]);
        for (key, sum) in &groups {
            let retransmitted = text::share(sum.retransmitted as f64, sum.segments as f64);
            let rtt_us = sum.rtt_us.checked_div(sum.rtts);
            table.row([
                &text::number(sum.sockets),
                &text::bytes(sum.receive_queue),
                &text::bytes(sum.send_queue),
                &text::bytes(sum.received),
                &text::bytes(sum.acked),
                &text::percent(retransmitted),
                &rtt_us.map_or_else(|| "-".to_string(), |us| round_trip(us as f64 / 1e3)),
                key,
            ]);
        }
        out.write_all(table.text("", crate::output::table_width()).as_bytes())?;
        Ok(out.flush()?)
    }
}
