//! Tests of links between real devices. They need root and `ip`; else they say so and pass.

use std::io::Write as _;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::emulator::Loss;

const MS: Duration = Duration::from_millis(1);

/// A device and a socket in a new network namespace, or why there are none.
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

fn ends() -> Option<[(Tap, UdpSocket); 2]> {
    match (end("198.18.0.1"), end("198.18.0.2")) {
        (Ok(a), Ok(b)) => {
            a.1.connect("198.18.0.2:53").unwrap();
            b.1.connect("198.18.0.1:53").unwrap();
            Some([a, b])
        }
        (Err(why), _) | (_, Err(why)) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// Waits for something that another thread does.
fn soon(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(5), "{what} did not happen");
        std::thread::sleep(MS);
    }
}

#[test]
fn packets_pass_with_the_delay_of_each_direction_and_profiles_change() {
    let Some([(a, from), (b, to)]) = ends() else { return };
    let delay = |millis| Profile { delay: millis * MS, ..Profile::default() };
    let link = Link::start("t", a, b, delay(30).into(), delay(10).into(), 1).unwrap();
    let mut bytes = [0; 9];
    let mut round_trip = || {
        let start = Instant::now();
        from.send(b"ping").unwrap();
        assert_eq!(to.recv(&mut bytes).unwrap(), 4);
        let there = start.elapsed();
        to.send(b"pong!").unwrap();
        assert_eq!(from.recv(&mut bytes).unwrap(), 5);
        (there, start.elapsed())
    };
    let (there, both) = round_trip();
    assert!(there >= 30 * MS && both >= 40 * MS, "{there:?} {both:?}");
    link.set(None, Some(delay(50)));
    link.set(Some(Profile::default()), None);
    soon("the order", || !link.shared.ordered.load(Ordering::Acquire));
    let (_, both) = round_trip();
    assert!(both >= 50 * MS, "{both:?}");

    link.set(Some(Profile { loss: Some(Loss::Random { probability: 1.0 }), ..delay(0) }), None);
    soon("the order", || !link.shared.ordered.load(Ordering::Acquire));
    from.send(b"gone").unwrap();
    soon("the loss", || link.counters()[0].dropped_by_loss == 1);
    let [forth, back] = link.counters();
    assert_eq!((forth.packets_in, forth.packets_out, back.packets_out), (3, 2, 2));
    assert!(forth.housekeeping > 0 && back.housekeeping > 0, "ARP passed");
    assert!(link.trouble().is_none());

    let start = Instant::now();
    link.stop();
    // Almost all of it is what the kernel takes to close two devices, some 50 ms each.
    assert!(start.elapsed() < 2000 * MS, "stopped after {:?}", start.elapsed());
}

#[test]
fn the_kernel_believes_the_answer_about_the_mtu() {
    let Some([(a, from), (b, to)]) = ends() else { return };
    let small = Profile { mtu: Some(1300), ..Profile::default() };
    let link = Link::start("t", a, b, small.into(), Direction::default(), 1).unwrap();
    from.send(&[0; 1400]).unwrap();
    soon("the answer", || link.counters()[0].answered == 1);
    // From now on the kernel cuts the datagram itself, as a smaller packet is told to pass.
    to.set_read_timeout(Some(50 * MS)).unwrap();
    soon("the path MTU", || {
        let _ = from.send(&[0; 1400]);
        to.recv(&mut [0; 2000]).is_ok()
    });
    // Nothing above 1300 bytes passes: each datagram comes in two frames.
    let forth = &link.counters()[0];
    assert!(forth.packets_out >= 2 && forth.dropped_by_mtu <= forth.answered + 1, "{forth:?}");
}

#[test]
fn a_device_that_is_gone_ends_the_link() {
    let gone = std::thread::spawn(|| {
        sys::namespace::isolate_network().map_err(|error| error.to_string())?;
        let a = Tap::open("wire").map_err(|error| error.to_string())?;
        let b = Tap::open("wire2").map_err(|error| error.to_string())?;
        let link = Link::start("t", a, b, Direction::default(), Direction::default(), 1).unwrap();
        ip("link set wire up\n").map_err(|error| error.to_string())?;
        assert!(link.trouble().is_none());
        ip("link del wire\n").map_err(|error| error.to_string())?;
        soon("the end", || link.trouble().is_some());
        let trouble = link.trouble().unwrap();
        assert!(trouble.to_string().contains("wire"), "{trouble}");
        link.set(Some(Profile::default()), None);
        link.stop();
        Ok::<_, String>(())
    });
    if let Err(why) = gone.join().unwrap() {
        eprintln!("skipped: {why}");
    }
}
