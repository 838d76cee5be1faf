//! netwhy itself, and its report.

use std::process::{Command, Output};

use serde_json::Value;

use super::host::{Host, output};

/// The binary under test.
pub(crate) fn netwhy() -> Command {
    let built = env!("CARGO_BIN_EXE_netwhy").to_string();
    Command::new(std::env::var("NETWHY_BIN").unwrap_or(built))
}

/// Watches a namespace for some time.
pub(crate) fn watch(host: &Host, time: &str, more: &[&str]) -> Report {
    let mut command = netwhy();
    command.args(["--netns", &host.name, "--for", time, "--json"]).args(more);
    report(&output(&mut command))
}

/// The report that a run printed.
pub(crate) fn report(output: &Output) -> Report {
    let text = String::from_utf8_lossy(&output.stdout);
    let value = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("no report: {error}\n{text}{}", String::from_utf8_lossy(&output.stderr))
    });
    Report(value)
}

/// A report: the JSON as users get it.
pub(crate) struct Report(pub(crate) Value);

impl Report {
    /// Ids of the causes found, worst first.
    pub(crate) fn causes(&self) -> Vec<String> {
        let findings = self.0["findings"].as_array().expect("findings");
        findings.iter().map(|f| f["cause"].as_str().unwrap_or_default().to_string()).collect()
    }

    /// The finding, which must be the only one, of this cause.
    pub(crate) fn only(&self, cause: &str) -> Finding<'_> {
        assert_eq!(self.causes(), [cause], "{:#}", self.0);
        self.finding(cause)
    }

    /// The finding of this cause.
    pub(crate) fn finding(&self, cause: &str) -> Finding<'_> {
        let findings = self.0["findings"].as_array().expect("findings");
        let found = findings.iter().find(|finding| finding["cause"] == cause);
        Finding(found.unwrap_or_else(|| panic!("no {cause} in {:#}", self.0)))
    }

    /// Asserts that nothing was found.
    pub(crate) fn is_healthy(&self, what: &str) {
        assert!(self.causes().is_empty(), "{what}: {:#}", self.0["findings"]);
    }
}

/// One finding.
pub(crate) struct Finding<'a>(pub(crate) &'a Value);

impl Finding<'_> {
    pub(crate) fn amount(&self) -> f64 {
        self.0["impact"]["amount"].as_f64().expect("amount")
    }

    /// Names of the processes of the subject.
    pub(crate) fn processes(&self) -> Vec<&str> {
        let all = self.0["subject"]["processes"].as_array().expect("processes");
        all.iter().filter_map(|process| process["name"].as_str()).collect()
    }

    /// Asserts that a process of this name is in the subject.
    pub(crate) fn is_of(&self, process: &str) {
        assert!(self.processes().contains(&process), "{process} is not in {:#}", self.0["subject"]);
    }

    /// All text of the proofs.
    pub(crate) fn proof(&self) -> String {
        let all = self.0["evidence"].as_array().expect("evidence");
        let texts: Vec<&str> = all.iter().filter_map(|proof| proof["text"].as_str()).collect();
        texts.join("\n")
    }

    /// Asserts that the proofs say something.
    pub(crate) fn says(&self, words: &str) {
        let proof = self.proof();
        assert!(proof.contains(words), "«{words}» is not in\n{proof}");
    }

    pub(crate) fn local(&self) -> &str {
        self.0["subject"]["local"].as_str().unwrap_or_default()
    }

    pub(crate) fn remote(&self) -> &str {
        self.0["subject"]["remote"].as_str().unwrap_or_default()
    }
}
