//! Networks of the lab: that of a scenario, and two hosts with a long path between them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use super::host::output;
use super::tool::netwhy;

/// 100 Mbit/s and 40 ms between `client` and `server`.
const FAR: &str = r#"
title = "Two hosts with 100 Mbit/s and 40 ms between them"
about = """
Active measurements, compared with theory and with other programs.
"""
kind = "healthy"
[hosts.client]
sysctls = { "net.ipv4.tcp_rmem" = "4096 131072 33554432" }
[hosts.server]
sysctls = { "net.ipv4.tcp_wmem" = "4096 16384 16777216" }
[[links]]
between = ["client", "server"]
both = { delay = "20ms", rate = "100mbit", queue = "4MB" }
[workload]
host = "client"
run = "sleep ${seconds}; echo x 1"
output = "lines"
figure = "x"
duration = "1s"
[[observe]]
host = "client"
[[steps]]
expect = []
"#;

/// A lab network with its programs, without the workload. It exists until this is dropped.
pub(crate) struct Lab {
    shell: Child,
    name: String,
    /// Process 1 of each host.
    pids: BTreeMap<String, String>,
}

impl Lab {
    /// `scenario`: its name, or its file.
    pub(crate) fn new(scenario: &Path, host: &str) -> Self {
        // `cat` ends with its input.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut command = netwhy();
        command.args(["lab", "shell"]).arg(scenario);
        command.args([host, "--", "sh", "-c", "echo ready; exec cat"]).stdin(Stdio::piped());
        command.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
        let shell = command.spawn().expect("a lab");
        // The copies of this process are closed, or the pipe would not end with a lab that fails.
        drop(command);
        let (mut name, mut pids) = (String::new(), BTreeMap::new());
        let mut printed = String::new();
        for line in BufReader::new(reader).lines().map(|line| line.expect("a line")) {
            printed.push_str(&line);
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [known, "is", "up;", ..] => name = known.to_string(),
                ["netwhy", "lab", "shell", _, host, "(netwhy", "--netns", pid] => {
                    pids.insert(host.to_string(), pid.trim_end_matches(')').to_string());
                }
                ["ready"] => return Lab { shell, name, pids },
                _ => {}
            }
        }
        panic!("no lab: {printed}");
    }

    /// Process 1 of a host.
    pub(crate) fn pid(&self, host: &str) -> &str {
        self.pids.get(host).unwrap_or_else(|| panic!("no {host} in {:?}", self.pids))
    }

    /// The output of a shell command on a host.
    pub(crate) fn run(&self, host: &str, line: &str) -> String {
        let mut command = netwhy();
        command.args(["lab", "shell", &self.name, host, "--", "sh", "-c", line]);
        let ran = output(&mut command);
        assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Two hosts with a long path between them, `client` and `server`.
pub(crate) struct Far {
    lab: Lab,
    program: String,
    _folder: tempfile::TempDir,
}

impl Far {
    /// `processes`: added to the scenario; NETWHY is the program under test, FOLDER the folder of the
    /// scenario's file.
    pub(crate) fn new(processes: &str) -> Self {
        static LABS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let folder = tempfile::tempdir().expect("a folder");
        let number = LABS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = folder.path().join(format!("far-{}-{number}.toml", std::process::id()));
        let program = netwhy().get_program().to_string_lossy().into_owned();
        let scenario = FAR.replace("[workload]", &format!("{processes}[workload]"));
        let folder_path = folder.path().to_string_lossy().into_owned();
        let scenario = scenario.replace("NETWHY", &program).replace("FOLDER", &folder_path);
        std::fs::write(&path, scenario).expect("a scenario");
        Far { lab: Lab::new(&path, "client"), program, _folder: folder }
    }

    /// The program under test.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// The output of a shell command on a host.
    pub(crate) fn run(&self, host: &str, line: &str) -> String {
        self.lab.run(host, line)
    }
}
