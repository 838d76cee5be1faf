//! Replays the inputs that the fuzzers found (`fuzz/fixtures`) through the same targets, with the stable
//! compiler: nothing panics, and the invariants of each target hold.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails the test")]
#![allow(unreachable_pub)] // the table is a library of its own for the fuzzers

use std::fs;
use std::path::{Path, PathBuf};

#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(name)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[test]
fn inputs_that_the_fuzzers_found_do_no_harm() {
    let mut replayed = 0;
    for target in fuzz::TARGETS {
        fuzz::run(target.name, b"");
        for path in files(&folder("fixtures").join(target.name)) {
            println!("{}", path.display());
            fuzz::run(target.name, &fs::read(&path).expect("an input"));
            replayed += 1;
        }
    }
    assert!(replayed >= fuzz::TARGETS.len(), "{replayed} inputs");
}

#[test]
fn every_target_has_a_program_and_a_folder() {
    let manifest = fs::read_to_string(folder("Cargo.toml")).expect("the manifest");
    let stems = |name: &str| -> Vec<String> {
        let stem =
            |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        files(&folder(name)).iter().filter_map(stem).collect()
    };
    let mut names: Vec<&str> = fuzz::TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(stems("fuzz_targets"), names);
    assert_eq!(stems("fixtures"), names);
    for name in names {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
        let program = fs::read_to_string(folder(&format!("fuzz_targets/{name}.rs")));
        assert!(program.expect("a program").contains(&format!("fuzz::run(\"{name}\", bytes)")));
    }
}
