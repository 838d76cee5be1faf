//! The options of `netwhy trace`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use model::TraceMethod;
use probe::target::{Family, Target};
use probe::trace::Settings;

use crate::options::{NetnsOptions, byte, probe_time, window};
use crate::probe_job::failure;

const AFTER: &str = "\
Examples:
  netwhy trace example.org             UDP, three packets to each hop at once
  netwhy trace example.org:443         TCP SYNs, which filters let through
  netwhy trace --icmp -n 198.18.0.1
  netwhy trace --mtu 198.18.0.1        the largest packet to each hop
  netwhy trace --watch example.org     a round every second, until Ctrl-C
  netwhy trace --watch -c 60 --json example.org
  netwhy trace --watch --json-lines example.org | jq .route.reached

On a terminal --watch replaces its table after each round. Elsewhere it prints
one after each round, or with -c one at the end.

All packets belong to one flow, so that load balancers send them along one path.
A hop that replies to fewer packets than a later hop limits the rate of its
replies: no packet is lost there. Without CAP_NET_RAW only UDP works, and each
packet has a flow of its own.
Annotations: * no reply in time; !H host, !N network, !P protocol unreachable;
!X prohibited by a filter; !F larger than the next link's MTU.
Exit codes: 0 target replied, 1 it did not, 2 usage error, 3 could not trace.";

/// Destination port of UDP: the first one of traceroute, where nothing listens.
const DEFAULT_UDP_PORT: u16 = 33434;
/// Destination port of TCP.
const DEFAULT_TCP_PORT: u16 = 80;
/// Packets to each hop in a round, and with `--watch`.
const DEFAULT_QUERIES: u8 = 3;
const DEFAULT_WATCH_QUERIES: u8 = 1;

/// The options of `netwhy trace`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct TraceOptions {
    /// Host to trace: with a port by TCP SYN, without one by UDP
    #[arg(value_name = "HOST[:PORT]")]
    target: Target,

    /// Use UDP [default port: 33434, where nothing should listen]
    #[arg(long, conflicts_with_all = ["tcp", "icmp"])]
    udp: bool,

    /// Use TCP SYN [default port: 80]
    #[arg(long, conflicts_with = "icmp")]
    tcp: bool,

    /// Use ICMP echo
    #[arg(long)]
    icmp: bool,

    /// Packets to each hop in a round [default: 3; 1 with --watch]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10))]
    queries: Option<u8>,

    /// A packet without a reply within this time is lost
    #[arg(short = 'W', long, value_name = "TIME", value_parser = probe_time, default_value = "1s")]
    timeout: Duration,

    /// TTL of the first hop
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..))]
    first: u8,

    /// TTL of the last hop
    #[arg(short, long, value_name = "N", default_value_t = 30,
          value_parser = clap::value_parser!(u8).range(1..))]
    max: u8,

    /// Print addresses only, do not look up names
    #[arg(short, long)]
    pub(super) numeric: bool,

    /// Find the largest packet that reaches each hop and the target
    #[arg(long, conflicts_with = "watch")]
    mtu: bool,

    /// Send a round every TIME [default: 1s] and show statistics, as mtr does
    #[arg(long, value_name = "TIME", value_parser = window, num_args = 0..=1,
          default_missing_value = "1s", require_equals = true)]
    pub(super) watch: Option<Duration>,

    /// With --watch: stop after N rounds
    #[arg(short, long, value_name = "N", requires = "watch",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,

    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "v6")]
    v4: bool,

    /// Use IPv6 only
    #[arg(short = '6')]
    v6: bool,

    /// Type of service, or traffic class: 0 to 255, or hexadecimal as 0x10
    #[arg(long, value_name = "N", value_parser = byte)]
    tos: Option<u8>,

    /// Source address
    #[arg(long, value_name = "IP")]
    source: Option<IpAddr>,

    /// Outgoing interface
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,

    #[command(flatten)]
    pub(super) netns: NetnsOptions,

    /// Print JSON at the end (its schema is docs/schema/trace-v1.json)
    #[arg(long)]
    pub(super) json: bool,

    /// Print JSON after each round, one object per line, and all of it at the end
    /// (schema: docs/schema/trace-line-v1.json)
    #[arg(long, conflicts_with = "json")]
    pub(super) json_lines: bool,
}

impl TraceOptions {
    /// The settings of the probe, with the target's address.
    pub(super) fn settings(&self) -> anyhow::Result<Settings> {
        let family = match (self.v4, self.v6, self.source) {
            (true, ..) => Family::V4,
            (_, true, _) => Family::V6,
            (.., Some(source)) if source.is_ipv6() => Family::V6,
            (.., Some(_)) => Family::V4,
            _ => Family::Any,
        };
        let method = match (self.udp, self.tcp, self.icmp, self.target.port) {
            (true, ..) => TraceMethod::Udp,
            (_, true, ..) => TraceMethod::Tcp,
            (_, _, true, _) => TraceMethod::Icmp,
            (.., Some(_)) => TraceMethod::Tcp,
            (.., None) => TraceMethod::Udp,
        };
        let default_port = match method {
            TraceMethod::Tcp => DEFAULT_TCP_PORT,
            TraceMethod::Udp | TraceMethod::Icmp => DEFAULT_UDP_PORT,
        };
        let default_queries = match self.watch {
            Some(_) => DEFAULT_WATCH_QUERIES,
            None => DEFAULT_QUERIES,
        };
        let address = self.target.resolve(family).map_err(failure)?;
        Ok(Settings {
            name: self.target.to_string(),
            to: SocketAddr::new(address, self.target.port.unwrap_or(default_port)),
            method,
            first_ttl: self.first,
            max_ttl: self.max,
            queries: self.queries.unwrap_or(default_queries),
            timeout: self.timeout,
            find_mtu: self.mtu,
            resolve_names: !self.numeric,
            tos: self.tos,
            source: self.source,
            interface: self.interface.clone(),
        })
    }
}
