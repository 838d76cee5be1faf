//! Follows the recipes, and prints which files each touches.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::{Context as _, bail};
use text::{count, duration};

use super::demonstrate::demonstrate;
use super::parse::{Recipe, apply, recipes};
use super::workspace::Workspace;
use crate::repository::root;
use crate::tidy;
use crate::tree::Tree;

const DOCUMENT: &str = "docs/recipes.md";

/// What a recipe may touch.
struct Limit {
    /// The heading of the recipe.
    recipe: &'static str,
    /// New files and folders.
    new: usize,
    /// Files that get lines.
    changed: usize,
}

const LIMITS: [Limit; 4] = [
    // The file and its scenario; the table.
    Limit { recipe: "A cause", new: 2, changed: 1 },
    // The folder and its parser; the table, the source, the list of the parsers.
    Limit { recipe: "An observer", new: 2, changed: 3 },
    // The file and its command; the list of the probes, the table of commands.
    Limit { recipe: "A probe", new: 2, changed: 2 },
    // The folder; the table.
    Limit { recipe: "A command", new: 1, changed: 1 },
];

/// Lines that a recipe may add to one file.
const MAX_LINES_OF_A_FILE: usize = 4;

/// The tests that hold the tables, and those of the templates.
const TESTS: [&str; 9] = [
    "causes::tests::",
    "causes::no_route",
    "catalogue",
    "cause::tests",
    "observers::tests",
    "protocols::",
    "lookup::",
    "--skip",
    "hostile",
];

/// `cargo xtask recipes`: follows the recipes; whether what they make works.
pub(crate) fn run() -> anyhow::Result<bool> {
    match follow() {
        Ok(()) => Ok(true),
        Err(error) => {
            eprintln!("recipes: {error:#}");
            eprintln!(
                "recipes: {DOCUMENT} and the code do not agree: change the template there, or the \
                 code so that a recipe needs no more files"
            );
            Ok(false)
        }
    }
}

fn follow() -> anyhow::Result<()> {
    let began = Instant::now();
    let document = std::fs::read_to_string(root()?.join(DOCUMENT))
        .with_context(|| format!("cannot read {DOCUMENT}"))?;
    let recipes = recipes(&document).with_context(|| DOCUMENT.to_string())?;
    let names: Vec<&str> = recipes.iter().map(|recipe| recipe.name.as_str()).collect();
    let expected = LIMITS.map(|limit| limit.recipe);
    if names != expected {
        bail!("the recipes are {names:?}, expected {expected:?}");
    }
    for (recipe, limit) in recipes.iter().zip(LIMITS) {
        print!("{}", touched(recipe, &limit)?);
    }
    check(&Workspace::copy(&changed_files(&recipes)?)?, began)
}

/// The text of each file after all recipes.
fn changed_files(recipes: &[Recipe]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for step in recipes.iter().flat_map(|recipe| &recipe.steps) {
        let path = &step.path;
        let there = root()?.join(path);
        let file = match (files.get(path), step.after.is_some()) {
            (Some(text), true) => text.clone(),
            (None, true) => {
                std::fs::read_to_string(&there).with_context(|| format!("cannot read {path}"))?
            }
            (None, false) if !there.exists() => String::new(),
            (_, false) => bail!("{path} exists already: rename the template"),
        };
        files.insert(path.clone(), apply(&file, step)?);
    }
    Ok(files)
}

/// Builds and tests the copy, and shows what is new.
fn check(workspace: &Workspace, began: Instant) -> anyhow::Result<()> {
    let step = |text: &str| println!("[{}] {text}", duration(began.elapsed()));
    workspace.cargo(&["fmt", "--all", "--check"])?;
    // All of it, as the tests do: for a part, the crates of others have other features and are built again.
    workspace.cargo(&["build", "-q", "--locked", "--workspace"])?;
    step("it builds, as cargo fmt formats it");
    let docs = workspace.xtask(&["docs"])?;
    let written: Vec<&str> = docs.lines().filter_map(|line| line.strip_prefix("wrote ")).collect();
    step(&format!("cargo xtask docs wrote {}", written.join(", ")));
    let found = new_problems(&tidy::problems(&Tree::read(root()?)?)?, &workspace.tidy()?);
    if !found.is_empty() {
        bail!("cargo xtask tidy finds after the recipes were followed:\n{}", found.join("\n"));
    }
    step("cargo xtask tidy finds nothing new");
    for shown in demonstrate(workspace)? {
        step(&shown);
    }
    // xtask and netwhy have no tests of a library: with them, the features are those of before.
    let packages = ["wire", "observe", "diagnose", "probe", "xtask", "netwhy"];
    let packages = packages.iter().flat_map(|name| ["-p", name]);
    let arguments = ["test", "--locked", "--lib"].into_iter().chain(packages);
    let arguments: Vec<&str> = arguments.chain(["--"]).chain(TESTS).collect();
    let results = workspace.cargo(&arguments)?;
    let passed = results.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    let passed = passed.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
    step(&format!("{} of the tables and templates passed", count(passed.sum(), "test")));
    Ok(())
}

/// What tidy finds now and did not find before. Lines may have moved.
fn new_problems(before: &[String], now: &[String]) -> Vec<String> {
    let without_line = |problem: &str| -> String {
        problem.chars().filter(|letter| !letter.is_ascii_digit()).collect()
    };
    let before: BTreeSet<String> = before.iter().map(|one| without_line(one)).collect();
    let is_new = |one: &&String| one.ends_with(']') && !before.contains(&without_line(one));
    now.iter().filter(is_new).cloned().collect()
}

/// What a recipe touches, as text; an error where that is more than it may.
fn touched(recipe: &Recipe, limit: &Limit) -> anyhow::Result<String> {
    let root = root()?;
    let new = recipe.new_places(|folder| root.join(folder).exists());
    let changed = recipe.changed_files();
    let mut text = format!("{}\n", recipe.name);
    for path in &new {
        text += &format!("  new      {path}\n");
    }
    for (path, lines) in &changed {
        text += &format!("  changed  {path} (+{})\n", count(*lines as u64, "line"));
    }
    let longest = changed.values().max().copied().unwrap_or(0);
    if new.len() > limit.new || changed.len() > limit.changed || longest > MAX_LINES_OF_A_FILE {
        bail!(
            "{} needs more than {} new, {} changed, and {} lines of one file:\n{text}",
            recipe.name,
            limit.new,
            limit.changed,
            MAX_LINES_OF_A_FILE
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tidy_found_before_is_not_new() {
        let before = ["a.rs:3: x [words]".to_string()];
        let now = ["a.rs:5: x [words]", "b.rs: y [heads]", "tidy: 2 things are wrong"];
        assert_eq!(new_problems(&before, &now.map(str::to_string)), ["b.rs: y [heads]"]);
    }

    #[test]
    fn the_document_has_the_recipes_and_no_more_than_they_may_touch() {
        let document = std::fs::read_to_string(root().unwrap().join(DOCUMENT)).unwrap();
        let recipes = recipes(&document).unwrap();
        assert_eq!(recipes.len(), LIMITS.len());
        for (recipe, limit) in recipes.iter().zip(LIMITS) {
            assert_eq!(recipe.name, limit.recipe);
            assert!(touched(recipe, &limit).is_ok(), "{:?}", touched(recipe, &limit));
        }
        assert!(changed_files(&recipes).is_ok());
    }
}
