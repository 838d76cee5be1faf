//! The files of the repository as text, in memory: what the checks of `tidy` look at.
//!
//! Made from the files that git tracks or would track, so that a new file is checked before it
//! is committed and nothing that is ignored is checked at all.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

/// Files by their path from the root, with `/`.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the repository at `root`. Files that are not UTF-8 are left out: they are no text.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Tree> {
        let names = names(root)?;
        let mut files = BTreeMap::new();
        for name in names {
            let path = root.join(&name);
            // Deleted and not yet committed, or a link: nothing to check.
            if !path.symlink_metadata().is_ok_and(|about| about.is_file()) {
                continue;
            }
            let bytes = std::fs::read(&path).with_context(|| format!("cannot read {name}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.insert(name, text);
            }
        }
        Ok(Tree { files })
    }

    /// All files: path and text.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// One file's text.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// A made-up tree.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| (path.to_string(), text.to_string()));
        Tree { files: files.collect() }
    }
}

/// The files of the repository at `root`: those that git tracks or would track.
pub(crate) fn names(root: &Path) -> anyhow::Result<Vec<String>> {
    if root.join(".git").exists() { tracked(root) } else { walked(root) }
}

/// Files that git tracks or would track.
fn tracked(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new("git")
        // A checkout of another user, as in a container, is read all the same.
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .args(["--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot list the files of the repository: git did not start; install git")?;
    if !output.status.success() {
        bail!(
            "cannot list the files of the repository at {}: git ls-files: {}",
            root.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// Files of a source archive, where git knows nothing: all but what builds leave behind.
pub(crate) fn walked(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root.join(&folder))
            .with_context(|| format!("cannot list the folder {folder} of the repository"))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !entry.file_type()?.is_dir() {
                names.push(format!("{folder}{name}"));
            } else if !(folder.is_empty() && (name.starts_with("target") || name == "dist")) {
                folders.push(format!("{folder}{name}/"));
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn this_repository_is_read() {
        let root = crate::repository::root().unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(tree.text("Cargo.toml").is_some_and(|text| text.contains("[workspace]")));
        assert!(tree.rust().any(|(path, _)| path == "crates/xtask/src/tree.rs"));
        assert!(!tree.files().any(|(path, _)| path.starts_with("target")));
    }

    #[test]
    fn an_archive_has_the_files_that_git_tracks() {
        let root = crate::repository::root().unwrap();
        let walked = super::walked(root).unwrap();
        for path in ["Cargo.toml", "crates/xtask/src/tree.rs", ".cargo/config.toml"] {
            assert!(walked.iter().any(|name| name == path), "{path} was not found");
        }
        assert!(!walked.iter().any(|name| name.starts_with("target")));
    }
}
