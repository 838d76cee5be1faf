//! Files that the user names, which may be of any size, or have no end: a pipe, a device.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::os_error_text;

/// Reads a file.
///
/// # Errors
///
/// Why it cannot be read: that of the system, or more than `max` bytes.
pub fn read(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| os_error_text(&error))?;
    file.take(max + 1).read_to_end(&mut bytes).map_err(|error| os_error_text(&error))?;
    match bytes.len() as u64 {
        length if length > max => Err(format!("it has more than {}", text::bytes(max))),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let zeros = read(Path::new("/dev/zero"), 1 << 20);
        assert_eq!(zeros, Err("it has more than 1.0 MiB".to_string()));
        assert_eq!(read(Path::new("/dev/null"), 1), Ok(Vec::new()));
        assert_eq!(read(Path::new("/nowhere"), 1), Err("No such file or directory".to_string()));
    }
}
