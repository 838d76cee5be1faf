//! The files of a recording: their names, errors, bytes as text.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, ErrorKind};
use crate::machine::{FileKind, FileName, NetlinkProtocol, Opened, Stat};

/// Kinds of errors by the word that stands for them in a recording.
const ERROR_WORDS: [(&str, ErrorKind); 5] = [
    ("not-found", ErrorKind::NotFound),
    ("permission", ErrorKind::PermissionDenied),
    ("unsupported", ErrorKind::Unsupported),
    ("timeout", ErrorKind::TimedOut),
    ("other", ErrorKind::Other),
];

/// A path without its root, and without steps that lead out of the folder.
pub(super) fn path_in_folder(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// The file of one version. Always with a number: a path may be a folder and a file in one recording
/// (`stats/proc/7/fd~1`, `links/proc/7/fd/3~1`).
pub(super) fn version_path(base: &Path, number: u32) -> PathBuf {
    let mut name = base.as_os_str().to_os_string();
    name.push(format!("~{number}"));
    PathBuf::from(name)
}

/// An error as text: `!permission permission denied`.
pub(super) fn error_text(error: &Error) -> String {
    let known = ERROR_WORDS.iter().find(|(_, kind)| *kind == error.kind);
    let word = known.map_or("other", |(word, _)| word);
    format!("!{word} {}", error.reason)
}

/// The reason and kind of the error that a recording holds; `None`: it holds an answer.
pub(super) fn parse_error(bytes: &[u8]) -> Option<(String, ErrorKind)> {
    let text = std::str::from_utf8(bytes.strip_prefix(b"!")?).ok()?;
    let (word, reason) = text.split_once(' ')?;
    let (_, kind) = ERROR_WORDS.iter().find(|(known, _)| *known == word)?;
    Some((reason.trim_end().to_string(), *kind))
}

/// Where the answers about a file that a process names are kept.
pub(super) fn path_of(pid: u32, name: &FileName) -> PathBuf {
    match name {
        FileName::Path(path) => {
            Path::new(&format!("/proc/{pid}/root")).join(path.trim_start_matches('/'))
        }
        FileName::Descriptor(number) => PathBuf::from(format!("/proc/{pid}/fd/{number}")),
    }
}

/// What a name led to, as text: `file SIZE INODE DEVICE`, `other a pipe`.
pub(super) fn opened_text(opened: &Opened) -> String {
    match opened {
        Opened::File(file) => {
            let stat = file.stat();
            format!("file {} {} {}\n", stat.size, stat.inode, stat.device)
        }
        Opened::Other(kind) => format!("other {}\n", kind.name()),
    }
}

/// The file or the other kind that an [`opened_text`] tells.
pub(super) fn parse_opened(text: &str) -> Option<Result<Stat, FileKind>> {
    if let Some(name) = text.trim_end().strip_prefix("other ") {
        return FileKind::ALL.into_iter().find(|kind| kind.name() == name).map(Err);
    }
    let mut numbers = text.strip_prefix("file ")?.split_ascii_whitespace();
    let mut next = || numbers.next()?.parse::<u64>().ok();
    Some(Ok(Stat { size: next()?, inode: next()?, device: next()?, regular: true }))
}

/// Bytes in hexadecimal.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to memory cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes of [`hexadecimal`]; other characters are skipped.
pub(super) fn parse_hexadecimal(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| Some(c.to_digit(16)? as u8)).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}

/// An event as one line: milliseconds, blank, its bytes with `\n`, `\\`, `\x1b` and the like.
pub(super) fn event_line(at_ms: u128, event: &[u8]) -> String {
    format!("{at_ms} {}\n", event.escape_ascii())
}

/// Milliseconds and bytes of an [`event_line`].
pub(super) fn parse_event_line(line: &str) -> Option<(u64, Vec<u8>)> {
    let (at_ms, event) = line.split_once(' ')?;
    Some((at_ms.parse().ok()?, unescape(event)))
}

/// The bytes of which [`slice::escape_ascii`] made this text. A backslash that escapes nothing
/// stands for itself.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let Some((byte, rest)) = left.split_first() {
        let (plain, used) = match (byte, rest) {
            (b'\\', [b'n', ..]) => (b'\n', 1),
            (b'\\', [b'r', ..]) => (b'\r', 1),
            (b'\\', [b't', ..]) => (b'\t', 1),
            (b'\\', [c @ (b'\\' | b'\'' | b'"'), ..]) => (*c, 1),
            (b'\\', [b'x', digits @ ..]) => {
                let digits = digits.first_chunk::<2>().and_then(|two| str::from_utf8(two).ok());
                match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
                    Some(code) => (code, 3),
                    None => (b'\\', 0),
                }
            }
            _ => (*byte, 0),
        };
        bytes.push(plain);
        left = rest.get(used..).unwrap_or_default();
    }
    bytes
}

/// The name of a netlink request: its protocol, and a hash of its bytes without the sequence number,
/// which the sender sets.
pub(super) fn request_name(protocol: NetlinkProtocol, request: &[u8]) -> String {
    let mut request = request.to_vec();
    if let Some(sequence) = request.get_mut(8..12) {
        sequence.fill(0);
    }
    // FNV-1a: the same on every machine.
    let hash = request.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    let protocol = match protocol {
        NetlinkProtocol::SockDiag => "sock-diag",
        NetlinkProtocol::Netfilter => "netfilter",
    };
    format!("{protocol}-{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_and_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(parse_hexadecimal(&hexadecimal(&bytes)), bytes);
        assert_eq!(parse_hexadecimal("0g1"), [1]);
        let line = event_line(17, &bytes);
        assert_eq!(line.lines().count(), 1, "one line an event");
        assert_eq!(parse_event_line(line.trim_end_matches('\n')), Some((17, bytes)));
        assert_eq!(parse_event_line("5 a\\q\\x0"), Some((5, b"a\\q\\x0".to_vec())));
        assert_eq!(parse_event_line("soon x"), None);
    }
}
