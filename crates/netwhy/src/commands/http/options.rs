//! The options of `netwhy http`, and the load that they describe.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use probe::http::{Plan, RequestSpec, Trust, parse_url_file};
use probe::target::Family;

use crate::failure::Failure;
use crate::options::{NetnsOptions, ReportOptions};

/// Duration of a load.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// Largest body, and largest file of URLs.
const MAX_FILE_BYTES: u64 = 64 << 20;

const AFTER: &str = "\
Examples:
  netwhy http http://198.18.0.1/              10 connections for 10 seconds
  netwhy http -c 100 -d 30s http://198.18.0.1/   100 connections, as wrk -c 100
  netwhy http -n 5000 --new-connections URL   a connection each, as ab
  netwhy http --rate 2000 URL                 open loop: 2000 requests a second
  netwhy http -m POST -b @order.json -H 'Content-Type: application/json' URL

The latency of a request begins when it could be sent, on a new connection with
the connection itself. With --rate there is also the intended latency, from when
the request was due: it includes the time for which a client waits because the
server is slow (free of coordinated omission).

Responses with a status from 400 are errors, as failed requests are. If all are
errors, the report begins with that, and --fail-on counts it as critical.
A load ends at once if none of its first ten connections can be established.

Exit codes: 0 ran, 1 a finding at or above --fail-on or more errors than
--max-errors, 2 usage error, 3 no response, or could not run.";

/// The options of `netwhy http`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct HttpOptions {
    /// URL to request, http:// or https://; several are requested in turn
    #[arg(value_name = "URL")]
    urls: Vec<String>,

    /// File with more of them: URL or METHOD URL on each line
    #[arg(long, value_name = "FILE")]
    urls_file: Option<PathBuf>,

    /// Concurrent connections
    #[arg(short, long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,

    /// Threads of this client
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,

    /// Stop after this time: 10s, 2m [default: 10s without --requests]
    #[arg(short, long, value_name = "TIME", value_parser = crate::options::window)]
    duration: Option<Duration>,

    /// Stop after N requests
    #[arg(short = 'n', long, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,

    /// A request without a complete response after this time has failed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = crate::options::window)]
    timeout: Duration,

    /// Open loop: send N requests a second, even if responses are late
    #[arg(long, value_name = "N")]
    rate: Option<f64>,

    /// Open a new connection for each request
    #[arg(long)]
    new_connections: bool,

    /// Use HTTP/2
    #[arg(long)]
    http2: bool,

    /// Pipelined requests on each connection; with --http2 concurrent streams
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pipeline: u32,

    /// Request method [default: GET, with a body POST]
    #[arg(short, long, value_name = "METHOD")]
    method: Option<String>,

    /// Header field, NAME: VALUE; repeatable
    #[arg(short = 'H', long, value_name = "HEADER")]
    header: Vec<String>,

    /// Body of each request, or @FILE
    #[arg(short, long, value_name = "TEXT|@FILE")]
    body: Option<String>,

    /// Connect to this Unix socket instead of the URL's host
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,

    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,

    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,

    /// Accept any certificate
    #[arg(short = 'k', long)]
    insecure: bool,

    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,

    /// Exit with 1 if more requests than this fail or have a status from 400: 10, 0.5%
    #[arg(long, value_name = "N|PERCENT", value_parser = max_errors)]
    pub(super) max_errors: Option<MaxErrors>,

    /// Write the latencies to this file as an HdrHistogram log
    #[arg(long, value_name = "FILE")]
    pub(super) hdr: Option<PathBuf>,

    /// Only measure: do not watch this host during the load
    #[arg(long)]
    pub(super) no_watch: bool,

    /// Capture and analyse the first N packets of the load; 0: none
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub(super) sample: u64,

    #[command(flatten)]
    pub(super) netns: NetnsOptions,

    #[command(flatten)]
    pub(super) report: ReportOptions,
}

/// Errors that are tolerated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MaxErrors {
    /// So many.
    Count(u64),
    /// This share of all requests.
    Share(f64),
}

fn max_errors(text: &str) -> Result<MaxErrors, String> {
    let share = text.strip_suffix('%').map(|percent| percent.trim().parse::<f64>());
    match (share, text.parse()) {
        (Some(Ok(percent)), _) if (0.0..=100.0).contains(&percent) => {
            Ok(MaxErrors::Share(percent / 100.0))
        }
        (None, Ok(count)) => Ok(MaxErrors::Count(count)),
        _ => Err("give a number of requests or a percentage: 10, 0.5%".to_string()),
    }
}

impl HttpOptions {
    /// The load that they describe.
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        let usage = |text: String| Failure::Usage(text);
        let urls = self.urls.iter().map(|url| RequestSpec { method: None, url: url.clone() });
        let mut requests: Vec<RequestSpec> = urls.collect();
        if let Some(path) = &self.urls_file {
            let unusable = |why: String| usage(format!("{}: {why}", path.display()));
            let text = String::from_utf8(read(path)?)
                .map_err(|_| unusable("it is not UTF-8 text".to_string()))?;
            requests.extend(parse_url_file(&text).map_err(|error| unusable(error.to_string()))?);
        }
        for request in requests.iter_mut().filter(|request| request.method.is_none()) {
            request.method.clone_from(&self.method);
        }
        let header = |header: &String| match header.split_once(':') {
            Some((name, value)) => Ok((name.trim().to_string(), value.trim().to_string())),
            None => Err(usage(format!("--header {header}: give NAME: VALUE"))),
        };
        let headers = self.header.iter().map(header).collect::<Result<_, _>>()?;
        let body = match self.body.as_deref().map(|body| (body, body.strip_prefix('@'))) {
            None => Vec::new(),
            Some((_, Some(path))) => read(Path::new(path))?,
            Some((text, None)) => text.as_bytes().to_vec(),
        };
        let no_end = self.requests.is_none() && self.duration.is_none();
        let plan = Plan {
            requests,
            headers,
            body,
            connections: self.connections,
            threads: self.threads,
            duration: self.duration.or(no_end.then_some(DEFAULT_DURATION)),
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
        plan.check().map_err(|error| usage(error.to_string()))?;
        Ok(plan)
    }
}

/// Reads a file of the user.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    probe::file::read(path, MAX_FILE_BYTES)
        .map_err(|why| Failure::Usage(format!("cannot read {}: {why}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_limited_by_number_or_share() {
        assert_eq!(max_errors("10"), Ok(MaxErrors::Count(10)));
        assert_eq!(max_errors("0.5%"), Ok(MaxErrors::Share(0.005)));
        for bad in ["", "-1", "1.5", "101%", "nan%", "%", "x"] {
            assert!(max_errors(bad).is_err(), "{bad}");
        }
    }
}
