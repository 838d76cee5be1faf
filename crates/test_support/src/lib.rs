//! What tests of several crates share: saying that a test is skipped, and notes for the summary of
//! `make test`.
//!
//! A test that cannot run on this machine calls [`skip`] and returns. That prints, whatever the test
//! harness hides, and is noted in the file that `NETWHY_TEST_NOTES` names; `cargo xtask test` sets it,
//! lists skips by name at its end, and in CI fails for each that is not on its short list.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The variable that names the file of notes.
pub const NOTES: &str = "NETWHY_TEST_NOTES";

/// Why a test is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It makes network namespaces or opens raw sockets.
    NotRoot,
    /// These programs are not installed.
    MissingPrograms(Vec<String>),
    /// The shared captures, which are no part of this repository, are not next to it.
    NoCaptures(PathBuf),
    /// This kernel lacks something.
    Kernel(String),
}

impl Reason {
    /// A word for the lists of `cargo xtask test`.
    pub fn name(&self) -> &'static str {
        match self {
            Reason::NotRoot => "not-root",
            Reason::MissingPrograms(_) => "missing-programs",
            Reason::NoCaptures(_) => "no-captures",
            Reason::Kernel(_) => "kernel",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::NotRoot => f.write_str("needs root"),
            Reason::MissingPrograms(programs) => {
                write!(f, "needs {} (tools/setup test installs them)", programs.join(", "))
            }
            Reason::NoCaptures(folder) => {
                write!(
                    f,
                    "no captures in {} (NETWHY_CAPTURES names another folder)",
                    folder.display()
                )
            }
            Reason::Kernel(lacks) => write!(f, "this kernel {lacks}"),
        }
    }
}

/// Says that the calling test is skipped, and why. The test must return then.
pub fn skip(reason: &Reason) {
    let test = test_name();
    // Not by eprintln!, which the harness hides in tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
    note(&["skip", &test, reason.name(), &reason.to_string()]);
}

/// Adds a line to the notes, fields separated by tabs. Without `NETWHY_TEST_NOTES` nothing is kept.
pub fn note(fields: &[&str]) {
    let Some(path) = std::env::var_os(NOTES) else { return };
    let line = fields.iter().map(|field| field.replace(['\t', '\n'], " "));
    let line = line.collect::<Vec<_>>().join("\t") + "\n";
    let file = OpenOptions::new().create(true).append(true).open(&path);
    // One write: several tests note at once.
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        let _ = writeln!(std::io::stderr(), "cannot write {}: {error}", Path::new(&path).display());
    }
}

/// The test binary and the test, as in `live::healthy::a_busy_server`.
pub fn test_name() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let stem = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    // Cargo adds a hash.
    let binary = stem.rsplit_once('-').map_or(stem.as_str(), |(name, _)| name);
    // The harness names the thread of each test; with one thread all run in `main`.
    let thread = std::thread::current();
    format!("{binary}::{}", thread.name().unwrap_or("?"))
}

/// Whether this process is root; if not, the calling test is skipped.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(&Reason::NotRoot);
    }
    root
}

/// Whether all these programs are installed; if not, the calling test is skipped.
pub fn are_installed(programs: &[&str]) -> bool {
    let missing: Vec<String> =
        programs.iter().filter(|p| !is_installed(p)).map(|p| (*p).to_string()).collect();
    if !missing.is_empty() {
        skip(&Reason::MissingPrograms(missing.clone()));
    }
    missing.is_empty()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).any(|folder| folder.join(program).is_file())
}

/// A folder of the shared captures: below `NETWHY_CAPTURES`, or next to the repository. `None`: it
/// is not there, and the calling test is skipped.
pub fn captures(folder: &str) -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    let root = std::env::var_os("NETWHY_CAPTURES").map_or(default, PathBuf::from);
    let folder = root.join(folder);
    if folder.is_dir() {
        return Some(folder);
    }
    skip(&Reason::NoCaptures(folder));
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_its_name() {
        assert_eq!(test_name(), "test_support::tests::a_test_has_its_name");
    }

    #[test]
    fn programs_are_found_by_path() {
        assert!(is_installed("sh") && !is_installed("no-such-program"));
    }

    #[test]
    fn reasons_say_what_to_do() {
        let missing = Reason::MissingPrograms(vec!["tshark".into(), "nginx".into()]);
        assert_eq!(missing.to_string(), "needs tshark, nginx (tools/setup test installs them)");
        assert_eq!((missing.name(), Reason::NotRoot.name()), ("missing-programs", "not-root"));
    }
}
