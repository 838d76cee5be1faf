//! The figures by which sockets are sorted.

use wire::sock_diag::Record;

use super::options::Figure;

impl Figure {
    /// The figure of one socket; 0 if the kernel does not report it.
    pub(super) fn of(self, record: &Record<'_>) -> u64 {
        let figure = match self {
            Figure::RecvQueue => Some(u64::from(record.receive_queue())),
            Figure::SendQueue => Some(u64::from(record.send_queue())),
            Figure::Rtt => record.rtt_us().map(u64::from),
            Figure::Retrans => record.total_retrans().map(u64::from),
            Figure::Cwnd => record.snd_cwnd().map(u64::from),
            Figure::Sent => record.bytes_acked(),
            Figure::Received => record.bytes_received(),
            Figure::Rate => record.delivery_rate(),
            Figure::RwndLimited => record.rwnd_limited_us(),
            Figure::SndbufLimited => record.sndbuf_limited_us(),
            Figure::Idle => {
                let sent = record.last_data_sent_ms();
                sent.zip(record.last_data_recv_ms()).map(|(s, r)| u64::from(s.min(r)))
            }
            Figure::Drops => record.memory().map(|memory| u64::from(memory.drops)),
            Figure::Memory => record
                .memory()
                .map(|m| u64::from(m.receive_bytes) + u64::from(m.send_bytes.max(m.queued_bytes))),
        };
        figure.unwrap_or(0)
    }
}
