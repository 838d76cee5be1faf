//! Where the window of a capture ends: tcpdump writes packets some time after they passed.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read as _};
use std::path::Path;
use std::time::Duration;

/// Magic numbers of files with microseconds and with nanoseconds, in the byte order of this machine, in which
/// tcpdump writes (pcap-savefile(5)).
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Bytes of the file header after the magic number.
const REST_OF_FILE_HEADER: i64 = 20;
/// Bytes of the header of a packet, and of it that follow its time and its captured length.
const PACKET_HEADER: u64 = 16;
const REST_OF_PACKET_HEADER: i64 = 4;

/// Cuts off what passed after this moment, since 1970-01-01 UTC.
pub(super) fn cut_off_after(path: &Path, end: Duration) -> io::Result<()> {
    if let Some(length) = length_until(&mut BufReader::new(File::open(path)?), end)? {
        OpenOptions::new().write(true).open(path)?.set_len(length)?;
    }
    Ok(())
}

/// The length of the file up to the first packet after this moment; `None`: there is none.
fn length_until(file: &mut BufReader<File>, end: Duration) -> io::Result<Option<u64>> {
    let nanos_of_unit = match number(file)? {
        Some(MICROSECONDS) => 1_000,
        Some(NANOSECONDS) => 1,
        _ => return Ok(None),
    };
    file.seek_relative(REST_OF_FILE_HEADER)?;
    let mut length = 4 + REST_OF_FILE_HEADER.unsigned_abs();
    while let (Some(seconds), Some(units), Some(captured)) =
        (number(file)?, number(file)?, number(file)?)
    {
        let after = Duration::from_nanos(u64::from(units) * nanos_of_unit);
        if Duration::from_secs(seconds.into()) + after > end {
            return Ok(Some(length));
        }
        file.seek_relative(REST_OF_PACKET_HEADER + i64::from(captured))?;
        length += PACKET_HEADER + u64::from(captured);
    }
    Ok(None)
}

/// The next four bytes; `None` at the end of the file.
fn number(file: &mut BufReader<File>) -> io::Result<Option<u32>> {
    let mut bytes = [0; 4];
    match file.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(u32::from_ne_bytes(bytes))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with a packet of ten bytes in each second.
    fn file(magic: u32, seconds: u32) -> Vec<u8> {
        let mut bytes = magic.to_ne_bytes().to_vec();
        bytes.extend([0; 20]);
        for second in 0..seconds {
            for number in [second, 500, 10, 60] {
                bytes.extend(number.to_ne_bytes());
            }
            bytes.extend([7; 10]);
        }
        bytes
    }

    fn cut(bytes: &[u8], end: Duration) -> usize {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        cut_off_after(file.path(), end).unwrap();
        std::fs::read(file.path()).unwrap().len()
    }

    #[test]
    fn packets_after_the_window_are_cut_off() {
        let whole = file(MICROSECONDS, 5);
        assert_eq!(cut(&whole, Duration::from_micros(2_000_500)), 24 + 3 * 26);
        assert_eq!(cut(&whole, Duration::from_micros(2_000_499)), 24 + 2 * 26);
        assert_eq!(cut(&whole, Duration::from_secs(9)), whole.len());
        let whole = file(NANOSECONDS, 5);
        assert_eq!(cut(&whole, Duration::from_nanos(2_000_000_500)), 24 + 3 * 26);
        // Cut off in the middle, or no capture.
        assert_eq!(cut(&whole[..100], Duration::from_secs(9)), 100);
        assert_eq!(cut(b"text", Duration::ZERO), 4);
        assert_eq!(cut(&[], Duration::ZERO), 0);
    }
}
