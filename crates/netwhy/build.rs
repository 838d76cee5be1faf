//! What this build is, for `netwhy --version`: the commit, its date, the target and the features.
//!
//! Without git, or outside of this repository's own checkout (an archive of the source, a vendored
//! copy), the commit is unknown. Whether files were changed since is not recorded: Cargo runs this when the
//! commit changes, not for every file.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../..");
    let commit = commit(&root).unwrap_or_else(|| "commit unknown".to_string());
    let features: Vec<&str> =
        ["parquet"].into_iter().filter(|name| !variable(&feature(name)).is_empty()).collect();
    let features = if features.is_empty() { "none".to_string() } else { features.join(", ") };
    println!(
        "cargo::rustc-env=NETWHY_LONG_VERSION={} ({commit}) {}, features: {features}",
        variable("CARGO_PKG_VERSION"),
        variable("TARGET"),
    );
}

/// The variable that Cargo sets if a feature is on.
fn feature(name: &str) -> String {
    format!("CARGO_FEATURE_{}", name.to_uppercase().replace('-', "_"))
}

/// The commit of a checkout and its date: `2a43e6d01 2026-11-22`.
fn commit(root: &Path) -> Option<String> {
    let root = root.canonicalize().ok()?;
    // An archive inside the checkout of something else has no commit of its own.
    if PathBuf::from(git(&root, &["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    // In a linked worktree HEAD is apart from the refs.
    let own = PathBuf::from(git(&root, &["rev-parse", "--absolute-git-dir"])?);
    let common = root.join(git(&root, &["rev-parse", "--git-common-dir"])?);
    let branch = git(&root, &["symbolic-ref", "-q", "HEAD"]);
    let loose = branch.map(|name| common.join(name));
    let watched = [Some(own.join("HEAD")), loose, Some(common.join("packed-refs"))];
    // Cargo runs this always if it watches a file that does not exist; a branch that is packed gets
    // its file with the next commit, which the log of HEAD tells.
    for file in watched.into_iter().flatten().chain([own.join("logs/HEAD")]) {
        if file.exists() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    let hash = git(&root, &["rev-parse", "--short=9", "HEAD"])?;
    let date = git(&root, &["show", "-s", "--format=%cs", "HEAD"])?;
    Some(format!("{hash} {date}"))
}

/// What git prints; `None` if there is no git, or if it fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    // Root may build the checkout of a user.
    git.arg("-c").arg(format!("safe.directory={}", root.display())).arg("-C").arg(root);
    // A hook of git sets these for the repository that it runs in.
    git.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
    let output = git.args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}
