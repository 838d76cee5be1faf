//! A server and the requests to it, serialized and ready to send.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Instant;

use http::Uri;
use http::uri::Scheme;
use rustls::pki_types::ServerName;

use super::non_empty::NonEmpty;
use super::plan::{Plan, RequestSpec};
use crate::Error;
use crate::target::Target;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// An origin (RFC 9110, section 4.3.1): scheme, host and port, with the requests to it.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) address: Address,
    /// With TLS: the name that its certificate must have.
    pub(super) tls: Option<ServerName<'static>>,
    /// The requests to it, sent in turn.
    pub(super) requests: NonEmpty<Request>,
    scheme: &'static str,
    authority: String,
}

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    /// As HTTP/1.1 sends it, with its body.
    pub(super) bytes: Vec<u8>,
    /// HEAD: its response has no body, whatever its header says.
    pub(super) no_body: bool,
    /// Its head for HTTP/2.
    pub(super) head: http::Request<()>,
}

impl Origin {
    /// Its port; `None`: a Unix socket.
    pub(super) fn port(&self) -> Option<u16> {
        match &self.address {
            Address::Tcp(address) => Some(address.port()),
            Address::Unix(_) => None,
        }
    }

    /// Its address as text.
    pub(super) fn address_text(&self) -> String {
        match &self.address {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

/// The origins of a plan with their addresses, and how long each name look-up took, microseconds.
pub(super) fn resolve_origins(plan: &Plan) -> Result<(NonEmpty<Origin>, Vec<u64>), Error> {
    plan.check()?;
    let (mut origins, mut name_lookup_us) = (None::<NonEmpty<Origin>>, Vec::new());
    for spec in &plan.requests {
        let url = Url::parse(&spec.url)?;
        let request = request(plan, spec, &url)?;
        let known = origins.as_mut().and_then(|origins| {
            let same = |origin: &&mut Origin| {
                origin.scheme == url.scheme && origin.authority == url.authority
            };
            origins.iter_mut().find(same)
        });
        if let Some(origin) = known {
            origin.requests.push(request);
            continue;
        }
        let address = match &plan.unix_socket {
            Some(path) => Address::Unix(path.clone()),
            None => {
                let start = Instant::now();
                let ip = url.target.resolve(plan.family)?;
                if url.target.host.parse::<IpAddr>().is_err() {
                    name_lookup_us
                        .push(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX));
                }
                Address::Tcp(SocketAddr::new(ip, url.port))
            }
        };
        let tls = match url.scheme {
            "https" => Some(ServerName::try_from(url.target.host.clone()).map_err(|_| {
                let host = &url.target.host;
                Error::Usage(format!("{}: {host} cannot be the name of a certificate", spec.url))
            })?),
            _ => None,
        };
        let (scheme, authority) = (url.scheme, url.authority);
        let requests = NonEmpty::new(request);
        let origin = Origin { address, tls, requests, scheme, authority };
        match &mut origins {
            Some(origins) => origins.push(origin),
            None => origins = Some(NonEmpty::new(origin)),
        }
    }
    let Some(origins) = origins else {
        return Err(Error::Usage("there is no URL".to_string()));
    };
    if origins.len() > plan.connections as usize {
        let servers = origins.len();
        return Err(Error::Usage(format!(
            "the URLs belong to {servers} servers: give at least --connections {servers}"
        )));
    }
    Ok((origins, name_lookup_us))
}

/// The origin of a connection, by the connection's number, and the request that it starts with. Each
/// origin gets one connection; the others are spread over all URLs, so that each is requested about
/// equally often.
pub(super) fn assign(origins: &NonEmpty<Origin>, connection: usize) -> (usize, usize) {
    if connection < origins.len() {
        return (connection, 0);
    }
    let urls: usize = origins.iter().map(|origin| origin.requests.len()).sum();
    let mut url = connection % urls.max(1);
    for (index, origin) in origins.iter().enumerate() {
        if url < origin.requests.len() {
            return (index, url);
        }
        url -= origin.requests.len();
    }
    (0, 0)
}

/// A URL in its parts.
struct Url {
    scheme: &'static str,
    /// Host and port as the `Host` field has them.
    authority: String,
    target: Target,
    port: u16,
    /// Path and query.
    path: String,
}

impl Url {
    fn parse(url: &str) -> Result<Self, Error> {
        let bad = |why: &str| Error::Usage(format!("{url}: {why}; give http://HOST[:PORT]/PATH"));
        let with_scheme =
            if url.contains("://") { url.to_string() } else { format!("http://{url}") };
        // The fragment is not sent.
        let sent = with_scheme.split('#').next().unwrap_or_default();
        let uri: Uri = sent.parse().map_err(|error| bad(&format!("not a URL: {error}")))?;
        let scheme = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => "http",
            Some(scheme) if *scheme == Scheme::HTTPS => "https",
            _ => return Err(bad("only http and https are supported")),
        };
        let authority = uri.authority().ok_or_else(|| bad("there is no host"))?;
        if authority.as_str().contains('@') {
            return Err(Error::Usage(format!(
                "the URL of {} has a user name: send credentials with \
                 --header 'Authorization: …' instead",
                authority.host()
            )));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_string();
        if host.is_empty() {
            return Err(bad("there is no host"));
        }
        let given = authority.port_u16().filter(|port| *port > 0);
        let after_v6 = authority.as_str().rsplit_once(']').map_or(authority.as_str(), |p| p.1);
        if given.is_none() && after_v6.contains(':') {
            return Err(bad("the port must be from 1 to 65535"));
        }
        let port = given.unwrap_or(if scheme == "https" { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.is_empty() { "/" } else { path };
        let target = Target { host, port: Some(port) };
        let (authority, path) = (authority.to_string(), path.to_string());
        Ok(Url { scheme, authority, target, port, path })
    }
}

/// Whether the user gave a field of this name.
fn has(plan: &Plan, name: &str) -> bool {
    plan.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name))
}

fn request(plan: &Plan, spec: &RequestSpec, url: &Url) -> Result<Request, Error> {
    let method = spec.method.as_deref().unwrap_or(match plan.body.is_empty() {
        true => "GET",
        false => "POST",
    });
    if http::Method::from_bytes(method.as_bytes()).is_err() {
        return Err(Error::Usage(format!("{method}: not an HTTP method")));
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
    let uri = format!("{}://{}{}", url.scheme, url.authority, url.path);
    let mut head = http::Request::builder().method(method).uri(uri);
    let mut text = format!("{method} {} HTTP/1.1\r\n", url.path);
    if !has(plan, "host") {
        text += &format!("Host: {}\r\n", url.authority);
    }
    for (name, value) in &fields {
        let field = http::HeaderName::from_bytes(name.as_bytes());
        let (Ok(field), Ok(_)) = (field, http::HeaderValue::from_str(value)) else {
            return Err(Error::Usage(format!(
                "{name}: {value}: not a header field; give NAME: VALUE on one line"
            )));
        };
        text += &format!("{name}: {value}\r\n");
        // HTTP/2 has the host in `:authority`, and no Connection field (RFC 9113, sections 8.2.2, 8.3.1).
        if field != http::header::HOST && field != http::header::CONNECTION {
            head = head.header(field, value);
        }
    }
    let head = head.version(http::Version::HTTP_2).body(());
    let head = head.map_err(|error| Error::Usage(format!("{}: {error}", spec.url)))?;
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&plan.body);
    Ok(Request { bytes, no_body: method == "HEAD", head })
}

#[cfg(test)]
mod tests {
    use super::super::plan::test_plan;
    use super::*;

    fn error(url: &str) -> String {
        resolve_origins(&test_plan(url)).unwrap_err().to_string()
    }

    /// The first request as text.
    fn first(plan: &Plan) -> String {
        let (origins, _) = resolve_origins(plan).unwrap();
        String::from_utf8(origins.get(0).requests.get(0).bytes.clone()).unwrap()
    }

    #[test]
    fn requests_have_the_fields_that_servers_need() {
        let mut plan = test_plan("http://127.0.0.1:8080/a?b#c");
        plan.headers.push(("X-A".into(), "1".into()));
        let text = first(&plan);
        assert!(text.starts_with("GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"), "{text}");
        assert!(text.ends_with("X-A: 1\r\n\r\n"), "{text}");
    }

    #[test]
    fn a_body_makes_it_a_post_with_a_content_length() {
        let mut plan = test_plan("127.0.0.1/x");
        plan.body = b"hello".to_vec();
        plan.new_connections = true;
        let text = first(&plan);
        assert!(text.starts_with("POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\n"), "{text}");
        assert!(text.contains("Connection: close\r\nContent-Length: 5\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nhello"), "{text}");
    }

    #[test]
    fn urls_of_one_origin_share_its_connections() {
        let mut plan = test_plan("http://127.0.0.1/a");
        let head = RequestSpec { method: Some("HEAD".into()), url: "http://127.0.0.1/b".into() };
        plan.requests.push(head);
        plan.requests.push(RequestSpec { method: None, url: "http://[::1]:81/".into() });
        let (origins, _) = resolve_origins(&plan).unwrap();
        assert_eq!(origins.iter().map(|one| one.requests.len()).collect::<Vec<_>>(), [2, 1]);
        assert!(origins.get(0).requests.get(1).no_body);
        assert_eq!(origins.get(1).address_text(), "[::1]:81");
        let assigned: Vec<_> = (0..8).map(|connection| assign(&origins, connection)).collect();
        // One each, then in turn: two for the first origin, one for the second.
        let expected = [(0, 0), (1, 0), (1, 0), (0, 0), (0, 1), (1, 0), (0, 0), (0, 1)];
        assert_eq!(assigned, expected);
        plan.connections = 1;
        plan.threads = 1;
        let error = resolve_origins(&plan).unwrap_err().to_string();
        assert_eq!(error, "the URLs belong to 2 servers: give at least --connections 2");
    }

    #[test]
    fn unusable_urls_and_headers_are_rejected() {
        assert!(error("ftp://127.0.0.1/").contains("only http and https"));
        assert!(error("http://u:p@127.0.0.1/").contains("--header"));
        assert!(error("http://127.0.0.1:0/").contains("from 1 to 65535"));
        assert!(error("http://127.0.0.1:99999/").contains("http"));
        assert!(error("http:///x").contains("give http://"));
        assert!(error("http://no-such-host.invalid/").contains("cannot resolve"));
        let mut plan = test_plan("http://127.0.0.1/");
        plan.headers.push(("A".into(), "x\r\nB: y".into()));
        let error = resolve_origins(&plan).unwrap_err().to_string();
        assert!(error.contains("not a header field"), "{error}");
    }
}
