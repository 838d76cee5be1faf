//! Files that are written for the user: reports, evidence, tables.
//!
//! A folder may be one in which others may write, such as /tmp. A file is new, under a name that nobody
//! can guess, and only its owner may read it; it gets its own name when it is complete. So nobody is made
//! to overwrite a file through a link, and nobody else has the file open.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use sys::privileges::{User, unprivileged_user};

use crate::failure::Failure;

/// Names that are tried for a new file.
const MAX_NAMES: usize = 16;

/// A file that is being written; what is not kept is removed.
#[derive(Debug)]
pub(crate) struct SavedFile {
    path: PathBuf,
    file: File,
    /// Missing for what is no file on a disk: a pipe, a terminal.
    pending: Option<Pending>,
}

/// A new file that does not have its name yet.
#[derive(Debug)]
struct Pending {
    folder: OwnedFd,
    temporary: OsString,
    name: OsString,
    overwrites: bool,
}

impl SavedFile {
    /// Opens a file for writing. An existing file is an error unless it may be overwritten, and then
    /// stays as it is until the new one is complete. What is no file on a disk is written directly.
    pub(crate) fn create(path: &Path, overwrites: bool) -> Result<Self, Failure> {
        let refused = |why: &str| Failure::Usage(format!("cannot write {}: {why}", path.display()));
        let failed = |errno: Errno| refused(&reason(&errno.into()));
        let special = || open_special(CWD, path).map_err(|error| refused(&reason(&error)));
        let written = path.to_str().and_then(sys::descriptor_of).is_some();
        if written {
            let file = special()?;
            return Ok(SavedFile { path: path.to_path_buf(), file, pending: None });
        }
        let Some(name) = path.file_name() else {
            return Err(refused("it is not the name of a file"));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder_of(path), flags, Mode::empty()).map_err(failed)?;
        let existing = rustix::fs::statat(&folder, name, AtFlags::empty());
        let kind = existing.as_ref().ok().map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Some(FileType::Directory) => return Err(refused("it is a folder")),
            Some(FileType::RegularFile) | None => {}
            Some(_) => {
                let file = special()?;
                return Ok(SavedFile { path: path.to_path_buf(), file, pending: None });
            }
        }
        // A link that leads nowhere is a name that exists, too.
        let named = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
        if named.is_ok() && !overwrites {
            return Err(exists(path));
        }
        let (file, temporary) = create_new(&folder).map_err(failed)?;
        let pending = Pending { folder, temporary, name: name.to_os_string(), overwrites };
        let saved = SavedFile { path: path.to_path_buf(), file, pending: Some(pending) };
        saved.set_owner(named.ok().as_ref());
        Ok(saved)
    }

    /// Opens a file under its own name at once: for what is written while it is read, and where the
    /// right to rename it is given up.
    pub(crate) fn create_now(path: &Path, overwrites: bool) -> Result<Self, Failure> {
        let mut saved = SavedFile::create(path, overwrites)?;
        if let Some(pending) = saved.pending.take()
            && let Err(errno) = pending.rename()
        {
            pending.remove();
            return Err(match errno {
                Errno::EXIST => exists(path),
                other => unwritten(path, &other.into()),
            });
        }
        Ok(saved)
    }

    /// What was written is complete: the file gets its name.
    pub(crate) fn keep(mut self) -> Result<(), Failure> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let kept = self.file.sync_all().map_err(|error| unwritten(&self.path, &error));
        let kept = kept.and_then(|()| match pending.rename() {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(exists(&self.path)),
            Err(errno) => Err(unwritten(&self.path, &errno.into())),
        });
        if kept.is_err() {
            pending.remove();
        }
        kept
    }

    /// Bytes written so far, if it is a file on a disk.
    pub(crate) fn bytes(&self) -> u64 {
        let is_file = self.pending.is_some();
        is_file.then(|| self.file.metadata().ok()).flatten().map_or(0, |found| found.len())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file that replaces one of the same owner has its permissions; with sudo, one that is
    /// new belongs to the user who ran sudo.
    fn set_owner(&self, replaced: Option<&Stat>) {
        let own = rustix::process::geteuid().as_raw();
        if let Some(replaced) = replaced.filter(|replaced| {
            replaced.st_uid == own
                && FileType::from_raw_mode(replaced.st_mode) == FileType::RegularFile
        }) {
            // Otherwise the new file is for its owner only.
            let _ = rustix::fs::fchmod(&self.file, Mode::from_raw_mode(replaced.st_mode & 0o777));
        } else if let Some(User { id, group, is_person: true, .. }) = unprivileged_user() {
            // Some file systems have no owners: then the file remains root's.
            let _ = std::os::unix::fs::fchown(&self.file, Some(id), Some(group));
        }
    }
}

impl Write for SavedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for SavedFile {
    fn drop(&mut self) {
        if let Some(pending) = &self.pending {
            pending.remove();
        }
    }
}

impl Pending {
    fn rename(&self) -> rustix::io::Result<()> {
        let Pending { folder, temporary, name, overwrites } = self;
        if *overwrites {
            return rustix::fs::renameat(folder, temporary, folder, name);
        }
        match rustix::fs::renameat_with(folder, temporary, folder, name, RenameFlags::NOREPLACE) {
            // Some file systems cannot.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(folder, temporary, folder, name, AtFlags::empty())?;
                self.remove();
                Ok(())
            }
            result => result,
        }
    }

    fn remove(&self) {
        // Nothing more can be done about what cannot be removed.
        let _ = rustix::fs::unlinkat(&self.folder, &self.temporary, AtFlags::empty());
    }
}

/// Creates a file that nobody else may read, under a name that nobody can guess.
fn create_new(folder: &OwnedFd) -> rustix::io::Result<(File, OsString)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut tried = Err(Errno::EXIST);
    for _ in 0..MAX_NAMES {
        let random = std::hash::RandomState::new().build_hasher().finish();
        let name = OsString::from(format!(".netwhy-{random:016x}"));
        tried = rustix::fs::openat(folder, &name, flags, Mode::RUSR | Mode::WUSR)
            .map(|file| (File::from(file), name));
        if !matches!(tried, Err(Errno::EXIST)) {
            break;
        }
    }
    tried
}

/// Opens what is no file on a disk. If it has become one meanwhile, somebody wants it overwritten.
pub(crate) fn open_special(folder: impl AsFd, path: &Path) -> io::Result<File> {
    // Opening must not wait for a reader; writing may.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::openat(folder, path, flags | OFlags::CLOEXEC, Mode::empty());
    let file = opened.map_err(|errno| match errno {
        Errno::NXIO => io::Error::other("nobody reads this pipe: start its reader first"),
        other => other.into(),
    })?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    let redirected = path.to_str().and_then(sys::descriptor_of).is_some();
    if kind == FileType::RegularFile && !redirected {
        return Err(io::Error::other("it was replaced while it was opened"));
    }
    let flags = rustix::fs::fcntl_getfl(file.as_fd())?;
    rustix::fs::fcntl_setfl(file.as_fd(), flags.difference(OFlags::NONBLOCK))?;
    Ok(file.into())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != OsStr::new("") => folder,
        _ => Path::new("."),
    }
}

fn exists(path: &Path) -> Failure {
    Failure::Usage(format!(
        "{} exists: choose another name, or overwrite it with --force",
        path.display()
    ))
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::Observe(format!("cannot write {}: {}", path.display(), reason(error)))
}

/// Why a file could not be written, in words.
fn reason(error: &io::Error) -> String {
    sys::Error::from_io("write", "", error).reason
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn save(path: &Path, overwrites: bool, text: &str) -> Result<(), String> {
        let mut file = SavedFile::create(path, overwrites).map_err(|error| error.to_string())?;
        file.write_all(text.as_bytes()).unwrap();
        assert_eq!(file.bytes(), text.len() as u64);
        file.keep().map_err(|error| error.to_string())
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_appears_when_it_is_complete_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        let mut file = SavedFile::create(&path, false).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it is removed");
        save(&path, false, "whole").unwrap();
        assert_eq!(
            (std::fs::read_to_string(&path).unwrap().as_str(), mode(&path)),
            ("whole", 0o600)
        );
        let refused = save(&path, false, "another").unwrap_err();
        assert!(refused.contains("exists") && refused.contains("--force"), "{refused}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        save(&path, true, "another").unwrap();
        assert_eq!(
            (std::fs::read_to_string(&path).unwrap().as_str(), mode(&path)),
            ("another", 0o640)
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_appears_meanwhile_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        let file = SavedFile::create(&path, false).unwrap();
        std::fs::write(&path, "somebody else's").unwrap();
        assert!(file.keep().unwrap_err().to_string().contains("exists"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody else's");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_are_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
        std::fs::write(&victim, "precious").unwrap();
        for target in [victim.clone(), folder.path().join("nothing")] {
            let _ = std::fs::remove_file(&link);
            symlink(&target, &link).unwrap();
            assert!(save(&link, false, "x").unwrap_err().contains("exists"));
            save(&link, true, "new").unwrap();
            assert!(!link.is_symlink());
            assert_eq!(
                (std::fs::read_to_string(&link).unwrap().as_str(), mode(&link)),
                ("new", 0o600)
            );
        }
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!folder.path().join("nothing").exists());
    }

    #[test]
    fn pipes_and_devices_are_written_directly() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let refused = SavedFile::create(&pipe, false).unwrap_err().to_string();
        assert!(refused.contains("nobody reads this pipe"), "{refused}");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let reader = rustix::fs::open(&pipe, flags, Mode::empty()).unwrap();
        let mut file = SavedFile::create(&pipe, false).unwrap();
        file.write_all(b"through").unwrap();
        file.keep().unwrap();
        let mut read = [0; 20];
        let length = rustix::io::read(&reader, &mut read).unwrap();
        assert_eq!(&read[..length], b"through");
        let mut null = SavedFile::create(Path::new("/dev/null"), false).unwrap();
        null.write_all(b"nowhere").unwrap();
        null.keep().unwrap();
        // It was a pipe when it was examined, and is a link to a file when it is opened.
        let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        assert!(open_special(CWD, &link).is_err());
    }

    #[test]
    fn errors_say_what_to_do() {
        for (path, says) in [
            ("/", "not the name of a file"),
            ("..", "not the name of a file"),
            ("/no/such/folder/x", "no such file"),
            ("/tmp", "it is a folder"),
        ] {
            let error = SavedFile::create(Path::new(path), false).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
