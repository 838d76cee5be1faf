//! No Rust file has more than 500 lines of code, but for those listed here with a reason. Its head
//! and its own tests are not counted: the page of a cause and its tests stand in its file.

use super::problem::Problem;
use crate::tree::Tree;

/// Most lines of a file.
const LIMIT: usize = 500;

/// Files that may be longer: path, why.
const LONGER: &[(&str, &str)] = &[];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Problem>> {
    Ok(compare(tree, LONGER))
}

/// Lines between the head of a file and its tests at the end.
fn code(text: &str) -> usize {
    let lines = text.lines().skip_while(|line| line.starts_with("//!"));
    let mut count = 0;
    let mut marked = false;
    for line in lines {
        let module = line.strip_prefix("pub(super) ").unwrap_or(line);
        if marked && module.starts_with("mod ") && line.ends_with('{') {
            return count - 1;
        }
        marked = line == "#[cfg(test)]";
        count += 1;
    }
    count
}

fn compare(tree: &Tree, longer: &[(&str, &str)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.rust() {
        let lines = code(text);
        let excused = longer.iter().any(|(excused, _)| *excused == path);
        if lines > LIMIT && !excused {
            let text = format!("{lines} lines, {LIMIT} at most: divide it by what it does");
            problems.push(Problem::new(path, None, text));
        } else if lines <= LIMIT && excused {
            let text = "has an exception from the limit of lines, and needs none";
            problems.push(Problem::new(path, None, text));
        }
    }
    for (path, _) in longer.iter().filter(|(path, _)| tree.text(path).is_none()) {
        problems.push(Problem::new(
            *path,
            None,
            "has an exception from the limit of lines, but does not exist",
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::compare;
    use crate::tree::Tree;

    #[test]
    fn long_files_need_an_excuse_and_excuses_need_a_long_file() {
        let head = "//! x\n".repeat(99);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    x\n".repeat(99));
        let long = format!("{head}{}{tests}", "x\n".repeat(501));
        let fits = format!("{head}{}{tests}", "x\n".repeat(500));
        let tree = Tree::of(&[("a.rs", &long), ("b.rs", &fits), ("c.rs", &long), ("d.md", &long)]);
        let excuses = [("c.rs", "generated"), ("b.rs", "was long"), ("e.rs", "was there")];
        let found: Vec<_> = compare(&tree, &excuses).into_iter().map(|p| p.path).collect();
        assert_eq!(found, ["a.rs", "b.rs", "e.rs"]);
    }
}
