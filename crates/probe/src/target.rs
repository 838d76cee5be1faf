//! The host, port and address to probe.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use crate::Error;
use crate::error::os_error_text;

/// The address family of a target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Family {
    /// Either: the first address of a name.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    fn includes(self, address: IpAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        }
    }
}

/// A host as given on the command line: `example.org`, `198.18.0.1:80`, `[fd00::1]:443`, `fd00::1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Name or address, without brackets and port.
    pub host: String,
    /// Port; `None`: not given.
    pub port: Option<u16>,
}

impl std::str::FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| {
            Error::Usage(format!(
                "{text}: {why}; give HOST, HOST:PORT, or [IPv6]:PORT, as 198.18.0.1:80"
            ))
        };
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) =
                rest.split_once(']').ok_or_else(|| bad("the closing bracket is missing"))?;
            let port = match rest {
                "" => None,
                rest => Some(rest.strip_prefix(':').ok_or_else(|| bad("only :PORT may follow ]"))?),
            };
            (host, port)
        } else if text.parse::<std::net::Ipv6Addr>().is_ok() {
            (text, None)
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c.is_control() || c == '/')
        {
            return Err(bad("not a host"));
        }
        let port = match port {
            None => None,
            Some(port) => match port.parse::<u16>() {
                Ok(port) if port > 0 => Some(port),
                _ => return Err(bad("the port must be from 1 to 65535")),
            },
        };
        Ok(Target { host: host.to_string(), port })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            Some(port) if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl Target {
    /// Host and port as a URL and the `Host` header have them: IPv6 addresses in brackets.
    pub fn authority(&self) -> String {
        let bare_v6 = self.port.is_none() && self.host.contains(':');
        if bare_v6 { format!("[{}]", self.host) } else { self.to_string() }
    }

    /// Its first address of this family, by the system's resolver, which may take seconds.
    ///
    /// # Errors
    ///
    /// The name does not resolve, or has no address of this family.
    pub fn resolve(&self, family: Family) -> Result<IpAddr, Error> {
        let port = self.port.unwrap_or(0);
        let all: Vec<SocketAddr> = (self.host.as_str(), port)
            .to_socket_addrs()
            .map_err(|error| {
                Error::Failed(format!(
                    "cannot resolve {}: {}; to check: getent ahosts {}",
                    self.host,
                    os_error_text(&error),
                    self.host
                ))
            })?
            .collect();
        let found = all.iter().map(SocketAddr::ip).find(|address| family.includes(*address));
        found.ok_or_else(|| {
            let family = if family == Family::V6 { "IPv6" } else { "IPv4" };
            Error::Failed(match all.first() {
                Some(other) => {
                    format!("{} has no {family} address, only {}", self.host, other.ip())
                }
                None => format!("{} has no address", self.host),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_parsed_with_and_without_a_port() {
        for (text, host, port) in [
            ("example.org", "example.org", None),
            ("198.18.0.1:80", "198.18.0.1", Some(80)),
            ("fd00::1", "fd00::1", None),
            ("[fd00::1]", "fd00::1", None),
            ("[fd00::1]:443", "fd00::1", Some(443)),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port), "{text}");
        }
        assert_eq!("[fd00::1]:443".parse::<Target>().unwrap().to_string(), "[fd00::1]:443");
        assert_eq!("fd00::1".parse::<Target>().unwrap().authority(), "[fd00::1]");
    }

    #[test]
    fn malformed_hosts_are_rejected_with_an_example() {
        for text in ["", ":80", "a b", "host:0", "host:99999", "host:http", "[fd00::1", "[::1]80"] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains("give HOST"), "{error}");
        }
    }

    #[test]
    fn names_resolve_to_an_address_of_the_family() {
        let target: Target = "127.0.0.1".parse().unwrap();
        assert_eq!(target.resolve(Family::V4).unwrap(), IpAddr::from([127, 0, 0, 1]));
        let error = target.resolve(Family::V6).unwrap_err().to_string();
        assert_eq!(error, "127.0.0.1 has no IPv6 address, only 127.0.0.1");
        let target: Target = "no-such-host.invalid".parse().unwrap();
        let error = target.resolve(Family::Any).unwrap_err().to_string();
        assert!(error.starts_with("cannot resolve no-such-host.invalid: "), "{error}");
    }
}
