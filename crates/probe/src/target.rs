//! The host, port and address that is probed.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use crate::Error;

/// Which addresses of a name are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Family {
    /// The first one, whatever it is.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    fn takes(self, address: IpAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        }
    }
}

/// A host as a user gives it: `example.org`, `198.18.0.1:80`, `[fd00::1]:443`, `fd00::1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Name or address, without brackets and port.
    pub host: String,
    /// Port, if one was given.
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
                rest.split_once(']').ok_or_else(|| bad("a bracket is not closed"))?;
            let port = match rest {
                "" => None,
                rest => Some(rest.strip_prefix(':').ok_or_else(|| bad("after ] comes :PORT"))?),
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
            return Err(bad("this is no host"));
        }
        let port = match port {
            None => None,
            Some(port) => match port.parse::<u16>() {
                Ok(port) if port > 0 => Some(port),
                _ => return Err(bad("the port is a number from 1 to 65535")),
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
    /// Its first address of this family. Asks the system's resolver, which may take seconds.
    ///
    /// # Errors
    ///
    /// The name has no address, or none of this family.
    pub fn resolve(&self, family: Family) -> Result<IpAddr, Error> {
        let port = self.port.unwrap_or(0);
        let all: Vec<SocketAddr> = (self.host.as_str(), port)
            .to_socket_addrs()
            .map_err(|error| {
                Error::Failed(format!(
                    "cannot find the address of {}: {}; see with: getent ahosts {}",
                    self.host,
                    plain(&error),
                    self.host
                ))
            })?
            .collect();
        let found = all.iter().map(SocketAddr::ip).find(|address| family.takes(*address));
        found.ok_or_else(|| {
            let wanted = if family == Family::V6 { "IPv6" } else { "IPv4" };
            Error::Failed(match all.first() {
                Some(other) => {
                    format!("{} has no {wanted} address, but {}", self.host, other.ip())
                }
                None => format!("{} has no address", self.host),
            })
        })
    }
}

/// An error of the system without Rust's own words around it.
pub fn plain(error: &std::io::Error) -> String {
    let words = error.to_string();
    let words = words.strip_prefix("failed to lookup address information: ").unwrap_or(&words);
    match words.rsplit_once(" (os error ") {
        Some((before, _)) => before.to_string(),
        None => words.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_ports_or_not() {
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
    }

    #[test]
    fn what_is_no_host_is_said() {
        for text in ["", ":80", "a b", "host:0", "host:99999", "host:http", "[fd00::1", "[::1]80"] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains("give HOST"), "{error}");
        }
    }

    #[test]
    fn addresses_of_a_family() {
        let target: Target = "127.0.0.1".parse().unwrap();
        assert_eq!(target.resolve(Family::V4).unwrap(), IpAddr::from([127, 0, 0, 1]));
        let error = target.resolve(Family::V6).unwrap_err().to_string();
        assert_eq!(error, "127.0.0.1 has no IPv6 address, but 127.0.0.1");
        let target: Target = "no-such-host.invalid".parse().unwrap();
        let error = target.resolve(Family::Any).unwrap_err().to_string();
        assert!(error.starts_with("cannot find the address of no-such-host.invalid: "), "{error}");
    }
}
