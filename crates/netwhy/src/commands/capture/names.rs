//! The names of a capture's files, and opening them before and after root is dropped.
//!
//! Files are opened relative to a folder that is opened first: the user whom root becomes may not be
//! able to reach it by its path. If that user cannot create files in it either, all files are created
//! before.

use std::fs::File;
use std::io::{self, Seek as _};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::process::geteuid;
use sys::privileges::User;

use super::reason::reason;
use crate::failure::Failure;
use crate::saved_file::open_special;

/// Digits of the number of a file, if the number of files is not limited.
const UNLIMITED_DIGITS: usize = 5;

/// The names of the files.
pub(super) struct Names {
    path: PathBuf,
    kind: Kind,
    force: bool,
    folder: Option<OwnedFd>,
    /// The user who will own the files.
    owner: Option<User>,
    /// The first file, opened in advance.
    first: Option<File>,
    /// All files, kept open because they could not be opened later.
    held: Vec<File>,
}

/// One file, or many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    One,
    /// At most this number, then the oldest is overwritten; `None`: no limit.
    Many(Option<u32>),
}

impl Names {
    /// One file with this name.
    pub(super) fn one(path: &Path) -> Self {
        Names {
            path: path.to_path_buf(),
            kind: Kind::One,
            force: false,
            folder: None,
            owner: None,
            first: None,
            held: Vec::new(),
        }
    }

    /// Several files, with a number in their names.
    pub(super) fn many(path: &Path, max_files: Option<u32>) -> Self {
        Names { kind: Kind::Many(max_files), ..Names::one(path) }
    }

    /// Opens the folder and checks for existing files, which only `force` overwrites. `user` is the user
    /// whom root becomes after this.
    pub(super) fn prepare(&mut self, force: bool, user: Option<&User>) -> Result<(), Failure> {
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let cannot_write = |path: &Path, error: &io::Error| {
            Failure::Usage(format!("cannot write {}: {}", path.display(), reason(error)))
        };
        if self.path.file_name().is_none() {
            return Err(Failure::Usage(format!(
                "{} is not the name of a file",
                self.path.display()
            )));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder, flags, Mode::empty())
            .map_err(|errno| cannot_write(&self.path, &errno.into()))?;
        self.force = force;
        if let Some(existing) = self.existing_file(folder, &opened).filter(|_| !force) {
            return Err(Failure::Usage(format!(
                "{} exists: choose another name, or overwrite it with --force",
                existing.display()
            )));
        }
        let can_create = user.is_none_or(|user| can_create_files(&opened, user));
        self.folder = Some(opened);
        self.owner = user.filter(|user| user.is_person).cloned();
        // The first file is opened now, so that errors are reported before the capture starts.
        match (self.kind, can_create) {
            (Kind::Many(None), false) => {
                let name = user.map_or("another user", |user| &user.name);
                return Err(Failure::Usage(format!(
                    "while capturing, root becomes {name}, who cannot create files in {}: limit the \
                     number of files (--files 10), choose another folder, or stay root (--keep-root)",
                    folder.display()
                )));
            }
            (Kind::Many(Some(max_files)), false) => {
                for number in 0..u64::from(max_files) {
                    let file = self.create(number);
                    self.held.push(file.map_err(|error| cannot_write(&self.path(number), &error))?);
                }
            }
            _ => {
                let file = self.create(0).map_err(|error| cannot_write(&self.path(0), &error))?;
                self.first = Some(file);
            }
        }
        Ok(())
    }

    /// The name of the file with this number, from 0.
    pub(super) fn path(&self, number: u64) -> PathBuf {
        let (number, digits) = match self.kind {
            Kind::One => return self.path.clone(),
            Kind::Many(None) => (number, UNLIMITED_DIGITS),
            Kind::Many(Some(max)) => (number % u64::from(max.max(1)), max.to_string().len()),
        };
        let mut name = self.path.file_stem().unwrap_or_default().to_os_string();
        name.push(format!("-{:0digits$}", number + 1));
        if let Some(extension) = self.path.extension() {
            name.push(".");
            name.push(extension);
        }
        self.path.with_file_name(name)
    }

    /// The numbers of the files that are not overwritten when `last` is the newest.
    pub(super) fn kept(&self, last: u64) -> Range<u64> {
        match self.kind {
            Kind::Many(Some(max)) => (last + 1).saturating_sub(u64::from(max))..last + 1,
            _ => 0..last + 1,
        }
    }

    /// Opens the file with this number, empty.
    pub(super) fn open(&mut self, number: u64) -> io::Result<File> {
        let slot = number.checked_rem(self.held.len() as u64).and_then(|n| usize::try_from(n).ok());
        if let Some(held) = slot.and_then(|slot| self.held.get(slot)) {
            let mut file = held.try_clone()?;
            file.set_len(0)?;
            file.seek(io::SeekFrom::Start(0))?;
            return Ok(file);
        }
        match self.first.take() {
            Some(first) if number == 0 => Ok(first),
            _ => self.create(number),
        }
    }

    /// The files that were created but not used, when `last` is the newest.
    pub(super) fn unused(&mut self, last: u64) -> Vec<(PathBuf, File)> {
        let from = usize::try_from(last + 1).unwrap_or(usize::MAX).min(self.held.len());
        let files = self.held.split_off(from);
        files.into_iter().zip(last + 1..).map(|(file, number)| (self.path(number), file)).collect()
    }

    fn create(&self, number: u64) -> io::Result<File> {
        let path = self.path(number);
        let (Some(folder), Some(name)) = (&self.folder, path.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let existing = rustix::fs::statat(folder, name, AtFlags::empty());
        if existing.is_ok_and(|stat| !is_regular(stat.st_mode)) {
            // A pipe or /dev/null cannot be replaced.
            return open_special(folder, name.as_ref());
        }
        let overwrites = self.force || self.kept(number).start > 0;
        // Links are not followed, and a file that somebody else may have open is not written to.
        match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if overwrites && is_regular(stat.st_mode) => {
                rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
            }
            Ok(stat) if is_link(stat.st_mode) => {
                return Err(io::Error::other("symbolic links are not followed"));
            }
            _ => {}
        }
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, name, new, Mode::RUSR | Mode::WUSR)?;
        let file = File::from(file);
        if let Some(owner) = self.owner.as_ref().filter(|_| geteuid().is_root()) {
            // Some file systems have no owners: then the file remains root's.
            let _ = fchown(&file, Some(owner.id), Some(owner.group));
        }
        Ok(file)
    }

    /// A regular file that has the name of one of these files.
    fn existing_file(&self, folder: &Path, opened: &OwnedFd) -> Option<PathBuf> {
        let digits = match self.kind {
            Kind::One => {
                let stat = rustix::fs::statat(opened, self.path.file_name()?, AtFlags::empty());
                return stat.is_ok_and(|stat| is_regular(stat.st_mode)).then(|| self.path.clone());
            }
            Kind::Many(Some(max)) => max.to_string().len(),
            Kind::Many(None) => UNLIMITED_DIGITS,
        };
        let stem = format!("{}-", self.path.file_stem()?.to_string_lossy());
        let extension = self.path.extension().unwrap_or_default();
        let is_ours = |name: &PathBuf| {
            let name_stem = name.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let number = name_stem.strip_prefix(&stem).unwrap_or_default();
            name.extension().unwrap_or_default() == extension
                && number.len() == digits
                && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        let entries = std::fs::read_dir(folder).ok()?.flatten();
        let names = entries.map(|entry| PathBuf::from(entry.file_name()));
        Some(self.path.with_file_name(names.filter(is_ours).min()?))
    }
}

fn is_regular(mode: u32) -> bool {
    FileType::from_raw_mode(mode) == FileType::RegularFile
}

fn is_link(mode: u32) -> bool {
    FileType::from_raw_mode(mode) == FileType::Symlink
}

/// Whether a user can create files in a folder, by its owner, group and mode.
fn can_create_files(folder: &OwnedFd, user: &User) -> bool {
    let Ok(stat) = rustix::fs::fstat(folder) else { return false };
    let shift = match () {
        () if stat.st_uid == user.id => 6,
        () if stat.st_gid == user.group => 3,
        () => 0,
    };
    stat.st_mode >> shift & 0o3 == 0o3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers() {
        let path = Path::new("captures/web.2.pcapng");
        assert_eq!(Names::one(path).path(7), path);
        let any = Names::many(path, None);
        assert_eq!(any.path(6), Path::new("captures/web.2-00007.pcapng"));
        assert_eq!(any.path(123_456), Path::new("captures/web.2-123457.pcapng"));
        let ten = Names::many(Path::new("web"), Some(10));
        assert_eq!((ten.path(0), ten.path(19)), ("web-01".into(), "web-10".into()));
        assert_eq!((ten.kept(3), ten.kept(12), any.kept(12)), (0..4, 3..13, 0..13));
    }

    #[test]
    fn existing_files_are_overwritten_only_with_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.pcapng");
        let prepare =
            |mut names: Names, force| names.prepare(force, None).map_err(|f| f.to_string());
        std::fs::write(&path, "old").unwrap();
        assert!(prepare(Names::one(&path), false).unwrap_err().contains("web.pcapng exists"));
        prepare(Names::one(&path), true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"", "overwritten");
        prepare(Names::many(&path, None), false).unwrap();
        let error = prepare(Names::many(&path, None), false).unwrap_err();
        assert!(error.contains("web-00001.pcapng exists"), "{error}");
        prepare(Names::many(&path, Some(3)), false).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = prepare(Names::one(&link), true).unwrap_err();
        assert!(error.contains("symbolic link"), "{error}");
        assert!(prepare(Names::one(Path::new("/no/such/folder/x")), false).is_err());
        assert!(prepare(Names::one(Path::new("..")), false).is_err());
        prepare(Names::one(Path::new("/dev/null")), false).unwrap();
    }

    #[test]
    fn files_that_cannot_be_opened_later_stay_open() {
        let folder = tempfile::tempdir().unwrap();
        // No user has this id, and other users cannot create files in the folder.
        let user = User { id: 4_000_000, group: 4_000_000, name: "x".into(), is_person: false };
        let path = folder.path().join("web");
        let refused = Names::many(&path, None).prepare(false, Some(&user)).unwrap_err();
        assert!(refused.to_string().contains("--keep-root"), "{refused}");
        let mut names = Names::many(&path, Some(3));
        names.prepare(false, Some(&user)).unwrap();
        for number in 0..5 {
            use std::io::Write as _;
            names.open(number).unwrap().write_all(&[number as u8; 7]).unwrap();
        }
        for (name, byte) in [("web-1", 3), ("web-2", 4), ("web-3", 2)] {
            assert_eq!(std::fs::read(folder.path().join(name)).unwrap(), [byte; 7], "{name}");
        }
        assert_eq!(names.unused(1).len(), 1);
    }
}
