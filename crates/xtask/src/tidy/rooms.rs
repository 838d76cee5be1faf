//! Every arrow between crates is in the table of rooms of ARCHITECTURE.md.
//!
//! The table is the source of truth: this parses it, and knows no crate by name. A crate without
//! a room fails; a room without a crate is one that is not built yet.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::problem::Problem;
use crate::tree::Tree;

const DOCUMENT: &str = "ARCHITECTURE.md";

/// First cells of the table's head.
const HEAD: [&str; 3] = ["crate", "is", "may import"];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    let document = tree.text(DOCUMENT).context("there is no ARCHITECTURE.md")?;
    Ok(compare(&rooms(document)?, &arrows(&metadata()?)?))
}

/// What a room may import.
#[derive(Debug, PartialEq, Eq)]
enum Imports {
    All,
    These(BTreeSet<String>),
}

impl Imports {
    fn allow(&self, room: &str) -> bool {
        match self {
            Imports::All => true,
            Imports::These(rooms) => rooms.contains(room),
        }
    }
}

/// The table of rooms: the first one whose head is `crate | is | may import`.
fn rooms(document: &str) -> anyhow::Result<BTreeMap<String, Imports>> {
    let mut rows = document.lines().skip_while(|line| cells(line) != HEAD);
    if rows.next().is_none() {
        bail!("{DOCUMENT} has no table of rooms: no line reads | {} |", HEAD.join(" | "));
    }
    let mut rooms = BTreeMap::new();
    for row in rows.skip(1).take_while(|line| line.trim_start().starts_with('|')) {
        let [room, _, imports] = cells(row)[..] else {
            bail!("{DOCUMENT}: a row of the table of rooms has not three cells: {row}");
        };
        let imports = match imports {
            "all" => Imports::All,
            "–" => Imports::These(BTreeSet::new()),
            list => Imports::These(list.split(',').map(name).collect()),
        };
        if rooms.insert(name(room), imports).is_some() {
            bail!("{DOCUMENT}: {room} has two rows in the table of crates");
        }
    }
    Ok(rooms)
}

fn cells(row: &str) -> Vec<&str> {
    let row = row.trim().trim_start_matches('|').trim_end_matches('|');
    row.split('|').map(str::trim).collect()
}

/// A crate's name without the marks of code and the slash of a folder.
fn name(cell: &str) -> String {
    cell.trim().trim_matches('`').trim_end_matches('/').to_string()
}

fn metadata() -> anyhow::Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(crate::repository::root()?)
        .output()
        .context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cannot read what cargo metadata printed")
}

/// Crates of the workspace, each with the crates of the workspace that it imports, for building,
/// running or testing.
fn arrows(metadata: &Value) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut arrows = BTreeMap::new();
    for package in packages {
        let from = package["name"].as_str().context("a package has no name")?;
        let to = package["dependencies"].as_array().into_iter().flatten();
        // Only crates of this workspace are found by a path.
        let to = to
            .filter(|dependency| dependency["path"].is_string())
            // What tests of any crate may use.
            .filter(|dependency| {
                dependency["kind"] != "dev" || dependency["name"] != "test_support"
            })
            .filter_map(|dependency| dependency["name"].as_str());
        arrows.insert(from.to_string(), to.map(str::to_string).collect());
    }
    Ok(arrows)
}

fn compare(
    rooms: &BTreeMap<String, Imports>,
    arrows: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (from, imports) in arrows {
        let path = format!("crates/{from}/Cargo.toml");
        let Some(allowed) = rooms.get(from) else {
            let text = format!("{from} has no row in the table of rooms of {DOCUMENT}");
            problems.push(Problem::new(path, None, text));
            continue;
        };
        for to in imports.iter().filter(|to| !allowed.allow(to)) {
            let text = format!("{from} imports {to}, which the table of rooms does not allow");
            problems.push(Problem::new(path.clone(), None, text));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{arrows, compare, rooms};

    const DOCUMENT: &str = "\
# House

| other | table |
|---|---|
| `low` | x |

| crate | is | may import |
|---|---|---|
| `low` | the lowest | – |
| `high` | above | low, later |
| `later` | not built yet | low |
| `top` | the binary | all |

after
";

    fn wrong(packages: serde_json::Value) -> Vec<String> {
        let arrows = arrows(&json!({ "packages": packages })).unwrap();
        compare(&rooms(DOCUMENT).unwrap(), &arrows).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_of_the_table_pass() {
        let found = wrong(json!([
            { "name": "low", "dependencies": [{ "name": "serde", "path": null }] },
            { "name": "high", "dependencies": [{ "name": "low", "path": "x", "kind": "dev" }] },
            { "name": "top", "dependencies": [{ "name": "high", "path": "x" }] },
        ]));
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn other_arrows_fail() {
        let found = wrong(json!([
            { "name": "low", "dependencies": [{ "name": "high", "path": "x", "kind": "dev" }] },
            { "name": "new", "dependencies": [] },
        ]));
        assert_eq!(
            found,
            [
                "crates/low/Cargo.toml: low imports high, which the table of rooms does not allow",
                "crates/new/Cargo.toml: new has no row in the table of rooms of ARCHITECTURE.md",
            ]
        );
    }

    #[test]
    fn a_document_without_the_table_fails() {
        assert!(rooms("# House\n").is_err());
        assert!(rooms("| crate | is | may import |\n|---|---|---|\n| a | b |\n").is_err());
    }
}
