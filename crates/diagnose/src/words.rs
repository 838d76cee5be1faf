//! How findings are worded: numbers, shares, processes, commands for another namespace.

use model::{Evidence, ProcessName};

/// A number with its thousands divided: `1,620`.
pub(crate) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and what is counted: `1 connection`, `2 connections`.
pub(crate) fn count(value: u64, one: &str) -> String {
    format!("{} {one}{}", number(value), if value == 1 { "" } else { "s" })
}

/// A share of 0 to 1 as people say it: `30 %`, `0.4 %`, `under 0.01 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent == 0.0 {
        "0 %".to_string()
    } else if percent < 0.01 {
        "under 0.01 %".to_string()
    } else if percent < 1.0 {
        format!("{percent:.2} %")
    } else if percent < 10.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// A part of a whole, 0 when the whole is nothing.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 && part.is_finite() { part / whole } else { 0.0 }
}

/// The processes with these ids, by name; those that are not known are left out.
pub(crate) fn processes(evidence: &Evidence, pids: &[u32]) -> Vec<ProcessName> {
    pids.iter()
        .filter_map(|pid| evidence.process(*pid))
        .map(|process| ProcessName { name: process.name.clone(), pid: process.pid })
        .collect()
}

/// One name for several processes: that of the first.
pub(crate) fn name(processes: &[ProcessName]) -> Option<&str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_shares_read_well() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(1_000), "1,000");
        assert_eq!(number(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(count(1, "socket"), "1 socket");
        assert_eq!(count(0, "socket"), "0 sockets");
        assert_eq!(percent(0.3), "30 %");
        assert_eq!(percent(0.0371), "3.7 %");
        assert_eq!(percent(0.004), "0.40 %");
        assert_eq!(percent(0.000_01), "under 0.01 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(share(1.0, 0.0), 0.0);
    }
}
