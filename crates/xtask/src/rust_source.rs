//! Just enough of Rust's lexical structure (The Rust Reference, "Tokens" and "Comments") for the
//! checks: what is code, what is comment or literal, what is compiled for tests only.
//!
//! No parser: it finds words, not meanings.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::tree::Tree;

/// The source with every comment and the inside of every literal replaced by spaces. Line feeds
/// stay, so that lines keep their numbers; the length in bytes stays too.
pub(crate) fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => line_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if !in_word(bytes, at) || bytes[at - 1] == b'b' || bytes[at - 1] == b'c' => {
                raw_string_end(bytes, at).unwrap_or(at + 1)
            }
            b'\'' => char_end(source, at).unwrap_or(at + 1),
            _ => at + 1,
        };
        if end > at + 1 {
            blank(&mut code[at..end]);
        }
        at = end.max(at + 1);
    }
    // Only whole characters were replaced, by spaces.
    String::from_utf8_lossy(&code).into_owned()
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Whether the byte before belongs to the same word.
fn in_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && is_word(bytes[at - 1])
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |length| at + length)
}

/// Block comments nest.
fn comment_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// `r"…"`, `r#"…"#` and so on; `None` for a name that begins with r, or a raw name (`r#type`).
fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|b| **b == b'#').count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let inside = &bytes[open + 1..];
    let length = inside.windows(close.len()).position(|window| window == close);
    Some(length.map_or(bytes.len(), |length| open + 1 + length + close.len()))
}

/// A character literal; `None` for a lifetime.
fn char_end(source: &str, at: usize) -> Option<usize> {
    let inside = &source[at + 1..];
    let mut characters = inside.char_indices();
    let (_, first) = characters.next()?;
    if first == '\\' {
        let close = inside.get(2..)?.find('\'')?;
        return Some(at + 1 + 2 + close + 1);
    }
    let (second_at, second) = characters.next()?;
    (second == '\'').then_some(at + 1 + second_at + 1)
}

/// Number of the line, from 1, of a place in a text.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].bytes().filter(|byte| *byte == b'\n').count() + 1
}

/// Places of a word in code: not as a part of a longer name.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = code.as_bytes();
        !in_word(bytes, *at) && !bytes.get(at + word.len()).is_some_and(|b| is_word(*b))
    })
}

/// Parts of the code (of [`code_only`]) that are compiled for tests only: the items under
/// `#[cfg(test)]` and the functions under `#[test]`.
pub(crate) fn test_parts(code: &str) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for mark in ["#[cfg(test)]", "#[cfg(all(test", "#[cfg(any(test", "#[test]"] {
        for (at, _) in code.match_indices(mark) {
            parts.push(at..item_end(code, at));
        }
    }
    parts
}

/// Where the item with these attributes ends: at its closing brace, or at a semicolon before any
/// brace.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    let mut brackets = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'[' | b'(' => brackets += 1,
            b']' | b')' => brackets = brackets.saturating_sub(1),
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            b';' if depth == 0 && brackets == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Files that are compiled for tests only: those in `tests`, `benches` and `fuzz` folders of a
/// crate, and modules that another file declares under `#[cfg(test)]`, with all below them.
pub(crate) fn test_files(tree: &Tree) -> BTreeSet<String> {
    let mut modules = Vec::new();
    for (path, text) in tree.rust() {
        let code = code_only(text);
        for part in test_parts(&code) {
            let item = &code[part];
            let Some(name) = item.strip_suffix(';').and_then(|item| item.split("mod ").last())
            else {
                continue;
            };
            modules.push(format!("{}/{}", module_folder(path), name.trim()));
        }
    }
    let is_test = |path: &str| {
        let folder = |name: &str| path.contains(&format!("/{name}/"));
        folder("tests")
            || folder("benches")
            || path.starts_with("fuzz/")
            || modules.iter().any(|module| {
                path.strip_prefix(module.as_str())
                    .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            })
    };
    tree.rust().map(|(path, _)| path).filter(|path| is_test(path)).map(str::to_string).collect()
}

/// The folder in which a file's modules are.
fn module_folder(path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_string(),
        file => format!("{folder}/{}", file.trim_end_matches(".rs")),
    }
}

#[cfg(test)]
mod tests {
    use super::{code_only, line_of, test_files, test_parts, words};
    use crate::tree::Tree;

    #[test]
    fn comments_and_literals_are_no_code() {
        let source = r###"
a("x.unwrap() \" y", 'u', '\'', '\u{1f}', b'"', "µ"); // .unwrap()
/* one /* two */ .unwrap() */ let r#type: &'static str = r#"raw " .unwrap()"#; br"x";
for r in rs { b() }
"###;
        let code = code_only(source);
        assert_eq!(code.len(), source.len());
        assert!(!code.contains("unwrap"), "{code}");
        for kept in ["a(", "let r#type: &'static str =", "for r in rs { b() }"] {
            assert!(code.contains(kept), "lost {kept} in {code}");
        }
    }

    #[test]
    fn what_does_not_end_ends_at_the_end() {
        for source in ["\"abc", "/* abc", "r#\"abc\"", "'", "'\\", "// é", "\"\\"] {
            assert_eq!(code_only(source).len(), source.len(), "{source}");
        }
    }

    #[test]
    fn words_are_whole() {
        let code = "unsafe_code unsafe { } not_unsafe (unsafe)";
        assert_eq!(words(code, "unsafe").collect::<Vec<_>>(), [12, 35]);
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }

    #[test]
    fn test_items_are_found() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { [1; 2]; } }\nfn c() {}\n\
                    #[cfg(test)]\nconst N: [u8; 2] = [0; 2];\nfn d() {}\n";
        let parts: Vec<_> = test_parts(code).into_iter().map(|part| &code[part]).collect();
        assert_eq!(
            parts,
            [
                "#[cfg(test)]\nmod tests { fn b() { [1; 2]; } }",
                "#[cfg(test)]\nconst N: [u8; 2] = [0; 2];"
            ]
        );
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_found() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod checks;\nmod real;\n"),
            ("crates/a/src/checks.rs", ""),
            ("crates/a/src/checks/more.rs", ""),
            ("crates/a/src/real.rs", "#[cfg(test)]\npub(crate) mod below;\n"),
            ("crates/a/src/real/below.rs", ""),
            ("crates/a/src/below.rs", ""),
            ("crates/a/tests/live.rs", ""),
        ]);
        assert_eq!(
            test_files(&tree).into_iter().collect::<Vec<_>>(),
            [
                "crates/a/src/checks.rs",
                "crates/a/src/checks/more.rs",
                "crates/a/src/real/below.rs",
                "crates/a/tests/live.rs"
            ]
        );
    }
}
