//! Finds the end of HTTP/1.1 responses that arrive in pieces of any size (RFC 9112, section 6.3).
//!
//! Bytes are parsed in place: only an incomplete head, or an incomplete line between chunks, is copied.

use std::mem::MaybeUninit;

use httparse::{ParserConfig, Response, Status};

/// Longest head, and most fields in it and in a trailer.
pub(super) const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_FIELDS: usize = 100;
/// Most interim responses before a final one, as Python's http.client and Ruby's net/http have it.
pub(super) const MAX_INTERIM_RESPONSES: u32 = 100;
/// The error beyond that.
pub(super) const TOO_MANY_INTERIM: Malformed = "more than 100 interim responses (1xx)";
/// Longest chunk-size line and longest trailer field.
const MAX_LINE_BYTES: usize = 4 << 10;

/// Parses the responses of one connection.
#[derive(Debug, Default)]
pub struct ResponseParser {
    state: State,
    /// An incomplete head, or an incomplete line between chunks.
    incomplete: Vec<u8>,
    status: u16,
    keep_alive: bool,
    /// Interim responses before this one, and fields of its trailer.
    interim_responses: u32,
    trailer_fields: usize,
}

/// What the next byte belongs to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Body {
        left: u64,
    },
    ChunkSize,
    Chunk {
        left: u64,
    },
    /// The line end after a chunk.
    ChunkEnd,
    Trailer,
    /// A body that ends with the connection.
    BodyUntilClose,
}

/// What some bytes contained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// The response is not complete; all bytes belong to it.
    Incomplete,
    /// The response is complete.
    Complete {
        /// How many of the bytes belong to it.
        used: usize,
        /// Its status.
        status: u16,
        /// Whether the server accepts another request on this connection.
        keep_alive: bool,
    },
}

/// Why a response is malformed.
pub type Malformed = &'static str;

impl ResponseParser {
    /// Parses the next bytes. `no_body`: the request was HEAD.
    ///
    /// # Errors
    ///
    /// The bytes are no HTTP/1.1 or HTTP/1.0 response.
    pub fn parse(&mut self, bytes: &[u8], no_body: bool) -> Result<Parsed, Malformed> {
        let mut used = 0;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            match self.state {
                State::Head => {
                    let Some(head) = self.head(rest, no_body)? else {
                        return Ok(Parsed::Incomplete);
                    };
                    used += head;
                    if self.state == (State::Body { left: 0 }) {
                        return Ok(self.complete(used));
                    }
                }
                State::Body { left } | State::Chunk { left } => {
                    let taken = left.min(rest.len() as u64);
                    used += taken as usize;
                    let left = left - taken;
                    let chunked = matches!(self.state, State::Chunk { .. });
                    match (left, chunked) {
                        (0, false) => return Ok(self.complete(used)),
                        (0, true) => self.state = State::ChunkEnd,
                        (_, false) => self.state = State::Body { left },
                        (_, true) => self.state = State::Chunk { left },
                    }
                    if left > 0 {
                        return Ok(Parsed::Incomplete);
                    }
                }
                State::ChunkSize | State::ChunkEnd | State::Trailer => {
                    let Some(line) = self.line(rest)? else { return Ok(Parsed::Incomplete) };
                    used += line;
                    let line = std::mem::take(&mut self.incomplete);
                    let line = line.strip_suffix(b"\r").unwrap_or(&line);
                    match self.state {
                        State::ChunkSize => {
                            self.state = match chunk_size(line)? {
                                0 => State::Trailer,
                                left => State::Chunk { left },
                            }
                        }
                        State::ChunkEnd if !line.is_empty() => {
                            return Err("no line end after a chunk");
                        }
                        State::ChunkEnd => self.state = State::ChunkSize,
                        _ if line.is_empty() => return Ok(self.complete(used)),
                        _ if self.trailer_fields == MAX_FIELDS => {
                            return Err("more than 100 trailer fields");
                        }
                        _ => self.trailer_fields += 1,
                    }
                }
                State::BodyUntilClose => return Ok(Parsed::Incomplete),
            }
        }
    }

    /// The connection was closed: the status of a response that ends with it. `None`: the response is
    /// incomplete, or none was received.
    pub fn closed(&mut self) -> Option<u16> {
        let complete = self.state == State::BodyUntilClose;
        let status = self.status;
        *self = ResponseParser::default();
        complete.then_some(status)
    }

    /// Starts over, for a new connection.
    pub fn reset(&mut self) {
        *self = ResponseParser::default();
    }

    fn complete(&mut self, used: usize) -> Parsed {
        self.state = State::Head;
        (self.interim_responses, self.trailer_fields) = (0, 0);
        Parsed::Complete { used, status: self.status, keep_alive: self.keep_alive }
    }

    /// How many of the bytes belong to the head; `None`: it is incomplete.
    fn head(&mut self, bytes: &[u8], no_body: bool) -> Result<Option<usize>, Malformed> {
        let limited = bytes.get(..MAX_HEAD_BYTES).unwrap_or(bytes);
        let before = self.incomplete.len();
        let head = if before > 0 {
            self.incomplete.extend_from_slice(limited);
            parse(&self.incomplete, no_body)?
        } else {
            parse(bytes, no_body)?
        };
        let Some(head) = head else {
            if before == 0 {
                self.incomplete.extend_from_slice(limited);
            }
            let too_long = self.incomplete.len() >= MAX_HEAD_BYTES;
            return if too_long { Err("head longer than 64 KiB") } else { Ok(None) };
        };
        self.incomplete.clear();
        self.status = head.status;
        self.keep_alive = head.keep_alive && head.body != State::BodyUntilClose;
        // An interim response (100 Continue, 103 Early Hints) precedes the final one.
        let interim = (100..=199).contains(&head.status) && head.status != 101;
        self.state = if interim { State::Head } else { head.body };
        if interim {
            self.interim_responses += 1;
            if self.interim_responses > MAX_INTERIM_RESPONSES {
                return Err(TOO_MANY_INTERIM);
            }
        }
        Ok(Some(head.bytes.saturating_sub(before)))
    }

    /// Appends a line without its end to `incomplete`: how many of the bytes belong to it; `None`: it is
    /// incomplete.
    fn line(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let line = end.and_then(|end| bytes.get(..end)).unwrap_or(bytes);
        if self.incomplete.len() + line.len() > MAX_LINE_BYTES {
            return Err("line between chunks longer than 4 KiB");
        }
        self.incomplete.extend_from_slice(line);
        Ok(end.map(|end| end + 1))
    }
}

/// A head.
struct Head {
    bytes: usize,
    status: u16,
    keep_alive: bool,
    /// What follows it.
    body: State,
}

/// Parses a head; `None`: it is incomplete.
fn parse(bytes: &[u8], no_body: bool) -> Result<Option<Head>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut response = Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut fields,
    );
    let length = match parsed {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Ok(None),
        Err(httparse::Error::Version) => return Err("not HTTP/1.1 or 1.0"),
        Err(httparse::Error::Status) => return Err("malformed status line"),
        Err(httparse::Error::TooManyHeaders) => return Err("more than 100 header fields"),
        Err(_) => return Err("malformed header"),
    };
    let status = response.code.unwrap_or_default();
    let (mut keep_alive, mut size, mut chunked) = (response.version == Some(1), None, false);
    for field in response.headers.iter() {
        let named = |name: &str| field.name.eq_ignore_ascii_case(name);
        // By length first: most fields are not one of the three.
        match field.name.len() {
            10 if named("connection") => {
                if contains(field.value, "close") {
                    keep_alive = false;
                } else if contains(field.value, "keep-alive") {
                    keep_alive = true;
                }
            }
            14 if named("content-length") => {
                let number = number(field.value).ok_or("malformed Content-Length")?;
                if size.is_some_and(|size| size != number) {
                    return Err("conflicting Content-Length fields");
                }
                size = Some(number);
            }
            17 if named("transfer-encoding") => chunked = contains(field.value, "chunked"),
            _ => {}
        }
    }
    let no_body = no_body || matches!(status, 204 | 304) || status < 200;
    let body = match (no_body, chunked, size) {
        (true, _, _) => State::Body { left: 0 },
        (_, true, _) => State::ChunkSize,
        (_, _, Some(left)) => State::Body { left },
        (_, _, None) => State::BodyUntilClose,
    };
    Ok(Some(Head { bytes: length, status, keep_alive: keep_alive && status != 101, body }))
}

/// Whether a comma-separated list contains a word.
fn contains(value: &[u8], word: &str) -> bool {
    value
        .split(|byte| *byte == b',')
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

fn number(digits: &[u8]) -> Option<u64> {
    let digits = digits.trim_ascii();
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if all { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

fn chunk_size(line: &[u8]) -> Result<u64, Malformed> {
    let malformed = "malformed chunk size";
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let hex = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| hex).ok_or(malformed)?;
    u64::from_str_radix(text, 16).map_err(|_| malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONG: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CHUNKED: &[u8] = b"HTTP/1.1 404 No\r\nTransfer-Encoding: gzip, Chunked\r\n\
        Connection: close\r\n\r\n5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n";

    /// Status and keep-alive of each response, parsed in pieces of this size.
    fn read(bytes: &[u8], size: usize, no_body: bool) -> Result<Vec<(u16, bool)>, Malformed> {
        let (mut parser, mut all) = (ResponseParser::default(), Vec::new());
        for piece in bytes.chunks(size) {
            let mut at = 0;
            while at < piece.len() {
                match parser.parse(&piece[at..], no_body)? {
                    Parsed::Incomplete => break,
                    Parsed::Complete { used, status, keep_alive } => {
                        at += used;
                        all.push((status, keep_alive));
                    }
                }
            }
        }
        Ok(all)
    }

    #[test]
    fn responses_end_at_the_same_byte_in_pieces_of_any_size() {
        let mut two = LONG.to_vec();
        two.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        two.extend_from_slice(CHUNKED);
        for size in 1..=two.len() {
            assert_eq!(read(&two, size, false), Ok(vec![(200, true), (404, false)]), "{size}");
        }
    }

    #[test]
    fn responses_to_head_204_and_304_have_no_body() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(read(head, 99, true), Ok(vec![(200, true)]));
        assert_eq!(read(b"HTTP/1.1 304 Same\r\n\r\n", 99, false), Ok(vec![(304, true)]));
        assert_eq!(read(b"HTTP/1.0 204 None\r\n\r\n", 99, false), Ok(vec![(204, false)]));
    }

    #[test]
    fn a_response_without_a_length_ends_with_its_connection() {
        let mut parser = ResponseParser::default();
        let bytes = b"HTTP/1.1 200 OK\r\n\r\nuntil the end";
        assert_eq!(parser.parse(bytes, false), Ok(Parsed::Incomplete));
        assert_eq!(parser.closed(), Some(200));
        assert_eq!(parser.parse(&LONG[..41], false), Ok(Parsed::Incomplete));
        assert_eq!(parser.closed(), None, "cut off");
        assert_eq!(parser.closed(), None, "nothing received");
    }

    #[test]
    fn malformed_responses_are_rejected_with_a_reason() {
        for (bytes, reason) in [
            (&b"SSH-2.0-OpenSSH_9\r\n"[..], "not HTTP/1.1 or 1.0"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "malformed Content-Length"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "conflicting"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "chunk size"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "no line end"),
        ] {
            let error = read(bytes, 7, false).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let endless = vec![b'a'; MAX_HEAD_BYTES * 2];
        let head = [b"HTTP/1.1 200 OK\r\nA: ", &endless[..]].concat();
        assert_eq!(read(&head, 1_000, false), Err("head longer than 64 KiB"));
    }

    #[test]
    fn interim_responses_and_trailer_fields_are_limited() {
        let interim = |count| [b"HTTP/1.1 100 Continue\r\n\r\n".repeat(count), LONG.to_vec()];
        let limit = MAX_INTERIM_RESPONSES as usize;
        let allowed = [interim(limit), interim(limit)].concat().concat();
        let endless = interim(limit + 1).concat();
        let trailer = |count| {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n".to_vec();
            [head, b"A: b\r\n".repeat(count), b"\r\n".to_vec()].concat()
        };
        for size in [7, 99_999] {
            assert_eq!(read(&allowed, size, false), Ok(vec![(200, true); 2]));
            assert_eq!(read(&endless, size, false), Err(TOO_MANY_INTERIM));
            assert_eq!(read(&trailer(MAX_FIELDS).repeat(2), size, false).unwrap().len(), 2);
            let long = read(&trailer(MAX_FIELDS + 1), size, false);
            assert_eq!(long, Err("more than 100 trailer fields"));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_rejected(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            size in 1usize..50,
        ) {
            let _ = read(&bytes, size, false);
            let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            chunked.extend_from_slice(&bytes);
            let _ = read(&chunked, size, false);
        }
    }
}
