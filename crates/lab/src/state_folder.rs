//! The folder of what outlives a lab: `/run/netwhy`, in which only root may read and write.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Mode of the folder, and of files in it.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Largest file of state.
const MAX_STATE_BYTES: u64 = 64 << 10;

/// Makes the folder, or checks the one that exists.
pub(crate) fn open(path: &str) -> Result<PathBuf> {
    let failed = |why: String| Error::new(format!("cannot use the folder {path}: {why}"));
    match std::fs::DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(failed(error.to_string()));
        }
        _ => {}
    }
    let found = std::fs::symlink_metadata(path).map_err(|error| failed(error.to_string()))?;
    let own = rustix::process::geteuid().as_raw();
    if !found.is_dir() || found.uid() != own || found.mode() & 0o077 != 0 {
        return Err(failed(format!(
            "it must be a folder of user {own} with mode 0700; examine it, then remove it"
        )));
    }
    Ok(PathBuf::from(path))
}

/// Opens a file of state for writing, which is made if it does not exist. No link is followed.
pub(crate) fn write(path: &Path, truncate: bool) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(truncate).mode(FILE_MODE);
    let file =
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
    check(&file)?;
    Ok(file)
}

/// The text of a file of state.
pub(crate) fn read(path: &Path) -> std::io::Result<String> {
    let mut options = File::options();
    options.read(true);
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    check(&file)?;
    let mut text = String::new();
    file.take(MAX_STATE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// A file of state is a regular file of this user.
fn check(file: &File) -> std::io::Result<()> {
    let found = file.metadata()?;
    if found.is_file() && found.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(std::io::Error::other("it is no regular file of this user"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_of_others_is_refused() {
        let outside = tempfile::tempdir().unwrap();
        let path = outside.path().join("netwhy");
        let text = path.to_str().unwrap();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        assert_eq!(open(text).unwrap(), path);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        assert_eq!(open(text).unwrap(), path, "again");
        for shared in [0o770, 0o707, 0o1777] {
            mode(shared);
            assert!(open(text).unwrap_err().to_string().contains("mode 0700"), "{shared:o}");
        }
        std::fs::remove_dir(&path).unwrap();
        symlink(outside.path(), &path).unwrap();
        assert!(open(text).is_err(), "a link");
    }

    #[test]
    fn links_pipes_and_giants_are_not_read_as_state() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("victim"), "precious").unwrap();
        symlink(at("victim"), at("link")).unwrap();
        assert!(write(&at("link"), true).is_err() && read(&at("link")).is_err());
        assert_eq!(std::fs::read_to_string(at("victim")).unwrap(), "precious");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), mode).unwrap();
        assert!(read(&at("pipe")).is_err());
        std::fs::write(at("giant"), "7".repeat(1 << 20)).unwrap();
        assert_eq!(read(&at("giant")).unwrap().len() as u64, MAX_STATE_BYTES);
    }
}
