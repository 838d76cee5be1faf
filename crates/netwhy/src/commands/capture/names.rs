//! The names of a capture's files, and opening them with the rights there are.
//!
//! Files are opened in a folder that was opened first: root may have become somebody who could not
//! walk there. Where that somebody could make no files either, all are made before.

use std::fs::File;
use std::io::{self, Seek as _};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use sys::privileges::User;

use crate::failure::Failure;

/// Digits of the number of a file, where there may be any number of files.
const DIGITS: usize = 5;

/// The names.
pub(super) struct Names {
    path: PathBuf,
    kind: Kind,
    force: bool,
    folder: Option<OwnedFd>,
    /// Whom a file is given to.
    owner: Option<User>,
    /// The first file, opened before it is needed.
    first: Option<File>,
    /// All files, held open to be written anew, where they could not be opened again.
    held: Vec<File>,
}

/// One file, or many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    One,
    /// So many, the oldest of which is written anew; `None`: any number.
    Many(Option<u32>),
}

impl Names {
    /// One file of that name.
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
    pub(super) fn many(path: &Path, most: Option<u32>) -> Self {
        Names { kind: Kind::Many(most), ..Names::one(path) }
    }

    /// Opens the folder, and looks whether files there are in the way; with `force` they may be
    /// replaced. `next` is whom root becomes after this.
    pub(super) fn prepare(&mut self, force: bool, next: Option<&User>) -> Result<(), Failure> {
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let cannot = |path: &Path, why: &io::Error| {
            let why = why.to_string();
            let why = why.split(" (os error").next().unwrap_or(&why).to_lowercase();
            Failure::Usage(format!("cannot write {}: {why}", path.display()))
        };
        if self.path.file_name().is_none() {
            return Err(Failure::Usage(format!("{} names no file", self.path.display())));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder, flags, Mode::empty())
            .map_err(|errno| cannot(&self.path, &errno.into()))?;
        self.force = force;
        if let Some(there) = self.in_the_way(folder, &opened).filter(|_| !force) {
            return Err(Failure::Usage(format!(
                "{} exists: name another file, or add --force to replace it",
                there.display()
            )));
        }
        let may_make = next.is_none_or(|user| may_make(&opened, user));
        self.folder = Some(opened);
        self.owner = next.filter(|user| user.is_person).cloned();
        // The first is opened now, so that what is wrong is told before anybody waits.
        match (self.kind, may_make) {
            (Kind::Many(None), false) => {
                let name = next.map_or("somebody else", |user| &user.name);
                return Err(Failure::Usage(format!(
                    "{name}, who root becomes while capturing, may make no files in {}: limit \
                     their number (--files 10), name another folder, or stay root (--keep-root)",
                    folder.display()
                )));
            }
            (Kind::Many(Some(most)), false) => {
                for number in 0..u64::from(most) {
                    let file = self.make(number).map_err(|why| cannot(&self.path(number), &why))?;
                    self.held.push(file);
                }
            }
            _ => self.first = Some(self.make(0).map_err(|why| cannot(&self.path(0), &why))?),
        }
        Ok(())
    }

    /// The name of a file by its number, from 0.
    pub(super) fn path(&self, number: u64) -> PathBuf {
        let (number, digits) = match self.kind {
            Kind::One => return self.path.clone(),
            Kind::Many(None) => (number, DIGITS),
            Kind::Many(Some(most)) => (number % u64::from(most), most.to_string().len()),
        };
        let mut name = self.path.file_stem().unwrap_or_default().to_os_string();
        name.push(format!("-{:0digits$}", number + 1));
        if let Some(extension) = self.path.extension() {
            name.push(".");
            name.push(extension);
        }
        self.path.with_file_name(name)
    }

    /// Numbers of the files that are there once so many have been begun.
    pub(super) fn kept(&self, last: u64) -> Range<u64> {
        match self.kind {
            Kind::Many(Some(most)) => (last + 1).saturating_sub(u64::from(most))..last + 1,
            _ => 0..last + 1,
        }
    }

    /// Opens a file by its number, empty.
    pub(super) fn open(&mut self, number: u64) -> io::Result<File> {
        if !self.held.is_empty() {
            let slot = usize::try_from(number % self.held.len() as u64).unwrap_or_default();
            let mut file = self.held[slot].try_clone()?;
            file.set_len(0)?;
            file.seek(io::SeekFrom::Start(0))?;
            return Ok(file);
        }
        match self.first.take() {
            Some(first) if number == 0 => Ok(first),
            _ => self.make(number),
        }
    }

    /// Files that were made and never begun, when `last` was the last.
    pub(super) fn unused(&mut self, last: u64) -> Vec<(PathBuf, File)> {
        let from = usize::try_from(last + 1).unwrap_or(usize::MAX).min(self.held.len());
        let files = self.held.split_off(from);
        files.into_iter().zip(last + 1..).map(|(file, number)| (self.path(number), file)).collect()
    }

    fn make(&self, number: u64) -> io::Result<File> {
        let path = self.path(number);
        let (Some(folder), Some(name)) = (&self.folder, path.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let base = OFlags::WRONLY | OFlags::CLOEXEC;
        let there = rustix::fs::statat(folder, name, AtFlags::empty());
        if there.is_ok_and(|stat| !is_regular(stat.st_mode)) {
            // A pipe or /dev/null: it is there, and is not emptied.
            return Ok(rustix::fs::openat(folder, name, base, Mode::empty())?.into());
        }
        // A link is not followed: root would write where somebody else wants it to.
        let mut flags = base | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let again = self.kept(number).start > 0;
        if !self.force && !again {
            flags |= OFlags::EXCL;
        }
        let new = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_err();
        let opened = rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR);
        let file: File = opened
            .map_err(|errno| match errno {
                Errno::LOOP => io::Error::other("it is a symbolic link, which is not followed"),
                other => other.into(),
            })?
            .into();
        if let Some(owner) = self.owner.as_ref().filter(|_| new && geteuid().is_root()) {
            // Some file systems have no owners: the file is open all the same.
            let _ = fchown(&file, Some(owner.id), Some(owner.group));
        }
        Ok(file)
    }

    /// A regular file that has a name which these files will have.
    fn in_the_way(&self, folder: &Path, opened: &OwnedFd) -> Option<PathBuf> {
        let digits = match self.kind {
            Kind::One => {
                let stat = rustix::fs::statat(opened, self.path.file_name()?, AtFlags::empty());
                return stat.is_ok_and(|stat| is_regular(stat.st_mode)).then(|| self.path.clone());
            }
            Kind::Many(Some(most)) => most.to_string().len(),
            Kind::Many(None) => DIGITS,
        };
        let stem = format!("{}-", self.path.file_stem()?.to_string_lossy());
        let extension = self.path.extension().unwrap_or_default();
        let is_ours = |name: &PathBuf| {
            let stem_there = name.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let number = stem_there.strip_prefix(&stem).unwrap_or_default();
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

/// Whether a user may make files in a folder, by its owner, group and mode.
fn may_make(folder: &OwnedFd, user: &User) -> bool {
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
    fn files_in_the_way_are_not_replaced_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.pcapng");
        let said = |mut names: Names, force| names.prepare(force, None).map_err(|f| f.to_string());
        std::fs::write(&path, "old").unwrap();
        assert!(said(Names::one(&path), false).unwrap_err().contains("web.pcapng exists"));
        said(Names::one(&path), true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"", "replaced");
        said(Names::many(&path, None), false).unwrap();
        let error = said(Names::many(&path, None), false).unwrap_err();
        assert!(error.contains("web-00001.pcapng exists"), "{error}");
        said(Names::many(&path, Some(3)), false).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = said(Names::one(&link), true).unwrap_err();
        assert!(error.contains("symbolic link"), "{error}");
        assert!(said(Names::one(Path::new("/no/such/folder/x")), false).is_err());
        assert!(said(Names::one(Path::new("..")), false).is_err());
        said(Names::one(Path::new("/dev/null")), false).unwrap();
    }

    #[test]
    fn what_cannot_be_opened_again_is_held() {
        let folder = tempfile::tempdir().unwrap();
        // Nobody has this number, and others may make nothing in the folder.
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
