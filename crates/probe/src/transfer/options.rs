//! What is transferred, and how.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::TransferDirection;

use super::http::Url;

/// The default port of `netwhy transfer serve`.
pub const DEFAULT_PORT: u16 = 7717;
/// Most concurrent streams of a session.
pub const MAX_STREAMS: u32 = 64;
/// Connections of a session in addition to its streams: control, and one that closes.
pub(super) const EXTRA_CONNECTIONS: usize = 2;
/// Largest buffer of a write, bytes.
pub const MAX_BUFFER_BYTES: u32 = 64 << 20;
/// Longest time for which a sender waits for each buffer.
pub const MAX_SOURCE_DELAY: Duration = Duration::from_secs(10);

/// What is transferred, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The peer as it was given.
    pub peer: String,
    /// Its address and port.
    pub address: SocketAddr,
    /// What is requested from an HTTP server; `None`: the peer is `netwhy transfer serve`.
    pub url: Option<Url>,
    /// Direction of the data; an HTTP server can only send.
    pub direction: TransferDirection,
    /// Bytes of each transfer; `None`: as many as possible in the time. An HTTP server decides itself.
    pub size: Option<u64>,
    /// Time between the starts of two transfers; `None`: back to back.
    pub interval: Option<Duration>,
    /// Transfers of each stream; `None`: as many as the time allows.
    pub count: Option<u32>,
    /// How long all of it may take; `None`: until the count is reached.
    pub duration: Option<Duration>,
    /// Whether each transfer opens a new connection.
    pub reconnect: bool,
    /// Concurrent connections, 1 to [`MAX_STREAMS`].
    pub streams: u32,
    /// Bytes of each write of the sender, 1 to [`MAX_BUFFER_BYTES`].
    pub buffer_bytes: u32,
    /// Time for which the sender waits for each buffer, at most [`MAX_SOURCE_DELAY`].
    pub source_delay: Duration,
    /// Congestion control of the sender; `None`: its host's.
    pub congestion: Option<String>,
    /// Shared secret.
    pub token: Option<String>,
    /// A connection without progress for this long has failed.
    pub timeout: Duration,
    /// Bandwidth of the path, bits of payload a second; `None`: estimated.
    pub bandwidth_bps: Option<f64>,
}

/// The progress of running transfers.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    completed: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    /// Completed transfers so far.
    pub fn completed(&self) -> u64 {
        self.0.completed.load(Ordering::Relaxed)
    }

    /// Transferred bytes so far.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn add_bytes(&self, bytes: u64) {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_completed(&self) {
        self.0.completed.fetch_add(1, Ordering::Relaxed);
    }
}
