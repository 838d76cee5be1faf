//! What is asked for: URLs, connections, rate, limits.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Error;
use crate::target::Family;

/// Most URLs of a file.
const URLS: usize = 10_000;

/// Whose certificates are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// Anybody's: nothing is checked.
    pub insecure: bool,
    /// Those in this PEM file, instead of the system's.
    pub authorities: Option<PathBuf>,
}

/// One thing to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Method; `GET` when absent, `POST` with a body.
    pub method: Option<String>,
    /// URL: `http://host:port/path`, `https://…`.
    pub url: String,
}

/// A load.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What to ask for, in turns; at least one.
    pub asks: Vec<Ask>,
    /// Header lines beside those that are always sent, name and value.
    pub headers: Vec<(String, String)>,
    /// Body of every request.
    pub body: Vec<u8>,
    /// Connections at once, of all threads.
    pub connections: u32,
    /// Threads, each with its part of the connections.
    pub threads: u32,
    /// End after this time.
    pub time: Option<Duration>,
    /// End after so many requests.
    pub count: Option<u64>,
    /// A request without a whole answer after this time has failed.
    pub timeout: Duration,
    /// A new connection for each request.
    pub new_connections: bool,
    /// Requests that are sent ahead on a connection, 1 and more; with HTTP/2 streams at once.
    pub pipeline: u32,
    /// Speak HTTP/2: of TLS agreed upon, without it from the first byte (prior knowledge).
    pub http2: bool,
    /// Open loop: requests a second, of all threads.
    pub rate: Option<f64>,
    /// A Unix socket in place of the URL's host and port.
    pub unix: Option<PathBuf>,
    /// Which addresses of a name are used.
    pub family: Family,
    /// Whose certificates are believed.
    pub trust: Trust,
}

impl Plan {
    /// What is wrong with it, if something is.
    ///
    /// # Errors
    ///
    /// Numbers that do not fit each other.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |words: String| Err(Error::Usage(words));
        if self.asks.is_empty() {
            return wrong("there is no URL: give one, or a file with --urls".to_string());
        }
        if self.threads == 0 || self.connections < self.threads {
            return wrong(format!(
                "{} connections are too few for {} threads: each needs one",
                self.connections, self.threads
            ));
        }
        if self.http2 && (self.new_connections || self.unix.is_some()) {
            return wrong(
                "--http2 goes neither with --new-connections nor with a Unix socket".into(),
            );
        }
        let ahead = self.pipeline > 1 && !self.http2;
        if ahead && (self.new_connections || self.rate.is_some()) {
            return wrong(
                "--pipeline goes neither with --new-connections nor with --rate".to_string(),
            );
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 10_000_000.0)) {
            return wrong("--rate is above 0 and at most 10,000,000 requests a second".to_string());
        }
        if self.time.is_none() && self.count.is_none() {
            return wrong("a load needs an end: a time or a number of requests".to_string());
        }
        let seldom = self.time.zip(self.rate).filter(|(t, rate)| t.as_secs_f64() * rate < 1.0);
        if let Some((time, rate)) = seldom {
            return wrong(format!(
                "{rate} requests a second for {:.1} s are none: give a longer time",
                time.as_secs_f64()
            ));
        }
        Ok(())
    }
}

/// Requests that may still begin, of all threads together.
#[derive(Debug, Clone)]
pub(super) struct Budget(Option<Arc<AtomicU64>>);

impl Budget {
    pub(super) fn new(count: Option<u64>) -> Self {
        Budget(count.map(|count| Arc::new(AtomicU64::new(count))))
    }

    /// Takes one; false when there is none left.
    pub(super) fn take(&self) -> bool {
        let Some(left) = &self.0 else { return true };
        let taken =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.is_ok()
    }

    /// Whether there is none left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) == 0)
    }
}

/// URLs of a file: one a line, `METHOD URL` or `URL`; empty lines and those with `#` are left out.
///
/// # Errors
///
/// A line that is neither, with its number; none at all, or more than 10,000.
pub fn read_urls(text: &str) -> Result<Vec<Ask>, Error> {
    let mut asks = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        asks.push(match words[..] {
            [url] => Ask { method: None, url: url.to_string() },
            [method, url] => Ask { method: Some(method.to_string()), url: url.to_string() },
            _ => {
                let number = at + 1;
                return Err(Error::Usage(format!("line {number} is neither URL nor METHOD URL")));
            }
        });
    }
    match asks.len() {
        0 => Err(Error::Usage("there is no URL in it".to_string())),
        n if n > URLS => Err(Error::Usage(format!("{n} URLs: the limit is {URLS}"))),
        _ => Ok(asks),
    }
}

/// A small load, for tests.
#[cfg(test)]
pub(super) fn tests_plan(url: &str) -> Plan {
    Plan {
        asks: vec![Ask { method: None, url: url.to_string() }],
        headers: Vec::new(),
        body: Vec::new(),
        connections: 2,
        threads: 1,
        time: None,
        count: Some(20),
        timeout: Duration::from_secs(2),
        new_connections: false,
        pipeline: 1,
        rate: None,
        http2: false,
        unix: None,
        family: Family::Any,
        trust: Trust::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_a_file() {
        let asks = read_urls("# those\nhttp://a/\n\n  POST http://b/x \n").unwrap();
        assert_eq!(asks[0], Ask { method: None, url: "http://a/".into() });
        assert_eq!(asks[1], Ask { method: Some("POST".into()), url: "http://b/x".into() });
        let error = read_urls("http://a/\nGET http://b now").unwrap_err().to_string();
        assert_eq!(error, "line 2 is neither URL nor METHOD URL");
        assert!(read_urls("# nothing\n").is_err());
    }

    #[test]
    fn a_budget_is_spent_once() {
        let budget = Budget::new(Some(2));
        let other = budget.clone();
        assert!(budget.take() && other.take() && !budget.take() && other.is_empty());
        let endless = Budget::new(None);
        assert!(endless.take() && !endless.is_empty());
    }
}
