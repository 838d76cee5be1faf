//! Where an answer of HTTP/1.1 ends, whatever pieces it comes in (RFC 9112, section 6.3).
//!
//! Bytes are looked at where they are. Of an answer nothing is kept but a head that came in pieces.

use std::mem::MaybeUninit;

use httparse::{ParserConfig, Response, Status};

/// Longest head, and most fields in it.
const HEAD: usize = 64 << 10;
const FIELDS: usize = 100;
/// Longest line that tells the size of a chunk, and longest trailer.
const LINE: usize = 4 << 10;

/// What is being read.
#[derive(Debug, Default)]
pub struct Answer {
    part: Part,
    /// A head, or the line of a chunk, that is not whole yet.
    kept: Vec<u8>,
    status: u16,
    keep_alive: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    Body {
        left: u64,
    },
    ChunkLine,
    Chunk {
        left: u64,
    },
    /// The line end after a chunk.
    ChunkEnd,
    Trailer,
    UntilClose,
}

/// What some bytes brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fed {
    /// All of them belong to the answer, which goes on.
    All,
    /// The answer ended after so many of them.
    End {
        /// Bytes that belong to it.
        used: usize,
        /// Its status.
        status: u16,
        /// Whether the server takes another request on this connection.
        keep_alive: bool,
    },
}

/// What is wrong with an answer.
pub type Malformed = &'static str;

impl Answer {
    /// Takes bytes. `no_body`: the request was HEAD.
    pub fn feed(&mut self, bytes: &[u8], no_body: bool) -> Result<Fed, Malformed> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            match self.part {
                Part::Head => {
                    let Some(used) = self.head(rest, no_body)? else { return Ok(Fed::All) };
                    at += used;
                    if self.part == (Part::Body { left: 0 }) {
                        return Ok(self.end(at));
                    }
                }
                Part::Body { left } | Part::Chunk { left } => {
                    let take = left.min(rest.len() as u64);
                    at += take as usize;
                    let left = left - take;
                    let chunked = matches!(self.part, Part::Chunk { .. });
                    match (left, chunked) {
                        (0, false) => return Ok(self.end(at)),
                        (0, true) => self.part = Part::ChunkEnd,
                        (_, false) => self.part = Part::Body { left },
                        (_, true) => self.part = Part::Chunk { left },
                    }
                    if left > 0 {
                        return Ok(Fed::All);
                    }
                }
                Part::ChunkLine | Part::ChunkEnd | Part::Trailer => {
                    let Some(used) = self.line(rest)? else { return Ok(Fed::All) };
                    at += used;
                    let line = std::mem::take(&mut self.kept);
                    let line = line.strip_suffix(b"\r").unwrap_or(&line);
                    match self.part {
                        Part::ChunkLine => {
                            self.part = match chunk_size(line)? {
                                0 => Part::Trailer,
                                left => Part::Chunk { left },
                            }
                        }
                        Part::ChunkEnd if !line.is_empty() => {
                            return Err("a chunk without its end");
                        }
                        Part::ChunkEnd => self.part = Part::ChunkLine,
                        _ if line.is_empty() => return Ok(self.end(at)),
                        _ => {}
                    }
                }
                Part::UntilClose => return Ok(Fed::All),
            }
        }
    }

    /// The connection was closed: the status of an answer that ends so.
    pub fn closed(&mut self) -> Option<u16> {
        let ended = self.part == Part::UntilClose;
        let status = self.status;
        *self = Answer::default();
        ended.then_some(status)
    }

    /// Begins anew.
    pub fn reset(&mut self) {
        *self = Answer::default();
    }

    fn end(&mut self, used: usize) -> Fed {
        self.part = Part::Head;
        Fed::End { used, status: self.status, keep_alive: self.keep_alive }
    }

    /// A head, if it is whole: how many of these bytes are its own.
    fn head(&mut self, bytes: &[u8], no_body: bool) -> Result<Option<usize>, Malformed> {
        let before = self.kept.len();
        if before > 0 {
            self.kept.extend_from_slice(&bytes[..bytes.len().min(HEAD)]);
        }
        let whole = if before > 0 { &self.kept[..] } else { bytes };
        let Some(head) = parse(whole, no_body)? else {
            if before == 0 {
                self.kept.extend_from_slice(&bytes[..bytes.len().min(HEAD)]);
            }
            let long = self.kept.len() >= HEAD;
            return if long { Err("a head of more than 64 KiB") } else { Ok(None) };
        };
        self.kept.clear();
        self.status = head.status;
        self.keep_alive = head.keep_alive && head.part != Part::UntilClose;
        // 100 Continue and the like come before the answer.
        self.part = if (100..=199).contains(&head.status) && head.status != 101 {
            Part::Head
        } else {
            head.part
        };
        Ok(Some(head.bytes.saturating_sub(before)))
    }

    /// Keeps a line up to its end, which is not kept; how many bytes are its own.
    fn line(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let line = &bytes[..end.unwrap_or(bytes.len())];
        if self.kept.len() + line.len() > LINE {
            return Err("a line of more than 4 KiB between chunks");
        }
        self.kept.extend_from_slice(line);
        Ok(end.map(|end| end + 1))
    }
}

struct Head {
    bytes: usize,
    status: u16,
    keep_alive: bool,
    part: Part,
}

fn parse(bytes: &[u8], no_body: bool) -> Result<Option<Head>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
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
        Err(httparse::Error::Status) => return Err("a status that is none"),
        Err(httparse::Error::TooManyHeaders) => return Err("more than 100 header fields"),
        Err(_) => return Err("a head that is none"),
    };
    let status = response.code.unwrap_or_default();
    let (mut keep_alive, mut size, mut chunked) = (response.version == Some(1), None, false);
    for field in response.headers.iter() {
        let named = |name: &str| field.name.eq_ignore_ascii_case(name);
        // By length first: most fields are none of the three.
        match field.name.len() {
            10 if named("connection") => {
                if holds(field.value, "close") {
                    keep_alive = false;
                } else if holds(field.value, "keep-alive") {
                    keep_alive = true;
                }
            }
            14 if named("content-length") => {
                let number = number(field.value).ok_or("a Content-Length that is no number")?;
                if size.is_some_and(|size| size != number) {
                    return Err("two different Content-Length fields");
                }
                size = Some(number);
            }
            17 if named("transfer-encoding") => chunked = holds(field.value, "chunked"),
            _ => {}
        }
    }
    let part = match (no_body || matches!(status, 204 | 304) || status < 200, chunked, size) {
        (true, _, _) => Part::Body { left: 0 },
        (_, true, _) => Part::ChunkLine,
        (_, _, Some(left)) => Part::Body { left },
        (_, _, None) => Part::UntilClose,
    };
    Ok(Some(Head { bytes: length, status, keep_alive: keep_alive && status != 101, part }))
}

/// Whether a list of words, separated by commas, holds one.
fn holds(value: &[u8], word: &str) -> bool {
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
    let wrong = "a chunk without a size";
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let hex = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| hex).ok_or(wrong)?;
    u64::from_str_radix(text, 16).map_err(|_| wrong)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONG: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CHUNKED: &[u8] = b"HTTP/1.1 404 No\r\nTransfer-Encoding: gzip, Chunked\r\n\
        Connection: close\r\n\r\n5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n";

    /// Status and keep-alive of each answer in it, fed in pieces of this size.
    fn read(bytes: &[u8], size: usize, no_body: bool) -> Result<Vec<(u16, bool)>, Malformed> {
        let (mut answer, mut all) = (Answer::default(), Vec::new());
        for piece in bytes.chunks(size) {
            let mut at = 0;
            while at < piece.len() {
                match answer.feed(&piece[at..], no_body)? {
                    Fed::All => break,
                    Fed::End { used, status, keep_alive } => {
                        at += used;
                        all.push((status, keep_alive));
                    }
                }
            }
        }
        Ok(all)
    }

    #[test]
    fn answers_end_where_they_say_in_whatever_pieces() {
        let mut two = LONG.to_vec();
        two.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        two.extend_from_slice(CHUNKED);
        for size in 1..=two.len() {
            assert_eq!(read(&two, size, false), Ok(vec![(200, true), (404, false)]), "{size}");
        }
    }

    #[test]
    fn some_answers_have_no_body() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(read(head, 99, true), Ok(vec![(200, true)]));
        assert_eq!(read(b"HTTP/1.1 304 Same\r\n\r\n", 99, false), Ok(vec![(304, true)]));
        assert_eq!(read(b"HTTP/1.0 204 None\r\n\r\n", 99, false), Ok(vec![(204, false)]));
    }

    #[test]
    fn an_answer_may_end_with_its_connection() {
        let mut answer = Answer::default();
        let bytes = b"HTTP/1.1 200 OK\r\n\r\nuntil the end";
        assert_eq!(answer.feed(bytes, false), Ok(Fed::All));
        assert_eq!(answer.closed(), Some(200));
        assert_eq!(answer.feed(&LONG[..41], false), Ok(Fed::All));
        assert_eq!(answer.closed(), None, "cut");
        assert_eq!(answer.closed(), None, "nothing of it came");
    }

    #[test]
    fn what_is_no_answer_is_told() {
        for (bytes, words) in [
            (&b"SSH-2.0-OpenSSH_9\r\n"[..], "HTTP/1.1"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "no number"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "two different"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "without a size"),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
                "without its end",
            ),
        ] {
            let error = read(bytes, 7, false).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let endless = vec![b'a'; HEAD * 2];
        let head = [b"HTTP/1.1 200 OK\r\nA: ", &endless[..]].concat();
        assert_eq!(read(&head, 1_000, false), Err("a head of more than 64 KiB"));
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), size in 1usize..50) {
            let _ = read(&bytes, size, false);
            let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            chunked.extend_from_slice(&bytes);
            let _ = read(&chunked, size, false);
        }
    }
}
