//! The logs that a process has open: regular files that it may append to.

use std::path::PathBuf;
use std::sync::Arc;

use sys::{ErrorKind, Files, OpenFile, Result};

use super::process_files::ProcessFiles;

/// Most open files of one process that are examined.
const MAX_FILES: u64 = 4096;
/// Descriptors examined in a process that has more files open than that: logs are opened early and have
/// low numbers. Listing all of them would take longer than a sample may.
const FIRST_DESCRIPTORS: u32 = 256;

/// Which descriptors of a process are examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Descriptors {
    /// As many as is cheap.
    All,
    /// Those below this number.
    Below(u32),
}

/// A log that a process has open.
#[derive(Clone)]
pub(super) struct OpenLog {
    /// Descriptor.
    pub(super) fd: u32,
    /// Path as the process sees it.
    pub(super) path: String,
    /// The file.
    pub(super) file: Arc<dyn OpenFile>,
}

/// The logs that a process has open. Files that are closed meanwhile are skipped.
///
/// # Errors
/// Its open files cannot be listed.
pub(super) fn open_logs(
    files: &dyn Files,
    pid: u32,
    descriptors: Descriptors,
) -> Result<Vec<OpenLog>> {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    // Since Linux 6.2 the size of this folder is the number of open files.
    let below = match (descriptors, files.stat(&folder)?.size) {
        (Descriptors::Below(below), _) => Some(below),
        (Descriptors::All, open) if open > MAX_FILES => Some(FIRST_DESCRIPTORS),
        (Descriptors::All, _) => None,
    };
    let numbers: Vec<u32> = match below {
        Some(below) => {
            // Without permission every link would fail silently.
            match files.link(&folder.join("0")) {
                Err(error) if error.kind == ErrorKind::PermissionDenied => return Err(error),
                _ => (0..below).collect(),
            }
        }
        None => {
            let mut numbers = Vec::new();
            files.list(&folder, &mut |name| numbers.extend(name.parse::<u32>().ok()))?;
            numbers.sort_unstable();
            numbers.truncate(usize::try_from(MAX_FILES).unwrap_or(usize::MAX));
            numbers
        }
    };
    let mut process = None;
    Ok(numbers.into_iter().filter_map(|fd| open_log(files, pid, fd, &mut process)).collect())
}

/// One log. The files of the process are examined only if it has one that may be a log.
fn open_log(
    files: &dyn Files,
    pid: u32,
    fd: u32,
    process: &mut Option<ProcessFiles>,
) -> Option<OpenLog> {
    let entry = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
    let target = files.link(&entry).ok()?;
    let target = target.to_str()?;
    // A rotated log that was not reopened is still written to.
    let path = target.strip_suffix(" (deleted)").unwrap_or(target);
    let not_files = ["/dev/", "/proc/", "/sys/", "/memfd:", "/anon_hugepage"];
    if !path.starts_with('/') || not_files.iter().any(|folder| path.starts_with(folder)) {
        return None;
    }
    let mut info = Vec::new();
    files.read(&PathBuf::from(format!("/proc/{pid}/fdinfo/{fd}")), &mut info).ok()?;
    let flags = flags(&info)?;
    // O_WRONLY or O_RDWR; O_APPEND (`include/uapi/asm-generic/fcntl.h`).
    let writes = flags & 0o3 != 0;
    let appends = flags & 0o2000 != 0;
    if !writes || !(appends || path.ends_with(".log")) {
        return None;
    }
    let process = match process {
        Some(process) => process,
        None => process.insert(ProcessFiles::of(files, pid).ok()?),
    };
    let file = process.open_descriptor(fd)?;
    Some(OpenLog { fd, path: path.to_string(), file })
}

/// The open flags in `/proc/PID/fdinfo/FD`, which are octal.
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
