//! The client's side of a plain HTTP server: a request, the head of its answer, the body counted.
//!
//! HTTP/1.0 with `Connection: keep-alive`: a server then tells the length of the body, or ends the
//! connection after it, and never sends it in chunks.

use std::time::Instant;

use super::line::{Ended, Line};
use crate::Error;
use crate::target::Target;

/// Longest head of an answer, bytes.
const MOST_HEAD: usize = 32 << 10;
/// Most lines of a head.
const MOST_LINES: usize = 96;
/// The port when none is given.
const PORT: u16 = 80;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Host and port.
    pub target: Target,
    /// From the first slash on.
    pub path: String,
}

impl Url {
    /// The port, 80 unless another was given.
    pub fn port(&self) -> u16 {
        self.target.port.unwrap_or(PORT)
    }

    /// Host and port as a request and an address have them.
    fn authority(&self) -> String {
        let target = &self.target;
        let bare = target.port.is_none() && target.host.contains(':');
        if bare { format!("[{}]", target.host) } else { target.to_string() }
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

impl std::str::FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let rest = text.strip_prefix("http://").ok_or_else(|| {
            Error::Usage(format!("{text}: give a plain http:// address; see netwhy http for https"))
        })?;
        let (host, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            let words = format!("{text}: no spaces and only ASCII: write others as %20");
            return Err(Error::Usage(words));
        }
        let target: Target = host.parse()?;
        Ok(Url { target, path: path.to_string() })
    }
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Body {
    /// Its bytes; `None`: to the end of the connection.
    pub(super) length: Option<u64>,
    /// Whether the connection may be used again.
    pub(super) keep: bool,
    /// Bytes of it that came with the head.
    pub(super) have: u64,
    /// When the first byte of the answer came.
    pub(super) first: Instant,
}

/// The bytes of a request.
pub(super) fn request(url: &Url, keep: bool) -> Vec<u8> {
    let connection = if keep { "keep-alive" } else { "close" };
    format!(
        "GET {} HTTP/1.0\r\nHost: {}\r\nUser-Agent: netwhy/{}\r\nAccept: */*\r\n\
         Connection: {connection}\r\n\r\n",
        url.path,
        url.authority(),
        env!("CARGO_PKG_VERSION"),
    )
    .into_bytes()
}

/// Reads the head of an answer.
pub(super) fn head(line: &mut Line<'_>) -> Result<Body, Ended> {
    let mut bytes = vec![0; MOST_HEAD];
    let mut have = 0;
    let mut first = None;
    let until = Instant::now() + line.patience;
    loop {
        let length = line.read(&mut bytes[have..])?;
        let first = *first.get_or_insert_with(Instant::now);
        have += length;
        if let Some(body) = parse(&bytes[..have], first)? {
            return Ok(body);
        }
        if length == 0 {
            return Err(Ended::Closed);
        }
        if have == bytes.len() {
            return Err(Ended::Failed("the head of the answer is too long".to_string()));
        }
        if Instant::now() >= until {
            return Err(Ended::Silent(line.patience));
        }
    }
}

/// Reads a head, if it is there as a whole.
fn parse(bytes: &[u8], first: Instant) -> Result<Option<Body>, Ended> {
    let mut lines = [httparse::EMPTY_HEADER; MOST_LINES];
    let mut answer = httparse::Response::new(&mut lines);
    let end = match answer.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(Ended::Failed(format!("the answer is no HTTP: {error}"))),
    };
    let code = answer.code.unwrap_or(0);
    if !(200..300).contains(&code) {
        return Err(Ended::Failed(format!("the server answered {code}")));
    }
    let value = |name: &str| {
        let line = answer.headers.iter().find(|line| line.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(line.value).ok()
    };
    let length = value("content-length").and_then(|text| text.trim().parse().ok());
    let keep = value("connection").is_some_and(|text| text.eq_ignore_ascii_case("keep-alive"));
    let have = (bytes.len() - end.min(bytes.len())) as u64;
    Ok(Some(Body { length, keep: keep && length.is_some(), have, first }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_path() {
        let url: Url = "http://198.18.0.1:8080/a/b?c".parse().unwrap();
        assert_eq!((url.port(), &url.path[..]), (8080, "/a/b?c"));
        let url: Url = "http://[fd00::1]".parse().unwrap();
        assert_eq!((url.port(), url.to_string()), (80, "http://[fd00::1]/".to_string()));
        for bad in ["https://a/", "a/b", "http:///", "http://a/b c", "http://a/\r\nX: y"] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
    }

    #[test]
    fn heads_tell_how_the_body_ends() {
        let now = Instant::now();
        let read = |text: &str| parse(text.as_bytes(), now);
        let kept = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\nabc";
        let body = read(kept).unwrap().unwrap();
        assert_eq!((body.length, body.keep, body.have), (Some(7), true, 3));
        let open = read("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n").unwrap().unwrap();
        assert_eq!((open.length, open.keep), (None, false));
        assert_eq!(read(&kept[..20]).unwrap(), None);
        let missing = read("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err().to_string();
        assert_eq!(missing, "the server answered 404");
        assert!(read("SSH-2.0-OpenSSH_9.2\r\n").unwrap_err().to_string().contains("no HTTP"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes, Instant::now());
        }
    }
}
