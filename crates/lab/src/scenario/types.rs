//! The schema of a scenario file: each key with its meaning and its default.
//!
//! Unknown keys are errors: a misspelt key would silently test something else.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::units::{QueueLimit, Rate, Share, Size, Time};

/// How long netwhy observes unless the scenario says otherwise.
const DEFAULT_WINDOW: Duration = Duration::from_secs(3);

/// A name that refers to something else in the file; its position is kept for errors.
pub type Name = Spanned<String>;

/// One scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One line: what is configured or broken.
    pub title: String,
    /// What happens, why, and what it looks like; for people.
    pub about: String,
    /// Whether something is broken.
    pub kind: Kind,
    /// Uses little CPU: the score may run several of these at the same time.
    #[serde(default)]
    pub low_cpu: bool,
    /// Parameters that `--vary` draws; `${NAME}` stands for them anywhere in a text.
    #[serde(default)]
    pub vary: BTreeMap<String, Parameter>,
    /// Settings of the whole machine, not of a namespace.
    #[serde(default)]
    pub machine: Machine,
    /// Hosts, routers and switches.
    pub hosts: BTreeMap<String, Host>,
    /// Links between them.
    #[serde(default)]
    pub links: Vec<Link>,
    /// Programs that run all the time, started in this order.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// The load on the network, and the figure that measures how well it is served.
    pub workload: Workload,
    /// Where netwhy observes; every observer runs in every step.
    pub observe: Vec<Observe>,
    /// Causes that must be named, and how to fix them. Several steps make a chain in which each fix
    /// uncovers the next fault.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// Whether something is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One fault, or a chain of faults that are fixed one by one.
    Fault,
    /// Two faults or more at once.
    Compound,
    /// Nothing is broken: netwhy must name nothing.
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
    /// Smallest value drawn; needs `max`.
    pub min: Option<f64>,
    /// Largest value drawn.
    pub max: Option<f64>,
    /// The values to draw from, instead of a range.
    #[serde(default)]
    pub choices: Vec<f64>,
}

/// Settings of the whole machine: one scenario at a time changes them, and they are restored.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// `net.netfilter.nf_conntrack_max`, which all namespaces share.
    pub nf_conntrack_max: Option<Text>,
}

/// A text that may contain `${NAME}`.
pub type Text = Spanned<String>;

/// A host.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Host, router or switch.
    #[serde(default)]
    pub role: Role,
    /// Its `net.*` sysctls: `"net.core.somaxconn" = "4096"`.
    #[serde(default)]
    pub sysctls: BTreeMap<String, Text>,
    /// Shell lines to run once the network is up.
    #[serde(default)]
    pub setup: Vec<Text>,
    /// Files: a relative name is in `${HOST.dir}`; an absolute one is visible to this host only.
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
    /// Forwards between its links; the routes of other hosts lead through it.
    Router,
    /// A bridge: its links are one network.
    Switch,
}

/// A link between two hosts. `both` applies to both directions; `forward` (from the first host to
/// the second) and `reverse` override it. Without impairments it is a plain veth pair.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The two hosts.
    pub between: [Name; 2],
    /// MTU of the interfaces at both ends; 1500 if absent.
    pub interface_mtu: Option<u16>,
    /// Both directions.
    #[serde(default)]
    pub both: Impairments,
    /// From the first host to the second.
    #[serde(default)]
    pub forward: Impairments,
    /// From the second host to the first.
    #[serde(default)]
    pub reverse: Impairments,
    /// Changes while the workload runs, in order of time; keys that a change leaves out stay as they
    /// are. Every step begins without them.
    #[serde(default)]
    pub timeline: Vec<Change>,
}

/// What a link does to packets.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Impairments {
    /// One-way delay.
    pub delay: Option<Time>,
    /// Maximum deviation from the delay, up or down; packets keep their order.
    pub jitter: Option<Time>,
    /// Rate of the line.
    pub rate: Option<Rate>,
    /// Queue in front of the line; packets that find no room are dropped.
    pub queue: Option<QueueLimit>,
    /// Random loss.
    pub loss: Option<Share>,
    /// Loss in bursts (Gilbert-Elliott), instead of `loss`.
    pub burst_loss: Option<BurstLoss>,
    /// Packets that are held back so that others overtake them.
    pub reorder: Option<Reorder>,
    /// Share of packets that are delivered twice.
    pub duplicate: Option<Share>,
    /// Share of packets with a flipped bit.
    pub corrupt: Option<Share>,
    /// As a router with a smaller next-hop MTU: larger packets are dropped with an ICMP error.
    pub mtu: Option<u16>,
    /// Larger packets are dropped without an ICMP error.
    pub black_hole_above: Option<u16>,
    /// A token bucket with credit for bursts.
    pub token_bucket: Option<TokenBucket>,
}

/// Loss in bursts: a good and a bad state, and the probabilities of a change between them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstLoss {
    /// From good to bad, per packet.
    pub to_bad: Share,
    /// From bad to good, per packet.
    pub to_good: Share,
    /// Loss in the bad state.
    pub in_bad: Share,
    /// Loss in the good state.
    pub in_good: Share,
}

/// Packets that are held back.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Share of packets.
    pub share: Share,
    /// For how long.
    pub delay: Time,
}

/// A token bucket.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenBucket {
    /// Bytes that pass at once when it is full, as it is at the start.
    pub credit: Size,
    /// Rate at which it refills.
    pub rate: Rate,
    /// Rate while credit lasts; that of the link if absent.
    pub burst_rate: Option<Rate>,
    /// `police`: packets without credit are dropped. `shape`: they wait.
    pub mode: Mode,
    /// With `shape`: room for waiting packets; 256 KiB if absent.
    pub queue: Option<Size>,
}

/// What happens to packets without credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// They are dropped.
    Police,
    /// They wait.
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
    pub both: Impairments,
    /// From the first host to the second.
    #[serde(default)]
    pub forward: Impairments,
    /// From the second host to the first.
    #[serde(default)]
    pub reverse: Impairments,
}

/// A program that runs all the time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its name in this file.
    pub name: Name,
    /// Where it runs.
    pub host: Name,
    /// A shell line that stays in the foreground; its working directory is `${HOST.dir}`.
    pub run: Text,
    /// When it is ready; at once if absent.
    #[serde(default)]
    pub ready: Readiness,
    /// Share of one CPU that it may use (a cgroup quota).
    pub cpu_quota: Option<Share>,
    /// Started anew right before each workload and ended after it.
    #[serde(default)]
    pub with_workload: bool,
}

/// When a program is ready.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Readiness {
    /// It listens on this TCP port.
    pub listens: Option<u16>,
    /// This file exists.
    pub file: Option<Text>,
    /// This shell line succeeds on its host.
    pub command: Option<Text>,
    /// Time to wait after all the others hold.
    pub after: Option<Time>,
}

/// The load on the network.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Where it runs.
    pub host: Name,
    /// A shell line; it must end by itself after `${seconds}`.
    pub run: Text,
    /// The program whose output has the figures.
    pub output: OutputFormat,
    /// With `output = "pattern"`: a regular expression with named groups, each a figure.
    pub pattern: Option<Name>,
    /// The figure that measures how well the network works: `requests_per_second`, `p50_ms`, ...
    pub figure: Name,
    /// How long it runs.
    pub duration: Time,
}

/// What a workload prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputFormat {
    /// wrk, best with `--latency`.
    Wrk,
    /// ab.
    Ab,
    /// `iperf3 --json`.
    Iperf3,
    /// Lines `NAME VALUE`.
    Lines,
    /// Text to match with a regular expression.
    Pattern,
}

/// Where and how netwhy observes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observe {
    /// On which host.
    pub host: Name,
    /// Live, from captures, or with a probe.
    #[serde(default)]
    pub by: Method,
    /// How long after the start of the workload.
    pub after: Option<Time>,
    /// For how long; 3 s if absent.
    #[serde(rename = "for")]
    pub duration: Option<Time>,
    /// Bytes of each packet that a capture keeps; 128, enough for the headers, if absent.
    pub snaplen: Option<u32>,
    /// With `by = "probe"`: the arguments of `netwhy`.
    pub run: Option<Text>,
    /// With `by = "path"`: the host whose capture is that of the server's end.
    pub server: Option<Name>,
}

impl Observe {
    /// For how long it observes.
    pub fn window(&self) -> Duration {
        self.duration.map_or(DEFAULT_WINDOW, |duration| duration.0)
    }
}

/// How netwhy observes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// `netwhy --netns`.
    #[default]
    Live,
    /// `netwhy --netns --capture`: the host and its packets at the same time.
    LiveCapture,
    /// Packets of all its interfaces, captured by tcpdump and read by `netwhy pcap`.
    Capture,
    /// Its capture and that of another host, compared.
    Path,
    /// A probe from it, which loads the network itself.
    Probe,
}

/// Causes that must be named, and how to fix them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Causes that must be named.
    #[serde(default)]
    pub expect: Vec<Expect>,
    /// Causes that may be named as well: true, but not the point of the scenario.
    #[serde(default)]
    pub allow: Vec<Name>,
    /// Causes whose naming would be the worst mistake; all that are not expected are wrong anyway.
    #[serde(default)]
    pub never: Vec<Name>,
    /// What fixes the causes.
    #[serde(default)]
    pub fix: Vec<Fix>,
    /// How many times better the figure must be after the fix.
    pub min_improvement: Option<f64>,
}

/// A cause that must be named.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Its id.
    pub cause: Name,
    /// The host on which it must be named; any if absent.
    pub host: Option<Name>,
    /// Texts that the subject must contain: a process, an address, a name.
    #[serde(default)]
    pub subject: Vec<Text>,
    /// netwhy has no rule for this cause: what a rule would need.
    pub no_rule: Option<String>,
    /// There is a rule, but what is observed here does not decide it: why.
    pub undecidable: Option<String>,
}

impl Expect {
    /// Why the cause cannot be named in this scenario; `None`: it can.
    pub fn excuse(&self) -> Option<Excuse> {
        let no_rule = self.no_rule.clone().map(Excuse::NoRule);
        no_rule.or_else(|| self.undecidable.clone().map(Excuse::Undecidable))
    }
}

/// Why a cause that is there cannot be named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Excuse {
    /// netwhy has no rule for it: what a rule would need.
    NoRule(String),
    /// There is a rule, but this observation does not decide it: why.
    Undecidable(String),
}

impl Excuse {
    /// One sentence for people.
    pub fn sentence(&self) -> String {
        match self {
            Excuse::NoRule(needs) => format!("no rule yet: {needs}"),
            Excuse::Undecidable(why) => format!("not decidable from this observation: {why}"),
        }
    }
}

/// What fixes a fault.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// On which host.
    pub host: Option<Name>,
    /// A shell line.
    pub run: Option<Text>,
    /// Processes to restart, by name.
    #[serde(default)]
    pub restart: Vec<Name>,
    /// A setting of the whole machine.
    pub nf_conntrack_max: Option<Text>,
}
