//! The logs that a process has open: regular files that it may append to.

use std::path::PathBuf;

use sys::{ErrorKind, Machine, Result, Stat};

/// Most open files of one process that are looked at.
const MOST_FILES: usize = 4096;
/// Descriptors looked at in a process that has more files open than that: logs are opened early
/// and have low numbers. Listing the others would take longer than a look may.
const LOWEST_OF_MANY: u32 = 256;

/// How many descriptors of a process are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scan {
    /// As many as is cheap.
    All,
    /// Those below this number.
    Below(u32),
}

/// A log that a process has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    /// Descriptor.
    pub(super) fd: u32,
    /// Path as the process sees it.
    pub(super) path: String,
    /// Size and identity.
    pub(super) stat: Stat,
}

/// The logs that a process has open. Files that are closed meanwhile are passed over.
///
/// # Errors
/// Its open files cannot be listed.
pub(super) fn open_logs(machine: &dyn Machine, pid: u32, scan: Scan) -> Result<Vec<Open>> {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    // Since Linux 6.2 the size of this folder is the number of open files.
    let below = match (scan, machine.stat(&folder)?.size) {
        (Scan::Below(below), _) => Some(below),
        (Scan::All, many) if many > MOST_FILES as u64 => Some(LOWEST_OF_MANY),
        (Scan::All, _) => None,
    };
    let descriptors: Vec<u32> = match below {
        Some(below) => {
            // Without permission every link would fail in silence.
            match machine.link(&folder.join("0")) {
                Err(error) if error.kind == ErrorKind::PermissionDenied => return Err(error),
                _ => (0..below).collect(),
            }
        }
        None => {
            let mut descriptors = Vec::new();
            machine.list(&folder, &mut |name| descriptors.extend(name.parse::<u32>().ok()))?;
            descriptors.sort_unstable();
            descriptors.truncate(MOST_FILES);
            descriptors
        }
    };
    Ok(descriptors.into_iter().filter_map(|fd| open_log(machine, pid, fd)).collect())
}

fn open_log(machine: &dyn Machine, pid: u32, fd: u32) -> Option<Open> {
    let entry = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
    let target = machine.link(&entry).ok()?;
    let target = target.to_str()?;
    // A rotated log that nobody reopened is still written.
    let path = target.strip_suffix(" (deleted)").unwrap_or(target);
    let elsewhere = ["/dev/", "/proc/", "/sys/", "/memfd:", "/anon_hugepage"];
    if !path.starts_with('/') || elsewhere.iter().any(|folder| path.starts_with(folder)) {
        return None;
    }
    let mut info = Vec::new();
    machine.read(&PathBuf::from(format!("/proc/{pid}/fdinfo/{fd}")), &mut info).ok()?;
    let flags = flags(&info)?;
    // O_WRONLY or O_RDWR; O_APPEND (`include/uapi/asm-generic/fcntl.h`).
    let writes = flags & 0o3 != 0;
    let appends = flags & 0o2000 != 0;
    if !writes || !(appends || path.ends_with(".log")) {
        return None;
    }
    let stat = machine.stat(&entry).ok()?;
    stat.regular.then(|| Open { fd, path: path.to_string(), stat })
}

/// The open flags in `/proc/PID/fdinfo/FD`, which are written in octal.
fn flags(info: &[u8]) -> Option<u32> {
    let info = std::str::from_utf8(info).ok()?;
    let digits = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    u32::from_str_radix(digits.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::flags;

    #[test]
    fn flags_are_octal() {
        assert_eq!(flags(b"pos:\t45685\nflags:\t0102001\nmnt_id:\t27\n"), Some(0o102_001));
        assert_eq!(flags(b"pos:\t1\nflags:\t9\n"), None);
        assert_eq!(flags(b"\xff"), None);
    }
}
