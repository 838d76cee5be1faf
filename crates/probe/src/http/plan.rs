//! What a load requests, and how: URLs, connections, rate, limits.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Error;
use crate::target::Family;

/// Most URLs of a file.
const MAX_URLS: usize = 10_000;
/// Highest rate of an open loop, requests a second.
const MAX_RATE: f64 = 10_000_000.0;

/// Which certificates are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// All of them, without verification.
    pub insecure: bool,
    /// Those in this PEM file instead of the system's.
    pub ca_file: Option<PathBuf>,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSpec {
    /// Method; `None`: `GET`, with a body `POST`.
    pub method: Option<String>,
    /// URL: `http://host:port/path`, `https://…`.
    pub url: String,
}

/// A load.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The requests, sent in turn; at least one.
    pub requests: Vec<RequestSpec>,
    /// Header fields in addition to those that are always sent, name and value.
    pub headers: Vec<(String, String)>,
    /// Body of each request.
    pub body: Vec<u8>,
    /// Concurrent connections of all threads.
    pub connections: u32,
    /// Threads, which share the connections.
    pub threads: u32,
    /// End after this time.
    pub duration: Option<Duration>,
    /// End after this many requests.
    pub count: Option<u64>,
    /// A request without a complete response after this time has failed.
    pub timeout: Duration,
    /// Open a new connection for each request.
    pub new_connections: bool,
    /// Requests in flight on a connection, 1 and more: pipelined, with HTTP/2 concurrent streams.
    pub pipeline: u32,
    /// HTTP/2: negotiated with TLS (ALPN), without TLS from the first byte (prior knowledge).
    pub http2: bool,
    /// Open loop: requests a second of all threads.
    pub rate: Option<f64>,
    /// Connect to this Unix socket instead of the URL's host and port.
    pub unix_socket: Option<PathBuf>,
    /// Address family of the servers.
    pub family: Family,
    /// Which certificates are trusted.
    pub trust: Trust,
}

impl Plan {
    /// Checks it.
    ///
    /// # Errors
    ///
    /// Values that are out of range or contradict each other.
    pub fn check(&self) -> Result<(), Error> {
        let usage = |text: String| Err(Error::Usage(text));
        if self.requests.is_empty() {
            return usage("no URL: give one, or a file with --urls-file".to_string());
        }
        if self.threads == 0 || self.connections < self.threads {
            return usage(format!(
                "{} are too few for {}: each thread needs one",
                text::count(self.connections.into(), "connection"),
                text::count(self.threads.into(), "thread"),
            ));
        }
        if self.http2 && (self.new_connections || self.unix_socket.is_some()) {
            return usage(
                "--http2 cannot be used with --new-connections or --unix-socket".to_string(),
            );
        }
        let pipelined = self.pipeline > 1 && !self.http2;
        if pipelined && (self.new_connections || self.rate.is_some()) {
            return usage("--pipeline cannot be used with --new-connections or --rate".to_string());
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= MAX_RATE)) {
            return usage(
                "--rate must be greater than 0 and at most 10,000,000 requests a second"
                    .to_string(),
            );
        }
        if self.duration.is_none() && self.count.is_none() {
            return usage("a load needs an end: a duration or a number of requests".to_string());
        }
        let none_due =
            self.duration.zip(self.rate).filter(|(time, rate)| time.as_secs_f64() * rate < 1.0);
        if let Some((time, rate)) = none_due {
            return usage(format!(
                "no request is due in {} at {rate} requests a second: give a longer duration",
                text::duration(time)
            ));
        }
        Ok(())
    }
}

/// The number of requests that may still be started, of all threads together.
#[derive(Debug, Clone)]
pub(super) struct RequestLimit(Option<Arc<AtomicU64>>);

impl RequestLimit {
    /// `None`: unlimited.
    pub(super) fn new(count: Option<u64>) -> Self {
        RequestLimit(count.map(|count| Arc::new(AtomicU64::new(count))))
    }

    /// Takes one; `false`: the limit is reached.
    pub(super) fn take(&self) -> bool {
        let Some(left) = &self.0 else { return true };
        let taken =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.is_ok()
    }

    /// Whether the limit is reached.
    pub(super) fn is_reached(&self) -> bool {
        self.0.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) == 0)
    }
}

/// The requests in a file: `METHOD URL` or `URL` on each line; empty lines and lines that begin with `#`
/// are ignored.
///
/// # Errors
///
/// A malformed line, with its number; no URL at all, or more than 10,000.
pub fn parse_url_file(text: &str) -> Result<Vec<RequestSpec>, Error> {
    let mut requests = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        requests.push(match words[..] {
            [url] => RequestSpec { method: None, url: url.to_string() },
            [method, url] => RequestSpec { method: Some(method.to_string()), url: url.to_string() },
            _ => {
                let number = index + 1;
                return Err(Error::Usage(format!("line {number} is not URL or METHOD URL")));
            }
        });
    }
    match requests.len() {
        0 => Err(Error::Usage("there is no URL in it".to_string())),
        n if n > MAX_URLS => {
            let (n, limit) = (text::number(n as u64), text::number(MAX_URLS as u64));
            Err(Error::Usage(format!("it has {n} URLs, the limit is {limit}")))
        }
        _ => Ok(requests),
    }
}

/// A small load, for tests.
#[cfg(test)]
pub(super) fn test_plan(url: &str) -> Plan {
    Plan {
        requests: vec![RequestSpec { method: None, url: url.to_string() }],
        headers: Vec::new(),
        body: Vec::new(),
        connections: 2,
        threads: 1,
        duration: None,
        count: Some(20),
        timeout: Duration::from_secs(2),
        new_connections: false,
        pipeline: 1,
        rate: None,
        http2: false,
        unix_socket: None,
        family: Family::Any,
        trust: Trust::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_files_are_parsed() {
        let requests = parse_url_file("# those\nhttp://a/\n\n  POST http://b/x \n").unwrap();
        assert_eq!(requests[0], RequestSpec { method: None, url: "http://a/".into() });
        let post = RequestSpec { method: Some("POST".into()), url: "http://b/x".into() };
        assert_eq!(requests[1], post);
        let error = parse_url_file("http://a/\nGET http://b now").unwrap_err().to_string();
        assert_eq!(error, "line 2 is not URL or METHOD URL");
        assert!(parse_url_file("# nothing\n").is_err());
    }

    #[test]
    fn threads_share_the_limit_of_requests() {
        let limit = RequestLimit::new(Some(2));
        let other = limit.clone();
        assert!(limit.take() && other.take() && !limit.take() && other.is_reached());
        let unlimited = RequestLimit::new(None);
        assert!(unlimited.take() && !unlimited.is_reached());
    }

    #[test]
    fn unusable_plans_are_rejected() {
        let error = |plan: Plan| plan.check().unwrap_err().to_string();
        let plan = || test_plan("http://127.0.0.1/");
        assert!(plan().check().is_ok());
        let few = error(Plan { threads: 3, ..plan() });
        assert_eq!(few, "2 connections are too few for 3 threads: each thread needs one");
        let duration = Some(Duration::from_millis(500));
        let seldom = error(Plan { rate: Some(1.0), duration, ..plan() });
        assert!(seldom.starts_with("no request is due in 500 ms at 1 requests"), "{seldom}");
        assert!(error(Plan { rate: Some(f64::NAN), ..plan() }).starts_with("--rate must be"));
        assert!(error(Plan { requests: Vec::new(), ..plan() }).contains("--urls-file"));
    }
}
