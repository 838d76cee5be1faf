//! What is known of the applications that own a subject: their settings, with file and line.

use std::net::SocketAddr;

use model::{Evidence, Process, Setting};

/// The processes with these ids and their parents: settings stand with the master.
pub(crate) fn family<'a>(
    evidence: &'a Evidence,
    pids: &'a [u32],
) -> impl Iterator<Item = &'a Process> + Clone {
    let all = evidence.processes.as_deref().unwrap_or_default();
    let parent_of_one =
        move |pid: u32| all.iter().any(|p| p.parent == pid && pids.contains(&p.pid));
    all.iter().filter(move |p| pids.contains(&p.pid) || parent_of_one(p.pid))
}

/// Name of the application of these processes, when it is one that netwhy knows.
pub(crate) fn application<'a>(evidence: &'a Evidence, pids: &'a [u32]) -> Option<&'a str> {
    family(evidence, pids).find_map(|p| Some(p.application.as_ref()?.name.as_str()))
}

/// The settings of this name of these processes' applications.
pub(crate) fn settings<'a>(
    evidence: &'a Evidence,
    pids: &'a [u32],
    name: &'a str,
) -> impl Iterator<Item = &'a Setting> {
    let applications = family(evidence, pids).filter_map(|p| p.application.as_ref());
    applications.flat_map(|a| &a.settings).filter(move |setting| setting.name == name)
}

/// The `listen` setting that made a listener.
pub(crate) fn listen<'a>(
    evidence: &'a Evidence,
    pids: &'a [u32],
    local: SocketAddr,
) -> Option<&'a Setting> {
    // Of several that match, one that sets a backlog is the one that counts: nginx lets only one
    // of a port do so.
    let matching: Vec<_> =
        settings(evidence, pids, "listen").filter(|setting| makes(&setting.value, local)).collect();
    matching.iter().find(|s| s.value.contains("backlog=")).or(matching.first()).copied()
}

/// Whether a `listen` value makes this listener: `80`, `*:80`, `127.0.0.1:80`, `[::]:80`.
fn makes(value: &str, local: SocketAddr) -> bool {
    let Some(address) = value.split_ascii_whitespace().next() else {
        return false;
    };
    if let Ok(port) = address.parse::<u16>() {
        return port == local.port();
    }
    if let Ok(end) = address.parse::<SocketAddr>() {
        return end.port() == local.port()
            && (end.ip().is_unspecified() || end.ip() == local.ip().to_canonical());
    }
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    // A name, or `*`: the port decides. nginx listens on 80 when only an address is given.
    port.map_or_else(
        || {
            address
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip == local.ip() && local.port() == 80)
        },
        |port| port == local.port(),
    )
}

/// File and line of a setting: `/etc/nginx/nginx.conf:12`.
pub(crate) fn place(setting: &Setting) -> String {
    format!("{}:{}", setting.file, setting.line)
}

#[cfg(test)]
mod tests {
    use super::makes;

    #[test]
    fn a_listen_value_is_known_by_its_end() {
        let local = "0.0.0.0:80".parse().unwrap();
        for value in ["80", "80 backlog=10", "*:80 default_server", "0.0.0.0:80", "[::]:80"] {
            assert!(makes(value, local), "{value}");
        }
        for value in ["", "8080", "127.0.0.1:80", "unix:/run/a.sock", "0.0.0.0:81"] {
            assert!(!makes(value, local), "{value}");
        }
        assert!(makes("127.0.0.1", "127.0.0.1:80".parse().unwrap()));
        assert!(makes("localhost:9000", "127.0.0.1:9000".parse().unwrap()));
    }
}
