//! What the link emulator can do on this machine: errors of delay and rate, packets per second, CPU.
//!
//! Run it as root: `cargo run --release -p lab --example link_bench`. It needs `ip` and `iperf3`, takes
//! less than a minute, and sends nothing outside two network namespaces of its own, which end with
//! it. `--load` adds a busy thread for each CPU.

#![allow(clippy::indexing_slicing, reason = "an index out of range ends the measurement")]

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab::emulator::{Bucket, Counters, Direction, Link, Loss, Mode, Profile, Queue};
use sys::tap::Tap;
use sys::{Error, ErrorKind, Machine as _};

const A: &str = "198.18.0.1";
const B: &str = "198.18.0.2";

type Job = Box<dyn FnOnce() + Send>;
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A thread with its own network namespace, which ends with it.
struct Host {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    fn new() -> Result<Host> {
        let (jobs, todo) = channel::<Job>();
        let (result, started) = channel();
        let thread = std::thread::spawn(move || {
            let isolated = sys::namespace::isolate_network();
            let ready = isolated.is_ok();
            let _ = result.send(isolated);
            if ready {
                todo.iter().for_each(|job| job());
            }
        });
        started.recv()??;
        Ok(Host { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs a closure in the namespace.
    fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (result, done) = channel();
        let job = Box::new(move || {
            let _ = result.send(job());
        });
        let jobs = self.jobs.as_ref().ok_or("the host has ended")?;
        jobs.send(job).map_err(|_| "the host has ended")?;
        Ok(done.recv()?)
    }

    fn tap(&self, address: &'static str) -> Result<Tap> {
        self.run(move || {
            std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").ok();
            let tap = Tap::open("wire")?;
            let lines =
                format!("link set lo up\nlink set wire up\naddr add {address}/30 dev wire\n");
            ip(&lines)?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(tap)
        })?
    }

    fn udp(&self, address: &'static str) -> Result<UdpSocket> {
        let socket = self.run(move || UdpSocket::bind((address, 5300)))??;
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        Ok(socket)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn ip(lines: &str) -> Result<()> {
    use std::io::Write as _;
    let mut child = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("no stdin")?.write_all(lines.as_bytes())?;
    match child.wait()?.success() {
        true => Ok(()),
        false => Err(Error::new("run", "ip -batch", "it failed", ErrorKind::Other).into()),
    }
}

/// Two hosts with a link between them.
struct Bench {
    link: Link,
    a: Host,
    b: Host,
}

impl Bench {
    fn new(forward: Profile, reverse: Profile) -> Result<Bench> {
        let (a, b) = (Host::new()?, Host::new()?);
        let (forward, reverse) = (Direction::from(forward), Direction::from(reverse));
        let link = Link::start("bench", a.tap(A)?, b.tap(B)?, forward, reverse, 1)?;
        Ok(Bench { link, a, b })
    }

    /// The counters of the link once it is idle.
    fn counters(&self) -> [Counters; 2] {
        std::thread::sleep(Duration::from_millis(20));
        self.link.counters()
    }

    /// Runs iperf3 from a to b and returns its report.
    fn iperf(&self, options: &[&str]) -> Result<serde_json::Value> {
        let server = ["-s", "-1", "-B", B];
        let mut server = self
            .b
            .run(move || Command::new("iperf3").args(server).stdout(Stdio::null()).spawn())??;
        std::thread::sleep(Duration::from_millis(200));
        let mut client = Command::new("iperf3");
        client.args(["-c", B, "-J"]).args(options);
        let output = self.a.run(move || client.output())??;
        std::thread::sleep(Duration::from_millis(100));
        server.kill().ok();
        server.wait()?;
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        match report.get("error") {
            Some(error) => Err(format!("iperf3: {error}").into()),
            None => Ok(report),
        }
    }
}

fn cpu() -> Duration {
    sys::real::RealMachine::new().own_process().cost().cpu
}

fn micros(time: Duration) -> String {
    format!("{:.0} µs", time.as_secs_f64() * 1e6)
}

fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// One-way delay, measured between two sockets by one clock.
fn delay(millis: u64) -> Result<()> {
    let profile = Profile { delay: Duration::from_millis(millis), ..Profile::default() };
    let bench = Bench::new(profile.clone(), profile)?;
    let (from, to) = (bench.a.udp(A)?, bench.b.udp(B)?);
    to.connect((A, 5300))?;
    from.connect((B, 5300))?;
    let start = Instant::now();
    let packets = 1500_u64;
    let receiver = std::thread::spawn(move || {
        let mut delays = Vec::new();
        let mut bytes = [0; 64];
        while delays.len() < packets as usize && to.recv(&mut bytes).is_ok() {
            let sent = u64::from_ne_bytes(bytes[..8].try_into().unwrap_or_default());
            delays.push(start.elapsed().saturating_sub(Duration::from_nanos(sent)));
            let _ = to.send(&bytes);
        }
        delays.sort();
        delays
    });
    let echo = from.try_clone()?;
    let trips = std::thread::spawn(move || {
        let mut trips = Vec::new();
        let mut bytes = [0; 64];
        while trips.len() < packets as usize && echo.recv(&mut bytes).is_ok() {
            let sent = u64::from_ne_bytes(bytes[..8].try_into().unwrap_or_default());
            trips.push(start.elapsed().saturating_sub(Duration::from_nanos(sent)));
        }
        trips.sort();
        trips
    });
    let used = cpu();
    for number in 0..packets {
        let now = start.elapsed().as_nanos() as u64;
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&now.to_ne_bytes());
        from.send(&bytes)?;
        let next = Duration::from_micros((number + 1) * 1000);
        std::thread::sleep(next.saturating_sub(start.elapsed()));
    }
    let (Ok(delays), Ok(trips)) = (receiver.join(), trips.join()) else {
        return Err("a thread ended early".into());
    };
    let used = cpu() - used;
    let intended = Duration::from_millis(millis);
    let error = |share| micros(quantile(&delays, share).saturating_sub(intended));
    let late = bench.counters()[0].lateness.clone();
    let quantile_late = |share| micros(late.quantile(share).unwrap_or_default());
    println!(
        "delay {millis:3} ms: one way +{} p50, +{} p99, +{} max of {}; link late {} p50, {} p99, {} max; \
         round trip {:.3} ms p50; CPU of the process {:.0} %",
        error(0.5),
        error(0.99),
        error(1.0),
        delays.len(),
        quantile_late(0.5),
        quantile_late(0.99),
        micros(late.max()),
        quantile(&trips, 0.5).as_secs_f64() * 1e3,
        used.as_secs_f64() / (packets as f64 / 1000.0) * 100.0,
    );
    Ok(())
}

/// UDP above the rate; the link delivers the rate.
fn rate(megabits: u64) -> Result<()> {
    let rate = megabits * 1_000_000;
    let profile = Profile { rate: Some(rate), ..Profile::default() };
    let bench = Bench::new(profile, Profile::default())?;
    let offered = format!("{}M", megabits * 13 / 10);
    let used = cpu();
    // Measured in the middle of the run, while the line is always busy.
    let arrived = std::thread::scope(|scope| {
        let measured = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(1200));
            let (before, start) = (bench.link.counters(), Instant::now());
            std::thread::sleep(Duration::from_millis(1200));
            let after = bench.link.counters();
            let seconds = start.elapsed().as_secs_f64();
            let increase = |count: fn(&Counters) -> u64| {
                (count(&after[0]) - count(&before[0])) as f64 * 8.0 / seconds
            };
            (increase(|counters| counters.bytes_out), increase(|counters| counters.bytes_in))
        });
        let report = bench.iperf(&["-u", "-b", &offered, "-l", "1472", "-t", "3"]);
        (measured.join().unwrap_or_default(), report)
    });
    let used = cpu() - used;
    let ((left, entered), report) = (arrived.0, arrived.1?);
    let offered = report["end"]["sum"]["bits_per_second"].as_f64().unwrap_or(0.0) * 1514.0 / 1472.0;
    let forward = &bench.counters()[0];
    println!(
        "rate {megabits:4} Mbit/s: {:.3} Mbit/s of frames leave the link ({:+.2} %) of {:.0} that \
         enter it, {:.0} sent; {} of {} dropped; late {} p99, {} max; CPU of the link {:.0} %",
        left / 1e6,
        (left / rate as f64 - 1.0) * 100.0,
        entered / 1e6,
        offered / 1e6,
        forward.dropped_by_queue,
        forward.packets_in,
        micros(forward.lateness.quantile(0.99).unwrap_or_default()),
        micros(forward.lateness.max()),
        used.as_secs_f64() / 3.4 * 100.0,
    );
    Ok(())
}

/// TCP over a link: goodput.
fn tcp(name: &str, forward: Profile, reverse: Profile, seconds: &str) -> Result<()> {
    let bench = Bench::new(forward, reverse)?;
    let used = cpu();
    let report = bench.iperf(&["-t", seconds])?;
    let used = cpu() - used;
    let end = &report["end"];
    let counters = bench.counters();
    let window: f64 = seconds.parse()?;
    println!(
        "{name}: {:.2} Mbit/s of data arrive; {} retransmissions; {:.0} packets/s forward, {:.0} reverse; \
         longest queue {} KB; late {} p99; CPU of the link {:.0} %",
        end["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e6,
        end["sum_sent"]["retransmits"],
        counters[0].packets_out as f64 / window,
        counters[1].packets_out as f64 / window,
        counters[0].max_queue_bytes / 1000,
        micros(counters[0].lateness.quantile(0.99).unwrap_or_default()),
        used.as_secs_f64() / window * 100.0,
    );
    Ok(())
}

/// Small UDP packets as fast as one thread sends them.
fn small_packets() -> Result<()> {
    let bench = Bench::new(Profile::default(), Profile::default())?;
    let (from, to) = (bench.a.udp(A)?, bench.b.udp(B)?);
    from.connect((B, 5300))?;
    let count = Arc::new(AtomicU64::new(0));
    let end = Arc::new(AtomicBool::new(false));
    let receiver = {
        let (count, end) = (Arc::clone(&count), Arc::clone(&end));
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while !end.load(Ordering::Relaxed) {
                if to.recv(&mut bytes).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    };
    let start = Instant::now();
    let mut sent = 0_u64;
    while start.elapsed() < Duration::from_secs(2) {
        // 22 bytes of data make a frame of 64 bytes.
        sent += u64::from(from.send(&[0; 22]).is_ok());
    }
    let seconds = start.elapsed().as_secs_f64();
    let forward = bench.counters()[0].clone();
    end.store(true, Ordering::Relaxed);
    let _ = receiver.join();
    println!(
        "64-byte UDP: {:.0} packets/s sent, {:.0} through the link, {:.0} received",
        sent as f64 / seconds,
        forward.packets_out as f64 / seconds,
        count.load(Ordering::Relaxed) as f64 / seconds,
    );
    Ok(())
}

/// Loss as an application sees it: UDP packets that do not arrive.
fn loss() -> Result<()> {
    let lossy = Profile { loss: Some(Loss::Random { probability: 0.02 }), ..Profile::default() };
    let bench = Bench::new(lossy, Profile::default())?;
    let (from, to) = (bench.a.udp(A)?, bench.b.udp(B)?);
    from.connect((B, 5300))?;
    let packets = 20_000_u32;
    let receiver = std::thread::spawn(move || {
        let mut bytes = [0; 64];
        let mut count = 0_u32;
        while to.recv(&mut bytes).is_ok() {
            count += 1;
        }
        count
    });
    for number in 0..packets {
        from.send(&[0; 22])?;
        if number % 20 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let arrived = receiver.join().map_err(|_| "the receiver ended early")?;
    println!(
        "loss 2 %: {:.2} % of {packets} packets missing at the receiver, {} counted by the link",
        (1.0 - f64::from(arrived) / f64::from(packets)) * 100.0,
        bench.counters()[0].dropped_by_loss,
    );
    Ok(())
}

fn main() -> Result<()> {
    let end = Arc::new(AtomicBool::new(false));
    if std::env::args().any(|argument| argument == "--load") {
        for _ in 0..std::thread::available_parallelism()?.get() {
            let end = Arc::clone(&end);
            std::thread::spawn(move || while !end.load(Ordering::Relaxed) {});
        }
    }
    let start = Instant::now();
    for millis in [1, 20, 100] {
        delay(millis)?;
    }
    for megabits in [10, 100, 1000] {
        rate(megabits)?;
    }
    loss()?;
    small_packets()?;
    tcp("TCP, transparent", Profile::default(), Profile::default(), "3")?;
    let slow = Profile {
        delay: Duration::from_millis(20),
        rate: Some(10_000_000),
        queue: Queue::Packets(100),
        ..Profile::default()
    };
    let reverse = Profile { delay: Duration::from_millis(20), ..Profile::default() };
    tcp("TCP, 10 Mbit/s, 20 ms in each direction", slow, reverse, "4")?;
    let bucket = |mode| Profile {
        bucket: Some(Bucket {
            credit_bytes: 2_000_000,
            rate: 10_000_000,
            burst_rate: Some(100_000_000),
            mode,
        }),
        ..Profile::default()
    };
    let shaped = bucket(Mode::Shape { queue: 200_000 });
    tcp("TCP, 2 MB of credit, then shaped to 10 Mbit/s", shaped, Profile::default(), "3")?;
    tcp("TCP, 2 MB of credit, then policed", bucket(Mode::Police), Profile::default(), "3")?;
    end.store(true, Ordering::Relaxed);
    println!("took {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
