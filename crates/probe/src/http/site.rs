//! A server and the requests to it, as bytes that are ready to be sent.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Instant;

use http::Uri;
use http::uri::Scheme;
use rustls::pki_types::ServerName;

use super::plan::{Ask, Plan};
use crate::Error;
use crate::target::Target;

/// Where connections go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A server: scheme, host and port.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) address: Address,
    /// With TLS: the name that its certificate must have.
    pub(super) tls: Option<ServerName<'static>>,
    /// What to ask it for, in turns.
    pub(super) requests: Vec<Request>,
    scheme: &'static str,
    authority: String,
}

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    /// HEAD: its answer has no body, whatever its head says.
    pub(super) no_body: bool,
    /// The same for HTTP/2.
    pub(super) head: http::Request<()>,
}

impl Site {
    /// Its port; none on a Unix socket.
    pub(super) fn port(&self) -> Option<u16> {
        match &self.address {
            Address::Tcp(address) => Some(address.port()),
            Address::Unix(_) => None,
        }
    }

    /// Its address in words.
    pub(super) fn address_words(&self) -> String {
        match &self.address {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

/// The servers of a plan, their names looked up, and how long each look-up took in microseconds.
pub(super) fn sites(plan: &Plan) -> Result<(Vec<Site>, Vec<u64>), Error> {
    plan.check()?;
    let (mut sites, mut name_us) = (Vec::<Site>::new(), Vec::new());
    for ask in &plan.asks {
        let parts = parts(ask)?;
        let request = request(plan, ask, &parts)?;
        let same =
            |site: &&mut Site| site.scheme == parts.scheme && site.authority == parts.authority;
        if let Some(site) = sites.iter_mut().find(same) {
            site.requests.push(request);
            continue;
        }
        let address = match &plan.unix {
            Some(path) => Address::Unix(path.clone()),
            None => {
                let begun = Instant::now();
                let ip = parts.target.resolve(plan.family)?;
                if parts.target.host.parse::<IpAddr>().is_err() {
                    name_us.push(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
                }
                Address::Tcp(SocketAddr::new(ip, parts.port))
            }
        };
        let tls = match parts.scheme {
            "https" => Some(ServerName::try_from(parts.target.host.clone()).map_err(|_| {
                let host = &parts.target.host;
                Error::Usage(format!("{}: a certificate cannot have the name {host}", ask.url))
            })?),
            _ => None,
        };
        let (scheme, authority) = (parts.scheme, parts.authority);
        sites.push(Site { address, tls, requests: vec![request], scheme, authority });
    }
    if sites.len() > plan.connections as usize {
        return Err(Error::Usage(format!(
            "the URLs are of {} servers, and there are {} connections: each server needs one",
            sites.len(),
            plan.connections
        )));
    }
    Ok((sites, name_us))
}

/// The server of a connection, by the connection's number, and the request that it begins with.
/// Each server has one, then as many as it has URLs: all URLs are asked for about equally often,
/// and all at once.
pub(super) fn place(sites: &[Site], number: usize) -> (usize, usize) {
    if number < sites.len() {
        return (number, 0);
    }
    let all: usize = sites.iter().map(|site| site.requests.len()).sum();
    let mut at = number % all;
    for (site, requests) in sites.iter().map(|site| site.requests.len()).enumerate() {
        if at < requests {
            return (site, at);
        }
        at -= requests;
    }
    (0, 0)
}

struct Parts {
    scheme: &'static str,
    /// Host and port as the `Host` field has them.
    authority: String,
    target: Target,
    port: u16,
    /// Path and query.
    path: String,
}

fn parts(ask: &Ask) -> Result<Parts, Error> {
    let url = &ask.url;
    let bad = |why: &str| Error::Usage(format!("{url}: {why}; give http://HOST[:PORT]/PATH"));
    let whole = if url.contains("://") { url.clone() } else { format!("http://{url}") };
    // What stands behind a # is not sent.
    let whole = whole.split('#').next().unwrap_or_default();
    let uri: Uri = whole.parse().map_err(|error| bad(&format!("this is no URL: {error}")))?;
    let scheme = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => "http",
        Some(scheme) if *scheme == Scheme::HTTPS => "https",
        _ => return Err(bad("only http and https are spoken")),
    };
    let authority = uri.authority().ok_or_else(|| bad("there is no host"))?;
    if authority.as_str().contains('@') {
        return Err(Error::Usage(format!(
            "a URL with a user and a password: send them with --header 'Authorization: …', \
             not in {}",
            authority.host()
        )));
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_string();
    if host.is_empty() {
        return Err(bad("there is no host"));
    }
    let given = authority.port_u16().filter(|port| *port > 0);
    if given.is_none()
        && authority.as_str().rsplit_once(']').map_or(authority.as_str(), |p| p.1).contains(':')
    {
        return Err(bad("the port is a number from 1 to 65535"));
    }
    let port = given.unwrap_or(if scheme == "https" { 443 } else { 80 });
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.is_empty() { "/" } else { path };
    let target = Target { host, port: Some(port) };
    Ok(Parts { scheme, authority: authority.to_string(), target, port, path: path.to_string() })
}

/// Whether a field of this name is sent by the user.
fn has(plan: &Plan, name: &str) -> bool {
    plan.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name))
}

fn request(plan: &Plan, ask: &Ask, parts: &Parts) -> Result<Request, Error> {
    let method = ask.method.as_deref().unwrap_or(match plan.body.is_empty() {
        true => "GET",
        false => "POST",
    });
    if http::Method::from_bytes(method.as_bytes()).is_err() {
        return Err(Error::Usage(format!("{method}: this is no method of HTTP")));
    }
    let mut fields: Vec<(&str, String)> = Vec::new();
    if !has(plan, "user-agent") {
        let name = concat!("netwhy/", env!("CARGO_PKG_VERSION"));
        fields.push(("User-Agent", name.to_string()));
    }
    if !has(plan, "accept") {
        fields.push(("Accept", "*/*".to_string()));
    }
    if plan.new_connections && !has(plan, "connection") {
        fields.push(("Connection", "close".to_string()));
    }
    if !plan.body.is_empty() && !has(plan, "content-length") {
        fields.push(("Content-Length", plan.body.len().to_string()));
    }
    fields.extend(plan.headers.iter().map(|(name, value)| (name.as_str(), value.clone())));
    let uri = format!("{}://{}{}", parts.scheme, parts.authority, parts.path);
    let mut head = http::Request::builder().method(method).uri(uri);
    let mut text = format!("{method} {} HTTP/1.1\r\n", parts.path);
    if !has(plan, "host") {
        text += &format!("Host: {}\r\n", parts.authority);
    }
    for (name, value) in &fields {
        let field = http::HeaderName::from_bytes(name.as_bytes());
        let (Ok(field), Ok(_)) = (field, http::HeaderValue::from_str(value)) else {
            return Err(Error::Usage(format!(
                "{name}: {value}: this is no header; give NAME: VALUE on one line"
            )));
        };
        text += &format!("{name}: {value}\r\n");
        // HTTP/2 has the host in its request line, and no connection that could be closed.
        if field != http::header::HOST && field != http::header::CONNECTION {
            head = head.header(field, value);
        }
    }
    let head = head.version(http::Version::HTTP_2).body(());
    let head = head.map_err(|error| Error::Usage(format!("{}: {error}", ask.url)))?;
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&plan.body);
    Ok(Request { bytes, no_body: method == "HEAD", head })
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests_plan;
    use super::*;

    fn told(url: &str) -> String {
        sites(&tests_plan(url)).unwrap_err().to_string()
    }

    #[test]
    fn requests_have_what_servers_need() {
        let mut plan = tests_plan("http://127.0.0.1:8080/a?b#c");
        plan.headers.push(("X-A".into(), "1".into()));
        let (sites, _) = sites(&plan).unwrap();
        let text = String::from_utf8(sites[0].requests[0].bytes.clone()).unwrap();
        assert!(text.starts_with("GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"), "{text}");
        assert!(text.ends_with("X-A: 1\r\n\r\n"), "{text}");
    }

    #[test]
    fn a_body_makes_a_post_and_its_length() {
        let mut plan = tests_plan("127.0.0.1/x");
        plan.body = b"hello".to_vec();
        plan.new_connections = true;
        let (sites, _) = sites(&plan).unwrap();
        let text = String::from_utf8(sites[0].requests[0].bytes.clone()).unwrap();
        assert!(text.starts_with("POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\n"), "{text}");
        assert!(text.contains("Connection: close\r\nContent-Length: 5\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nhello"), "{text}");
    }

    #[test]
    fn urls_of_one_server_share_its_connections() {
        let mut plan = tests_plan("http://127.0.0.1/a");
        plan.asks.push(Ask { method: Some("HEAD".into()), url: "http://127.0.0.1/b".into() });
        plan.asks.push(Ask { method: None, url: "http://[::1]:81/".into() });
        let (sites, _) = sites(&plan).unwrap();
        assert_eq!(sites.iter().map(|site| site.requests.len()).collect::<Vec<_>>(), [2, 1]);
        assert!(sites[0].requests[1].no_body);
        assert_eq!(sites[1].address_words(), "[::1]:81");
        let places: Vec<_> = (0..8).map(|number| place(&sites, number)).collect();
        // One each, then by turns: two of the first for one of the second.
        let turns = [(0, 0), (1, 0), (1, 0), (0, 0), (0, 1), (1, 0), (0, 0), (0, 1)];
        assert_eq!(places, turns);
        plan.connections = 1;
        plan.threads = 1;
        assert!(super::sites(&plan).unwrap_err().to_string().contains("2 servers"));
    }

    #[test]
    fn what_cannot_be_asked_for_is_said() {
        assert!(told("ftp://127.0.0.1/").contains("only http and https"));
        assert!(told("http://u:p@127.0.0.1/").contains("--header"));
        assert!(told("http://127.0.0.1:0/").contains("from 1 to 65535"));
        assert!(told("http://127.0.0.1:99999/").contains("http"));
        assert!(told("http:///x").contains("give http://"));
        assert!(told("http://no-such-host.invalid/").contains("cannot find the address"));
        let mut plan = tests_plan("http://127.0.0.1/");
        plan.headers.push(("A".into(), "x\r\nB: y".into()));
        assert!(sites(&plan).unwrap_err().to_string().contains("this is no header"));
    }
}
