//! Bulk and request-answer transfers: how long each took beside what theory says, and what the
//! sender's kernel told of them.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::Socket;

/// Transfers between two hosts, beside what theory says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transfer {
    /// The peer as it was asked for: `198.18.0.2:7717`, `http://198.18.0.2/file`.
    pub peer: String,
    /// Its address; `None`: it could not be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// Which way the data goes.
    pub direction: TransferDirection,
    /// What answers at the other end.
    pub peer_kind: TransferPeer,
    /// Bytes of each transfer; `None`: as many as went through in the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// From the start of one transfer to the start of the next, milliseconds; `None`: one after the
    /// other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// Whether each transfer has a connection of its own.
    pub reconnect: bool,
    /// Connections at the same time.
    pub streams: u32,
    /// Bytes of each write of the sender; `None`: the sender is another program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<u64>,
    /// Time that the sender needs to get each buffer, as from a slow store, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_delay_us: Option<u64>,
    /// Bandwidth of the path that theory reckons with, bits of data a second, for all connections
    /// together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bps: Option<f64>,
    /// Where that is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_source: Option<BandwidthSource>,
    /// Shortest round trip of the path, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<u64>,
    /// Transfers that were begun.
    pub started: u64,
    /// Transfers that came to their end.
    pub completed: u64,
    /// Bytes that arrived, those of unfinished transfers included.
    pub bytes: u64,
    /// From the start of the first to the end of the last, microseconds.
    pub duration_us: u64,
    /// The transfers, oldest first; the first [`Transfer::MOST`].
    pub transfers: Vec<OneTransfer>,
    /// What went wrong, by its words, first come first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<TransferError>,
    /// The sender's side of each stream; empty when the sender is another program or did not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<TransferSender>,
    /// Ended early by the user.
    #[serde(default)]
    pub interrupted: bool,
}

impl Transfer {
    /// Most transfers that are kept one by one.
    pub const MAX_TRANSFERS_KEPT: usize = 10_000;
    /// Where the time of all streams went at their sender.
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

/// Which way the data of a transfer goes.
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

/// What answers at the other end.
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

/// Where a bandwidth is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BandwidthSource {
    /// `--bandwidth`.
    Given,
    /// The best `tcpi_delivery_rate` that the sender's kernel told: an estimate.
    DeliveryRate,
    /// The best rate at which data arrived here: an estimate.
    Arrival,
    /// The path has at least so much: nothing filled it, or transfers went faster than the rates
    /// that were told.
    AtLeast,
}

/// One transfer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OneTransfer {
    /// Number of its stream, from 0.
    pub stream: u32,
    /// Number in the stream, from 0.
    pub number: u32,
    /// When it began, microseconds since the first one began.
    pub at_us: u64,
    /// How long its connection had been idle, microseconds; `None`: it is a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_us: Option<u64>,
    /// The handshake, when the connection was opened for it, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_us: Option<u64>,
    /// From its begin, the handshake included, to the first byte of the answer, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<u64>,
    /// From its begin, the handshake included, to its last byte, microseconds.
    pub duration_us: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether all of it arrived.
    pub completed: bool,
    /// Congestion window with which the sender began it, segments; `None`: it was not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_segments: Option<u32>,
    /// Bytes of a segment; `None`: it was not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment_bytes: Option<u32>,
    /// What theory says; `None`: bandwidth or round trip are unknown, or it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theory: Option<TheoreticalTime>,
}

/// How long a transfer takes when nothing but the path and slow start hold it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TheoreticalTime {
    /// All of it, microseconds.
    pub total_us: u64,
    /// Of that: the handshake of a new connection, microseconds.
    pub connect_us: u64,
    /// Of that: the round trip from the request to its answer, microseconds.
    pub request_us: u64,
    /// Of that: the time in which a window was sent and its acknowledgement awaited, microseconds.
    pub slow_start_us: u64,
    /// Of that: size divided by bandwidth, microseconds.
    pub transmission_us: u64,
    /// Round trips in all: handshake, request, and those that slow start waits for.
    pub rounds: u32,
    /// Congestion window that it begins with, segments.
    pub window_segments: u32,
}

/// Something that went wrong, and how often.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferError {
    /// What was tried, and what happened.
    pub message: String,
    /// How often.
    pub count: u64,
}

impl TransferError {
    /// Most kinds of errors that are kept.
    pub const MAX_KINDS: usize = 16;

    /// Adds one to those that are known, so many times.
    pub fn add(known: &mut Vec<Self>, words: &str, times: u64) {
        if let Some(same) = known.iter_mut().find(|same| same.message == words) {
            same.count = same.count.saturating_add(times);
        } else if known.len() < Self::MAX_KINDS {
            known.push(TransferError { message: words.to_string(), count: times });
        }
    }
}

/// The sender's side of one stream, as the sender and its kernel saw it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferSender {
    /// Number of the stream, from 0.
    pub stream: u32,
    /// Connections that it had.
    pub connections: u64,
    /// Congestion control; `None`: the kernel did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// `net.ipv4.tcp_slow_start_after_idle` of the sender; `None`: not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start_after_idle: Option<bool>,
    /// `net.ipv4.tcp_wmem` of the sender; `None`: not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_wmem: Option<String>,
    /// Where the time went while there was something to send; parts without any are left out.
    pub time_breakdown: Vec<SenderTimeShare>,
    /// Write calls.
    pub writes: u64,
    /// Bytes that they took.
    pub written_bytes: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// Best delivery rate that the kernel told and that was not the application's, bytes a second;
    /// 0: none.
    pub best_rate: u64,
    /// Best delivery rate that the kernel told, the application's or not, bytes a second; 0: none.
    #[serde(default)]
    pub best_limited_rate: u64,
    /// Shortest round trip that the kernel told, microseconds; `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rtt_us: Option<u32>,
    /// How each transfer began, oldest first; the first [`Transfer::MOST`].
    pub starts: Vec<SendStart>,
    /// Number of the transfer that took longest at the sender: the samples are of it.
    pub sampled: u32,
    /// Samples of it, oldest first, at most [`TransferSender::MOST`].
    pub samples: Vec<SendSample>,
    /// The socket of the connection that sent longest, from its first sample to its last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<Box<Socket>>,
}

impl TransferSender {
    /// Most samples that are kept of a transfer: when there are more, every other one is dropped and
    /// the time between two is doubled.
    pub const MAX_SAMPLES: usize = 400;
}

/// How one transfer began at its sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SendStart {
    /// Number of the transfer in the stream, from 0.
    pub number: u32,
    /// Congestion window after the first write, segments.
    pub window_segments: u32,
    /// Congestion window when the transfer before it on the same connection was acknowledged,
    /// segments; `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_segments: Option<u32>,
    /// Bytes of a segment.
    pub segment_bytes: u32,
}

/// A part of the time in which a sender had something to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SenderTimeCategory {
    /// The application had not got yet what it was to write next: all that was written was on its
    /// way, and both windows had room.
    Application,
    /// The application was in write(), and the same: the time that the calls took.
    Writing,
    /// The send buffer was full, both windows had room (`tcpi_sndbuf_limited`).
    SendBuffer,
    /// The receiver's window was full (`tcpi_rwnd_limited`).
    ReceiveWindow,
    /// The congestion window was full, below the slow-start threshold.
    SlowStart,
    /// Lost segments were being repeated.
    Loss,
    /// The congestion window was full, or the line took what it could.
    Network,
    /// All was written, and its last acknowledgements were on their way.
    Tail,
}

impl SenderTimeCategory {
    /// The words in the output.
    pub fn words(self) -> &'static str {
        match self {
            SenderTimeCategory::Application => "the application had nothing to write yet",
            SenderTimeCategory::Writing => "the application was in write()",
            SenderTimeCategory::SendBuffer => "the send buffer was full",
            SenderTimeCategory::ReceiveWindow => "the receive window was full",
            SenderTimeCategory::SlowStart => "slow start: the congestion window grew",
            SenderTimeCategory::Loss => "lost segments were repeated",
            SenderTimeCategory::Network => "the path: congestion window, line",
            SenderTimeCategory::Tail => "all was written, the rest was on its way",
        }
    }
}

/// Time of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SenderTimeShare {
    /// Which part.
    pub category: SenderTimeCategory,
    /// Time, microseconds.
    pub time_us: u64,
}

/// What the sender's kernel told of a connection at one moment; what it did not tell is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SendSample {
    /// When, microseconds since the transfer began at the sender.
    pub at_us: u64,
    /// Bytes of this transfer that were written.
    pub written_bytes: u64,
    /// Bytes of this transfer that were acknowledged.
    pub acked_bytes: u64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments; `None`: none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssthresh: Option<u32>,
    /// Segments on their way.
    pub unacked: u32,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Bytes written that are not on their way yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notsent_bytes: Option<u32>,
    /// The receiver's window, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snd_wnd_bytes: Option<u32>,
    /// Smoothed round trip, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u32>,
    /// Shortest round trip, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rtt_us: Option<u32>,
    /// Delivery rate, bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_rate: Option<u64>,
    /// Whether that rate is the application's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_limited: Option<bool>,
    /// Time with something to send, microseconds since the connection was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_us: Option<u64>,
    /// Time with a full receive window, the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rwnd_limited_us: Option<u64>,
    /// Time with a full send buffer, the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sndbuf_limited_us: Option<u64>,
    /// Segments sent again since the connection was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u32>,
}
