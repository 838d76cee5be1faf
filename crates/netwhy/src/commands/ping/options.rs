//! What `netwhy ping` can be asked, and what of it cannot go together.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use probe::ping::{PingTarget, Protocol, Settings};
use probe::target::{Family, Target};

use crate::failure::Failure;
use crate::options::{NetnsOptions, PROBE_TIMES, byte, probe_time};

const AFTER: &str = "\
Examples:
  netwhy ping 198.18.0.1               ICMP echoes, until Ctrl-C
  netwhy ping -c 20 -i 100ms example.org
  netwhy ping web.example.org:443      TCP SYNs, as hping3 -S -p 443
  netwhy ping --udp -c 5 198.18.0.1:53
  netwhy ping 198.18.0.1 198.18.0.2 [fd00::1]:443    several at once
  netwhy ping --flood -c 10000 198.18.0.1
  netwhy ping --df -s 1472 198.18.0.1  does a full packet of 1500 B get through?
  netwhy ping --under-load http://198.18.0.1/big 198.18.0.1
  netwhy ping --under-load http://198.18.0.1/big 198.18.0.1 \\
      --from here --from netns:pc2 --from ssh:outside

Loss counts packets that the target did not answer within --timeout. A closed
port is an answer too (RST, port unreachable). Raw packets need CAP_NET_RAW;
--udp needs no rights, and --tcp opens connections without them.
Exit codes: 0 answered, 1 no target answered, 2 usage, 3 could not ask.";

/// Packets a second of a flood, unless asked otherwise.
const FLOOD: &str = "1000";
/// How long a flood lasts, unless asked otherwise.
const FLOOD_TIME: Duration = Duration::from_secs(10);
/// The port that UDP is sent to: the first of traceroute, where nothing listens.
const UDP_PORT: u16 = 33434;
/// The port that TCP is sent to.
const TCP_PORT: u16 = 80;
/// Bytes of payload: of ping, and of a UDP datagram.
const ICMP_SIZE: usize = 56;
const UDP_SIZE: usize = 16;

/// What can be asked of `netwhy ping`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct PingOptions {
    /// Whom to ask; with a port by TCP SYNs, without by ICMP echoes
    #[arg(required = true, value_name = "HOST[:PORT]")]
    pub(super) targets: Vec<Target>,

    /// Send so many packets to each [default: until Ctrl-C]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Time from one packet to the next; below 200ms with --count or --for
    #[arg(short, long, value_name = "TIME", value_parser = probe_time, default_value = "1s")]
    interval: Duration,

    /// As fast as answers come, or 100 a second; at most N a second, and for 10 s
    /// unless --count or --for says otherwise
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = FLOOD,
          require_equals = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flood: Option<u32>,

    /// Send for so long [default: until Ctrl-C]; under load: each phase [default: 5s]
    #[arg(long = "for", value_name = "TIME", value_parser = crate::options::window)]
    pub(super) time: Option<Duration>,

    /// A packet is lost when no answer comes for so long
    #[arg(short = 'W', long, value_name = "TIME", value_parser = probe_time, default_value = "1s")]
    timeout: Duration,

    /// Bytes of payload; UDP has 8 and more [default: 56 for ICMP, 16 for UDP, 0
    /// for TCP]
    #[arg(short, long, value_name = "BYTES")]
    size: Option<usize>,

    /// Send ICMP echoes, whatever port is given
    #[arg(long, conflicts_with_all = ["tcp", "udp"])]
    icmp: bool,

    /// Send TCP SYNs [default port: 80]
    #[arg(long, conflicts_with = "udp")]
    tcp: bool,

    /// Send UDP datagrams [default port: 33434, where nothing should listen]
    #[arg(long)]
    udp: bool,

    /// Only IPv4 addresses
    #[arg(short = '4', conflicts_with = "v6")]
    v4: bool,

    /// Only IPv6 addresses
    #[arg(short = '6')]
    v6: bool,

    /// Forbid fragmentation; a packet that is too large is told as such
    #[arg(long)]
    df: bool,

    /// Type of service, or traffic class: 0 to 255, also 0x10
    #[arg(long, value_name = "N", value_parser = byte)]
    tos: Option<u8>,

    /// Time to live, or hop limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    ttl: Option<u8>,

    /// Send from this address
    #[arg(long, value_name = "IP")]
    source: Option<IpAddr>,

    /// Send by this interface
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,

    #[command(flatten)]
    pub(super) netns: NetnsOptions,

    /// Only the summary, no line for each packet
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Print JSON at the end
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) load: LoadOptions,
}

/// What can be asked of `netwhy ping --under-load`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Under load")]
pub(crate) struct LoadOptions {
    /// Measure idle, then while this is downloaded from each --from in turn, once
    /// and several times at once: which link is limited, and its rate
    #[arg(long, value_name = "URL|HOST[:PORT]", group = "load",
          conflicts_with_all = ["count", "flood", "interval", "timeout", "size", "df", "tos",
                                "ttl", "source", "interface", "quiet"])]
    pub(super) under_load: Option<String>,

    /// Downloads at once
    #[arg(long, value_name = "N", default_value_t = 4, requires = "load",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) transfers: u32,

    /// Where to ping from and to download to: here, netns:NAME, ssh:HOST (netwhy is
    /// installed there); may be given several times [default: here]
    #[arg(long, value_name = "PLACE", requires = "under_load")]
    pub(super) from: Vec<super::place::Place>,

    /// Only ping from there, download nothing there: as --from
    #[arg(long, value_name = "PLACE", requires = "under_load")]
    pub(super) ping_from: Vec<super::place::Place>,

    /// Download for a netwhy elsewhere that measures under load, and print the bytes
    #[arg(long, value_name = "URL", hide = true, group = "load")]
    pub(super) download: Option<String>,
}

impl PingOptions {
    /// How to ask, beside whom.
    pub(super) fn settings(&self) -> anyhow::Result<Settings> {
        if self.interval < PROBE_TIMES.start().to_owned() * 200
            && self.flood.is_none()
            && self.count.is_none()
            && self.time.is_none()
        {
            let words = "an interval below 200ms needs an end: give --count or --for";
            return Err(Failure::Usage(words.to_string()).into());
        }
        let unbounded = self.flood.is_some() && self.count.is_none() && self.time.is_none();
        Ok(Settings {
            count: self.count,
            duration: if unbounded { Some(FLOOD_TIME) } else { self.time },
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

    /// Which addresses are wanted.
    pub(super) fn family(&self) -> Family {
        match (self.v4, self.v6, self.source) {
            (true, ..) => Family::V4,
            (_, true, _) => Family::V6,
            (.., Some(source)) if source.is_ipv6() => Family::V6,
            (.., Some(_)) => Family::V4,
            _ => Family::Any,
        }
    }

    /// What a netwhy at another place is to be told of these.
    pub(super) fn words(&self) -> Vec<&'static str> {
        let all = [
            (self.v4, "-4"),
            (self.v6, "-6"),
            (self.icmp, "--icmp"),
            (self.tcp, "--tcp"),
            (self.udp, "--udp"),
        ];
        all.into_iter().filter_map(|(given, word)| given.then_some(word)).collect()
    }

    /// Whom to ask, with addresses found.
    pub(super) fn asked(&self) -> anyhow::Result<Vec<PingTarget>> {
        let family = self.family();
        let asked = |target: &Target| {
            let protocol = match (self.icmp, self.tcp, self.udp, target.port) {
                (true, ..) => Protocol::Icmp,
                (_, true, ..) => Protocol::Tcp,
                (_, _, true, _) => Protocol::Udp,
                (.., Some(_)) => Protocol::Tcp,
                (.., None) => Protocol::Icmp,
            };
            let port =
                target.port.unwrap_or(if protocol == Protocol::Udp { UDP_PORT } else { TCP_PORT });
            let address = target.resolve(family).map_err(crate::probing::failure)?;
            let size = self.size.unwrap_or(match protocol {
                Protocol::Icmp => ICMP_SIZE,
                Protocol::Udp => UDP_SIZE,
                Protocol::Tcp => 0,
            });
            let to = SocketAddr::new(address, port);
            Ok(PingTarget { name: target.to_string(), to, protocol, payload_bytes: size })
        };
        self.targets.iter().map(asked).collect()
    }
}
