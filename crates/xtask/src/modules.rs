//! Which file of a crate takes names from which other one.
//!
//! Reads `use` declarations and paths (`crate::a::B`, `super::b`, `child::f()`) in the code of every
//! file and follows re-exports to the file that defines the name, so that no tie ends at a `mod.rs`
//! that only re-exports. Code for tests is left out, and so is what macros make.

use std::collections::{BTreeMap, BTreeSet};

use crate::rust_source::{code_only, test_files, test_parts};
use crate::tree::Tree;

/// A file, and the names that another file takes from it.
pub(crate) type Arrows = BTreeMap<(String, String), BTreeSet<String>>;

/// The modules of one crate.
struct Crate {
    /// File by module path: `[]` is the root.
    files: BTreeMap<Vec<String>, String>,
    modules: BTreeMap<Vec<String>, Module>,
}

#[derive(Default)]
struct Module {
    /// What `use` brings in, and from where, relative paths resolved: name, path, whether a glob.
    imports: Vec<Import>,
    /// Other paths in the code.
    paths: Vec<Vec<String>>,
    /// Names that are defined here.
    defined: BTreeSet<String>,
}

struct Import {
    name: String,
    path: Vec<String>,
    glob: bool,
    public: bool,
}

/// The arrows between the files of each crate, by crate.
pub(crate) fn arrows(tree: &Tree) -> BTreeMap<String, Arrows> {
    let tests = test_files(tree);
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    for (path, text) in tree.rust().filter(|(path, _)| !tests.contains(*path)) {
        let Some((name, module)) = place(path) else { continue };
        let house = crates
            .entry(name.to_string())
            .or_insert_with(|| Crate { files: BTreeMap::new(), modules: BTreeMap::new() });
        house.files.insert(module.clone(), path.to_string());
        house.modules.insert(module.clone(), read(&module, text));
    }
    crates.into_iter().map(|(name, house)| (name, house.arrows())).collect()
}

/// The crate and module of a file: `crates/a/src/b/mod.rs` is `b` of `a`.
fn place(path: &str) -> Option<(&str, Vec<String>)> {
    let (name, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let file = file.strip_suffix(".rs")?;
    let file = file.strip_suffix("/mod").unwrap_or(file);
    let root = matches!(file, "lib" | "main" | "mod");
    let module = file.split('/').map(str::to_string);
    Some((name, if root { Vec::new() } else { module.collect() }))
}

/// What a file says, its tests left out.
fn read(module: &[String], text: &str) -> Module {
    let code = code_only(text);
    let mut code = code.into_bytes();
    if let Ok(text) = std::str::from_utf8(&code) {
        for part in test_parts(text) {
            for byte in code.get_mut(part).into_iter().flatten() {
                *byte = b' ';
            }
        }
    }
    let code = String::from_utf8_lossy(&code).into_owned();
    let words = words(&code);
    let mut found = Module::default();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let before = at.checked_sub(1).and_then(|at| words.get(at)).copied().unwrap_or("");
        match *word {
            "use" if before != "::" => {
                let end = at + words[at..].iter().take_while(|word| **word != ";").count();
                let public = before == "pub" || before == ")";
                let tree = &words[at + 1..end];
                imports(tree, &mut Vec::new(), module, public, &mut found.imports);
                at = end;
            }
            "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" => {
                if let Some(name) = words.get(at + 1) {
                    found.defined.insert((*name).to_string());
                }
            }
            "macro_rules" => {
                if let Some(name) = words.get(at + 2) {
                    found.defined.insert((*name).to_string());
                }
            }
            word if is_name(word) && before != "::" && words.get(at + 1) == Some(&"::") => {
                let mut path = vec![word.to_string()];
                while words.get(at + 1) == Some(&"::")
                    && let Some(next) = words.get(at + 2).filter(|next| is_name(next))
                {
                    path.push((*next).to_string());
                    at += 2;
                }
                found.paths.push(absolute(&path, module));
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names and signs; `::` is one of them.
fn words(code: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_alphanumeric() || first == '_' {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        if !first.is_whitespace() {
            words.push(word);
        }
        rest = after;
    }
    words
}

/// The imports of one tree of a `use`: `a::{b, c as d, e::*}`.
fn imports(
    tree: &[&str],
    prefix: &mut Vec<String>,
    module: &[String],
    public: bool,
    found: &mut Vec<Import>,
) {
    let depth = prefix.len();
    let mut at = 0;
    let mut last = String::new();
    while let Some(word) = tree.get(at) {
        match *word {
            "::" => {}
            "{" => {
                let mut level = 0;
                let mut from = at + 1;
                for (to, word) in tree.iter().enumerate().skip(at) {
                    match *word {
                        "{" => level += 1,
                        "}" => level -= 1,
                        _ => {}
                    }
                    if (level == 1 && *word == ",") || level == 0 {
                        imports(&tree[from..to], prefix, module, public, found);
                        from = to + 1;
                    }
                    if level == 0 {
                        break;
                    }
                }
                prefix.truncate(depth);
                return;
            }
            "*" => {
                let path = absolute(prefix, module);
                found.push(Import { name: String::new(), path, glob: true, public });
                prefix.truncate(depth);
                return;
            }
            "as" => {
                last = tree.get(at + 1).map_or(last, |name| (*name).to_string());
                break;
            }
            "self" if depth > 0 || at > 0 => {}
            name => {
                last = name.to_string();
                prefix.push(last.clone());
            }
        }
        at += 1;
    }
    if prefix.len() > depth || tree.contains(&"self") {
        let name = if last.is_empty() { prefix.last().cloned().unwrap_or_default() } else { last };
        found.push(Import { name, path: absolute(prefix, module), glob: false, public });
    }
    prefix.truncate(depth);
}

/// A path from the root of the crate, with `crate` at its head; one of another crate as it is.
fn absolute(path: &[String], module: &[String]) -> Vec<String> {
    let mut base = module.to_vec();
    let mut rest = path.iter();
    match path.first().map(String::as_str) {
        Some("crate") => {
            base.clear();
            rest.next();
        }
        Some("self") => {
            rest.next();
        }
        Some("super") => {
            while rest.as_slice().first().is_some_and(|word| word == "super") {
                base.pop();
                rest.next();
            }
        }
        // A child, an import or another crate: decided when all files are known.
        _ => return path.to_vec(),
    }
    let head = std::iter::once("crate".to_string());
    head.chain(base).chain(rest.cloned()).collect()
}

impl Crate {
    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (place, module) in &self.modules {
            let Some(from) = self.files.get(place) else { continue };
            let paths = module.imports.iter().map(|import| &import.path).chain(&module.paths);
            for path in paths {
                let Some(to) = self.target(place, path, 0) else { continue };
                if to != from {
                    let name = path.last().cloned().unwrap_or_default();
                    arrows.entry((from.clone(), to.clone())).or_default().insert(name);
                }
            }
        }
        arrows
    }

    /// The file that a path in a module leads to; `None`: another crate, or a local name.
    fn target(&self, module: &[String], path: &[String], depth: usize) -> Option<&String> {
        /// Re-exports that are followed one after the other.
        const MAX_DEPTH: usize = 8;
        if depth > MAX_DEPTH {
            return None;
        }
        let (first, rest) = path.split_first()?;
        if first == "crate" {
            return self.walk(&[], rest, depth);
        }
        let mut child = module.to_vec();
        child.push(first.clone());
        if self.files.contains_key(&child) {
            return self.walk(&child, rest, depth);
        }
        None
    }

    /// The file of a path below a module.
    fn walk(&self, module: &[String], path: &[String], depth: usize) -> Option<&String> {
        let Some((name, rest)) = path.split_first() else { return self.files.get(module) };
        let mut child = module.to_vec();
        child.push(name.clone());
        if self.files.contains_key(&child) {
            return self.walk(&child, rest, depth);
        }
        let here = self.modules.get(module)?;
        if !here.defined.contains(name) {
            let handed = here.imports.iter().filter(|import| import.public);
            for import in handed {
                let mut path = import.path.clone();
                if import.glob {
                    path.push(name.clone());
                    let to = self.target(module, &path, depth + 1);
                    if to.is_some_and(|file| self.defines(file, name)) {
                        return to;
                    }
                } else if import.name == *name {
                    return self.target(module, &path, depth + 1);
                }
            }
        }
        self.files.get(module)
    }

    fn defines(&self, file: &str, name: &str) -> bool {
        let place = self.files.iter().find(|(_, path)| *path == file).map(|(place, _)| place);
        place.and_then(|place| self.modules.get(place)).is_some_and(|m| m.defined.contains(name))
    }
}

/// Groups of files that reach each other, of two files and more, each in order.
pub(crate) fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let mut next: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        next.entry(from).or_default().push(to);
    }
    let reach = |from: &String| {
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        let mut open: Vec<&String> = next.get(from).into_iter().flatten().copied().collect();
        while let Some(file) = open.pop() {
            if seen.insert(file) {
                open.extend(next.get(file).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        next.keys().map(|from| (*from, reach(from))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for (file, to) in &reached {
        if !to.contains(*file) || circles.iter().flatten().any(|known| known == *file) {
            continue;
        }
        let back = |other: &&&String| reached.get(**other).is_some_and(|back| back.contains(*file));
        circles.push(to.iter().filter(back).map(|file| (*file).clone()).collect());
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let arrows = arrows(&Tree::of(files)).remove("a").unwrap_or_default();
        let short = |path: &str| path.trim_start_matches("crates/a/src/").to_string();
        arrows.keys().map(|(from, to)| (short(from), short(to))).collect()
    }

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(from, to)| (from.to_string(), to.to_string())).collect()
    }

    #[test]
    fn imports_and_paths_are_arrows_and_declarations_are_none() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\npub mod c;\npub fn root() { b::go() }\n"),
            ("crates/a/src/b.rs", "use crate::c::{self, D, deep::{E, F as G}};\nuse std::fmt;\n"),
            ("crates/a/src/c/mod.rs", "pub mod deep;\nuse super::root;\npub struct D;\n"),
            ("crates/a/src/c/deep.rs", "pub struct E; pub struct F; fn x() { super::D; }\n"),
        ];
        assert_eq!(
            found(&files),
            pairs(&[
                ("b.rs", "c/deep.rs"),
                ("b.rs", "c/mod.rs"),
                ("c/deep.rs", "c/mod.rs"),
                ("c/mod.rs", "lib.rs"),
                ("lib.rs", "b.rs"),
            ])
        );
    }

    #[test]
    fn re_exports_are_followed_and_tests_left_out() {
        let files = [
            ("crates/a/src/main.rs", "mod b;\nmod c;\n"),
            ("crates/a/src/b/mod.rs", "mod x;\nmod y;\npub(crate) use x::One;\npub use y::*;\n"),
            ("crates/a/src/b/x.rs", "pub(crate) struct One;\nuse super::Two;\n"),
            (
                "crates/a/src/b/y.rs",
                "pub struct Two;\n#[cfg(test)]\nmod tests { use super::super::One; }\n",
            ),
            ("crates/a/src/c.rs", "use crate::b::{One, Two};\n"),
        ];
        assert_eq!(
            found(&files),
            pairs(&[
                ("b/mod.rs", "b/x.rs"),
                ("b/mod.rs", "b/y.rs"),
                ("b/x.rs", "b/y.rs"),
                ("c.rs", "b/x.rs"),
                ("c.rs", "b/y.rs"),
            ])
        );
    }

    #[test]
    fn circles_are_whole() {
        let arrow = |from: &str, to: &str| ((from.to_string(), to.to_string()), BTreeSet::new());
        let arrows: Arrows =
            [arrow("a", "b"), arrow("b", "c"), arrow("c", "a"), arrow("c", "d"), arrow("e", "a")]
                .into_iter()
                .collect();
        assert_eq!(circles(&arrows), [["a", "b", "c"]]);
        assert_eq!(circles(&Arrows::new()), Vec::<Vec<String>>::new());
    }
}
