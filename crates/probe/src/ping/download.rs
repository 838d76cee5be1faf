//! Downloads that fill a link: HTTP/1.1 over several connections; the bytes are counted and discarded.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use sys::Stop;

use crate::target::{Family, Target};
use crate::{Error, os_error_text};

/// Most concurrent downloads.
pub const MAX_DOWNLOADS: u32 = 64;
/// Timeout of connecting and of sending the request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A download without any data for this long has failed.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait before the end of the measurement is checked again.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Pause between two downloads, for servers that fail immediately.
const PAUSE: Duration = Duration::from_millis(20);
/// Consecutive failures after which a connection gives up.
const MAX_FAILURES: u32 = 5;
/// Longest head of a response.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Most header fields of a response.
const MAX_HEADERS: usize = 128;
/// Bytes of a read.
const READ_BYTES: usize = 256 << 10;

/// Error for responses that are not HTTP.
const NOT_HTTP: &str = "the response is not HTTP";

/// What is downloaded: a plain HTTP URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Host and port.
    pub target: Target,
    /// Path and query.
    pub path: String,
}

impl std::str::FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| {
            Error::Usage(format!("{text}: {why}; give http://HOST[:PORT]/PATH or HOST[:PORT]"))
        };
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some((other, _)) => return Err(bad(&format!("{other} is not supported"))),
            None => text,
        };
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        // These would end the request line.
        if path.chars().any(|c| c.is_control() || c == ' ') {
            return Err(bad("the path has a space or a control character"));
        }
        let path = path.split('#').next().unwrap_or("/").to_string();
        Ok(Url { target: host.parse()?, path })
    }
}

impl Url {
    /// Its server's address and port, by the system's resolver, which may take seconds.
    ///
    /// # Errors
    ///
    /// The name does not resolve.
    pub fn resolve(&self, family: Family) -> Result<SocketAddr, Error> {
        let address = self.target.resolve(family)?;
        Ok(SocketAddr::new(address, self.target.port.unwrap_or(80)))
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.target.authority(), self.path)
    }
}

/// The downloaded bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DownloadResult {
    /// Bytes received after the warm-up, HTTP heads included.
    pub bytes: u64,
    /// Time in which they were received, milliseconds.
    pub duration_ms: f64,
    /// Payload of a full-size segment, bytes; 0: no connection was established.
    pub segment_bytes: u32,
    /// Whether the connections were IPv6.
    pub v6: bool,
    /// Why a download failed, if one did.
    pub error: Option<String>,
}

impl DownloadResult {
    /// Bits a second on the wire, with the Ethernet, IP and TCP headers of full-size segments, without
    /// preamble, frame check sequence and inter-frame gap. `None` without bytes.
    pub fn wire_bits_per_s(&self) -> Option<f64> {
        if self.bytes == 0 || self.duration_ms <= 0.0 {
            return None;
        }
        let payload = f64::from(self.segment_bytes.max(1));
        let ip = if self.v6 { 40.0 } else { 20.0 };
        // Ethernet 14, TCP 20, time stamps 12: nearly every connection has them. A segment that
        // fills a packet of 1500 bytes without them shows that it has not.
        let timestamps = if payload + ip + 20.0 == 1500.0 { 0.0 } else { 12.0 };
        let frame = payload + ip + 20.0 + timestamps + 14.0;
        Some(self.bytes as f64 * 8e3 / self.duration_ms * frame / payload)
    }
}

/// What all connections share.
struct Shared {
    /// Whether the warm-up is over.
    counting: AtomicBool,
    bytes: AtomicU64,
    segment_bytes: AtomicU64,
    end: Stop,
}

/// Downloads from an address over `downloads` connections at once, each repeatedly, for `duration` after
/// a warm-up whose bytes do not count. Failures are part of the result.
pub fn download(
    url: &Url,
    to: SocketAddr,
    downloads: u32,
    warm_up: Duration,
    duration: Duration,
    stop: &Stop,
) -> DownloadResult {
    let shared = Arc::new(Shared {
        counting: AtomicBool::new(false),
        bytes: AtomicU64::new(0),
        segment_bytes: AtomicU64::new(0),
        end: Stop::new(),
    });
    let threads: Vec<_> = (0..downloads.clamp(1, MAX_DOWNLOADS))
        .map(|_| {
            let (url, shared) = (url.clone(), Arc::clone(&shared));
            std::thread::spawn(move || repeat(&url, to, &shared))
        })
        .collect();
    let wait = |time: Duration| {
        let until = Instant::now() + time;
        while !stop.is_set() && threads.iter().any(|thread| !thread.is_finished()) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(MAX_WAIT));
        }
    };
    wait(warm_up);
    let start = Instant::now();
    shared.counting.store(true, Ordering::Relaxed);
    wait(duration);
    let bytes = shared.bytes.load(Ordering::Relaxed);
    let elapsed = start.elapsed();
    shared.end.set();
    let mut error = None;
    for thread in threads {
        if stop.is_set() && !thread.is_finished() {
            // It may wait for a server that does not answer; nobody needs what it would report.
            continue;
        }
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(why)) => error = Some(why),
            Err(_) => error = Some("a download thread panicked".to_string()),
        }
    }
    DownloadResult {
        bytes,
        duration_ms: elapsed.as_secs_f64() * 1e3,
        segment_bytes: shared.segment_bytes.load(Ordering::Relaxed) as u32,
        v6: to.is_ipv6(),
        error,
    }
}

/// One download after the other, each on a new connection.
fn repeat(url: &Url, to: SocketAddr, shared: &Shared) -> Result<(), String> {
    let mut buffer = vec![0; READ_BYTES];
    let mut failures = 0;
    while !shared.end.is_set() {
        match once(url, to, shared, &mut buffer) {
            Ok(()) => failures = 0,
            Err(_) if shared.end.is_set() => return Ok(()),
            Err(why) => {
                failures += 1;
                if failures == MAX_FAILURES {
                    return Err(format!("cannot download {url}: {why}"));
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// One download.
fn once(url: &Url, to: SocketAddr, shared: &Shared, buffer: &mut [u8]) -> Result<(), String> {
    let text = |error: std::io::Error| os_error_text(&error);
    let mut stream = TcpStream::connect_timeout(&to, CONNECT_TIMEOUT).map_err(text)?;
    stream.set_read_timeout(Some(MAX_WAIT)).map_err(text)?;
    stream.set_write_timeout(Some(CONNECT_TIMEOUT)).map_err(text)?;
    let segment_bytes = socket2::SockRef::from(&stream).tcp_mss().unwrap_or(0);
    shared.segment_bytes.store(u64::from(segment_bytes), Ordering::Relaxed);
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: netwhy\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        url.path,
        url.target.authority()
    );
    stream.write_all(request.as_bytes()).map_err(text)?;
    let mut head = Vec::new();
    let mut in_head = true;
    let mut last_data = Instant::now();
    while !shared.end.is_set() {
        let read = match stream.read(buffer) {
            Ok(0) if in_head => {
                return Err("the server closed the connection without a response".to_string());
            }
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock
                        | std::io::ErrorKind::TimedOut
                        | std::io::ErrorKind::Interrupted
                ) =>
            {
                if last_data.elapsed() > STALL_TIMEOUT {
                    return Err(format!("no data received for {}", text::duration(STALL_TIMEOUT)));
                }
                continue;
            }
            Err(error) => return Err(text(error)),
        };
        last_data = Instant::now();
        if shared.counting.load(Ordering::Relaxed) {
            shared.bytes.fetch_add(read as u64, Ordering::Relaxed);
        }
        if in_head {
            head.extend(buffer.iter().take(read.min(MAX_HEAD_BYTES)));
            in_head = !is_complete(&head)?;
            if in_head && head.len() >= MAX_HEAD_BYTES {
                return Err(NOT_HTTP.to_string());
            }
        }
    }
    Ok(())
}

/// Whether the head of a response is complete.
fn is_complete(head: &[u8]) -> Result<bool, String> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(head) {
        Ok(httparse::Status::Partial) => Ok(false),
        Ok(httparse::Status::Complete(_)) => match response.code {
            Some(200..=299) => Ok(true),
            Some(code) => Err(format!("the server responded with status {code}")),
            None => Err(NOT_HTTP.to_string()),
        },
        Err(_) => Err(NOT_HTTP.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_urls_are_accepted() {
        let url: Url = "http://198.18.0.1:81/big?x=1#y".parse().unwrap();
        assert_eq!(url.to_string(), "http://198.18.0.1:81/big?x=1");
        assert_eq!("[fd00::1]:80".parse::<Url>().unwrap().path, "/");
        assert_eq!("fd00::1".parse::<Url>().unwrap().to_string(), "http://[fd00::1]/");
        for bad in ["https://x/", "http://", "http://x/a b", "http://x/\r\nHost: y"] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_rate_on_the_wire_includes_headers() {
        let mut all = DownloadResult {
            bytes: 1_448_000,
            duration_ms: 1000.0,
            segment_bytes: 1448,
            ..DownloadResult::default()
        };
        assert_eq!(all.wire_bits_per_s().map(f64::round), Some(1514.0 * 8000.0));
        all.segment_bytes = 1460;
        assert_eq!(
            all.wire_bits_per_s().map(f64::round),
            Some((1_448_000.0 * 8.0 * 1514.0 / 1460.0f64).round())
        );
        assert_eq!(DownloadResult::default().wire_bits_per_s(), None);
    }

    #[test]
    fn bytes_are_counted_and_downloads_end() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let url: Url = format!("http://{address}/").parse().unwrap();
        std::thread::spawn(move || {
            for stream in server.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut stream = stream;
                    let _ = stream.read(&mut [0; 1024]);
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                    while stream.write_all(&[0; 4096]).is_ok() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
        });
        let (time, stop) = (Duration::from_millis(300), Stop::new());
        let done = download(&url, address, 3, Duration::from_millis(50), time, &stop);
        assert!(done.bytes > 4096 && done.error.is_none(), "{done:?}");
        let refused: Url = "http://127.0.0.1:1/".parse().unwrap();
        let to = "127.0.0.1:1".parse().unwrap();
        let done = download(&refused, to, 1, Duration::ZERO, time, &stop);
        assert!(done.error.is_some_and(|why| why.contains("refused")));
    }
}
