//! The options of `netwhy transfer`, and which of them exclude each other.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use model::TransferDirection;
use probe::target::{Family, Target};
use probe::transfer::{
    DEFAULT_PORT, MAX_BUFFER_BYTES, MAX_SOURCE_DELAY, MAX_STREAMS, Options, Url,
};
use text::parse::Powers;

use crate::failure::Failure;
use crate::options::{NetnsOptions, ReportOptions, window};
use crate::probe_job::failure;

const AFTER: &str = "\
Examples:
  netwhy transfer serve --bind 198.18.0.2 --token s3cret --for 1h  on one host,
  netwhy transfer 198.18.0.2 --token s3cret    on the other: bulk for 10 seconds
  netwhy transfer 198.18.0.2 --direction up --streams 4 --for 5s
  netwhy transfer 198.18.0.2 --size 4M --interval 10s --count 5
  netwhy transfer 198.18.0.2 --size 4M --interval 10s --reconnect
  netwhy transfer 198.18.0.2 --size 4M --congestion cubic --bandwidth 100M
  netwhy transfer 198.18.0.2 --size 4M --buffer 1KiB --source-delay 300us
  netwhy transfer http://198.18.0.2/file --interval 2s     from any web server

Sizes: K, M, G are powers of 1000; KiB, MiB, GiB powers of 1024. Bandwidth is in
bits a second: 100M, 1G. The theoretical time is size / bandwidth plus the round
trips of the handshake, the request and slow start; `rounds` counts them.

As root the packets of the transfers are captured and diagnosed too. The schema
of --json is docs/schema/transfer-v1.json. Exit codes: 0 ran, 1 a finding at or
above --fail-on, 2 usage error, 3 nothing was transferred.";

const SERVE_AFTER: &str = "\
Examples:
  netwhy transfer serve                            loopback only
  netwhy transfer serve --bind 198.18.0.2 --token s3cret --for 1h
  NETWHY_TOKEN=s3cret netwhy transfer serve --bind [fd00::2]:7000

The token is never sent: a client proves that it knows it. Other users can see a
token on the command line (ps), but not in NETWHY_TOKEN. Connections that send
no token within 5 s are closed, and sooner if others need their place: at most
128 wait, 66 of them from one address. Ctrl-C ends the server.";

/// The options of `netwhy transfer`.
#[derive(Debug, Args)]
#[command(after_help = AFTER, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct TransferOptions {
    #[command(subcommand)]
    pub(super) command: Option<TransferCommand>,

    /// HOST or HOST:PORT of netwhy transfer serve [default port: 7717], or an http://
    /// URL
    #[arg(required = true, value_name = "HOST[:PORT]|URL")]
    peer: Option<String>,

    /// Direction of the data: down from the peer, or up to it
    #[arg(long, value_enum, default_value = "down")]
    direction: Direction,

    /// Bytes of each transfer: 4M, 4MiB [default: as many as possible in the time]
    #[arg(short, long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,

    /// Time between the starts of two transfers: 10s [default: back to back]
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    interval: Option<Duration>,

    /// Number of transfers [default: 5, or as many as possible within --for]
    #[arg(short = 'n', long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: Option<u32>,

    /// Stop after this time: 5s, 2m [default: 10s without --size, otherwise no limit]
    #[arg(long = "for", value_name = "TIME", value_parser = window)]
    duration: Option<Duration>,

    /// Open a new connection for each transfer
    #[arg(long)]
    reconnect: bool,

    /// Bytes of each write of the sender: 1KiB, 4MiB
    #[arg(short, long, value_name = "SIZE", default_value = "32KiB", value_parser = size)]
    buffer: u64,

    /// Time for which the sender waits for each buffer, as for a slow disk
    #[arg(long, value_name = "TIME", value_parser = time)]
    source_delay: Option<Duration>,

    /// Concurrent connections, at most 64
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_STREAMS)))]
    streams: u32,

    /// Congestion control of the sender: cubic, bbr, … [default: its host's]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,

    /// Bandwidth of the path in bits a second, for the theoretical time [default:
    /// estimated]
    #[arg(long, value_name = "BITS", value_parser = bits)]
    bandwidth: Option<f64>,

    /// Shared secret of the server [default: NETWHY_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,

    /// A connection without progress for this long has failed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = window)]
    timeout: Duration,

    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,

    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,

    /// Do not capture packets: costs less, and leaves more causes undecided
    #[arg(long)]
    pub(super) no_capture: bool,

    #[command(flatten)]
    pub(super) netns: NetnsOptions,

    #[command(flatten)]
    pub(super) report: ReportOptions,
}

#[derive(Debug, Subcommand)]
pub(super) enum TransferCommand {
    /// Serve transfers to other hosts, within limits
    Serve(ServeOptions),
}

/// The options of `netwhy transfer serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_AFTER)]
pub(super) struct ServeOptions {
    /// Address to listen on, with or without a port
    #[arg(long, value_name = "IP[:PORT]", default_value = "127.0.0.1", value_parser = bind)]
    pub(super) bind: SocketAddr,

    /// Shared secret that clients have to know [default: NETWHY_TOKEN, or none]
    #[arg(long, value_name = "TOKEN")]
    pub(super) token: Option<String>,

    /// Longest duration of a session
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = window)]
    pub(super) max_time: Duration,

    /// Most bytes of a session: 100G, 1GiB
    #[arg(long, value_name = "SIZE", default_value = "100G", value_parser = size)]
    pub(super) max_bytes: u64,

    /// Most concurrent clients
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) max_clients: u16,

    /// Stop after this time: 1h [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = window)]
    pub(super) duration: Option<Duration>,

    #[command(flatten)]
    pub(super) netns: NetnsOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Direction {
    Down,
    Up,
}

/// Duration of a bulk transfer.
const DEFAULT_BULK_DURATION: Duration = Duration::from_secs(10);
/// Number of transfers with a size.
const DEFAULT_COUNT: u32 = 5;

/// The token, from the command line or the environment.
pub(super) fn token(given: Option<&String>) -> Option<String> {
    let from_environment = || std::env::var("NETWHY_TOKEN").ok();
    given.cloned().or_else(from_environment).filter(|token| !token.is_empty())
}

impl TransferOptions {
    /// The transfers that they describe. Resolves the peer in the network namespace of this thread.
    pub(super) fn plan(&self) -> anyhow::Result<Options> {
        let peer = self.peer.clone().unwrap_or_default();
        let is_url = peer.contains("://");
        let direction = match self.direction {
            Direction::Down => TransferDirection::Down,
            Direction::Up => TransferDirection::Up,
        };
        self.check(is_url).map_err(Failure::Usage)?;
        let (url, target) = if is_url {
            let url: Url = peer.parse().map_err(failure)?;
            (Some(url.clone()), Target { port: Some(url.port()), ..url.target })
        } else {
            (None, peer.parse::<Target>().map_err(failure)?)
        };
        let family = match (self.ipv4, self.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        };
        let ip = target.resolve(family).map_err(failure)?;
        let bulk = self.size.is_none() && !is_url;
        let bulk_duration = bulk.then_some(DEFAULT_BULK_DURATION);
        let duration = self.duration.or(bulk_duration);
        let default_count = duration.is_none().then_some(DEFAULT_COUNT);
        Ok(Options {
            peer,
            address: SocketAddr::new(ip, target.port.unwrap_or(DEFAULT_PORT)),
            url,
            direction,
            size: self.size,
            interval: self.interval,
            count: if bulk { Some(1) } else { self.count.or(default_count) },
            duration,
            reconnect: self.reconnect,
            streams: self.streams,
            buffer_bytes: u32::try_from(self.buffer).unwrap_or(MAX_BUFFER_BYTES),
            source_delay: self.source_delay.unwrap_or_default(),
            congestion: self.congestion.clone(),
            token: token(self.token.as_ref()),
            timeout: self.timeout,
            bandwidth_bps: self.bandwidth,
        })
    }

    /// Checks that the options fit each other.
    fn check(&self, is_url: bool) -> Result<(), String> {
        if is_url {
            let for_netwhy = [
                (self.direction == Direction::Up, "--direction up"),
                (self.size.is_some(), "--size"),
                (self.congestion.is_some(), "--congestion"),
                (self.source_delay.is_some(), "--source-delay"),
                (self.token.is_some(), "--token"),
            ];
            if let Some((_, option)) = for_netwhy.iter().find(|(given, _)| *given) {
                return Err(format!("{option} needs netwhy transfer serve at the other end"));
            }
        } else if self.size.is_none() {
            let for_sizes = [
                (self.interval.is_some(), "--interval"),
                (self.count.is_some(), "--count"),
                (self.reconnect, "--reconnect"),
            ];
            if let Some((_, option)) = for_sizes.iter().find(|(given, _)| *given) {
                return Err(format!("{option} needs --size: bytes of each transfer"));
            }
        }
        if !(1..=u64::from(MAX_BUFFER_BYTES)).contains(&self.buffer) {
            return Err("--buffer must be from 1 byte to 64 MiB".to_string());
        }
        if self.source_delay.is_some_and(|delay| delay > MAX_SOURCE_DELAY) {
            return Err("--source-delay must be at most 10 s".to_string());
        }
        Ok(())
    }
}

/// A size in bytes.
fn size(text: &str) -> Result<u64, String> {
    match text::parse::bytes(text, Powers::Decimal) {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err("give bytes from 1 to 1000T: 4M (powers of 1000), 4MiB, 32KiB".to_string()),
    }
}

/// A bandwidth in bits a second.
fn bits(text: &str) -> Result<f64, String> {
    match text::parse::bit_rate(text) {
        Some(bits @ 1_000..=10_000_000_000_000) => Ok(bits as f64),
        _ => Err("give bits a second from 1k to 10T: 100M, 2.5G".to_string()),
    }
}

/// A time from a microsecond to a day.
fn time(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_micros(1)..=Duration::from_secs(24 * 3600);
    text::parse::duration_within(text, allowed, "between 1us and 24h")
}

/// An address to listen on.
fn bind(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(ip) => Ok(SocketAddr::new(ip, DEFAULT_PORT)),
        Err(_) => Err("give an address of this host: 198.18.0.2, [fd00::2]:7000, 0.0.0.0".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1000_or_1024() {
        for (text, bytes) in [
            ("4M", 4_000_000),
            ("4MB", 4_000_000),
            ("4MiB", 4 << 20),
            ("32KiB", 32 << 10),
            ("1k", 1000),
            ("1.5G", 1_500_000_000),
            ("7", 7),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "0", "-1", "4X", "M", "1e9", "9999T", "1..2M"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert_eq!(bits("100M"), Ok(1e8));
        assert_eq!(bits("100Mbit/s"), Ok(1e8));
        assert!(bits("1").is_err() && bits("fast").is_err());
    }

    #[test]
    fn addresses_to_listen_on_have_an_optional_port() {
        assert_eq!(bind("198.18.0.2"), Ok("198.18.0.2:7717".parse().unwrap()));
        assert_eq!(bind("fd00::2"), Ok("[fd00::2]:7717".parse().unwrap()));
        assert_eq!(bind("[fd00::2]"), Ok("[fd00::2]:7717".parse().unwrap()));
        assert_eq!(bind("[fd00::2]:80"), Ok("[fd00::2]:80".parse().unwrap()));
        assert!(bind("example.org").is_err());
        assert!(time("300us").is_ok() && time("0").is_err() && time("2d").is_err());
    }
}
