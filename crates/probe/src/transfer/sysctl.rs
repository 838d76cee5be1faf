//! Sysctls of this network namespace that transfers depend on.

/// A sysctl, by its path below `/proc/sys`; `None`: it cannot be read.
fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/sys/{path}")).ok()?;
    Some(text.trim().to_string())
}

/// `net.ipv4.tcp_slow_start_after_idle`.
pub(super) fn slow_start_after_idle() -> Option<bool> {
    read("net/ipv4/tcp_slow_start_after_idle").map(|value| value != "0")
}

/// `net.ipv4.tcp_wmem`.
pub(super) fn tcp_wmem() -> Option<String> {
    read("net/ipv4/tcp_wmem")
}

/// `net.ipv4.tcp_congestion_control`.
pub(super) fn congestion_control() -> Option<String> {
    read("net/ipv4/tcp_congestion_control")
}

/// `net.ipv4.tcp_available_congestion_control`.
pub(super) fn available_congestion_controls() -> Option<String> {
    read("net/ipv4/tcp_available_congestion_control")
}
