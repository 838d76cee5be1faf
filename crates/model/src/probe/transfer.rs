//! Bulk and request-response transfers: how long each took compared with theory, and the sender's TCP
//! statistics.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::Socket;

/// Transfers between two hosts, compared with theory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transfer {
    /// The peer as it was given: `198.18.0.2:7717`, `http://198.18.0.2/file`.
    pub peer: String,
    /// Its address; `None`: not resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// Direction of the data.
    pub direction: TransferDirection,
    /// Program at the other end.
    pub peer_kind: TransferPeer,
    /// Bytes of each transfer; `None`: as many as possible in the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Time between the starts of two transfers, milliseconds; `None`: back to back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// Whether each transfer opens a new connection.
    pub reconnect: bool,
    /// Concurrent connections.
    pub streams: u32,
    /// Bytes of each write of the sender; `None`: the sender is another program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<u64>,
    /// Time that the sender's source needs for each buffer, as a slow disk does, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_delay_us: Option<u64>,
    /// Bandwidth of the path that theory assumes, bits of payload a second, for all connections
    /// together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bps: Option<f64>,
    /// Source of that bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_source: Option<BandwidthSource>,
    /// Shortest round-trip time of the path, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<u64>,
    /// Transfers that were started.
    pub started: u64,
    /// Transfers that completed.
    pub completed: u64,
    /// Bytes that arrived, those of incomplete transfers included.
    pub bytes: u64,
    /// From the start of the first to the end of the last, microseconds.
    pub duration_us: u64,
    /// The transfers, oldest first; the first [`Transfer::MAX_TRANSFERS_KEPT`].
    pub transfers: Vec<OneTransfer>,
    /// Errors by message, in the order of their first occurrence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<TransferError>,
    /// The sender's statistics of each stream; empty when the sender is another program or did not
    /// report them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<TransferSender>,
    /// Whether the user ended it early.
    #[serde(default)]
    pub interrupted: bool,
}

impl Transfer {
    /// Most transfers that are kept one by one.
    pub const MAX_TRANSFERS_KEPT: usize = 10_000;

    /// The time breakdown of all senders together, largest share first.
    pub fn time_breakdown(&self) -> Vec<SenderTimeShare> {
        let mut all: Vec<SenderTimeShare> = Vec::new();
        for share in self.senders.iter().flat_map(|sender| &sender.time_breakdown) {
            match all.iter_mut().find(|known| known.category == share.category) {
                Some(known) => known.time_us = known.time_us.saturating_add(share.time_us),
                None => all.push(*share),
            }
        }
        all.sort_by_key(|share| std::cmp::Reverse(share.time_us));
        all
    }
}

/// Direction of a transfer's data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TransferDirection {
    /// The peer sends.
    #[default]
    Down,
    /// This host sends.
    Up,
}

/// Program at the other end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TransferPeer {
    /// `netwhy transfer serve`.
    #[default]
    Netwhy,
    /// An HTTP server.
    Http,
}

/// Source of a bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BandwidthSource {
    /// `--bandwidth`.
    Given,
    /// The best `tcpi_delivery_rate` of the sender's kernel: an estimate.
    DeliveryRate,
    /// The best rate at which data arrived here: an estimate.
    ReceiveRate,
    /// A lower bound: nothing filled the path, or transfers were faster than the measured rates
    /// allow.
    LowerBound,
}

/// One transfer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OneTransfer {
    /// Number of its stream, from 0.
    pub stream: u32,
    /// Number in the stream, from 0.
    pub number: u32,
    /// Its start, microseconds since the start of the first transfer.
    pub at_us: u64,
    /// How long its connection had been idle, microseconds; `None`: a new connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_us: Option<u64>,
    /// TCP handshake of its new connection, microseconds; `None`: an existing connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_us: Option<u64>,
    /// From its start, the handshake included, to the first byte of the response, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<u64>,
    /// From its start, the handshake included, to its last byte, microseconds.
    pub duration_us: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether all of it arrived.
    pub completed: bool,
    /// Congestion window with which the sender started it, segments; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_segments: Option<u32>,
    /// Bytes of a segment; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment_bytes: Option<u32>,
    /// Its theoretical time; `None`: bandwidth or round-trip time are unknown, or it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theory: Option<TheoreticalTime>,
}

/// How long a transfer takes when only the path and slow start limit it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TheoreticalTime {
    /// All of it, microseconds.
    pub total_us: u64,
    /// Of that: the handshake of a new connection, microseconds.
    pub connect_us: u64,
    /// Of that: the round trip from the request to its response, microseconds.
    pub request_us: u64,
    /// Of that: waiting for acknowledgements in slow start, with a full window sent, microseconds.
    pub slow_start_us: u64,
    /// Of that: size divided by bandwidth, microseconds.
    pub transmission_us: u64,
    /// Round trips in all: handshake, request, and those that slow start waits for.
    pub rounds: u32,
    /// Initial congestion window of the transfer, segments.
    pub window_segments: u32,
}

/// An error, and how often it occurred.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferError {
    /// What failed, and why.
    pub message: String,
    /// How often it occurred.
    pub count: u64,
}

impl TransferError {
    /// Most different messages that are kept.
    pub const MAX_KINDS: usize = 16;

    /// Counts an error that occurred `count` times.
    pub fn add(errors: &mut Vec<Self>, message: &str, count: u64) {
        if let Some(same) = errors.iter_mut().find(|same| same.message == message) {
            same.count = same.count.saturating_add(count);
        } else if errors.len() < Self::MAX_KINDS {
            errors.push(TransferError { message: message.to_string(), count });
        }
    }
}

/// The statistics of one stream's sender, from the program and from its kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferSender {
    /// Number of the stream, from 0.
    pub stream: u32,
    /// Connections that the stream used.
    pub connections: u64,
    /// Congestion control; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// `net.ipv4.tcp_slow_start_after_idle` of the sender; `None`: not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start_after_idle: Option<bool>,
    /// `net.ipv4.tcp_wmem` of the sender; `None`: not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_wmem: Option<String>,
    /// What the sender waited for while it had data to send; categories without any time are left out.
    pub time_breakdown: Vec<SenderTimeShare>,
    /// Write calls.
    pub writes: u64,
    /// Bytes written by them.
    pub written_bytes: u64,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Best delivery rate that was not application-limited, bytes a second; 0: none.
    pub best_delivery_rate: u64,
    /// Best delivery rate, application-limited or not, bytes a second; 0: none.
    #[serde(default)]
    pub best_delivery_rate_any: u64,
    /// Shortest round-trip time, microseconds; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rtt_us: Option<u32>,
    /// The state in which each transfer started, oldest first; the first
    /// [`Transfer::MAX_TRANSFERS_KEPT`].
    pub starts: Vec<SendStart>,
    /// Number of the transfer that took longest at the sender: the one that `samples` is of.
    pub sampled_transfer: u32,
    /// Its samples, oldest first, at most [`TransferSender::MAX_SAMPLES`].
    pub samples: Vec<SendSample>,
    /// The socket of the connection with the longest busy time, from its first sample to its last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<Box<Socket>>,
}

impl TransferSender {
    /// Most samples of a transfer: when there are more, every other one is dropped and the time between
    /// samples doubles.
    pub const MAX_SAMPLES: usize = 400;
}

/// The state in which a transfer started at its sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SendStart {
    /// Number of the transfer in the stream, from 0.
    pub number: u32,
    /// Congestion window after the first write, segments.
    pub window_segments: u32,
    /// Congestion window when the previous transfer on the same connection was acknowledged, segments;
    /// `None`: the first on its connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_window_segments: Option<u32>,
    /// Bytes of a segment.
    pub segment_bytes: u32,
}

/// What a sender waited for while it had data to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SenderTimeCategory {
    /// The application had no data to write yet: all written data was sent, and both windows had
    /// room.
    Application,
    /// The same, with the application in write(): the time of the calls.
    Writing,
    /// The send buffer was full while both windows had room (`tcpi_sndbuf_limited`).
    SendBuffer,
    /// The receive window was full (`tcpi_rwnd_limited`).
    ReceiveWindow,
    /// The congestion window was full, below the slow-start threshold.
    SlowStart,
    /// Lost segments were being retransmitted.
    Loss,
    /// The congestion window was full above the threshold, or the link was.
    Network,
    /// All was written, the last acknowledgements were outstanding.
    Tail,
}

impl SenderTimeCategory {
    /// As it stands in a line of output.
    pub fn description(self) -> &'static str {
        match self {
            SenderTimeCategory::Application => "application had no data to write",
            SenderTimeCategory::Writing => "application in write()",
            SenderTimeCategory::SendBuffer => "send buffer full",
            SenderTimeCategory::ReceiveWindow => "receive window full",
            SenderTimeCategory::SlowStart => "slow start: congestion window growing",
            SenderTimeCategory::Loss => "loss recovery",
            SenderTimeCategory::Network => "path: congestion window or link full",
            SenderTimeCategory::Tail => "last acknowledgements outstanding",
        }
    }
}

/// The time in one category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SenderTimeShare {
    /// What the sender waited for.
    pub category: SenderTimeCategory,
    /// Time, microseconds.
    pub time_us: u64,
}

/// TCP state of a connection at the sender at one moment; `None`: this kernel does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SendSample {
    /// Time of the sample, microseconds since the transfer started at the sender.
    pub at_us: u64,
    /// Bytes of this transfer written so far.
    pub written_bytes: u64,
    /// Bytes of this transfer acknowledged so far.
    pub acked_bytes: u64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments; `None`: not set yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssthresh: Option<u32>,
    /// Segments in flight.
    pub unacked: u32,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Bytes written and not sent yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notsent_bytes: Option<u32>,
    /// The receiver's advertised window, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snd_wnd_bytes: Option<u32>,
    /// Smoothed round-trip time, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u32>,
    /// Shortest round-trip time, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rtt_us: Option<u32>,
    /// Delivery rate, bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_rate: Option<u64>,
    /// Whether that rate is application-limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_limited: Option<bool>,
    /// Time with data to send since the connection was established, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_us: Option<u64>,
    /// Time with a full receive window since then, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rwnd_limited_us: Option<u64>,
    /// Time with a full send buffer since then, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sndbuf_limited_us: Option<u64>,
    /// Segments retransmitted since the connection was established.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u32>,
}
