//! What a scenario file says: the schema, each key with its meaning and its default.
//!
//! Unknown keys are errors: a misspelt one would silently test something else.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::units::{Limit, Rate, Share, Size, Time};

/// A name that refers to something else in the file; its place is kept for errors.
pub type Name = Spanned<String>;

/// One scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One line: what is done to the network.
    pub title: String,
    /// What happens, why, and what should be seen; for people.
    pub about: String,
    /// Whether something is broken.
    pub kind: Kind,
    /// Parameters that `--vary` draws; `${NAME}` stands for them anywhere in a text.
    #[serde(default)]
    pub vary: BTreeMap<String, Parameter>,
    /// Settings of the whole machine, not of a namespace.
    #[serde(default)]
    pub machine: Machine,
    /// Hosts, routers and switches.
    pub hosts: BTreeMap<String, Host>,
    /// Wires between them.
    #[serde(default)]
    pub links: Vec<Link>,
    /// Programs that run all the time, started in this order.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// What is asked of the network, and the figure that it gives.
    pub workload: Workload,
    /// Where netwhy looks; each is asked in every step.
    pub observe: Vec<Observe>,
    /// What must be found; then, if it can be mended, what mends it. Several make a chain in
    /// which each remedy uncovers the next fault.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// Whether something is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One fault.
    Fault,
    /// Two faults or more at once.
    Compound,
    /// Nothing: netwhy must find nothing.
    Healthy,
}

impl Kind {
    /// The word in a scenario file and in the output.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Fault => "fault",
            Kind::Compound => "compound",
            Kind::Healthy => "healthy",
        }
    }
}

/// A parameter that `--vary` draws.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its value without `--vary`.
    pub default: f64,
    /// Least value drawn; with `to`.
    pub from: Option<f64>,
    /// Greatest value drawn.
    pub to: Option<f64>,
    /// The values to draw from, instead of a range.
    #[serde(default)]
    pub choices: Vec<f64>,
}

/// Settings of the whole machine: one scenario at a time has them, and they are put back.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// `net.netfilter.nf_conntrack_max`, which is one for all namespaces.
    pub nf_conntrack_max: Option<Text>,
}

/// A text in which `${NAME}` may stand.
pub type Text = Spanned<String>;

/// A host.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// What it is.
    #[serde(default)]
    pub is: Role,
    /// Its sysctls of the network: `"net.core.somaxconn" = "4096"`.
    #[serde(default)]
    pub sysctls: BTreeMap<String, Text>,
    /// Shell lines that are run once the network is up.
    #[serde(default)]
    pub setup: Vec<Text>,
    /// Files: a relative name is in `${HOST.dir}`, an absolute one is seen by this host only.
    #[serde(default)]
    pub files: BTreeMap<String, Text>,
}

/// What a host is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// An end of connections.
    #[default]
    Host,
    /// Forwards between its links; other hosts have their routes through it.
    Router,
    /// A bridge: its links are one network.
    Switch,
}

/// A wire between two hosts. `both` holds for both directions; `forth` (from the first host to the
/// second) and `back` stand before it. Without any, it is a plain veth pair.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The two hosts.
    pub between: [Name; 2],
    /// MTU of the interfaces at both ends; 1500 if absent.
    pub interface_mtu: Option<u16>,
    /// Both directions.
    #[serde(default)]
    pub both: Effects,
    /// From the first host to the second.
    #[serde(default)]
    pub forth: Effects,
    /// From the second host to the first.
    #[serde(default)]
    pub back: Effects,
    /// Changes while the workload runs, in order of time; what they do not say stays. Each step
    /// begins without them.
    #[serde(default)]
    pub timeline: Vec<Change>,
}

/// What a link does to packets.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effects {
    /// One-way delay.
    pub delay: Option<Time>,
    /// Greatest deviation from it, either way; order is kept.
    pub jitter: Option<Time>,
    /// Rate.
    pub rate: Option<Rate>,
    /// Room in front of the rate; what does not fit is dropped.
    pub queue: Option<Limit>,
    /// Random loss.
    pub loss: Option<Share>,
    /// Loss in bursts (Gilbert-Elliott), instead of `loss`.
    pub bursts: Option<Bursts>,
    /// Packets held back so that others pass them.
    pub reorder: Option<Reorder>,
    /// Share of packets sent twice.
    pub duplicate: Option<Share>,
    /// Share of packets with a flipped bit.
    pub corrupt: Option<Share>,
    /// As a router with a smaller MTU behind it: larger packets are answered with ICMP.
    pub mtu: Option<u16>,
    /// Larger packets vanish without an answer.
    pub black_hole_above: Option<u16>,
    /// A token bucket with credit for bursts.
    pub bucket: Option<Bucket>,
}

/// Loss in bursts: a good and a bad state, and the shares with which one follows the other.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// From good to bad, for each packet.
    pub to_bad: Share,
    /// From bad to good, for each packet.
    pub to_good: Share,
    /// Loss in the bad state.
    pub in_bad: Share,
    /// Loss in the good state.
    pub in_good: Share,
}

/// Packets held back.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Share of packets.
    pub share: Share,
    /// How long.
    pub by: Time,
}

/// A token bucket.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// Bytes that pass at once when it is full, as it is at the start.
    pub credit: Size,
    /// Rate at which it fills.
    pub rate: Rate,
    /// Rate while credit lasts; that of the link if absent.
    pub burst_rate: Option<Rate>,
    /// `police`: what finds no credit is dropped. `shape`: it waits.
    pub mode: Mode,
    /// With `shape`: room for what waits; 256 KiB if absent.
    pub queue: Option<Size>,
}

/// What happens without credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Dropped.
    Police,
    /// Waits.
    Shape,
}

/// A change of a link while it runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When, from the start of the workload.
    pub at: Time,
    /// Both directions.
    #[serde(default)]
    pub both: Effects,
    /// From the first host to the second.
    #[serde(default)]
    pub forth: Effects,
    /// From the second host to the first.
    #[serde(default)]
    pub back: Effects,
}

/// A program that runs all the time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its name here.
    pub name: Name,
    /// Where it runs.
    pub host: Name,
    /// A shell line that stays in the foreground; its folder is `${HOST.dir}`.
    pub run: Text,
    /// When it is ready; at once if absent.
    #[serde(default)]
    pub ready: Ready,
    /// Share of one CPU that it may use (a cgroup limit).
    pub cpu: Option<Share>,
    /// Started when the workload starts, not before.
    #[serde(default)]
    pub late: bool,
}

/// When a program is ready.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// It listens on this TCP port.
    pub listens: Option<u16>,
    /// This file exists.
    pub file: Option<Text>,
    /// This shell line succeeds on its host.
    pub command: Option<Text>,
    /// So long after all the others.
    pub after: Option<Time>,
}

/// What is asked of the network.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Where it runs.
    pub host: Name,
    /// A shell line; `${seconds}` is how long it must last.
    pub run: Text,
    /// What prints its figures.
    pub reads: Reads,
    /// With `reads = "pattern"`: a regular expression with named groups, each a figure.
    pub pattern: Option<Name>,
    /// The figure that tells how good the network is: `requests_per_second`, `p50_ms`, ...
    pub figure: Name,
    /// How long it lasts.
    pub lasts: Time,
}

/// A program whose output has figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reads {
    /// wrk, best with `--latency`.
    Wrk,
    /// ab.
    Ab,
    /// `iperf3 --json`.
    Iperf3,
    /// Lines `NAME VALUE`.
    Lines,
    /// A regular expression.
    Pattern,
}

/// Where netwhy looks.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observe {
    /// On which host.
    pub host: Name,
    /// How: live, or by a capture of this host's packets.
    #[serde(default)]
    pub by: By,
    /// How long after the start of the workload.
    pub after: Option<Time>,
    /// For how long; 3 s if absent.
    #[serde(rename = "for")]
    pub time: Option<Time>,
    /// Bytes of each packet that a capture keeps; 128, for the headers, if absent.
    pub snap: Option<u32>,
    /// With `by = "probe"`: the words behind `netwhy`.
    pub run: Option<Text>,
    /// With `by = "path"`: the host whose capture is that of the server's end.
    pub server: Option<Name>,
}

/// How netwhy looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// `netwhy --netns`.
    #[default]
    Live,
    /// Packets of all its interfaces, written by tcpdump and read by `netwhy pcap`.
    Capture,
    /// Its capture and that of another host, held against each other.
    Path,
    /// A probe from it, which loads the network itself.
    Probe,
}

/// What must be found, and what mends it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Causes that must be named.
    #[serde(default)]
    pub expect: Vec<Expect>,
    /// Causes that may be named besides: true, and not the point.
    #[serde(default)]
    pub may: Vec<Name>,
    /// Causes that it would be worst to name; all that is not expected is wrong anyway.
    #[serde(default)]
    pub never: Vec<Name>,
    /// Shell lines that mend it: `on` which host, and what to start again.
    #[serde(default)]
    pub mend: Vec<Mend>,
    /// By how much the figure must improve then.
    pub improves: Option<f64>,
}

/// A cause that must be named.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Its id.
    pub cause: Name,
    /// Seen by which observer; by any if absent.
    pub on: Option<Name>,
    /// Texts that the subject must contain: a process, an address, a name.
    #[serde(default)]
    pub subject: Vec<Text>,
    /// Why it cannot be named yet. Counted as missed.
    pub pending: Option<String>,
}

/// What mends a fault.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mend {
    /// On which host.
    pub on: Option<Name>,
    /// A shell line.
    pub run: Option<Text>,
    /// Processes to start again, by name.
    #[serde(default)]
    pub restart: Vec<Name>,
    /// A setting of the whole machine.
    pub nf_conntrack_max: Option<Text>,
}
