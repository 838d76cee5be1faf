//! What is known of the applications that own a subject: their settings, with file and line.

use std::net::SocketAddr;

use model::{Evidence, Process, Setting};

use crate::words::line;

/// The processes with these ids and their parents: the master process has the settings.
pub(crate) fn family<'a, 'p>(
    evidence: &'a Evidence,
    pids: &'p [u32],
) -> impl Iterator<Item = &'a Process> + Clone + use<'a, 'p> {
    let all = evidence.processes.as_deref().unwrap_or_default();
    let parent_of_one =
        move |pid: u32| all.iter().any(|p| p.parent == pid && pids.contains(&p.pid));
    all.iter().filter(move |p| pids.contains(&p.pid) || parent_of_one(p.pid))
}

/// Name of the application of these processes, if netwhy knows it.
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
pub(crate) fn listen_setting<'a>(
    evidence: &'a Evidence,
    pids: &'a [u32],
    local: SocketAddr,
) -> Option<&'a Setting> {
    // Of several that match, the one that sets a backlog counts: nginx allows it once for a port.
    let matching: Vec<_> = settings(evidence, pids, "listen")
        .filter(|setting| creates_listener(&setting.value, local))
        .collect();
    matching.iter().find(|s| s.value.contains("backlog=")).or(matching.first()).copied()
}

/// Whether a `listen` value creates this listener: `80`, `*:80`, `127.0.0.1:80`, `[::]:80`.
fn creates_listener(value: &str, local: SocketAddr) -> bool {
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

/// File and line of a setting, for people: `/etc/nginx/nginx.conf:12`.
pub(crate) fn place(setting: &Setting) -> String {
    format!("{}:{}", line(&setting.file), setting.line)
}

#[cfg(test)]
mod tests {
    use super::creates_listener;

    #[test]
    fn a_listen_value_matches_its_listener() {
        let local = "0.0.0.0:80".parse().unwrap();
        for value in ["80", "80 backlog=10", "*:80 default_server", "0.0.0.0:80", "[::]:80"] {
            assert!(creates_listener(value, local), "{value}");
        }
        for value in ["", "8080", "127.0.0.1:80", "unix:/run/a.sock", "0.0.0.0:81"] {
            assert!(!creates_listener(value, local), "{value}");
        }
        assert!(creates_listener("127.0.0.1", "127.0.0.1:80".parse().unwrap()));
        assert!(creates_listener("localhost:9000", "127.0.0.1:9000".parse().unwrap()));
    }
}
