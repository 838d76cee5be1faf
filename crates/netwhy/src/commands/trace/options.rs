//! What `netwhy trace` can be asked.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use model::TraceMethod;
use probe::target::{Family, Target};
use probe::trace::Settings;

use crate::options::{NetnsOptions, byte, probe_time, window};
use crate::probing::failure;

const AFTER: &str = "\
Examples:
  netwhy trace example.org             UDP, all hops at once, three packets each
  netwhy trace example.org:443         TCP SYNs, which filters let through
  netwhy trace --icmp -n 198.18.0.1
  netwhy trace --mtu 198.18.0.1        the largest packet to each hop
  netwhy trace --watch example.org     again every second, until Ctrl-C
  netwhy trace --watch -c 60 --json example.org

All packets are of one flow, so that balancers send them the same way. A hop that
answers fewer packets than a hop behind it limits its answers: nothing is lost
there. Without CAP_NET_RAW only UDP works, each packet a flow of its own.
Marks: * no answer in time, !H host !N network !P protocol unreachable,
!X forbidden by a filter, !F too large for the next link.
Exit codes: 0 the target answered, 1 it did not, 2 usage, 3 could not ask.";

/// The port that UDP is sent to: the first of traceroute, where nothing listens.
const UDP_PORT: u16 = 33434;
/// The port that TCP is sent to.
const TCP_PORT: u16 = 80;

/// What can be asked of `netwhy trace`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct TraceOptions {
    /// Whom to find the way to; with a port by TCP SYNs, without by UDP
    #[arg(value_name = "HOST[:PORT]")]
    target: Target,

    /// Send UDP datagrams [default port: 33434, where nothing should listen]
    #[arg(long, conflicts_with_all = ["tcp", "icmp"])]
    udp: bool,

    /// Send TCP SYNs [default port: 80]
    #[arg(long, conflicts_with = "icmp")]
    tcp: bool,

    /// Send ICMP echoes
    #[arg(long)]
    icmp: bool,

    /// Packets to each hop in a round [default: 3; 1 with --watch]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10))]
    queries: Option<u8>,

    /// How long an answer is waited for
    #[arg(short = 'W', long, value_name = "TIME", value_parser = probe_time, default_value = "1s")]
    timeout: Duration,

    /// First hop
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..))]
    first: u8,

    /// Last hop
    #[arg(short, long, value_name = "N", default_value_t = 30,
          value_parser = clap::value_parser!(u8).range(1..))]
    max: u8,

    /// Look up no names
    #[arg(short, long)]
    pub(super) numeric: bool,

    /// Find the largest packet that gets to each hop and to the target
    #[arg(long, conflicts_with = "watch")]
    mtu: bool,

    /// Again every TIME [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = window, num_args = 0..=1,
          default_missing_value = "1s", require_equals = true)]
    pub(super) watch: Option<Duration>,

    /// With --watch: only so many rounds
    #[arg(short, long, value_name = "N", requires = "watch",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,

    /// Only IPv4 addresses
    #[arg(short = '4', conflicts_with = "v6")]
    v4: bool,

    /// Only IPv6 addresses
    #[arg(short = '6')]
    v6: bool,

    /// Type of service, or traffic class: 0 to 255, also 0x10
    #[arg(long, value_name = "N", value_parser = byte)]
    tos: Option<u8>,

    /// Send from this address
    #[arg(long, value_name = "IP")]
    source: Option<IpAddr>,

    /// Send by this interface
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,

    #[command(flatten)]
    pub(super) netns: NetnsOptions,

    /// Print JSON at the end
    #[arg(long)]
    pub(super) json: bool,
}

impl TraceOptions {
    /// How to look, with the address found.
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
        let usual = if method == TraceMethod::Tcp { TCP_PORT } else { UDP_PORT };
        let address = self.target.resolve(family).map_err(failure)?;
        Ok(Settings {
            name: self.target.to_string(),
            to: SocketAddr::new(address, self.target.port.unwrap_or(usual)),
            method,
            first_ttl: self.first,
            max_ttl: self.max,
            queries: self.queries.unwrap_or(if self.watch.is_some() { 1 } else { 3 }),
            timeout: self.timeout,
            find_mtu: self.mtu,
            resolve_names: !self.numeric,
            tos: self.tos,
            source: self.source,
            interface: self.interface.clone(),
        })
    }
}
