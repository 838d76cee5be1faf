//! Tools for the tests of `netwhy capture`: netwhy itself, tcpdump, tshark, traffic.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::UdpSocket;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use sys::capture::{Capture, ReadEnd};
use wire::capture::Interface;

use super::host::{Host, output, pause, run, signal, wait_until};

/// Sends frames with and without a VLAN tag from the interface in its argument.
pub(crate) const VLAN_SENDER: &str = r#"
import socket, struct, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
data = b"x" * 40
udp = struct.pack("!HHHH", 5000, 7000, 8 + len(data), 0) + data
ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0,
                 bytes([198, 18, 0, 1]), bytes([198, 18, 0, 2]))
all = b"\xff" * 6 + b"\x02\0\0\0\0\1"
tag = lambda tci: struct.pack("!HH", 0x8100, tci)
for before in [b"", tag(7), tag(0x2008), tag(7)]:
    s.send(all + before + b"\x08\0" + ip + udp)
"#;

/// A packet of a capture file.
pub(crate) struct Packet {
    pub(crate) time_ns: i128,
    pub(crate) interface: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) length: u32,
}

/// The packets and interfaces of a file, which must be complete.
pub(crate) fn read(path: &Path) -> (Vec<Packet>, Vec<Interface>) {
    let mut capture = Capture::open(path).unwrap_or_else(|error| panic!("{error}"));
    let mut packets = Vec::new();
    let end = capture.for_each_packet(|packet| {
        packets.push(Packet {
            time_ns: packet.time_ns.expect("a time"),
            interface: packet.interface,
            bytes: packet.bytes.to_vec(),
            length: packet.length,
        });
        ControlFlow::Continue(())
    });
    assert_eq!(end.expect("a file that can be read"), ReadEnd::Complete, "{}", path.display());
    assert_eq!(capture.reader().warnings(), [], "{}", path.display());
    (packets, capture.reader().interfaces().to_vec())
}

/// Runs tshark on a file; what it prints.
pub(crate) fn tshark(path: &Path, arguments: &[&str]) -> String {
    run(Command::new("tshark").arg("-r").arg(path).args(arguments))
}

/// The binary under test.
pub(crate) fn netwhy() -> Command {
    let built = env!("CARGO_BIN_EXE_netwhy").to_string();
    Command::new(std::env::var("NETWHY_BIN").unwrap_or(built))
}

/// Runs a capture that must be refused; its exit code and what it prints.
pub(crate) fn refused(host: &Host, arguments: &[&str]) -> (Option<i32>, String) {
    let output = output(netwhy().args(["capture", "--netns", &host.name]).args(arguments));
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Sends datagrams from a host to an address: of 100 bytes, each `growth` bytes longer than the one before.
pub(crate) fn datagrams(from: &Host, to: &str, count: usize, growth: usize) {
    let name = from.name.clone();
    let to = to.to_string();
    let sender = std::thread::spawn(move || {
        sys::namespace::enter(&name).expect("a namespace");
        let any = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        for number in 0..count {
            // Nobody listens: the ICMP reply makes the next call fail, which does not matter.
            let bytes = vec![b'x'; 100 + number * growth % 1300];
            let _ = any.send_to(&bytes, &to).or_else(|_| any.send_to(&bytes, &to));
        }
    });
    sender.join().expect("a sender");
}

impl Host {
    /// Two namespaces with a veth pair between them that is up.
    pub(crate) fn wired() -> (Host, Host) {
        let (a, b) = Host::pair();
        for (from, to, address) in [(&a, &b, "198.18.0.2:6999"), (&b, &a, "198.18.0.1:6999")] {
            let name = to.name.clone();
            let receiver = std::thread::spawn(move || {
                sys::namespace::enter(&name).expect("a namespace");
                let socket = UdpSocket::bind("0.0.0.0:6999").expect("a socket");
                socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
                socket.recv(&mut [0; 100]).expect("a datagram");
            });
            wait_until("the veth pair does not come up", || {
                datagrams(from, address, 1, 0);
                receiver.is_finished()
            });
            receiver.join().expect("a datagram");
        }
        // Packets may still be on their way to a port that is closed now.
        pause(100);
        (a, b)
    }

    /// The name of its only interface except the loopback.
    pub(crate) fn device(&self) -> String {
        let names = self.run("ip -o link show type veth");
        let name = names.split(": ").nth(1).expect("an interface");
        name.split('@').next().expect("a name").to_string()
    }
}

/// A program that captures.
pub(crate) struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// What was read from standard error.
    printed: String,
}

impl Running {
    /// Starts netwhy in the namespace of a host; without a file it writes to a pipe. When this returns, it
    /// captures.
    pub(crate) fn start(
        host: &Host,
        arguments: &[&str],
        file: Option<&Path>,
        filter: &str,
    ) -> Self {
        Running::with(host, arguments, file, filter, &[])
    }

    /// The same with environment variables.
    pub(crate) fn with(
        host: &Host,
        arguments: &[&str],
        file: Option<&Path>,
        filter: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = netwhy();
        // The tests may run with sudo.
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
        command.args(["capture", "--netns", &host.name]).args(arguments);
        command.arg("-w").arg(file.unwrap_or(Path::new("-"))).args(filter.split_ascii_whitespace());
        Running::spawn(&mut command, "capturing on")
    }

    /// Starts a command, and waits until it prints that it is ready.
    pub(crate) fn spawn(command: &mut Command, ready: &str) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stderr = BufReader::new(child.stderr.take().expect("standard error"));
        let mut running = Running { child, stderr, printed: String::new() };
        running.wait_for(ready);
        running
    }

    /// Waits until it prints this.
    pub(crate) fn wait_for(&mut self, text: &str) {
        while !self.printed.contains(text) {
            let more = self.stderr.read_line(&mut self.printed).expect("standard error");
            assert!(more > 0, "not «{text}»: {}", self.printed);
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn output(&mut self) -> &mut ChildStdout {
        self.child.stdout.as_mut().expect("standard output")
    }

    pub(crate) fn close_output(&mut self) {
        self.child.stdout = None;
    }

    /// Stops it with Ctrl-C; what it printed.
    pub(crate) fn stop(self) -> String {
        signal(self.id(), Signal::INT);
        let (code, printed) = self.wait();
        assert_eq!(code, Some(0), "{printed}");
        printed
    }

    /// Stops it with SIGTERM; what it wrote to the pipe, and what it printed.
    pub(crate) fn stop_and_read(mut self) -> (Vec<u8>, String) {
        signal(self.id(), Signal::TERM);
        let mut bytes = Vec::new();
        self.output().read_to_end(&mut bytes).expect("standard output");
        let (code, printed) = self.wait();
        assert_eq!(code, Some(0), "{printed}");
        (bytes, printed)
    }

    /// Waits for its end: exit code, and what it printed.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        wait_until("the capture does not end", || matches!(self.child.try_wait(), Ok(Some(_))));
        let mut printed = std::mem::take(&mut self.printed);
        self.stderr.read_to_string(&mut printed).expect("standard error");
        (self.child.wait().expect("to wait").code(), printed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It runs still only if the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts tcpdump, which captures when this returns.
pub(crate) fn tcpdump(host: &Host, device: &str, file: &Path, arguments: &[&str]) -> Running {
    let mut command =
        host.command("tcpdump -Z root -U --time-stamp-precision=nano --immediate-mode");
    command.args(["-i", device, "-w"]).arg(file).args(arguments);
    Running::spawn(&mut command, "listening on")
}
