//! Bulk and request-answer transfers beside what theory says.
//!
//! - `client`: runs them against a server, one thread for each stream; `control`: what the two agree on
//! - `server`: does what a client asks, within its limits
//! - `http`: the same against a plain HTTP server
//! - `protocol`: the frames between the two, and who may
//! - `sender`: one transfer, write by write; `record`: what the kernel told meanwhile; `held`: what
//!   held it then
//! - `theory`: how long a transfer takes; `compare`: the measured ones held against it
//! - `line`: a connection that never blocks for long
//!
//! What holds a transfer is told by its sender: when that is the server, its samples come back over
//! the control connection at the end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::{TransferDirection, TransferSender};
use serde::{Deserialize, Serialize};

mod client;
mod compare;
mod control;
mod held;
mod http;
mod line;
mod protocol;
mod record;
mod sender;
mod server;
mod theory;

pub use client::run;
pub use http::Url;
pub use server::{Event, Limits, Server};

/// The port of `netwhy transfer serve`.
pub const PORT: u16 = 7717;
/// Most streams at the same time.
pub const MOST_STREAMS: u32 = protocol::MOST_STREAMS;
/// Largest buffer of a write, bytes.
pub const MOST_BUFFER: u32 = protocol::MOST_BUFFER;

/// What is transferred, with whom, how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The peer as the user gave it.
    pub peer: String,
    /// Its address and port.
    pub address: SocketAddr,
    /// What is asked of an HTTP server; `None`: the peer is `netwhy transfer serve`.
    pub url: Option<Url>,
    /// Which way the data goes; an HTTP server only sends.
    pub direction: TransferDirection,
    /// Bytes of each transfer; `None`: as many as go through in the time. An HTTP server decides.
    pub size: Option<u64>,
    /// From the start of one transfer to the start of the next; `None`: at once.
    pub interval: Option<Duration>,
    /// Transfers of each stream; `None`: as many as the time allows.
    pub count: Option<u32>,
    /// How long it all takes at most; `None`: until the count is reached.
    pub time: Option<Duration>,
    /// Whether each transfer has a connection of its own.
    pub reconnect: bool,
    /// Connections at the same time, 1 to [`MOST_STREAMS`].
    pub streams: u32,
    /// Bytes of each write of the sender, 1 to [`MOST_BUFFER`].
    pub buffer: u32,
    /// Time that the sender needs to get each buffer, at most 10 s.
    pub source_delay: Duration,
    /// Congestion control of the sender; `None`: its host's.
    pub congestion: Option<String>,
    /// Shared secret.
    pub token: Option<String>,
    /// Nothing may stand still for so long.
    pub patience: Duration,
    /// Bandwidth of the path, bits of data a second; `None`: estimated.
    pub bandwidth_bps: Option<f64>,
}

/// How far it is, for people who wait.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<(AtomicU64, AtomicU64)>);

impl Progress {
    /// Transfers that came to their end.
    pub fn done(&self) -> u64 {
        self.0.0.load(Ordering::Relaxed)
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.0.1.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: u64) {
        self.0.1.fetch_add(bytes, Ordering::Relaxed);
    }

    fn finish(&self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a server tells of a session at its end.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Report {
    senders: Vec<TransferSender>,
    #[serde(default)]
    failures: Vec<String>,
}

/// A sysctl of this network namespace, by its path below `/proc/sys`.
fn sysctl(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/sys/{path}")).ok()?;
    Some(text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::time::Instant;

    use super::*;
    use sys::Stop;

    use crate::Error;

    fn options(address: SocketAddr) -> Options {
        Options {
            peer: address.to_string(),
            address,
            url: None,
            direction: TransferDirection::Down,
            size: Some(300_000),
            interval: None,
            count: Some(3),
            time: None,
            reconnect: false,
            streams: 2,
            buffer: 5000,
            source_delay: Duration::ZERO,
            congestion: None,
            token: Some("right".to_string()),
            patience: Duration::from_secs(5),
            bandwidth_bps: None,
        }
    }

    /// Runs this against a server of the loopback.
    fn with_server(test: impl FnOnce(SocketAddr)) -> Vec<Event> {
        let limits = Limits {
            token: Some("right".to_string()),
            time: Duration::from_secs(600),
            bytes: 10_000_000,
            clients: 2,
        };
        let server = Server::listen("127.0.0.1:0".parse().unwrap(), limits).unwrap();
        let address = server.address().unwrap();
        let stop = Stop::new();
        let mut events = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| server.run(&stop, None, &mut |event| events.push(event)));
            test(address);
            // A session ends a moment after its client.
            std::thread::sleep(Duration::from_millis(300));
            stop.set();
        });
        events
    }

    fn go(options: &Options) -> Result<model::Transfer, Error> {
        run(options, &Stop::new(), &Progress::default())
    }

    #[test]
    fn both_directions_arrive_whole() {
        let events = with_server(|address| {
            for direction in [TransferDirection::Down, TransferDirection::Up] {
                for reconnect in [false, true] {
                    let all = go(&Options { direction, reconnect, ..options(address) }).unwrap();
                    assert_eq!((all.completed, all.bytes, all.errors.len()), (6, 1_800_000, 0));
                    let connections = if reconnect { 3 } else { 1 };
                    assert_eq!(all.senders.len(), 2);
                    for sender in &all.senders {
                        assert_eq!(sender.written_bytes, 900_000);
                        assert!(sender.writes >= 180 && sender.connections == connections);
                        assert_eq!(sender.starts.len(), 3);
                    }
                }
            }
        });
        let ended = Event::Ended(events_peer(&events[1]), 1_800_000);
        assert_eq!((events.len(), &events[1]), (8, &ended));
    }

    fn events_peer(event: &Event) -> SocketAddr {
        let (Event::Began(peer, _) | Event::Ended(peer, _) | Event::Refused(peer, _)) = event;
        *peer
    }

    #[test]
    fn who_may_not_is_refused_in_words() {
        let events = with_server(|address| {
            let refused = |options: Options| go(&options).unwrap_err().to_string();
            let wrong = Options { token: Some("wrong".to_string()), ..options(address) };
            assert!(refused(wrong).contains("the token is wrong"));
            let none = Options { token: None, ..options(address) };
            assert!(refused(none).contains("wants a token"));
            let much = Options { size: Some(9_000_000), ..options(address) };
            assert!(refused(much).contains("--max-bytes"));
            let long = Options { time: Some(Duration::from_secs(700)), ..options(address) };
            assert!(refused(long).contains("--max-time"));
            // Rubbish is answered with who this is, and dropped.
            let mut stranger = TcpStream::connect(address).unwrap();
            stranger.write_all(&[b'x'; 32]).unwrap();
            let mut said = Vec::new();
            stranger.read_to_end(&mut said).unwrap();
            assert!(said.starts_with(b"nwxfer\r\n"));
            assert!(go(&options(address)).is_ok(), "others are served");
        });
        let refused = events.iter().filter(|event| matches!(event, Event::Refused(..)));
        assert_eq!(refused.count(), 5, "{events:?}");
    }

    #[test]
    fn a_stop_ends_a_transfer_with_what_it_has() {
        with_server(|address| {
            let stop = Stop::new();
            let progress = Progress::default();
            let slow = Options {
                source_delay: Duration::from_millis(50),
                size: Some(1_000_000),
                ..options(address)
            };
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| run(&slow, &stop, &progress));
                let patience = Instant::now() + Duration::from_secs(10);
                while progress.bytes() == 0 && Instant::now() < patience {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let began = Instant::now();
                stop.set();
                let all = thread.join().unwrap().unwrap();
                assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
                assert!(all.interrupted && all.completed == 0 && all.bytes > 0, "{all:?}");
                assert_eq!(all.errors, []);
            });
        });
    }
}
