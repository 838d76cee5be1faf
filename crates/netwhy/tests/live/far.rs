//! A lab network of two hosts with a long path between them.

use std::io::{BufRead as _, BufReader};
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

/// A lab network that exists until this is dropped.
pub(crate) struct Far {
    shell: Child,
    name: String,
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
        let name = format!("far-{}-{number}", std::process::id());
        let path = folder.path().join(format!("{name}.toml"));
        let program = netwhy().get_program().to_string_lossy().into_owned();
        let scenario = FAR.replace("[workload]", &format!("{processes}[workload]"));
        let folder_path = folder.path().to_string_lossy().into_owned();
        let scenario = scenario.replace("NETWHY", &program).replace("FOLDER", &folder_path);
        std::fs::write(&path, scenario).expect("a scenario");
        // `cat` ends with its input.
        let mut command = netwhy();
        command.args(["lab", "shell"]).arg(&path).args(["client", "--", "cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut shell = command.spawn().expect("a lab");
        let mut line = String::new();
        let mut lines = BufReader::new(shell.stderr.take().expect("standard error"));
        lines.read_line(&mut line).expect("a line");
        assert!(line.contains(" is up"), "{line}");
        Far { shell, name, program, _folder: folder }
    }

    /// The program under test.
    pub(crate) fn program(&self) -> &str {
        &self.program
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

impl Drop for Far {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
