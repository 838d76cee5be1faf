//! Where scenarios come from: the files that are part of netwhy, and files of the user.

use std::path::Path;

use super::check;
use super::problem::Problem;
use super::types::Scenario;
use super::vary::Values;
use crate::error::{Error, Result};

/// Maximum of similar names that an error suggests.
const MAX_SUGGESTIONS: usize = 4;

/// The files that are part of the binary.
#[derive(rust_embed::RustEmbed)]
#[folder = "scenarios"]
#[include = "*.toml"]
struct Files;

/// Where a scenario comes from, and its text.
#[derive(Debug, Clone)]
pub struct Source {
    /// The name of the file, without `.toml`.
    pub name: String,
    /// The path for messages.
    pub path: String,
    text: String,
}

impl Source {
    /// The names of the scenarios that are part of netwhy, sorted.
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
    /// There is none of that name, or the file cannot be read.
    pub fn find(name: &str) -> Result<Self> {
        if name.contains('/') || name.ends_with(".toml") {
            let text = std::fs::read_to_string(name)
                .map_err(|error| Error::new(format!("cannot read the scenario {name}: {error}")))?;
            let stem = Path::new(name).file_stem().unwrap_or_default();
            let stem = stem.to_string_lossy().into_owned();
            return Ok(Source { name: stem, path: name.to_string(), text });
        }
        let file = Files::get(&format!("{name}.toml")).ok_or_else(|| {
            let similar = similar(name);
            Error::new(format!(
                "there is no scenario {name}{similar}; netwhy lab list prints all names, and a \
                 file is given by its path (./{name}.toml)"
            ))
        })?;
        let text = String::from_utf8_lossy(&file.data).into_owned();
        Ok(Source { name: name.to_string(), path: format!("{name}.toml"), text })
    }

    /// The scenario with its parameters: their defaults, or values drawn from a seed.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, and in which line.
    pub fn scenario(&self, seed: Option<u64>) -> Result<(Scenario, Values)> {
        let values =
            Values::draw(&self.text, seed).map_err(|problem| self.error(&self.text, &problem))?;
        let text = values.substitute(&self.text);
        let scenario: Scenario =
            toml::from_str(&text).map_err(|error| self.error(&text, &Problem::from(error)))?;
        check::check(&scenario).map_err(|problem| self.error(&text, &problem))?;
        Ok((scenario, values))
    }

    fn error(&self, text: &str, problem: &Problem) -> Error {
        let (path, what) = (&self.path, &problem.what);
        let Some(span) = &problem.span else {
            return Error::new(format!("{path}: {what}"));
        };
        let lines_before = text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
        let line = text.lines().nth(lines_before).unwrap_or_default().trim();
        Error::new(format!("{path}:{}: {what}\n  {line}", lines_before + 1))
    }
}

/// Names that share a word with this one, or the nearest to it, in brackets; empty without any.
fn similar(name: &str) -> String {
    let words: Vec<&str> = name.split('-').filter(|word| word.len() > 3).collect();
    let names = Source::names();
    let similar: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|known| words.iter().any(|word| known.contains(word)))
        .take(MAX_SUGGESTIONS)
        .collect();
    // A part of its name that is right is the better hint; without one, a few letters may be wrong.
    let mistyped = text::nearest(name, names.iter().map(String::as_str));
    let similar = if similar.is_empty() { Vec::from_iter(mistyped) } else { similar };
    if similar.is_empty() { String::new() } else { format!(" (similar: {})", similar.join(", ")) }
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
vary.clients = { default = 10, min = 5, max = 20 }

[hosts.client]
[hosts.server]

[[links]]
between = ["client", "server"]
both = { delay = "20ms" }

[workload]
host = "client"
run = "wrk -c ${clients} http://${server}/"
output = "wrk"
figure = "requests_per_second"
duration = "3s"

[[observe]]
host = "server"
"#;

    fn error(text: &str) -> String {
        source(text).scenario(None).expect_err("an error").to_string()
    }

    #[test]
    fn parameters_are_substituted_and_drawn() {
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
    fn errors_point_to_the_line() {
        let message = error(&WHOLE.replace("\"20ms\"", "\"20\""));
        assert!(message.starts_with("a.toml:12: \"20\" is not a time such as"), "{message}");
        let message = error(&WHOLE.replace("[\"client\", \"server\"]", "[\"client\", \"servre\"]"));
        assert!(message.starts_with("a.toml:11: there is no host servre"), "{message}");
        let message = error(&WHOLE.replace("output =", "ouptut ="));
        assert!(message.contains("a.toml:17: unknown field `ouptut`"), "{message}");
        let message = error(&WHOLE.replace("${server}", "${sevrer}"));
        assert!(message.starts_with("a.toml:16: unknown name ${sevrer}"), "{message}");
    }

    #[test]
    fn observers_are_checked() {
        let message = error(&format!("{WHOLE}by = \"probe\"\n"));
        assert!(message.starts_with("a.toml:22: a probe needs its arguments: run = "), "{message}");
        let message = error(&format!("{WHOLE}by = \"capture\"\nrun = \"ping ${{client}}\"\n"));
        assert!(message.starts_with("a.toml:24: run is only for by = \"probe\""), "{message}");
        let message = error(&format!("{WHOLE}by = \"guess\"\n"));
        assert!(message.contains("a.toml:23: unknown variant `guess`"), "{message}");
        let probe = format!("{WHOLE}by = \"probe\"\nrun = \"ping ${{client}}\"\n");
        assert!(source(&probe).scenario(None).is_ok());
        let message = error(&probe.replace("\"ping ${client}\"", "\"ping ${cleint}\""));
        assert!(message.starts_with("a.toml:24: unknown name ${cleint}"), "{message}");
    }

    #[test]
    fn all_built_in_scenarios_are_valid() {
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
    fn an_unknown_name_suggests_the_list() {
        let message = Source::find("no-such-thing").unwrap_err().to_string();
        assert!(message.contains("netwhy lab list"), "{message}");
        let message = Source::find("bufferblaot").unwrap_err().to_string();
        assert!(message.contains("(similar: bufferbloat)"), "{message}");
    }
}
