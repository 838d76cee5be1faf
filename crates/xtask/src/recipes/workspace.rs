//! A copy of the repository below the target folder, and what cargo builds of it.
//!
//! The copy stays where it is, so that a second run builds only what changed. What cargo has built of
//! crates of others is taken over from the repository's own target folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, bail};

use crate::repository;
use crate::tree;

/// The copy.
pub(super) struct Workspace {
    /// Its root.
    root: PathBuf,
    /// Where cargo builds it.
    target: PathBuf,
}

impl Workspace {
    /// Copies the files of the repository that git tracks or would track, but for those that are
    /// changed: their text by path. What is the same already stays, so that cargo does not build it
    /// again.
    pub(super) fn copy(changed: &BTreeMap<String, String>) -> anyhow::Result<Workspace> {
        let folder = repository::target_folder()?.join("recipes");
        let workspace = Workspace { root: folder.join("tree"), target: folder.join("build") };
        if !workspace.target.exists() {
            take_over(
                &repository::target_folder()?.join("debug"),
                &workspace.target.join("debug"),
            )?;
        }
        let from = repository::root()?;
        let names: BTreeSet<String> = tree::names(from)?.into_iter().collect();
        for name in &names {
            let file = from.join(name);
            if file.is_file() && !changed.contains_key(name) {
                let bytes = fs::read(&file).with_context(|| format!("cannot read {name}"))?;
                workspace.write(name, &bytes)?;
            }
        }
        for (name, text) in changed {
            workspace.write(name, text.as_bytes())?;
        }
        // Of an earlier run.
        for name in tree::walked(&workspace.root)? {
            if !names.contains(&name) && !changed.contains_key(&name) {
                fs::remove_file(workspace.root.join(&name))
                    .with_context(|| format!("cannot remove {name}"))?;
            }
        }
        Ok(workspace)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let file = self.root.join(path);
        if fs::read(&file).is_ok_and(|there| there == bytes) {
            return Ok(());
        }
        let folder = file.parent().context("a file has no folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))
    }

    /// A file beside the copy.
    pub(super) fn scratch(&self, name: &str) -> PathBuf {
        self.target.join(name)
    }

    /// Runs cargo in the copy; what it prints.
    pub(super) fn cargo(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = output(self.cargo_command(arguments))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let arguments = arguments.join(" ");
            bail!("cargo {arguments} failed after the recipes were followed:\n{text}{errors}");
        }
        Ok(text)
    }

    fn cargo_command(&self, arguments: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.env("CARGO_TARGET_DIR", &self.target).env("CARGO_INCREMENTAL", "0");
        command.args(arguments).current_dir(&self.root);
        command
    }

    /// Runs netwhy of the copy; what it prints.
    pub(super) fn netwhy(&self, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
        self.program("netwhy", arguments)
    }

    /// Runs xtask of the copy; what it prints.
    pub(super) fn xtask(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let text = self.program("xtask", arguments)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// What tidy finds in the copy, one line each.
    pub(super) fn tidy(&self) -> anyhow::Result<Vec<String>> {
        let found = output(self.program_command("xtask", &["tidy"]))?.stderr;
        Ok(String::from_utf8_lossy(&found).lines().map(str::to_string).collect())
    }

    fn program(&self, name: &str, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
        let output = output(self.program_command(name, arguments))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("{name} {}: {}\n{errors}", arguments.join(" "), output.status);
        }
        Ok(output.stdout)
    }

    fn program_command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.target.join("debug").join(name));
        command.args(arguments).current_dir(&self.root);
        command
    }
}

fn output(mut command: Command) -> anyhow::Result<Output> {
    command.stdin(Stdio::null());
    command.output().with_context(|| format!("cannot start {command:?}"))
}

/// Takes over what cargo has built of crates of others. Nothing is lost when nothing was built: then
/// cargo builds it.
fn take_over(from: &Path, to: &Path) -> anyhow::Result<()> {
    let own = own_crates()?;
    // `libserde_json-0a1b.rlib`, `serde_json-0a1b.d`, a folder `serde_json-0a1b`
    let crate_of = |name: &str| {
        let name = name.rsplit_once('-').map_or(name, |(name, _)| name).replace('-', "_");
        name.strip_prefix("lib").map_or(name.clone(), str::to_string)
    };
    for folder in [".fingerprint", "build", "deps"] {
        let Ok(entries) = fs::read_dir(from.join(folder)) else { continue };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let library = [".rlib", ".rmeta", ".so", ".d"].iter().any(|end| name.ends_with(end));
            if !own.contains(&crate_of(&name)) && (folder != "deps" || library) {
                copy(&entry.path(), &to.join(folder).join(&name))?;
            }
        }
    }
    Ok(())
}

/// The crates of the repository.
fn own_crates() -> anyhow::Result<BTreeSet<String>> {
    let crates =
        fs::read_dir(repository::root()?.join("crates")).context("cannot list the crates")?;
    crates.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Copies a file or a folder with its times, by which cargo knows whether it is up to date.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    // Libraries are large, and cargo replaces them: it does not write into them.
    let library = to.extension().is_some_and(|end| end == "rlib" || end == "rmeta");
    if library && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    let modified = fs::metadata(from)?.modified()?;
    let file = fs::File::options().write(true).open(to)?;
    file.set_modified(modified).with_context(|| format!("cannot date {}", to.display()))
}
