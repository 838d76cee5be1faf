//! `netwhy capture` on the real kernel, in its own network namespaces, compared with tcpdump.
//!
//! The tests need root and Debian's packages (`tools/setup test`); a test without prints why it is skipped.

#![allow(clippy::expect_used)]

#[path = "live/host.rs"]
#[allow(dead_code)]
mod host;

#[path = "capture/tools.rs"]
mod tools;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use host::{Host, need, output, pause, run, wait_until};
use tools::{Running, VLAN_SENDER, datagrams, netwhy, read, refused, tcpdump, tshark};

#[test]
fn packets_are_those_of_tcpdump() {
    let Some(_alone) = need(&["ip", "tcpdump", "tshark", "capinfos"]) else { return };
    let (a, b) = Host::wired();
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) = (folder.path().join("ours.pcapng"), folder.path().join("theirs.pcap"));
    let filter = "udp port 7000 and greater 200";
    let device = a.device();
    let other = tcpdump(&a, &device, &theirs, &["-s", "500", filter]);
    let capture = Running::start(&a, &["-i", &device, "-s", "500"], Some(&ours), filter);
    datagrams(&b, "198.18.0.1:7000", 300, 40);
    datagrams(&b, "198.18.0.1:7001", 50, 40);
    datagrams(&a, "198.18.0.2:7000", 100, 40);
    let printed = capture.stop();
    other.stop();

    let (mine, file) = read(&ours);
    let (theirs, _) = read(&theirs);
    assert!(mine.len() > 200, "{} packets: {printed}", mine.len());
    assert_eq!(mine.len(), theirs.len(), "{printed}");
    for (mine, theirs) in mine.iter().zip(&theirs) {
        assert_eq!((mine.length, &mine.bytes), (theirs.length, &theirs.bytes));
        // The kernel timestamps a packet once for all listeners, or for each of them.
        let apart = (mine.time_ns - theirs.time_ns).abs();
        assert!(apart < 1_000_000, "{apart} ns apart");
    }
    assert!(mine.iter().any(|packet| packet.bytes.len() == 500 && packet.length > 1000));
    assert_eq!((file[0].received, file[0].dropped), (Some(mine.len() as u64), Some(0)));
    assert_eq!((&file[0].name, &file[0].filter[..]), (&device, filter));
    assert!(
        printed.contains(&format!("{} packets", mine.len())) && printed.contains("0 dropped"),
        "{printed}"
    );

    // Other programs read the file: no packet is malformed, and both directions are there.
    let counted = run(Command::new("capinfos").args(["-rMcT"]).arg(&ours));
    assert!(counted.trim().ends_with(&format!("\t{}", mine.len())), "{counted}");
    let directions = tshark(&ours, &["-T", "fields", "-e", "frame.packet_flags_direction"]);
    let with = |value: &str| directions.lines().filter(|line| *line == value).count();
    assert!(with("0x00000001") > 100 && with("0x00000002") > 50, "{directions}");
    assert_eq!(with("0x00000001") + with("0x00000002"), mine.len());
    assert_eq!(tshark(&ours, &["-Y", "_ws.malformed"]), "");
}

#[test]
fn files_rotate_and_the_oldest_is_overwritten() {
    let Some(_alone) = need(&["ip"]) else { return };
    let host = Host::new();
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().join("ring.pcapng");
    let limits = ["-i", "lo", "--file-size", "8K", "--files", "3"];
    let capture = Running::start(&host, &limits, Some(&base), "udp");
    datagrams(&host, "127.0.0.1:7000", 200, 0);
    let printed = capture.stop();
    let mut counts = Vec::new();
    let mut times = Vec::new();
    for number in 1..=3 {
        let path = folder.path().join(format!("ring-{number}.pcapng"));
        let (packets, file) = read(&path);
        assert!(fs::metadata(&path).expect("a file").len() <= 8192);
        assert_eq!((file[0].dropped, &file[0].name[..]), (Some(0), "lo"));
        times.push(packets.last().expect("a packet").time_ns);
        counts.push(packets.len());
    }
    // 42 packets fit into a file: the fifth file, which replaced the second, has the last 32.
    assert_eq!(counts, [42, 32, 42], "{printed}");
    assert!(times[2] < times[0] && times[0] < times[1], "{times:?}");
    assert!(printed.contains("200 packets") && printed.contains("3 files kept"), "{printed}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);

    // By time, with any number of files.
    let base = folder.path().join("time.pcapng");
    let capture = Running::start(
        &host,
        &["-i", "lo", "--file-seconds", "1", "--keep-root"],
        Some(&base),
        "udp",
    );
    for _ in 0..3 {
        datagrams(&host, "127.0.0.1:7000", 5, 0);
        pause(1100);
    }
    let printed = capture.stop();
    let each = (1..=3).map(|number| read(&folder.path().join(format!("time-0000{number}.pcapng"))));
    let each: Vec<usize> = each.map(|(packets, _)| packets.len()).collect();
    assert_eq!(each, [5, 5, 5], "{printed}");
}

#[test]
fn drops_of_the_kernel_are_in_the_file() {
    let Some(_alone) = need(&["ip"]) else { return };
    let host = Host::new();
    // Nobody reads the pipe: it fills up, then the ring.
    let capture = Running::start(&host, &["-i", "lo", "--buffer", "512K"], None, "udp port 7000");
    datagrams(&host, "127.0.0.1:7000", 8000, 0);
    let (bytes, printed) = capture.stop_and_read();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("drops.pcapng");
    fs::write(&path, bytes).expect("to write");
    let (packets, file) = read(&path);
    let (received, dropped) =
        (file[0].received.expect("a count"), file[0].dropped.expect("a count"));
    // The queue of the loopback may drop some before they are captured.
    assert!((2000..=8000).contains(&received), "{received} received: {printed}");
    // How many are dropped depends on when the pipe is full; each packet is counted once.
    assert!(dropped > 0, "{printed}");
    assert_eq!(packets.len() as u64 + dropped, received, "{printed}");
    assert!(printed.contains("--buffer"), "{printed}");
}

#[test]
fn all_interfaces_and_several_interfaces() {
    let Some(_alone) = need(&["ip", "tshark"]) else { return };
    let (a, b) = Host::wired();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("any.pcapng");
    let capture = Running::start(&a, &["-i", "any"], Some(&path), "udp port 7000 and inbound");
    datagrams(&a, "127.0.0.1:7000", 7, 0);
    datagrams(&b, "198.18.0.1:7000", 5, 0);
    datagrams(&a, "198.18.0.2:7000", 3, 0);
    capture.stop();
    let (packets, file) = read(&path);
    assert_eq!((packets.len(), &file[0].name[..]), (12, "any"));
    // Packets that the loopback sends are not in the ring, only those it receives.
    assert_eq!((file[0].received, file[0].dropped), (Some(12), Some(0)));
    let fields = ["-T", "fields", "-e", "sll.ifindex", "-e", "sll.pkttype", "-e", "udp.dstport"];
    let lines = tshark(&path, &fields);
    assert_eq!(lines.lines().filter(|line| *line == "1\t0\t7000").count(), 7, "{lines}");

    let path = folder.path().join("both.pcapng");
    let device = a.device();
    let capture = Running::start(&a, &["-i", "lo", "-i", &device], Some(&path), "udp port 7000");
    datagrams(&a, "127.0.0.1:7000", 7, 0);
    datagrams(&b, "198.18.0.1:7000", 5, 0);
    capture.stop();
    let (packets, file) = read(&path);
    let of = |number| packets.iter().filter(|packet| packet.interface == number).count();
    assert_eq!((of(0), of(1), &file[1].name), (7, 5, &device));
}

#[test]
fn vlan_tags_that_the_kernel_removed_are_restored() {
    let Some(_alone) = need(&["ip", "python3", "tcpdump", "tshark"]) else { return };
    let (a, b) = Host::wired();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let device = b.device();
    let other = tcpdump(&b, &device, &path("theirs.pcap"), &["udp or vlan"]);
    let all = Running::start(&b, &["-i", &device], Some(&path("all.pcapng")), "udp or vlan");
    let seven =
        Running::start(&b, &["-i", &device], Some(&path("7.pcapng")), "vlan 7 and udp port 7000");
    let any = Running::start(&b, &["-i", "any"], Some(&path("any.pcapng")), "");
    let mut sender = a.command("python3 -c");
    run(sender.args([VLAN_SENDER, &a.device()]));
    pause(300);
    let printed = seven.stop();
    assert!(printed.contains("not in the kernel"), "{printed}");
    for capture in [all, any, other] {
        capture.stop();
    }
    let (mine, _) = read(&path("all.pcapng"));
    let (theirs, _) = read(&path("theirs.pcap"));
    let bytes = |packets: &[tools::Packet]| {
        packets.iter().map(|p| (p.bytes.clone(), p.length)).collect::<Vec<_>>()
    };
    assert_eq!(bytes(&mine), bytes(&theirs));
    let tags: Vec<&[u8]> = mine.iter().map(|packet| &packet.bytes[12..16]).collect();
    assert!(
        tags.contains(&&[0x81, 0, 0, 7][..]) && tags.contains(&&[0x81, 0, 0x20, 8][..]),
        "{tags:x?}"
    );
    assert_eq!(read(&path("7.pcapng")).0.len(), 2);
    let ids = tshark(
        &path("any.pcapng"),
        &["-Y", "vlan", "-T", "fields", "-e", "vlan.id", "-e", "udp.dstport"],
    );
    assert_eq!(ids.lines().filter(|line| *line == "7\t7000").count(), 2, "{ids}");
    assert_eq!(tshark(&path("any.pcapng"), &["-Y", "_ws.malformed"]), "");
}

#[test]
fn captures_end_by_count_time_reader_and_interface() {
    let Some(_alone) = need(&["ip"]) else { return };
    let host = Host::new();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some.pcapng");
    let capture = Running::start(&host, &["-i", "lo", "--count", "10"], Some(&path), "");
    datagrams(&host, "127.0.0.1:7000", 50, 0);
    assert_eq!(capture.wait().0, Some(0));
    assert_eq!(read(&path).0.len(), 10);

    let arguments = ["-i", "lo", "--for", "500ms", "--force"];
    let capture = Running::start(&host, &arguments, Some(&path), "udp");
    datagrams(&host, "127.0.0.1:7000", 5, 0);
    assert_eq!(capture.wait().0, Some(0));
    assert_eq!(read(&path).0.len(), 5);

    // A reader that closes the pipe has read enough.
    let mut capture = Running::start(&host, &["-i", "lo"], None, "");
    let mut some = [0; 100];
    capture.output().read_exact(&mut some).expect("the beginning of a capture");
    capture.close_output();
    datagrams(&host, "127.0.0.1:7000", 5, 0);
    let (code, printed) = capture.wait();
    assert_eq!(code, Some(0), "{printed}");

    // An interface is removed; the file with the packets before is complete.
    let (a, b) = Host::wired();
    let device = a.device();
    let capture = Running::start(&a, &["-i", &device, "--force"], Some(&path), "udp port 7000");
    datagrams(&b, "198.18.0.1:7000", 5, 0);
    pause(200);
    a.run(&format!("ip link del {device}"));
    let (code, printed) = capture.wait();
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains(&format!("{device} was removed")), "{printed}");
    assert_eq!(read(&path).0.len(), 5);
}

#[test]
fn an_interface_that_is_removed_after_it_went_down_ends_the_capture() {
    let Some(_alone) = need(&["ip"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some.pcapng");
    let (a, b) = Host::wired();
    let device = a.device();
    let mut capture = Running::start(&a, &["-i", &device], Some(&path), "udp port 7000");
    datagrams(&b, "198.18.0.1:7000", 5, 0);
    pause(200);
    // What the kernel does by itself when an interface is deleted, with time between both.
    a.run(&format!("ip link set {device} down"));
    capture.wait_for(&format!("{device} is down"));
    a.run(&format!("ip link del {device}"));
    let (code, printed) = capture.wait();
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains(&format!("{device} was removed")), "{printed}");
    assert_eq!(read(&path).0.len(), 5);
}

#[test]
fn root_is_dropped() {
    let Some(_alone) = need(&["ip"]) else { return };
    let host = Host::new();
    let folder = tempfile::tempdir().expect("a folder");
    let lines = |capture: &Running| {
        let status =
            fs::read_to_string(format!("/proc/{}/status", capture.id())).expect("a process");
        let line = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect(name);
            line.split_ascii_whitespace().skip(1).collect::<Vec<_>>().join(" ")
        };
        ["Uid:", "Gid:", "Groups:", "CapEff:", "CapPrm:", "NoNewPrivs:"].map(line)
    };
    let none = "0000000000000000";
    let path = folder.path().join("1.pcapng");
    let sudo = [("SUDO_UID", "54321"), ("SUDO_GID", "54322"), ("SUDO_USER", "ann")];
    let capture = Running::with(&host, &["-i", "lo"], Some(&path), "udp", &sudo);
    let four = |id: &str| [id; 4].join(" ");
    let expected = [&four("54321"), &four("54322"), "54322", none, none, "1"];
    assert_eq!(lines(&capture), expected.map(str::to_string));
    datagrams(&host, "127.0.0.1:7000", 5, 0);
    let printed = capture.stop();
    assert!(printed.contains("as ann (54321), no longer root"), "{printed}");
    let meta = fs::metadata(&path).expect("a file");
    assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o777), (54321, 54322, 0o600));
    assert_eq!(read(&path).0.len(), 5, "counters and packets can be read without root");

    let path = folder.path().join("2.pcapng");
    let capture = Running::start(&host, &["-i", "lo", "--keep-root"], Some(&path), "");
    assert_eq!(lines(&capture)[0], four("0"));
    assert!(!capture.stop().contains("no longer root"));

    // The user nobody cannot create files in this folder: an unlimited number is refused.
    let path = folder.path().join("3.pcapng");
    let (code, printed) =
        refused(&host, &["-i", "lo", "--file-size", "4K", "-w", &path.display().to_string()]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("nobody") && printed.contains("--keep-root"), "{printed}");
}

#[test]
fn impossible_captures_are_refused() {
    let Some(_alone) = need(&["ip", "setpriv", "unshare"]) else { return };
    let host = Host::new();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.pcapng").display().to_string();
    fs::write(folder.path().join("there"), "").expect("to write");
    let there = folder.path().join("there").display().to_string();
    for (arguments, code, expected) in [
        (&["-i", "eth7", "-w", &path][..], 2, "there are: lo, and any"),
        (&["-i", "lo/../x", "-w", &path], 2, "no such interface"),
        (
            &["-i", "an-interface-with-a-long-name", "-w", &path],
            2,
            "no interface may have such a name",
        ),
        (&["-i", "lo", "-i", "lo", "-w", &path], 2, "given twice"),
        (&["-i", "lo", "-w", &path, "tcp prot 80"], 2, "at «prot»"),
        (&["-i", "lo", "-w", &path, "tcp", "port", "99999"], 2, "99999"),
        (&["-i", "any", "-w", &path, "wlan type mgt"], 2, "802.11"),
        (&["-i", "lo", "-w", "/no/such/folder/x"], 2, "no such file or directory"),
        (&["-i", "lo", "-w", &there], 2, "--force"),
        (&["-i", "lo", "-w", &path, "--files", "3"], 2, "--file-size or --file-seconds"),
        (&["-i", "lo", "-w", "-", "--file-size", "1M"], 2, "one file"),
        (&["-i", "any", "-w", &path, "--promiscuous"], 2, "by name"),
        (&["-i", "lo", "-w", &path, "-s", "262145"], 2, "262144"),
        (
            &["-i", "lo", "-w", "/dev/full", "--for", "300ms"],
            3,
            "cannot write /dev/full: no space left",
        ),
    ] {
        let (found, printed) = refused(&host, arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {printed}");
        assert!(printed.contains(expected), "{arguments:?}: {printed}");
    }
    assert!(!folder.path().join("x.pcapng").exists(), "no file is left behind");

    let copy =
        std::path::Path::new("/tmp").join(format!("netwhy-test-capture-{}", std::process::id()));
    fs::copy(netwhy().get_program(), &copy).expect("a copy");
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
    let printed = output(nobody.args(["capture", "-i", "lo", "-w", "/tmp/x.pcapng"]));
    fs::remove_file(&copy).expect("to remove the copy");
    assert_eq!(printed.status.code(), Some(3));
    let printed = String::from_utf8_lossy(&printed.stderr).into_owned();
    assert!(printed.contains("CAP_NET_RAW") && printed.contains("sudo"), "{printed}");
}

#[test]
fn a_full_disk_leaves_a_complete_file() {
    let Some(_alone) = need(&["ip", "unshare", "mount"]) else { return };
    let host = Host::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (small, kept) = (folder.path().join("small"), folder.path().join("kept.pcapng"));
    fs::create_dir(&small).expect("a folder");
    // The mount is visible to this shell only, and ends with it.
    let line = "mount -t tmpfs -o size=64k none \"$1\" && { \"$2\" capture -i lo -w \"$1/x\"; \
                code=$?; cp \"$1/x\" \"$3\"; exit $code; }";
    let mut shell = host.command("unshare -m sh -c");
    shell.args([line, "sh"]).arg(&small).arg(netwhy().get_program()).arg(&kept);
    let mut child = shell.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a shell");
    let mut printed = String::new();
    let mut stderr = child.stderr.take().expect("standard error");
    let mut first = [0; 12];
    stderr.read_exact(&mut first).expect("standard error");
    assert_eq!(&first, b"capturing on");
    wait_until("it does not end", || {
        datagrams(&host, "127.0.0.1:7000", 20, 0);
        pause(100);
        child.try_wait().expect("a process").is_some()
    });
    stderr.read_to_string(&mut printed).expect("standard error");
    assert_eq!(child.wait().expect("a process").code(), Some(3), "{printed}");
    assert!(printed.contains("no space left on device"), "{printed}");
    let (packets, _) = read(&kept);
    assert!(packets.len() > 20, "{} packets", packets.len());
}
