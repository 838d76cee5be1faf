//! How findings are worded: processes, commands for another namespace.

use model::{Evidence, ProcessName};

/// The processes with these ids, by name; those that are not known are left out.
pub(crate) fn processes(evidence: &Evidence, pids: &[u32]) -> Vec<ProcessName> {
    pids.iter()
        .filter_map(|pid| evidence.process(*pid))
        .map(|process| ProcessName { name: process.name.clone(), pid: process.pid })
        .collect()
}

/// One name for several processes: that of the first.
pub(crate) fn process_name(processes: &[ProcessName]) -> Option<&str> {
    processes.first().map(|process| process.name.as_str())
}

/// A command that is to be pasted, for the network namespace that was watched.
pub(crate) fn command(evidence: &Evidence, command: &str) -> String {
    match evidence.host.netns.as_deref() {
        None => command.to_string(),
        Some(pid) if pid.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("nsenter -t {pid} -n {command}")
        }
        Some(name) => format!("ip netns exec {name} {command}"),
    }
}
