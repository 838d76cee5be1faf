//! Downloads that fill a link: HTTP/1.1 over some connections at once, whose bytes are counted and
//! thrown away.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::target::{Family, Target, plain};
use sys::Stop;

use crate::Error;

/// Most downloads at once.
pub const TRANSFERS: u32 = 64;
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long is read at once: then the end is looked at.
const PATIENCE: Duration = Duration::from_millis(100);
/// Between two downloads: a server that fails at once is not asked without pause.
const PAUSE: Duration = Duration::from_millis(20);
/// Failures one after the other after which a connection is given up.
const FAILURES: u32 = 5;
/// Most bytes of the head of an answer.
const HEAD: usize = 16 << 10;
/// Bytes that are read at once.
const ROOM: usize = 256 << 10;

/// What is downloaded.
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
            Some((other, _)) => return Err(bad(&format!("{other} is not downloaded here"))),
            None => text,
        };
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        // What would end the line of the request.
        if path.chars().any(|c| c.is_control() || c == ' ') {
            return Err(bad("the path has a space or a control character"));
        }
        let path = path.split('#').next().unwrap_or("/").to_string();
        Ok(Url { target: host.parse()?, path })
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.target, self.path)
    }
}

/// What was downloaded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Downloaded {
    /// Bytes after the warm-up, heads of answers among them.
    pub bytes: u64,
    /// In this time, milliseconds.
    pub lasted_ms: f64,
    /// Bytes of data in a full segment; 0 when nothing was connected.
    pub segment_bytes: u32,
    /// Whether it was IPv6.
    pub v6: bool,
    /// Why a download failed, if one did.
    pub failed: Option<String>,
}

impl Downloaded {
    /// Bits a second on the wire: with what the headers of full segments add in Ethernet frames,
    /// preamble, checksum and gap not among them. `None` without bytes.
    pub fn wire_bits_per_s(&self) -> Option<f64> {
        if self.bytes == 0 || self.lasted_ms <= 0.0 {
            return None;
        }
        let data = f64::from(self.segment_bytes.max(1));
        let ip = if self.v6 { 40.0 } else { 20.0 };
        // Ethernet 14, TCP 20, time stamps 12: nearly every connection has them. A segment that
        // fills a packet of 1500 bytes without them tells that it has not.
        let stamps = if data + ip + 20.0 == 1500.0 { 0.0 } else { 12.0 };
        let whole = data + ip + 20.0 + stamps + 14.0;
        Some(self.bytes as f64 * 8e3 / self.lasted_ms * whole / data)
    }
}

/// What all connections share.
struct Shared {
    counting: AtomicBool,
    bytes: AtomicU64,
    segment: AtomicU64,
    over: Stop,
}

/// Downloads over so many connections at once, each again and again, for a time after a warm-up whose
/// bytes do not count.
///
/// # Errors
///
/// The name has no address. What fails later is told in the result.
pub fn download(
    url: &Url,
    family: Family,
    transfers: u32,
    warm_up: Duration,
    time: Duration,
    stop: &Stop,
) -> Result<Downloaded, Error> {
    let address = url.target.resolve(family)?;
    let to = SocketAddr::new(address, url.target.port.unwrap_or(80));
    let shared = Arc::new(Shared {
        counting: AtomicBool::new(false),
        bytes: AtomicU64::new(0),
        segment: AtomicU64::new(0),
        over: Stop::new(),
    });
    let threads: Vec<_> = (0..transfers.clamp(1, TRANSFERS))
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
            std::thread::sleep(left.min(PATIENCE));
        }
    };
    wait(warm_up);
    let begun = Instant::now();
    shared.counting.store(true, Ordering::Relaxed);
    wait(time);
    let bytes = shared.bytes.load(Ordering::Relaxed);
    let lasted = begun.elapsed();
    shared.over.set();
    let mut failed = None;
    for thread in threads {
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(words)) => failed = Some(words),
            Err(_) => failed = Some("a download ended unexpectedly".to_string()),
        }
    }
    Ok(Downloaded {
        bytes,
        lasted_ms: lasted.as_secs_f64() * 1e3,
        segment_bytes: shared.segment.load(Ordering::Relaxed) as u32,
        v6: to.is_ipv6(),
        failed,
    })
}

/// One connection after the other.
fn repeat(url: &Url, to: SocketAddr, shared: &Shared) -> Result<(), String> {
    let mut buffer = vec![0; ROOM];
    let mut failures = 0;
    while !shared.over.is_set() {
        match once(url, to, shared, &mut buffer) {
            Ok(()) => failures = 0,
            Err(_) if shared.over.is_set() => return Ok(()),
            Err(why) => {
                failures += 1;
                if failures == FAILURES {
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
    let words = |error: std::io::Error| plain(&error);
    let mut stream = TcpStream::connect_timeout(&to, CONNECT).map_err(words)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(words)?;
    stream.set_write_timeout(Some(CONNECT)).map_err(words)?;
    let segment = socket2::SockRef::from(&stream).tcp_mss().unwrap_or(0);
    shared.segment.store(u64::from(segment), Ordering::Relaxed);
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: netwhy\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        url.path, url.target
    );
    stream.write_all(request.as_bytes()).map_err(words)?;
    let mut head = Vec::new();
    let mut in_head = true;
    let mut last = Instant::now();
    while !shared.over.is_set() {
        let read = match stream.read(buffer) {
            Ok(0) if in_head => return Err("the server closed without an answer".to_string()),
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
                if last.elapsed() > 2 * CONNECT {
                    return Err("nothing came for 10 s".to_string());
                }
                continue;
            }
            Err(error) => return Err(words(error)),
        };
        last = Instant::now();
        if shared.counting.load(Ordering::Relaxed) {
            shared.bytes.fetch_add(read as u64, Ordering::Relaxed);
        }
        if in_head {
            head.extend_from_slice(&buffer[..read.min(HEAD)]);
            in_head = !is_answered(&head)?;
            if in_head && head.len() >= HEAD {
                return Err("this is no answer of HTTP".to_string());
            }
        }
    }
    Ok(())
}

/// Whether the head of an answer is there whole.
fn is_answered(head: &[u8]) -> Result<bool, String> {
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut answer = httparse::Response::new(&mut headers);
    match answer.parse(head) {
        Ok(httparse::Status::Partial) => Ok(false),
        Ok(httparse::Status::Complete(_)) => match answer.code {
            Some(200..=299) => Ok(true),
            Some(code) => Err(format!("the server answers {code}")),
            None => Err("this is no answer of HTTP".to_string()),
        },
        Err(_) => Err("this is no answer of HTTP".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_http() {
        let url: Url = "http://198.18.0.1:81/big?x=1#y".parse().unwrap();
        assert_eq!(url.to_string(), "http://198.18.0.1:81/big?x=1");
        assert_eq!("[fd00::1]:80".parse::<Url>().unwrap().path, "/");
        for bad in ["https://x/", "http://", "http://x/a b", "http://x/\r\nHost: y"] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_wire_has_headers() {
        let mut all = Downloaded {
            bytes: 1_448_000,
            lasted_ms: 1000.0,
            segment_bytes: 1448,
            ..Downloaded::default()
        };
        assert_eq!(all.wire_bits_per_s().map(f64::round), Some(1514.0 * 8000.0));
        all.segment_bytes = 1460;
        assert_eq!(
            all.wire_bits_per_s().map(f64::round),
            Some((1_448_000.0 * 8.0 * 1514.0 / 1460.0f64).round())
        );
        assert_eq!(Downloaded::default().wire_bits_per_s(), None);
    }

    #[test]
    fn downloads_are_counted_and_end() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url: Url = format!("http://{}/", server.local_addr().unwrap()).parse().unwrap();
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
        let done = download(&url, Family::Any, 3, Duration::from_millis(50), time, &stop).unwrap();
        assert!(done.bytes > 4096 && done.failed.is_none(), "{done:?}");
        let refused: Url = "http://127.0.0.1:1/".parse().unwrap();
        let done = download(&refused, Family::Any, 1, Duration::ZERO, time, &stop).unwrap();
        assert!(done.failed.is_some_and(|why| why.contains("refused")));
    }
}
