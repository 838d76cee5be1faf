//! Scenarios: a network, what is broken in it, what runs over it, and what must be found.
//!
//! - [`types`]: the file
//! - [`units`]: figures with units in it
//! - [`check`]: what the file says, held against itself
//! - [`vary`]: parameters, as they stand or drawn by a seed
//!
//! The scenarios of netwhy are `crates/lab/scenarios/*.toml`, part of the binary.

use std::path::Path;

mod check;
pub mod types;
pub mod units;
pub mod vary;

pub use types::{By, Kind, Scenario};
use vary::Values;

use crate::error::{Error, Result};

/// The files that are part of the binary.
#[derive(rust_embed::RustEmbed)]
#[folder = "scenarios"]
#[include = "*.toml"]
struct Files;

/// Where a scenario comes from, and its text.
#[derive(Debug, Clone)]
pub struct Source {
    /// Name: that of the file, without `.toml`.
    pub name: String,
    /// The path for messages.
    pub path: String,
    text: String,
}

impl Source {
    /// Names of the scenarios that are part of netwhy, in order.
    pub fn names() -> Vec<String> {
        let mut names: Vec<String> = Files::iter()
            .filter_map(|file| Some(file.strip_suffix(".toml")?.to_string()))
            .collect();
        names.sort();
        names
    }

    /// A scenario by its name, or by the path of a file (with a `/` or `.toml` in it).
    ///
    /// # Errors
    ///
    /// There is none of that name, the file cannot be read.
    pub fn find(name: &str) -> Result<Self> {
        if name.contains('/') || name.ends_with(".toml") {
            let text = std::fs::read_to_string(name)
                .map_err(|error| Error::new(format!("cannot read the scenario {name}: {error}")))?;
            let stem = Path::new(name).file_stem().unwrap_or_default();
            let stem = stem.to_string_lossy().into_owned();
            return Ok(Source { name: stem, path: name.to_string(), text });
        }
        let file = Files::get(&format!("{name}.toml")).ok_or_else(|| {
            let near = nearest(name);
            Error::new(format!(
                "there is no scenario {name}{near}; netwhy lab list names them all, and a file \
                 is given by its path (./{name}.toml)"
            ))
        })?;
        let text = String::from_utf8_lossy(&file.data).into_owned();
        Ok(Source { name: name.to_string(), path: format!("{name}.toml"), text })
    }

    /// The scenario with its parameters: as they stand, or drawn by a seed.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, and in which line.
    pub fn scenario(&self, seed: Option<u64>) -> Result<(Scenario, Values)> {
        let values = Values::draw(&self.text, seed).map_err(|wrong| self.wrong(&wrong))?;
        let text = values.put_into(&self.text);
        let scenario: Scenario = toml::from_str(&text).map_err(|error| {
            let wrong = Wrong { at: error.span(), what: error.message().to_string() };
            self.wrong_in(&text, &wrong)
        })?;
        check::check(&scenario).map_err(|wrong| self.wrong_in(&text, &wrong))?;
        Ok((scenario, values))
    }

    fn wrong(&self, wrong: &Wrong) -> Error {
        self.wrong_in(&self.text, wrong)
    }

    fn wrong_in(&self, text: &str, wrong: &Wrong) -> Error {
        let line = wrong.at.as_ref().map_or(String::new(), |at| {
            let before = text.as_bytes().iter().take(at.start).filter(|b| **b == b'\n').count();
            let line = text.lines().nth(before).unwrap_or_default().trim();
            format!(":{}: {}\n  {}", before + 1, wrong.what, line)
        });
        Error::new(match line.is_empty() {
            true => format!("{}: {}", self.path, wrong.what),
            false => format!("{}{line}", self.path),
        })
    }
}

/// What is wrong with a scenario, and where in its text.
#[derive(Debug)]
struct Wrong {
    at: Option<std::ops::Range<usize>>,
    what: String,
}

impl Wrong {
    fn at<T>(place: &toml::Spanned<T>, what: impl Into<String>) -> Self {
        Wrong { at: Some(place.span()), what: what.into() }
    }

    fn anywhere(what: impl Into<String>) -> Self {
        Wrong { at: None, what: what.into() }
    }
}

/// Names that have a word of this one.
fn nearest(name: &str) -> String {
    let words: Vec<&str> = name.split('-').filter(|word| word.len() > 3).collect();
    let names = Source::names();
    let near: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|known| words.iter().any(|word| known.contains(word)))
        .take(4)
        .collect();
    if near.is_empty() { String::new() } else { format!(" (near it: {})", near.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { name: "a".into(), path: "a.toml".into(), text: text.into() }
    }

    const WHOLE: &str = r#"
title = "a server"
about = "a server and a client"
kind = "healthy"
vary.clients = { default = 10, from = 5, to = 20 }

[hosts.client]
[hosts.server]

[[links]]
between = ["client", "server"]
both = { delay = "20ms" }

[workload]
host = "client"
run = "wrk -c ${clients} http://${server}/"
reads = "wrk"
figure = "requests_per_second"
lasts = "3s"

[[observe]]
host = "server"
"#;

    fn error(text: &str) -> String {
        source(text).scenario(None).expect_err("must be refused").to_string()
    }

    #[test]
    fn parameters_are_put_in_and_drawn() {
        let (scenario, values) = source(WHOLE).scenario(None).unwrap();
        assert_eq!(scenario.workload.run.get_ref(), "wrk -c 10 http://${server}/");
        assert_eq!(values.get("clients"), Some(10.0));
        let (_, one) = source(WHOLE).scenario(Some(7)).unwrap();
        let (_, same) = source(WHOLE).scenario(Some(7)).unwrap();
        assert_eq!(one, same);
        let drawn: std::collections::BTreeSet<_> = (0..40)
            .map(|seed| {
                source(WHOLE).scenario(Some(seed)).unwrap().1.get("clients").unwrap() as u64
            })
            .collect();
        assert!(drawn.len() > 8 && drawn.iter().all(|n| (5..=20).contains(n)), "{drawn:?}");
    }

    #[test]
    fn errors_name_the_line() {
        let told = error(&WHOLE.replace("\"20ms\"", "\"20\""));
        assert!(told.starts_with("a.toml:12: \"20\" is not a time such as"), "{told}");
        let told = error(&WHOLE.replace("[\"client\", \"server\"]", "[\"client\", \"servre\"]"));
        assert!(told.starts_with("a.toml:11: there is no host servre"), "{told}");
        let told = error(&WHOLE.replace("reads =", "raeds ="));
        assert!(told.contains("a.toml:17: unknown field `raeds`"), "{told}");
        let told = error(&WHOLE.replace("${server}", "${sevrer}"));
        assert!(told.starts_with("a.toml:16: nothing is called ${sevrer}"), "{told}");
    }

    #[test]
    fn who_looks_is_checked() {
        let told = error(&format!("{WHOLE}by = \"probe\"\n"));
        assert!(told.starts_with("a.toml:22: what is probed? run = "), "{told}");
        let told = error(&format!("{WHOLE}by = \"capture\"\nrun = \"ping ${{client}}\"\n"));
        assert!(told.starts_with("a.toml:24: only a probe is run"), "{told}");
        let told = error(&format!("{WHOLE}by = \"guess\"\n"));
        assert!(told.contains("a.toml:23: unknown variant `guess`"), "{told}");
        let probe = format!("{WHOLE}by = \"probe\"\nrun = \"ping ${{client}}\"\n");
        assert!(source(&probe).scenario(None).is_ok());
        let told = error(&probe.replace("\"ping ${client}\"", "\"ping ${cleint}\""));
        assert!(told.starts_with("a.toml:24: nothing is called ${cleint}"), "{told}");
    }

    #[test]
    fn all_that_are_part_of_netwhy_are_sound() {
        assert!(!Source::names().is_empty());
        for name in Source::names() {
            let source = Source::find(&name).unwrap();
            for seed in std::iter::once(None).chain((0..20).map(Some)) {
                if let Err(error) = source.scenario(seed) {
                    panic!("{error}");
                }
            }
        }
    }

    #[test]
    fn a_name_that_is_not_there_has_neighbours() {
        let told = Source::find("no-such-thing").unwrap_err().to_string();
        assert!(told.contains("netwhy lab list"), "{told}");
    }
}
