//! The first lines of HTTP/1 messages (RFC 9112).

/// Longest method: those that are registered have at most 17 letters (`UPDATEREDIRECTREF`).
const MAX_METHOD_BYTES: usize = 17;

/// The first line of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// `GET`, `POST` and the like.
    pub method: &'a str,
    /// Request target, as in the line; truncated where the segment or the capture ends.
    pub target: &'a str,
}

/// The request that begins here. A line that is truncated within its target is one if its method is
/// common.
pub fn request(bytes: &[u8]) -> Option<Request<'_>> {
    let line =
        bytes.iter().take(MAX_METHOD_BYTES + 1).position(|byte| !byte.is_ascii_uppercase())?;
    let (method, rest) = bytes.split_at_checked(line)?;
    let rest = rest.strip_prefix(b" ")?;
    let end = rest.iter().position(|byte| !byte.is_ascii_graphic()).unwrap_or(rest.len());
    let (target, rest) = rest.split_at_checked(end)?;
    let (method, target) = (str::from_utf8(method).ok()?, str::from_utf8(target).ok()?);
    let whole = rest.starts_with(b" HTTP/1.");
    let truncated = rest.len() < b" HTTP/1.".len() && b" HTTP/1.".starts_with(rest);
    let plausible = match target.as_bytes().first()? {
        b'/' | b'*' => true,
        // Proxies get absolute URLs, and hosts.
        _ => method == "CONNECT" || target.contains("://"),
    };
    (method.len() >= 3 && plausible && (whole || truncated && is_common(method)))
        .then_some(Request { method, target })
}

fn is_common(method: &str) -> bool {
    let common = ["GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE"];
    common.contains(&method)
}

/// The status of the response that begins here, from 100 to 599.
#[inline]
pub fn status(bytes: &[u8]) -> Option<u16> {
    let rest = bytes.strip_prefix(b"HTTP/1.")?;
    let [version, b' ', digits @ ..] = rest else { return None };
    let (digits, rest) = digits.split_first_chunk::<3>()?;
    let ends = rest.first().is_none_or(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
    if !version.is_ascii_digit() || !digits.iter().all(u8::is_ascii_digit) || !ends {
        return None;
    }
    let status = digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    (100..600).contains(&status).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[u8]) -> Option<(&str, &str)> {
        request(bytes).map(|request| (request.method, request.target))
    }

    #[test]
    fn requests() {
        assert_eq!(parsed(b"GET / HTTP/1.1\r\nHost: a\r\n"), Some(("GET", "/")));
        assert_eq!(parsed(b"POST /a?b=c HTTP/1.0\r\n"), Some(("POST", "/a?b=c")));
        assert_eq!(parsed(b"PROPFIND /dav HTTP/1.1\r\n"), Some(("PROPFIND", "/dav")));
        assert_eq!(parsed(b"OPTIONS * HTTP/1.1\r\n"), Some(("OPTIONS", "*")));
        assert_eq!(parsed(b"CONNECT a.b:443 HTTP/1.1\r\n"), Some(("CONNECT", "a.b:443")));
        assert_eq!(parsed(b"GET http://a/b HTTP/1.1\r\n"), Some(("GET", "http://a/b")));
        // Truncated by the capture or the end of a segment.
        assert_eq!(parsed(b"GET /a/long/tar"), Some(("GET", "/a/long/tar")));
        assert_eq!(parsed(b"GET /a HT"), Some(("GET", "/a")));
        for no in [
            &b""[..],
            b"GET",
            b"GET ",
            b"get / HTTP/1.1",
            b"FOO /cut",
            b"GET / FTP/1.1\r\n",
            b"PRI * HTTP/2.0\r\n\r\n",
            b"MAIL FROM:<a@b>\r\n",
            b"SELECT 1\n",
            b"GET \xff HTTP/1.1",
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1",
        ] {
            assert_eq!(parsed(no), None, "{}", no.escape_ascii());
        }
    }

    #[test]
    fn statuses() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\n"), Some(200));
        assert_eq!(status(b"HTTP/1.0 504 Gateway Time-out\r\n"), Some(504));
        assert_eq!(status(b"HTTP/1.1 204\r\n"), Some(204));
        assert_eq!(status(b"HTTP/1.1 404"), Some(404));
        for no in [
            &b""[..],
            b"HTTP/1.1",
            b"HTTP/1.1 20",
            b"HTTP/1.1 099 ",
            b"HTTP/1.1 2000",
            b"HTTP/2 200 ",
        ] {
            assert_eq!(status(no), None, "{}", no.escape_ascii());
        }
    }
}
