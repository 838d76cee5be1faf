//! The network of a scenario as it is built: hosts, links, addresses, routes, settings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::emulator::{self, Direction, Profile};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::names;
use crate::plan::{Interface, Plan};
use crate::scenario::Scenario;
use crate::scenario::types::{self, Impairments, Link, Role};
use crate::scenario::units::Capacity;

/// Queue of a shaper unless the scenario says otherwise, bytes.
const DEFAULT_SHAPER_QUEUE_BYTES: u64 = 256 << 10;
/// Transmit queue of the interfaces, packets. The emulator may be late when it has no CPU; with the
/// kernel's default of 500 the scenario would have a loss that it does not ask for.
const TX_QUEUE_PACKETS: u32 = 10_000;
/// MTU of an interface unless the scenario says otherwise.
const DEFAULT_MTU: u16 = 1500;

/// A network that is up.
pub(crate) struct Network {
    // Dropped before the hosts.
    links: Vec<Option<emulator::Link>>,
    pub(crate) hosts: BTreeMap<String, Host>,
    plan: Plan,
    /// How many changes of the timelines have been made.
    changes_applied: std::cell::Cell<usize>,
}

impl Network {
    /// Builds it. `dir` is the directory of this lab.
    pub(crate) fn build(
        scenario: &Scenario,
        dir: &Path,
        init: &[OsString],
        seed: u64,
    ) -> Result<Self> {
        let plan = Plan::of(scenario)?;
        let mut hosts = BTreeMap::new();
        for name in scenario.hosts.keys() {
            hosts.insert(name.clone(), Host::start(name, dir.join(name), init)?);
        }
        let mut network = Network { links: Vec::new(), hosts, plan, changes_applied: 0.into() };
        let veth_maker = VethMaker::start()?;
        for (number, link) in scenario.links.iter().enumerate() {
            let started = network.start_link(number, link, &veth_maker, seed)?;
            network.links.push(started);
        }
        for (name, host) in &scenario.hosts {
            network.configure(scenario, name, host.role)?;
        }
        Ok(network)
    }

    /// A host by its name.
    pub(crate) fn host(&self, name: &str) -> Result<&Host> {
        self.hosts.get(name).ok_or_else(|| Error::new(format!("there is no host {name}")))
    }

    /// A text of the scenario with its `${NAME}` replaced.
    pub(crate) fn substitute(&self, scenario: &Scenario, text: &str) -> Result<String> {
        let dir = self.hosts.values().next().and_then(|host| host.dir.parent());
        let dir = dir.map_or(String::new(), |dir| dir.display().to_string());
        names::substitute(text, &|name| {
            names::lookup(&self.plan, scenario, name, &dir, &|host| {
                self.hosts.get(host).map(|host| host.pid)
            })
        })
        .map_err(|name| Error::new(format!("unknown name ${{{name}}}")))
    }

    /// Undoes the changes of timelines, before a workload starts.
    pub(crate) fn reset_timelines(&self, scenario: &Scenario) {
        self.changes_applied.set(0);
        for (link, running) in scenario.links.iter().zip(&self.links) {
            if let Some(running) = running.as_ref().filter(|_| !link.timeline.is_empty()) {
                let (forward, reverse) = profiles(link, 0);
                running.set_profiles(Some(forward), Some(reverse));
            }
        }
    }

    /// Makes the changes of timelines that are due, each once.
    pub(crate) fn apply_timelines(&self, scenario: &Scenario, now: Duration) {
        let due = |link: &Link| link.timeline.iter().filter(|change| change.at.0 <= now).count();
        let all: usize = scenario.links.iter().map(due).sum();
        if self.changes_applied.replace(all) == all {
            return;
        }
        for (link, running) in scenario.links.iter().zip(&self.links) {
            if let Some(running) = running.as_ref().filter(|_| !link.timeline.is_empty()) {
                let (forward, reverse) = profiles(link, due(link));
                running.set_profiles(Some(forward), Some(reverse));
            }
        }
    }

    /// The counters of each emulated link so far, by direction: `client-server`, `server-client`.
    pub(crate) fn counters(&self) -> Vec<(String, emulator::Counters)> {
        let mut all = Vec::new();
        for (link, [a, b]) in self.links.iter().zip(&self.plan.wires) {
            if let Some(link) = link {
                let [forward, reverse] = link.counters();
                all.push((format!("{}-{}", a.host, b.host), forward));
                all.push((format!("{}-{}", b.host, a.host), reverse));
            }
        }
        all
    }

    /// Joins two hosts: by a veth pair, or by an emulated link if it has impairments.
    fn start_link(
        &self,
        number: usize,
        link: &Link,
        veth_maker: &VethMaker,
        seed: u64,
    ) -> Result<Option<emulator::Link>> {
        let Some([a, b]) = self.plan.wires.get(number) else {
            return Err(Error::new(format!("link {number} is not in the plan")));
        };
        let (from, to) = (self.host(&a.host)?, self.host(&b.host)?);
        let (forward, reverse) = profiles(link, 0);
        let plain = forward == Profile::default() && reverse == Profile::default();
        if plain && link.timeline.is_empty() {
            veth_maker.connect(from, a, to, b)?;
            return Ok(None);
        }
        let tap = |host: &Host, end: &Interface| -> Result<sys::tap::Tap> {
            let name = end.name.clone();
            Ok(host.inside(move || sys::tap::Tap::open(&name))??)
        };
        let direction = |profile| Direction { profile, timeline: Vec::new() };
        let name = format!("{}-{}", a.host, b.host);
        // Each link has its own seed, or all would lose the same packets.
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        let started = emulator::Link::start(
            &name,
            tap(from, a)?,
            tap(to, b)?,
            direction(forward),
            direction(reverse),
            seed,
        )?;
        Ok(Some(started))
    }

    /// Sets addresses, routes, sysctls and files, and runs the set-up.
    fn configure(&self, scenario: &Scenario, name: &str, role: Role) -> Result<()> {
        let host = self.host(name)?;
        let mut batch = String::from("link set lo up\n");
        if role == Role::Switch {
            batch.push_str("link add br0 type bridge\nlink set br0 up\n");
        }
        for (wire, link) in self.plan.wires.iter().zip(&scenario.links) {
            for end in wire.iter().filter(|end| end.host == name) {
                let dev = &end.name;
                let mtu = link.interface_mtu.unwrap_or(DEFAULT_MTU);
                // Writing to a String does not fail.
                let _ = writeln!(batch, "link set {dev} mtu {mtu} txqueuelen {TX_QUEUE_PACKETS}");
                match end.address {
                    Some(address) => {
                        let _ = writeln!(batch, "addr add {}/24 dev {dev}", address.v4);
                        let _ = writeln!(batch, "addr add {}/64 dev {dev} nodad", address.v6);
                    }
                    None => {
                        let _ = writeln!(batch, "link set {dev} master br0");
                    }
                }
                let _ = writeln!(batch, "link set {dev} up");
            }
        }
        for route in self.plan.routes.get(name).into_iter().flatten() {
            let _ = writeln!(batch, "route add {} via {}", route.to, route.via);
        }
        if role == Role::Router {
            host.set("net.ipv4.ip_forward", "1")?;
            host.set("net.ipv6.conf.all.forwarding", "1")?;
        }
        let file = host.dir.join("network.batch");
        std::fs::write(&file, &batch)
            .map_err(|error| Error::new(format!("cannot write {}: {error}", file.display())))?;
        host.run("ip -batch network.batch")?;
        let Some(settings) = scenario.hosts.get(name) else { return Ok(()) };
        for (sysctl, value) in &settings.sysctls {
            host.set(sysctl, &self.substitute(scenario, value.get_ref())?)?;
        }
        for (file, text) in &settings.files {
            host.write(file, &self.substitute(scenario, text.get_ref())?)?;
        }
        for line in &settings.setup {
            host.run(&self.substitute(scenario, line.get_ref())?)?;
        }
        Ok(())
    }
}

/// A network namespace in which veth pairs are made, so that the machine's own never sees them.
struct VethMaker(std::sync::mpsc::Sender<(Vec<String>, std::sync::mpsc::Sender<Result<()>>)>);

impl VethMaker {
    fn start() -> Result<Self> {
        let (jobs, inbox) =
            std::sync::mpsc::channel::<(Vec<String>, std::sync::mpsc::Sender<Result<()>>)>();
        let (result, started) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let entered = sys::namespace::isolate_network();
            let usable = entered.is_ok();
            let _ = result.send(entered);
            for (arguments, result) in inbox.into_iter().take_while(|_| usable) {
                let _ = result.send(ip(&arguments));
            }
        });
        let gone = |_| Error::new("cannot make a namespace for the veth pairs");
        started.recv().map_err(gone)??;
        Ok(VethMaker(jobs))
    }

    fn connect(&self, from: &Host, a: &Interface, to: &Host, b: &Interface) -> Result<()> {
        let arguments = format!(
            "link add name {} netns {} type veth peer name {} netns {}",
            a.name, from.pid, b.name, to.pid
        );
        let arguments = arguments.split(' ').map(String::from).collect();
        let (result, done) = std::sync::mpsc::channel();
        let gone = || Error::new("the namespace of the veth pairs has ended");
        self.0.send((arguments, result)).map_err(|_| gone())?;
        done.recv().map_err(|_| gone())?
    }
}

/// Runs ip(8).
fn ip(arguments: &[String]) -> Result<()> {
    let line = arguments.join(" ");
    let output = std::process::Command::new("ip").args(arguments).output().map_err(|error| {
        Error::new(format!("cannot run ip {line}: {error} (it is in the package iproute2)"))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("ip {line} failed: {}", errors.trim())))
}

/// Profiles of both directions after the first `changes` changes of the timeline.
fn profiles(link: &Link, changes: usize) -> (Profile, Profile) {
    let mut forward = with_impairments(Profile::default(), &[&link.both, &link.forward]);
    let mut reverse = with_impairments(Profile::default(), &[&link.both, &link.reverse]);
    for change in link.timeline.iter().take(changes) {
        forward = with_impairments(forward, &[&change.both, &change.forward]);
        reverse = with_impairments(reverse, &[&change.both, &change.reverse]);
    }
    (forward, reverse)
}

/// The profile with these impairments, later ones overriding earlier ones.
fn with_impairments(mut profile: Profile, all: &[&Impairments]) -> Profile {
    for one in all {
        if let Some(delay) = one.delay {
            profile.delay = delay.0;
        }
        if let Some(jitter) = one.jitter {
            profile.jitter = jitter.0;
        }
        if let Some(rate) = one.rate {
            profile.rate = Some(rate.0);
        }
        match one.queue.map(|limit| limit.0) {
            Some(Capacity::Bytes(bytes)) => profile.queue = emulator::Queue::Bytes(bytes),
            Some(Capacity::Packets(packets)) => profile.queue = emulator::Queue::Packets(packets),
            None => {}
        }
        if let Some(loss) = one.loss {
            profile.loss = Some(emulator::Loss::Random { probability: loss.0 });
        }
        if let Some(bursts) = &one.burst_loss {
            profile.loss = Some(emulator::Loss::GilbertElliott {
                to_bad: bursts.to_bad.0,
                to_good: bursts.to_good.0,
                in_bad: bursts.in_bad.0,
                in_good: bursts.in_good.0,
            });
        }
        if let Some(reorder) = &one.reorder {
            let by = reorder.delay.0;
            profile.reorder = Some(emulator::Reorder { probability: reorder.share.0, delay: by });
        }
        if let Some(duplicate) = one.duplicate {
            profile.duplicate = duplicate.0;
        }
        if let Some(corrupt) = one.corrupt {
            profile.corrupt = corrupt.0;
        }
        profile.mtu = one.mtu.or(profile.mtu);
        profile.black_hole_above = one.black_hole_above.or(profile.black_hole_above);
        if let Some(bucket) = &one.token_bucket {
            let queue = bucket.queue.map_or(DEFAULT_SHAPER_QUEUE_BYTES, |size| size.0);
            profile.bucket = Some(emulator::Bucket {
                credit_bytes: bucket.credit.0,
                rate: bucket.rate.0,
                burst_rate: bucket.burst_rate.map(|rate| rate.0),
                mode: match bucket.mode {
                    types::Mode::Police => emulator::Mode::Police,
                    types::Mode::Shape => emulator::Mode::Shape { queue },
                },
            });
        }
    }
    profile
}
