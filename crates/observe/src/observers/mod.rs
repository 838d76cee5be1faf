//! The observers: each is a folder and one line in the table below, in the order in which they run.
//!
//! Processes come first: the others ask which process owns a socket. What an observer reads is declared
//! once, by its sources ([`Source::reads`]).

use model::Source;

use crate::observer::Observe;

pub mod applications;
pub mod conntrack;
pub mod counters;
pub mod kernel_log;
pub mod processes;
pub mod sockets;
pub mod softnet;
pub mod sysctls;

/// One observer.
pub struct Entry {
    /// Its folder, beside this file.
    pub name: &'static str,
    /// The sources that it reads, each of which only it reads.
    pub sources: &'static [Source],
    /// Makes one for a window.
    pub make: fn() -> Box<dyn Observe>,
}

impl Entry {
    /// What it reads, of all its sources.
    pub fn reads(&self) -> String {
        let reads: Vec<&str> = self.sources.iter().map(|source| source.reads()).collect();
        reads.join("; ")
    }
}

/// All observers.
pub const OBSERVERS: &[Entry] = &[
    Entry { name: "processes", sources: &[Source::Processes], make: processes::observer },
    Entry {
        name: "sockets",
        sources: &[Source::Sockets, Source::Listeners, Source::UnixListeners],
        make: sockets::observer,
    },
    Entry { name: "applications", sources: &[Source::Logs], make: applications::observer },
    Entry {
        name: "counters",
        sources: &[Source::Counters, Source::Sockstat],
        make: counters::observer,
    },
    Entry { name: "softnet", sources: &[Source::Softnet], make: softnet::observer },
    Entry { name: "sysctls", sources: &[Source::Sysctls], make: sysctls::observer },
    Entry { name: "conntrack", sources: &[Source::Conntrack], make: conntrack::observer },
    Entry { name: "kernel_log", sources: &[Source::KernelLog], make: kernel_log::observer },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use model::{Observation, Source};

    use super::OBSERVERS;

    #[test]
    fn names_are_folders_and_unique() {
        let mut names = BTreeSet::new();
        for entry in OBSERVERS {
            assert!(names.insert(entry.name), "{} is listed twice", entry.name);
            let folder = format!("{}/src/observers/{}", env!("CARGO_MANIFEST_DIR"), entry.name);
            assert!(Path::new(&folder).is_dir(), "no folder {folder}");
        }
    }

    #[test]
    fn every_source_of_a_host_has_one_observer() {
        for source in Source::ALL {
            let observers: Vec<&str> = OBSERVERS
                .iter()
                .filter(|entry| entry.sources.contains(source))
                .map(|entry| entry.name)
                .collect();
            let expected = usize::from(source.observation() == Observation::Host);
            assert_eq!(observers.len(), expected, "{} is read by {observers:?}", source.name());
        }
    }

    #[test]
    fn the_table_of_architecture_md_is_this_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
        let document = std::fs::read_to_string(path).unwrap();
        for entry in OBSERVERS {
            let row = format!("| `{}` | {} |", entry.name, entry.reads());
            assert!(document.contains(&row), "ARCHITECTURE.md must have this row:\n{row}");
        }
    }
}
