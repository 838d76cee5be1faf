//! What can be asked of `netwhy http`, and the load that is meant.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use probe::http::{Plan, RequestSpec, Trust, parse_url_file};
use probe::target::Family;

use crate::failure::Failure;
use crate::options::{NetnsOptions, ReportOptions};

/// How long a load lasts when nobody says.
const TIME: Duration = Duration::from_secs(10);
/// Largest body, and largest file of URLs.
const FILE: u64 = 64 << 20;

pub(super) const AFTER: &str = "\
Examples:
  netwhy http http://198.18.0.1/              10 connections for 10 seconds
  netwhy http -c 100 -d 30s http://198.18.0.1/ 100 connections, as wrk does it
  netwhy http -n 5000 --new-connections URL   a connection each, as ab does it
  netwhy http --rate 2000 URL                 2,000 a second, whatever comes back
  netwhy http -m POST -b @order.json -H 'Content-Type: application/json' URL

The latency of a request begins when it could be sent: with a new connection
when that was begun. With --rate a second latency is told, from the moment the
request was due: what a client that does not wait for the server would see.

Exit codes: 0 ran, 1 a finding at or above --fail-on, 2 usage, 3 nothing was
answered or it could not run.";

/// What can be asked of `netwhy http`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct HttpOptions {
    /// What to ask for: http:// or https://, several in turns
    #[arg(value_name = "URL")]
    urls: Vec<String>,

    /// More of them: a file with URL or METHOD URL on each line
    #[arg(long, value_name = "FILE")]
    urls_file: Option<PathBuf>,

    /// Connections at once
    #[arg(short, long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,

    /// Threads of this client
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,

    /// How long: 10s, 2m [default: 10s, or until --requests are done]
    #[arg(short, long, value_name = "TIME", value_parser = crate::options::window)]
    duration: Option<Duration>,

    /// How many requests
    #[arg(short = 'n', long, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,

    /// A request without a whole answer after this time has failed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = crate::options::window)]
    timeout: Duration,

    /// Open loop: so many requests a second, whether answers come or not
    #[arg(long, value_name = "N")]
    rate: Option<f64>,

    /// A new connection for each request
    #[arg(long)]
    new_connections: bool,

    /// Speak HTTP/2
    #[arg(long)]
    http2: bool,

    /// Requests sent ahead on each connection; with --http2 streams at once
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pipeline: u32,

    /// Method [default: GET, with a body POST]
    #[arg(short, long, value_name = "METHOD")]
    method: Option<String>,

    /// A header, NAME: VALUE; may be given several times
    #[arg(short = 'H', long, value_name = "HEADER")]
    header: Vec<String>,

    /// Body of every request, or @FILE
    #[arg(short, long, value_name = "TEXT|@FILE")]
    body: Option<String>,

    /// Connect to this Unix socket, whatever host the URL has
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,

    /// IPv4 addresses only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,

    /// IPv6 addresses only
    #[arg(short = '6', long)]
    ipv6: bool,

    /// Take any certificate
    #[arg(short = 'k', long)]
    insecure: bool,

    /// Believe the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,

    /// Write the latencies to this file as an HdrHistogram log
    #[arg(long, value_name = "FILE")]
    pub(super) hdr: Option<PathBuf>,

    /// Only measure: do not watch this host meanwhile
    #[arg(long)]
    pub(super) no_watch: bool,

    /// Packets of the load that are captured and analysed; 0: none
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub(super) sample: u64,

    #[command(flatten)]
    pub(super) netns: NetnsOptions,

    #[command(flatten)]
    pub(super) report: ReportOptions,
}

impl HttpOptions {
    /// The load that is asked for.
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        let mut asks: Vec<RequestSpec> =
            self.urls.iter().map(|url| RequestSpec { method: None, url: url.clone() }).collect();
        if let Some(path) = &self.urls_file {
            let told = |what: String| Failure::Usage(format!("{}: {what}", path.display()));
            let text = String::from_utf8(read(path)?).map_err(|_| told("is no text".into()))?;
            asks.extend(parse_url_file(&text).map_err(|error| told(error.to_string()))?);
        }
        for ask in asks.iter_mut().filter(|ask| ask.method.is_none()) {
            ask.method.clone_from(&self.method);
        }
        let headers = self.header.iter().map(|header| match header.split_once(':') {
            Some((name, value)) => Ok((name.trim().to_string(), value.trim().to_string())),
            None => Err(Failure::Usage(format!("--header {header}: give NAME: VALUE"))),
        });
        let body = match self.body.as_deref().map(|body| (body, body.strip_prefix('@'))) {
            None => Vec::new(),
            Some((_, Some(path))) => read(&PathBuf::from(path))?,
            Some((text, None)) => text.as_bytes().to_vec(),
        };
        let endless = self.requests.is_none() && self.duration.is_none();
        let plan = Plan {
            requests: asks,
            headers: headers.collect::<Result<_, _>>()?,
            body,
            connections: self.connections,
            threads: self.threads,
            duration: self.duration.or(endless.then_some(TIME)),
            count: self.requests,
            timeout: self.timeout,
            new_connections: self.new_connections,
            pipeline: self.pipeline,
            rate: self.rate,
            http2: self.http2,
            unix_socket: self.unix_socket.clone(),
            family: match (self.ipv4, self.ipv6) {
                (true, _) => Family::V4,
                (_, true) => Family::V6,
                _ => Family::Any,
            },
            trust: Trust { insecure: self.insecure, ca_file: self.ca.clone() },
        };
        plan.check().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(plan)
    }
}

fn read(path: &PathBuf) -> anyhow::Result<Vec<u8>> {
    let told = |why: String| Failure::Usage(format!("cannot read {}: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(|e| told(probe::os_error_text(&e)))?.len();
    if size > FILE {
        return Err(told(format!("{} are too much, 64 MiB is the limit", text::bytes(size))).into());
    }
    std::fs::read(path).map_err(|e| told(probe::os_error_text(&e))).context("before the load")
}
