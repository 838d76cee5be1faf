//! Tests of links between real devices. They need root and `ip`; otherwise they are skipped.

use std::io::Write as _;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use test_support::{Reason, is_root, skip};

use super::*;
use crate::emulator::Loss;

const MS: Duration = Duration::from_millis(1);

/// A device and a socket in a new network namespace, or the reason why not.
fn end(address: &'static str) -> Result<(Tap, UdpSocket), String> {
    std::thread::spawn(move || {
        sys::namespace::isolate_network().map_err(|error| error.to_string())?;
        let tap = Tap::open("wire").map_err(|error| error.to_string())?;
        let lines = format!("link set wire up\naddr add {address}/30 dev wire\n");
        ip(&lines).map_err(|error| error.to_string())?;
        let socket = UdpSocket::bind((address, 53)).map_err(|error| error.to_string())?;
        socket.set_read_timeout(Some(500 * MS)).map_err(|error| error.to_string())?;
        Ok((tap, socket))
    })
    .join()
    .unwrap()
}

fn ip(lines: &str) -> std::io::Result<()> {
    let mut child = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn()?;
    child.stdin.take().unwrap().write_all(lines.as_bytes())?;
    assert!(child.wait()?.success(), "ip failed at:\n{lines}");
    Ok(())
}

/// Both ends of a link; `None` if this machine cannot make them: the calling test is skipped.
fn ends() -> Option<[(Tap, UdpSocket); 2]> {
    if !is_root() {
        return None;
    }
    match (end("198.18.0.1"), end("198.18.0.2")) {
        (Ok(a), Ok(b)) => {
            a.1.connect("198.18.0.2:53").unwrap();
            b.1.connect("198.18.0.1:53").unwrap();
            Some([a, b])
        }
        (Err(why), _) | (_, Err(why)) => {
            skip(&Reason::Kernel(format!("makes no TAP device: {why}")));
            None
        }
    }
}

/// Waits until another thread has done something.
fn wait_for(what: &str, is_done: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < Duration::from_secs(5), "{what} did not happen");
        std::thread::sleep(MS);
    }
}

#[test]
fn each_direction_has_its_delay_and_profiles_can_be_replaced() {
    let Some([(a, from), (b, to)]) = ends() else { return };
    let delay = |millis| Profile { delay: millis * MS, ..Profile::default() };
    let link = Link::start("t", a, b, delay(30).into(), delay(10).into(), 1).unwrap();
    let mut bytes = [0; 9];
    let mut round_trip = || {
        let start = Instant::now();
        from.send(b"ping").unwrap();
        assert_eq!(to.recv(&mut bytes).unwrap(), 4);
        let one_way = start.elapsed();
        to.send(b"pong!").unwrap();
        assert_eq!(from.recv(&mut bytes).unwrap(), 5);
        (one_way, start.elapsed())
    };
    let (one_way, both) = round_trip();
    assert!(one_way >= 30 * MS && both >= 40 * MS, "{one_way:?} {both:?}");
    link.set_profiles(None, Some(delay(50)));
    link.set_profiles(Some(Profile::default()), None);
    wait_for("the change of profile", || !link.shared.has_commands.load(Ordering::Acquire));
    let (_, both) = round_trip();
    assert!(both >= 50 * MS, "{both:?}");

    link.set_profiles(
        Some(Profile { loss: Some(Loss::Random { probability: 1.0 }), ..delay(0) }),
        None,
    );
    wait_for("the change of profile", || !link.shared.has_commands.load(Ordering::Acquire));
    from.send(b"gone").unwrap();
    wait_for("the loss", || link.counters()[0].dropped_by_loss == 1);
    let [forward, reverse] = link.counters();
    assert_eq!((forward.packets_in, forward.packets_out, reverse.packets_out), (3, 2, 2));
    assert!(forward.housekeeping > 0 && reverse.housekeeping > 0, "ARP passed");
    assert!(link.failure().is_none());

    let start = Instant::now();
    link.stop();
    // The kernel takes some 50 ms to close each of the two devices.
    assert!(start.elapsed() < 2000 * MS, "stopped after {:?}", start.elapsed());
}

#[test]
fn the_kernel_accepts_the_icmp_error_about_the_mtu() {
    let Some([(a, from), (b, to)]) = ends() else { return };
    let small = Profile { mtu: Some(1300), ..Profile::default() };
    let link = Link::start("t", a, b, small.into(), Direction::default(), 1).unwrap();
    from.send(&[0; 1400]).unwrap();
    wait_for("the ICMP error", || link.counters()[0].icmp_too_big_sent == 1);
    // From now on the kernel fragments the datagram itself.
    to.set_read_timeout(Some(50 * MS)).unwrap();
    wait_for("the path MTU", || {
        let _ = from.send(&[0; 1400]);
        to.recv(&mut [0; 2000]).is_ok()
    });
    // Nothing above 1300 bytes passes: each datagram arrives in two frames. The link publishes its
    // counters after it has delivered a packet.
    wait_for("the counters", || link.counters()[0].packets_out >= 2);
    let forward = &link.counters()[0];
    let errors = forward.icmp_too_big_sent;
    assert!(forward.dropped_by_mtu <= errors + 1, "{forward:?}");
}

#[test]
fn a_device_that_is_gone_ends_the_link() {
    if !is_root() {
        return;
    }
    let gone = std::thread::spawn(|| {
        sys::namespace::isolate_network().map_err(|error| error.to_string())?;
        let a = Tap::open("wire").map_err(|error| error.to_string())?;
        let b = Tap::open("wire2").map_err(|error| error.to_string())?;
        let link = Link::start("t", a, b, Direction::default(), Direction::default(), 1).unwrap();
        ip("link set wire up\n").map_err(|error| error.to_string())?;
        assert!(link.failure().is_none());
        ip("link del wire\n").map_err(|error| error.to_string())?;
        wait_for("the end", || link.failure().is_some());
        let failure = link.failure().unwrap();
        assert!(failure.to_string().contains("wire"), "{failure}");
        link.set_profiles(Some(Profile::default()), None);
        link.stop();
        Ok::<_, String>(())
    });
    if let Err(why) = gone.join().unwrap() {
        skip(&Reason::Kernel(format!("makes no TAP device: {why}")));
    }
}
