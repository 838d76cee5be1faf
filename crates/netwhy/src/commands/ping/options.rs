//! The options of `netwhy ping`, and which of them exclude each other.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use probe::ping::{PingTarget, Protocol, Settings};
use probe::target::{Family, Target};

use super::vantage_point::VantagePoint;
use crate::failure::Failure;
use crate::options::{NetnsOptions, byte, probe_time};

const AFTER: &str = "\
Examples:
  netwhy ping 198.18.0.1               ICMP echo requests, until Ctrl-C
  netwhy ping -c 20 -i 100ms example.org
  netwhy ping web.example.org:443      TCP SYNs, as hping3 -S -p 443
  netwhy ping --udp -c 5 198.18.0.1:53
  netwhy ping 198.18.0.1 198.18.0.2 [fd00::1]:443    several targets at once
  netwhy ping --flood -c 10000 198.18.0.1
  netwhy ping --df -s 1472 198.18.0.1  does a packet of 1500 B get through?
  netwhy ping --under-load http://198.18.0.1/big 198.18.0.1
  netwhy ping --under-load http://198.18.0.1/big 198.18.0.1 \\
      --from here --from netns:pc2 --from ssh:outside

Lost are packets without a reply of the target within --timeout. A closed port
replies too (RST, ICMP port unreachable). Raw sockets need CAP_NET_RAW: without
it --tcp opens connections; --udp never needs it.
Exit codes: 0 a target replied, 1 none did, 2 usage error, 3 could not ping.";

/// Packets a second of a flood.
const DEFAULT_FLOOD_RATE: &str = "1000";
/// How long a flood lasts.
const DEFAULT_FLOOD_DURATION: Duration = Duration::from_secs(10);
/// Shortest interval without a given end.
const MIN_ENDLESS_INTERVAL: Duration = Duration::from_millis(200);
/// Destination port of UDP: the first one of traceroute, where nothing listens.
const DEFAULT_UDP_PORT: u16 = 33434;
/// Destination port of TCP.
const DEFAULT_TCP_PORT: u16 = 80;
/// Payload of ICMP, as ping(8) has it, and of UDP, bytes.
const DEFAULT_ICMP_PAYLOAD: usize = 56;
const DEFAULT_UDP_PAYLOAD: usize = 16;

/// The options of `netwhy ping`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct PingOptions {
    /// Host to ping: with a port by TCP SYN, without one by ICMP echo
    #[arg(required = true, value_name = "HOST[:PORT]")]
    pub(super) targets: Vec<Target>,

    /// Stop after N packets to each target [default: until Ctrl-C]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Time between two packets; below 200ms only with --count or --for
    #[arg(short, long, value_name = "TIME", value_parser = probe_time, default_value = "1s")]
    interval: Duration,

    /// Send when a reply arrives, or 100 packets a second if that is more; at most N
    /// a second [default: 1000], for 10 s unless --count or --for is given
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = DEFAULT_FLOOD_RATE,
          require_equals = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flood: Option<u32>,

    /// Stop after this time [default: until Ctrl-C]; with --under-load: duration of
    /// each phase [default: 5s]
    #[arg(long = "for", value_name = "TIME", value_parser = crate::options::window)]
    pub(super) duration: Option<Duration>,

    /// A packet without a reply within this time is lost
    #[arg(short = 'W', long, value_name = "TIME", value_parser = probe_time, default_value = "1s")]
    timeout: Duration,

    /// Payload in bytes, at least 8 for UDP [default: 56 for ICMP, 16 for UDP, 0 for
    /// TCP]
    #[arg(short, long, value_name = "BYTES")]
    size: Option<usize>,

    /// Use ICMP echo, even if a port is given
    #[arg(long, conflicts_with_all = ["tcp", "udp"])]
    icmp: bool,

    /// Use TCP SYN [default port: 80]
    #[arg(long, conflicts_with = "udp")]
    tcp: bool,

    /// Use UDP [default port: 33434, where nothing should listen]
    #[arg(long)]
    udp: bool,

    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "v6")]
    v4: bool,

    /// Use IPv6 only
    #[arg(short = '6')]
    v6: bool,

    /// Set the don't-fragment flag: packets larger than an MTU on the path are
    /// reported as such
    #[arg(long)]
    df: bool,

    /// Type of service, or traffic class: 0 to 255, or hexadecimal as 0x10
    #[arg(long, value_name = "N", value_parser = byte)]
    tos: Option<u8>,

    /// Time to live, or hop limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    ttl: Option<u8>,

    /// Source address
    #[arg(long, value_name = "IP")]
    source: Option<IpAddr>,

    /// Outgoing interface
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,

    #[command(flatten)]
    pub(super) netns: NetnsOptions,

    /// Print only the summary
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Print JSON at the end (its schema is docs/schema/ping-v1.json)
    #[arg(long)]
    pub(super) json: bool,

    /// Print JSON for each packet as it is replied to, one object per line, and all of
    /// it at the end (schema: docs/schema/ping-line-v1.json)
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    pub(super) json_lines: bool,

    #[command(flatten)]
    pub(super) load: LoadOptions,
}

/// The options of `netwhy ping --under-load`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Under load")]
pub(crate) struct LoadOptions {
    /// Ping while idle, then while each --from in turn downloads this, once and
    /// several times at once: shows which link is the bottleneck, and its rate
    #[arg(long, value_name = "URL|HOST[:PORT]", group = "load",
          conflicts_with_all = ["count", "flood", "interval", "timeout", "size", "df", "tos",
                                "ttl", "source", "interface", "quiet", "json_lines"])]
    pub(super) under_load: Option<String>,

    /// Concurrent downloads
    #[arg(long, value_name = "N", default_value_t = 4, requires = "load", alias = "transfers",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) downloads: u32,

    /// Vantage point that pings and downloads: here, netns:NAME, netns:PID, or
    /// ssh:HOST (needs netwhy there); repeatable [default: here]
    #[arg(long, value_name = "WHERE", requires = "under_load")]
    pub(super) from: Vec<VantagePoint>,

    /// Vantage point that only pings; repeatable
    #[arg(long, value_name = "WHERE", requires = "under_load")]
    pub(super) ping_from: Vec<VantagePoint>,

    /// Download for another netwhy that measures under load, and print the bytes
    #[arg(long, value_name = "URL", hide = true, group = "load")]
    pub(super) download: Option<String>,
}

impl PingOptions {
    /// The settings of the probe.
    pub(super) fn settings(&self) -> anyhow::Result<Settings> {
        let endless = self.count.is_none() && self.duration.is_none();
        let flood_duration = self.flood.filter(|_| endless).map(|_| DEFAULT_FLOOD_DURATION);
        if endless && flood_duration.is_none() && self.interval < MIN_ENDLESS_INTERVAL {
            let text = "an interval below 200ms needs --count or --for";
            return Err(Failure::Usage(text.to_string()).into());
        }
        Ok(Settings {
            count: self.count,
            duration: self.duration.or(flood_duration),
            interval: self.interval,
            flood: self.flood,
            dont_fragment: self.df,
            tos: self.tos,
            ttl: self.ttl,
            source: self.source,
            interface: self.interface.clone(),
            timeout: self.timeout,
        })
    }

    /// The address family of the targets.
    pub(super) fn family(&self) -> Family {
        match (self.v4, self.v6, self.source) {
            (true, ..) => Family::V4,
            (_, true, _) => Family::V6,
            (.., Some(source)) if source.is_ipv6() => Family::V6,
            (.., Some(_)) => Family::V4,
            _ => Family::Any,
        }
    }

    /// The options of the address family, for a netwhy at another vantage point.
    pub(super) fn family_arguments(&self) -> impl Iterator<Item = String> {
        given([(self.v4, "-4"), (self.v6, "-6")])
    }

    /// The options of the protocol, for a netwhy at another vantage point.
    pub(super) fn protocol_arguments(&self) -> impl Iterator<Item = String> {
        given([(self.icmp, "--icmp"), (self.tcp, "--tcp"), (self.udp, "--udp")])
    }

    /// The targets with their addresses.
    pub(super) fn resolved_targets(&self) -> anyhow::Result<Vec<PingTarget>> {
        let family = self.family();
        let resolve = |target: &Target| {
            let protocol = match (self.icmp, self.tcp, self.udp, target.port) {
                (true, ..) => Protocol::Icmp,
                (_, true, ..) => Protocol::Tcp,
                (_, _, true, _) => Protocol::Udp,
                (.., Some(_)) => Protocol::Tcp,
                (.., None) => Protocol::Icmp,
            };
            let default_port = match protocol {
                Protocol::Udp => DEFAULT_UDP_PORT,
                Protocol::Tcp | Protocol::Icmp => DEFAULT_TCP_PORT,
            };
            let default_payload = match protocol {
                Protocol::Icmp => DEFAULT_ICMP_PAYLOAD,
                Protocol::Udp => DEFAULT_UDP_PAYLOAD,
                Protocol::Tcp => 0,
            };
            let address = target.resolve(family).map_err(crate::probe_job::failure)?;
            Ok(PingTarget {
                name: target.to_string(),
                to: SocketAddr::new(address, target.port.unwrap_or(default_port)),
                protocol,
                payload_bytes: self.size.unwrap_or(default_payload),
            })
        };
        self.targets.iter().map(resolve).collect()
    }
}

/// The options that were given.
fn given<const N: usize>(options: [(bool, &str); N]) -> impl Iterator<Item = String> {
    options.into_iter().filter(|(given, _)| *given).map(|(_, option)| option.to_string())
}
