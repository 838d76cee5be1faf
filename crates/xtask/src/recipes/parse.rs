//! The recipes of docs/recipes.md: which files are new, which lines are added where.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};

/// A recipe of the document.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recipe {
    /// Its heading.
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
}

/// What is done to one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) path: String,
    /// The line after which the text is added; `None`: the text is a new file.
    pub(super) after: Option<String>,
    pub(super) text: String,
}

impl Recipe {
    /// New files, and new folders in place of the files in them.
    pub(super) fn new_places(&self, exists: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let new = self.steps.iter().filter(|step| step.after.is_none());
        let place = |step: &Step| match step.path.rsplit_once('/') {
            Some((folder, _)) if !exists(folder) => format!("{folder}/"),
            _ => step.path.clone(),
        };
        new.map(place).collect()
    }

    /// Files that get lines, with the number of these lines.
    pub(super) fn changed_files(&self) -> BTreeMap<&str, usize> {
        let mut files = BTreeMap::new();
        for step in self.steps.iter().filter(|step| step.after.is_some()) {
            *files.entry(step.path.as_str()).or_default() += step.text.lines().count();
        }
        files
    }
}

/// The recipes of the document: its sections that have steps.
pub(super) fn recipes(document: &str) -> anyhow::Result<Vec<Recipe>> {
    let mut recipes: Vec<Recipe> = Vec::new();
    let mut step: Option<(String, Option<String>)> = None;
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("## ") {
            recipes.push(Recipe { name: name.to_string(), steps: Vec::new() });
        } else if let Some(next) = step_of(line) {
            if let Some((path, _)) = step.replace(next) {
                bail!("{path} has no block of code below it");
            }
        } else if line.starts_with("```") {
            let text: String = lines
                .by_ref()
                .take_while(|line| *line != "```")
                .map(|line| format!("{line}\n"))
                .collect();
            if let Some((path, after)) = step.take() {
                let recipe =
                    recipes.last_mut().with_context(|| format!("{path} is in no section"))?;
                recipe.steps.push(Step { path, after, text });
            }
        }
    }
    recipes.retain(|recipe| !recipe.steps.is_empty());
    Ok(recipes)
}

/// ``New file `PATH`:`` or ``In `PATH`, after `LINE`:``
fn step_of(line: &str) -> Option<(String, Option<String>)> {
    let line = line.strip_suffix("`:")?;
    if let Some(path) = line.strip_prefix("New file `") {
        return Some((path.to_string(), None));
    }
    let (path, after) = line.strip_prefix("In `")?.split_once("`, after `")?;
    Some((path.to_string(), Some(after.to_string())))
}

/// A file with the text of a step added.
pub(super) fn apply(file: &str, step: &Step) -> anyhow::Result<String> {
    let Some(after) = &step.after else { return Ok(step.text.clone()) };
    let mut found = false;
    let mut text = String::new();
    for line in file.lines() {
        text += &format!("{line}\n");
        if !found && line.trim() == after {
            found = true;
            text += &step.text;
        }
    }
    if !found {
        bail!("{} has no line {after}: name another line in docs/recipes.md", step.path);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# R\n\n```sh\nx\n```\n\n## A\n\nNew file `a/b/c.rs`:\n\n```rust\none\ntwo\n```\n\n\
        In `a/mod.rs`, after `mod a;`:\n\n```rust\n    mod b;\n```\n\n## None\n\ntext\n";

    #[test]
    fn sections_with_steps_are_recipes() {
        let recipes = recipes(DOCUMENT).unwrap();
        let [recipe] = &recipes[..] else { panic!("{recipes:?}") };
        assert_eq!(recipe.name, "A");
        assert_eq!(recipe.steps[0].text, "one\ntwo\n");
        assert_eq!(recipe.new_places(|folder| folder == "a"), ["a/b/".to_string()].into());
        assert_eq!(recipe.new_places(|_| true), ["a/b/c.rs".to_string()].into());
        assert_eq!(recipe.changed_files(), [("a/mod.rs", 1)].into());
        let changed = apply("x\n  mod a;\nmod a;\n", &recipe.steps[1]).unwrap();
        assert_eq!(changed, "x\n  mod a;\n    mod b;\nmod a;\n");
        assert!(apply("x\n", &recipe.steps[1]).is_err());
    }

    #[test]
    fn a_step_without_its_text_fails() {
        assert!(super::recipes("## A\nNew file `a`:\nNew file `b`:\n```\nx\n```\n").is_err());
    }
}
