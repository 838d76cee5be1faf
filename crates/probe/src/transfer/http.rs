//! The client of a plain HTTP server: a request, the head of its response; the body is only counted.
//!
//! HTTP/1.0 with `Connection: keep-alive`: the server then sends the length of the body, or closes the
//! connection after it, and never sends it in chunks.

use std::time::Instant;

use super::connection::{Connection, ConnectionError};
use crate::Error;
use crate::target::Target;

/// Longest head of a response.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// Most header fields.
const MAX_HEADERS: usize = 96;
/// The port of a URL without one.
const DEFAULT_PORT: u16 = 80;

/// A plain HTTP URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Host and port.
    pub target: Target,
    /// From the first slash on.
    pub path: String,
}

impl Url {
    /// The port, 80 unless given.
    pub fn port(&self) -> u16 {
        self.target.port.unwrap_or(DEFAULT_PORT)
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.target.authority(), self.path)
    }
}

impl std::str::FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let rest = text.strip_prefix("http://").ok_or_else(|| {
            Error::Usage(format!("{text}: only http:// is supported; for https see netwhy http"))
        })?;
        let (host, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::Usage(format!(
                "{text}: the path must be ASCII without spaces: encode other characters as %20"
            )));
        }
        let target: Target = host.parse()?;
        Ok(Url { target, path: path.to_string() })
    }
}

/// The body of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Body {
    /// Its bytes; `None`: it ends with the connection.
    pub(super) length: Option<u64>,
    /// Whether the connection stays open after it.
    pub(super) keep_alive: bool,
    /// Bytes of it that were read with the head.
    pub(super) read_bytes: u64,
    /// When the first byte of the response was read.
    pub(super) response_start: Instant,
}

/// A request.
pub(super) fn request(url: &Url, keep_alive: bool) -> Vec<u8> {
    let connection = if keep_alive { "keep-alive" } else { "close" };
    format!(
        "GET {} HTTP/1.0\r\nHost: {}\r\nUser-Agent: netwhy/{}\r\nAccept: */*\r\n\
         Connection: {connection}\r\n\r\n",
        url.path,
        url.target.authority(),
        env!("CARGO_PKG_VERSION"),
    )
    .into_bytes()
}

/// Reads the head of a response.
pub(super) fn read_head(connection: &mut Connection<'_>) -> Result<Body, ConnectionError> {
    let mut buffer = vec![0; MAX_HEAD_BYTES];
    let mut length = 0;
    let mut response_start = None;
    let until = Instant::now() + connection.timeout;
    loop {
        let read = connection.read(buffer.get_mut(length..).unwrap_or_default())?;
        let response_start = *response_start.get_or_insert_with(Instant::now);
        length += read;
        if let Some(body) = parse(buffer.get(..length).unwrap_or(&buffer), response_start)? {
            return Ok(body);
        }
        if read == 0 {
            return Err(ConnectionError::Closed);
        }
        if length >= buffer.len() {
            let why = "the head of the response is longer than 32 KiB".to_string();
            return Err(ConnectionError::Failed(why));
        }
        if Instant::now() >= until {
            return Err(ConnectionError::TimedOut(connection.timeout));
        }
    }
}

/// Parses a head; `None`: it is incomplete.
fn parse(bytes: &[u8], response_start: Instant) -> Result<Option<Body>, ConnectionError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let head_bytes = match response.parse(bytes) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => {
            return Err(ConnectionError::Failed(format!("the response is not HTTP: {error}")));
        }
    };
    let status = response.code.unwrap_or(0);
    if !(200..300).contains(&status) {
        let why = format!("the server responded with status {status}");
        return Err(ConnectionError::Failed(why));
    }
    let value = |name: &str| {
        let field = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(field.value).ok()
    };
    let length = value("content-length").and_then(|text| text.trim().parse().ok());
    let keep_alive =
        value("connection").is_some_and(|text| text.eq_ignore_ascii_case("keep-alive"));
    Ok(Some(Body {
        length,
        keep_alive: keep_alive && length.is_some(),
        read_bytes: bytes.len().saturating_sub(head_bytes) as u64,
        response_start,
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_have_a_host_and_a_path() {
        let url: Url = "http://198.18.0.1:8080/a/b?c".parse().unwrap();
        assert_eq!((url.port(), &url.path[..]), (8080, "/a/b?c"));
        let url: Url = "http://[fd00::1]".parse().unwrap();
        assert_eq!((url.port(), url.to_string()), (80, "http://[fd00::1]/".to_string()));
        for bad in ["https://a/", "a/b", "http:///", "http://a/b c", "http://a/\r\nX: y"] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
    }

    #[test]
    fn heads_have_the_length_of_the_body_or_the_body_ends_with_the_connection() {
        let now = Instant::now();
        let read = |text: &str| parse(text.as_bytes(), now);
        let sized = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\nabc";
        let body = read(sized).unwrap().unwrap();
        assert_eq!((body.length, body.keep_alive, body.read_bytes), (Some(7), true, 3));
        let open = read("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n").unwrap().unwrap();
        assert_eq!((open.length, open.keep_alive), (None, false));
        assert_eq!(read(&sized[..20]).unwrap(), None);
        let missing = read("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err().to_string();
        assert_eq!(missing, "the server responded with status 404");
        assert!(read("SSH-2.0-OpenSSH_9.2\r\n").unwrap_err().to_string().contains("not HTTP"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_rejected(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let _ = parse(&bytes, Instant::now());
        }
    }
}
