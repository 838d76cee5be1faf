//! `cargo xtask`: checks and generated documents of this repository.
//!
//! - `tidy`: rules that neither compiler nor clippy know, see [`tidy`]
//! - `docs`: pages and schemas generated from the source, see [`docs`]
//! - `recipes`: follows docs/recipes.md in a copy of the repository, see [`recipes`]
//! - `mutate`: mutated captures and evidence through all that reads them, see [`mutate`]
//! - `test`: everything that CI checks, with a summary, see [`gate`]
//!
//! Nothing here is shipped.

use std::process::ExitCode;

mod docs;
mod gate;
#[expect(clippy::indexing_slicing, reason = "ranges of words end at words that were found before")]
mod modules;
mod mutate;
mod recipes;
mod repository;
#[expect(clippy::indexing_slicing, reason = "every index is below the length that its loop tests")]
mod rust_source;
mod tidy;
mod tree;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test            everything that CI checks: format, clippy, tidy, tests, recipes; then a summary
  test --quick    a subset for while you work: format, tidy, unit tests, a dozen scenarios
  test --runner P run the tests that need root with this program: 'sudo -n'
  tidy            check rooms, circles, lengths, heads, unsafe, panics, skips, tables, docs, words
  docs            write the generated documents: docs/{causes,schema,columns.md,scenarios.md},
                  the sample in README.md, rows of README.md and ARCHITECTURE.md
  docs --check    only list those that are stale
  mutate [CAPTURES [EVIDENCE]]
                  so many mutated files [100000, 20000] through the parsers, the rules and
                  the reports, with 300 MiB of memory
  recipes         follow docs/recipes.md in a copy, and check that it works
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["tidy"] => tidy::run(),
        ["test", ref words @ ..] => match options(words) {
            Some(options) => gate::run(&options),
            None => return usage(),
        },
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::check(),
        ["recipes"] => recipes::run(),
        ["mutate", ref counts @ ..] if counts.len() <= mutate::Kind::ALL.len() => {
            match counts.iter().map(|count| count.parse()).collect::<Result<Vec<u64>, _>>() {
                Ok(counts) => mutate::run(&counts),
                Err(_) => return usage(),
            }
        }
        ["mutate-worker", kind, from, to] => {
            let range = from.parse().ok().zip(to.parse().ok());
            match mutate::Kind::of(kind).zip(range) {
                Some((kind, (from, to))) => mutate::work(kind, from, to).map(|()| true),
                None => return usage(),
            }
        }
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(true)
        }
        _ => return usage(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}

/// The options of `test`; `None`: they are none.
fn options(words: &[&str]) -> Option<gate::Options> {
    let mut options = gate::Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--quick" => options.quick = true,
            "--runner" => options.runner = Some((*words.next()?).to_string()),
            _ => return None,
        }
    }
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::{gate, options};

    #[test]
    fn options_of_the_tests() {
        let all = gate::Options { quick: true, runner: Some("sudo -n -E".to_string()) };
        assert_eq!(options(&["--runner", "sudo -n -E", "--quick"]), Some(all));
        assert_eq!(options(&[]), Some(gate::Options::default()));
        assert_eq!((options(&["--runner"]), options(&["-q"])), (None, None));
    }
}
