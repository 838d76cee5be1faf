//! Files that a process names, as it may read them.

use std::sync::Arc;

use sys::{Error, ErrorKind, FileName, Files, OpenFile, Opened, Result};

use super::glob;

/// Largest configuration file that is read.
const MAX_CONFIGURATION_BYTES: u64 = 1 << 20;

/// The files that one process names.
#[derive(Clone)]
pub(super) struct ProcessFiles(Arc<dyn sys::ProcessFiles>);

impl ProcessFiles {
    /// The files of a process.
    ///
    /// # Errors
    /// As [`Files::of_process`].
    pub(super) fn of(files: &dyn Files, pid: u32) -> Result<ProcessFiles> {
        files.of_process(pid).map(ProcessFiles)
    }

    /// The user of the process.
    pub(super) fn user(&self) -> u32 {
        self.0.user()
    }

    /// What a path leads to.
    pub(super) fn open(&self, path: &str) -> Result<Opened> {
        self.0.open(&FileName::Path(path.to_string()))
    }

    /// A regular file that the process has open.
    pub(super) fn open_descriptor(&self, number: u32) -> Option<Arc<dyn OpenFile>> {
        regular(self.0.open(&FileName::Descriptor(number)))
    }

    /// The regular file that a path leads to.
    pub(super) fn open_regular(&self, path: &str) -> Option<Arc<dyn OpenFile>> {
        regular(self.open(path))
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// It cannot be opened or read, is not a regular file, or larger than [`MAX_CONFIGURATION_BYTES`].
    pub(super) fn read_configuration(&self, path: &str) -> Result<Vec<u8>> {
        let failed = |reason: String| Err(Error::new("read", path, reason, ErrorKind::Other));
        let file = match self.open(path)? {
            Opened::File(file) => file,
            Opened::Other(kind) => {
                return failed(format!("it is {}, not a regular file", kind.name()));
            }
        };
        let mut bytes = Vec::new();
        // It may grow meanwhile: one byte more than its largest size shows that.
        let mut block = vec![0; 64 << 10];
        loop {
            match file.read_at(bytes.len() as u64, &mut block)? {
                0 => return Ok(bytes),
                read => bytes.extend(block.iter().take(read)),
            }
            if bytes.len() as u64 > MAX_CONFIGURATION_BYTES {
                return failed(format!("it is longer than {MAX_CONFIGURATION_BYTES} bytes"));
            }
        }
    }

    /// The files that match a pattern (`*`, `?`, `[a-z]` as in glob(7)), sorted, at most `max`. A path
    /// that is not a pattern is returned whether it exists or not.
    pub(super) fn expand(&self, pattern: &str, max: usize) -> Vec<String> {
        let mut found = vec![String::new()];
        for part in pattern.split('/').filter(|part| !part.is_empty() && *part != ".") {
            if !part.contains(['*', '?', '[']) {
                for path in &mut found {
                    path.push('/');
                    path.push_str(part);
                }
                continue;
            }
            let mut next = Vec::new();
            for folder in found {
                // A folder that does not exist has no files that match.
                let names = self.0.list(&folder).unwrap_or_default();
                let matching =
                    names.iter().filter(|name| glob::matches(part.as_bytes(), name.as_bytes()));
                next.extend(matching.map(|name| format!("{folder}/{name}")));
                if next.len() > max {
                    break;
                }
            }
            next.sort();
            next.truncate(max);
            found = next;
        }
        found
    }
}

fn regular(opened: Result<Opened>) -> Option<Arc<dyn OpenFile>> {
    match opened {
        Ok(Opened::File(file)) => Some(file),
        _ => None,
    }
}
