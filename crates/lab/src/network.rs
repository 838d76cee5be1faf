//! The network of a scenario, built: hosts, wires or emulated links, addresses, routes, settings.

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
use crate::scenario::types::{self, Effects, Link, Role};
use crate::scenario::units::Room;

/// Room of a shaping bucket when none is given.
const SHAPED_QUEUE: u64 = 256 << 10;
/// Packets that wait for the emulator, which may be late for want of a CPU: the kernel would drop all
/// beyond 500, and the scenario would have a loss that it does not ask for.
const QUEUE: u32 = 10_000;
/// MTU of an interface when none is given.
const MTU: u16 = 1500;

/// A network that was built.
pub(crate) struct Network {
    // Links end before hosts.
    links: Vec<Option<emulator::Link>>,
    pub(crate) hosts: BTreeMap<String, Host>,
    plan: Plan,
    /// How many changes of timelines have been made.
    changes: std::cell::Cell<usize>,
}

impl Network {
    /// Builds it. `dir` is the folder of this lab.
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
        let mut network = Network { links: Vec::new(), hosts, plan, changes: 0.into() };
        let wiring = Wiring::start()?;
        for (number, link) in scenario.links.iter().enumerate() {
            let started = network.link(number, link, &wiring, seed)?;
            network.links.push(started);
        }
        for (name, host) in &scenario.hosts {
            network.configure(scenario, name, host.is)?;
        }
        Ok(network)
    }

    /// A host by its name.
    pub(crate) fn host(&self, name: &str) -> Result<&Host> {
        self.hosts.get(name).ok_or_else(|| Error::new(format!("there is no host {name}")))
    }

    /// A text of the scenario with what `${NAME}` stands for in it.
    pub(crate) fn fill(&self, scenario: &Scenario, text: &str) -> Result<String> {
        let dir = self.hosts.values().next().and_then(|host| host.dir.parent());
        let dir = dir.map_or(String::new(), |dir| dir.display().to_string());
        names::fill(text, &|name| {
            names::lookup(&self.plan, scenario, name, &dir, &|host| {
                self.hosts.get(host).map(|host| host.pid)
            })
        })
        .map_err(|name| Error::new(format!("nothing is called ${{{name}}}")))
    }

    /// Links as they are at the beginning of a workload: what a timeline changed is taken back.
    pub(crate) fn begin(&self, scenario: &Scenario) {
        self.changes.set(0);
        for (link, running) in scenario.links.iter().zip(&self.links) {
            if let Some(running) = running.as_ref().filter(|_| !link.timeline.is_empty()) {
                let (forth, back) = profiles(link, 0);
                running.set(Some(forth), Some(back));
            }
        }
    }

    /// Makes the changes of links whose time has come, each once.
    pub(crate) fn change(&self, scenario: &Scenario, now: Duration) {
        let due = |link: &Link| link.timeline.iter().filter(|change| change.at.0 <= now).count();
        let all: usize = scenario.links.iter().map(due).sum();
        if self.changes.replace(all) == all {
            return;
        }
        for (link, running) in scenario.links.iter().zip(&self.links) {
            if let Some(running) = running.as_ref().filter(|_| !link.timeline.is_empty()) {
                let (forth, back) = profiles(link, due(link));
                running.set(Some(forth), Some(back));
            }
        }
    }

    /// What each emulated link has done so far, by direction: `client-server`, `server-client`.
    pub(crate) fn counters(&self) -> Vec<(String, emulator::Counters)> {
        let mut all = Vec::new();
        for (link, wire) in
            self.links.iter().zip(&self.plan.wires).filter_map(|(l, w)| l.as_ref().zip(Some(w)))
        {
            let [a, b] = [&wire[0].host, &wire[1].host];
            let [forth, back] = link.counters();
            all.push((format!("{a}-{b}"), forth));
            all.push((format!("{b}-{a}"), back));
        }
        all
    }

    /// A wire, or an emulated link where something is asked of it.
    fn link(
        &self,
        number: usize,
        link: &Link,
        wiring: &Wiring,
        seed: u64,
    ) -> Result<Option<emulator::Link>> {
        let [a, b] = &self.plan.wires[number];
        let (from, to) = (self.host(&a.host)?, self.host(&b.host)?);
        let (forth, back) = profiles(link, 0);
        let plain = forth == Profile::default() && back == Profile::default();
        if plain && link.timeline.is_empty() {
            wiring.wire(from, a, to, b)?;
            return Ok(None);
        }
        let tap = |host: &Host, end: &Interface| -> Result<sys::tap::Tap> {
            let name = end.name.clone();
            Ok(host.inside(move || sys::tap::Tap::open(&name))??)
        };
        let direction = |profile| Direction { profile, timeline: Vec::new() };
        let name = format!("{}-{}", a.host, b.host);
        // Links differ: they must not lose the same packets.
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        let started = emulator::Link::start(
            &name,
            tap(from, a)?,
            tap(to, b)?,
            direction(forth),
            direction(back),
            seed,
        )?;
        Ok(Some(started))
    }

    /// Addresses, routes, sysctls, files, set-up.
    fn configure(&self, scenario: &Scenario, name: &str, role: Role) -> Result<()> {
        let host = self.host(name)?;
        let mut batch = String::from("link set lo up\n");
        if role == Role::Switch {
            batch.push_str("link add br0 type bridge\nlink set br0 up\n");
        }
        for (wire, link) in self.plan.wires.iter().zip(&scenario.links) {
            for end in wire.iter().filter(|end| end.host == name) {
                let dev = &end.name;
                let mtu = link.interface_mtu.unwrap_or(MTU);
                // Nothing of a String fails.
                let _ = writeln!(batch, "link set {dev} mtu {mtu} txqueuelen {QUEUE}");
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
        let Some(wanted) = scenario.hosts.get(name) else { return Ok(()) };
        for (sysctl, value) in &wanted.sysctls {
            host.set(sysctl, &self.fill(scenario, value.get_ref())?)?;
        }
        for (file, text) in &wanted.files {
            host.write(file, &self.fill(scenario, text.get_ref())?)?;
        }
        for line in &wanted.setup {
            host.run(&self.fill(scenario, line.get_ref())?)?;
        }
        Ok(())
    }
}

/// A namespace with no other use than to make wires in: the machine's own never sees them.
struct Wiring(std::sync::mpsc::Sender<(Vec<String>, std::sync::mpsc::Sender<Result<()>>)>);

impl Wiring {
    fn start() -> Result<Self> {
        let (jobs, inbox) =
            std::sync::mpsc::channel::<(Vec<String>, std::sync::mpsc::Sender<Result<()>>)>();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let entered = sys::namespace::isolate_network();
            let fine = entered.is_ok();
            let _ = tell.send(entered);
            for (words, answer) in inbox.into_iter().take_while(|_| fine) {
                let _ = answer.send(ip(&words));
            }
        });
        let gone = |_| Error::new("cannot make a namespace for the wires");
        told.recv().map_err(gone)??;
        Ok(Wiring(jobs))
    }

    fn wire(&self, from: &Host, a: &Interface, to: &Host, b: &Interface) -> Result<()> {
        let words = format!(
            "link add name {} netns {} type veth peer name {} netns {}",
            a.name, from.pid, b.name, to.pid
        );
        let words = words.split(' ').map(String::from).collect();
        let (tell, told) = std::sync::mpsc::channel();
        let gone = || Error::new("the namespace of the wires has ended");
        self.0.send((words, tell)).map_err(|_| gone())?;
        told.recv().map_err(|_| gone())?
    }
}

fn ip(words: &[String]) -> Result<()> {
    let line = words.join(" ");
    let output = std::process::Command::new("ip").args(words).output().map_err(|error| {
        Error::new(format!("cannot run ip {line}: {error} (it is in the package iproute2)"))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("ip {line} failed: {}", said.trim())))
}

/// Profiles of both directions after the first `changes` changes of the timeline.
fn profiles(link: &Link, changes: usize) -> (Profile, Profile) {
    let mut forth = merged(Profile::default(), &[&link.both, &link.forth]);
    let mut back = merged(Profile::default(), &[&link.both, &link.back]);
    for change in link.timeline.iter().take(changes) {
        forth = merged(forth, &[&change.both, &change.forth]);
        back = merged(back, &[&change.both, &change.back]);
    }
    (forth, back)
}

fn merged(mut profile: Profile, effects: &[&Effects]) -> Profile {
    for effect in effects {
        if let Some(delay) = effect.delay {
            profile.delay = delay.0;
        }
        if let Some(jitter) = effect.jitter {
            profile.jitter = jitter.0;
        }
        if let Some(rate) = effect.rate {
            profile.rate = Some(rate.0);
        }
        match effect.queue.map(|limit| limit.0) {
            Some(Room::Bytes(bytes)) => profile.queue = emulator::Queue::Bytes(bytes),
            Some(Room::Packets(packets)) => profile.queue = emulator::Queue::Packets(packets),
            None => {}
        }
        if let Some(loss) = effect.loss {
            profile.loss = Some(emulator::Loss::Random { probability: loss.0 });
        }
        if let Some(bursts) = &effect.bursts {
            profile.loss = Some(emulator::Loss::GilbertElliott {
                to_bad: bursts.to_bad.0,
                to_good: bursts.to_good.0,
                in_bad: bursts.in_bad.0,
                in_good: bursts.in_good.0,
            });
        }
        if let Some(reorder) = &effect.reorder {
            let by = reorder.by.0;
            profile.reorder = Some(emulator::Reorder { probability: reorder.share.0, by });
        }
        if let Some(duplicate) = effect.duplicate {
            profile.duplicate = duplicate.0;
        }
        if let Some(corrupt) = effect.corrupt {
            profile.corrupt = corrupt.0;
        }
        profile.mtu = effect.mtu.or(profile.mtu);
        profile.black_hole_above = effect.black_hole_above.or(profile.black_hole_above);
        if let Some(bucket) = &effect.bucket {
            let queue = bucket.queue.map_or(SHAPED_QUEUE, |size| size.0);
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
