//! Tests of the capture formats: files made here, whole, truncated, in both byte orders and damaged.

use proptest::prelude::*;

use super::*;

/// Time, interface, bytes and length of a packet.
type Read = (Option<i128>, usize, Vec<u8>, u32);

/// All packets of a file, passed in pieces, and its damage.
fn read(file: &[u8], piece: usize) -> (Vec<Read>, Option<Damage>) {
    let mut reader = Reader::new();
    let mut packets = Vec::new();
    let (mut at, mut end) = (0, piece.min(file.len()));
    loop {
        match reader.step(&file[at..end]) {
            (taken, Step::Packet(packet)) => {
                let Packet { time_ns, interface, bytes, length, .. } = packet;
                packets.push((time_ns, interface, bytes.to_vec(), length));
                at += taken;
            }
            (taken, Step::Skipped | Step::Comment(_)) => at += taken,
            (taken, Step::NeedBytes(wanted)) => {
                assert_eq!(taken, 0);
                assert!(wanted > end - at, "{wanted} of {}", end - at);
                if end == file.len() {
                    return (packets, None);
                }
                end = (end + piece).min(file.len());
            }
            (_, Step::Damaged(broken)) => return (packets, Some(broken)),
        }
    }
}

/// A pcap file of two packets.
fn pcap(magic: u32, big: bool, modified: bool) -> Vec<u8> {
    let u32s = |file: &mut Vec<u8>, values: &[u32]| {
        for value in values {
            file.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() });
        }
    };
    let mut file = Vec::new();
    u32s(&mut file, &[magic]);
    file.extend(if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
    u32s(&mut file, &[0, 0, 65535, 1]);
    for (time, bytes) in [(10, &b"first"[..]), (11, &b"second"[..])] {
        u32s(&mut file, &[time, 500, bytes.len() as u32, 1500]);
        if modified {
            file.extend([7; 8]);
        }
        file.extend(bytes);
    }
    file
}

#[test]
fn pcap_in_all_its_forms() {
    for (magic, nanoseconds, modified) in
        [(0xa1b2c3d4, 500_000, false), (0xa1b23c4d, 500, false), (0xa1b2cd34, 500_000, true)]
    {
        for big in [false, true] {
            for piece in [1, 7, 1000] {
                let (packets, end) = read(&pcap(magic, big, modified), piece);
                assert_eq!(end, None);
                let first = (Some(10_000_000_000 + nanoseconds), 0, b"first".to_vec(), 1500);
                assert_eq!(packets[0], first, "{magic:x} {big}");
                assert_eq!(packets[1].2, b"second");
                assert_eq!(packets.len(), 2);
            }
        }
    }
}

#[test]
fn a_truncated_file_gives_its_whole_packets() {
    let file = pcap(0xa1b2c3d4, false, false);
    let (packets, end) = read(&file[..file.len() - 1], 1000);
    assert_eq!((packets.len(), end), (1, None));
}

#[test]
fn foreign_and_damaged_files_are_reported() {
    let (_, end) = read(b"GET / HTTP/1.1\r\n", 1000);
    assert_eq!(
        end.unwrap().to_string(),
        "neither pcap nor pcapng: it begins with 47 45 54 20, at byte 0"
    );
    let mut file = pcap(0xa1b2c3d4, false, false);
    file[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let (packets, end) = read(&file, 1000);
    assert!(packets.is_empty());
    assert_eq!(end.unwrap().offset, 24);
}

/// A block of pcapng.
fn block(kind: u32, body: &[u8], big: bool) -> Vec<u8> {
    let body_len = body.len().next_multiple_of(4);
    let number = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut out = Vec::new();
    out.extend(number(kind));
    out.extend(number(12 + body_len as u32));
    out.extend(body);
    out.resize(8 + body_len, 0);
    out.extend(number(12 + body_len as u32));
    out
}

fn numbers(values: &[u32], big: bool) -> Vec<u8> {
    values.iter().flat_map(|n| if big { n.to_be_bytes() } else { n.to_le_bytes() }).collect()
}

fn section(big: bool) -> Vec<u8> {
    let mut body = numbers(&[0x1a2b3c4d], big);
    body.extend(if big { [0, 1, 0, 0] } else { [1, 0, 0, 0] });
    body.extend([0xff; 8]);
    block(0x0a0d0d0a, &body, big)
}

fn interface(link: u16, options: &[(u16, &[u8])], big: bool) -> Vec<u8> {
    let short = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut body = Vec::new();
    body.extend(short(link));
    body.extend([0, 0]);
    body.extend(numbers(&[96], big));
    for (code, value) in options {
        body.extend(short(*code));
        body.extend(short(value.len() as u16));
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    block(1, &body, big)
}

fn enhanced(interface: u32, ticks: u64, bytes: &[u8], big: bool) -> Vec<u8> {
    let head = [interface, (ticks >> 32) as u32, ticks as u32, bytes.len() as u32, 2000];
    let mut body = numbers(&head, big);
    body.extend(bytes);
    block(6, &body, big)
}

#[test]
fn pcapng_with_sections_interfaces_and_resolutions() {
    for big in [false, true] {
        let offset = if big { 100i64.to_be_bytes() } else { 100i64.to_le_bytes() };
        let mut file = section(big);
        file.extend(interface(1, &[(2, b"eth0"), (9, &[9])], big));
        file.extend(interface(101, &[(9, &[0x80 | 10]), (14, &offset)], big));
        file.extend(enhanced(0, 5, b"nanoseconds", big));
        file.extend(enhanced(1, 2048, b"powers of two", big));
        file.extend(block(0xbad, b"a custom block", big));
        // A second section, in the other byte order, has interfaces of its own.
        file.extend(section(!big));
        file.extend(interface(113, &[], !big));
        file.extend(enhanced(0, 7, b"microseconds", !big));
        let mut simple = numbers(&[300], !big);
        simple.extend([9; 96]);
        file.extend(block(3, &simple, !big));
        for piece in [1, 13, 4096] {
            let (packets, end) = read(&file, piece);
            assert_eq!(end, None);
            let times: Vec<_> = packets.iter().map(|p| (p.0, p.1)).collect();
            let expected = [(Some(5), 0), (Some(102_000_000_000), 1), (Some(7000), 2), (None, 2)];
            assert_eq!(times, expected);
            assert_eq!(packets[3].2.len(), 96, "cut to the snap length");
            assert_eq!(packets[3].3, 300);
        }
        let mut reader = Reader::new();
        let mut rest = &file[..];
        while let (taken @ 1.., _) | (taken, Step::Skipped) = reader.step(rest) {
            rest = &rest[taken..];
        }
        let interfaces = reader.interfaces();
        assert_eq!(interfaces[0].name, "eth0");
        assert_eq!((interfaces[1].section, interfaces[2].section), (0, 1));
        assert_eq!(interfaces[2].link, LinkType::LINUX_SLL);
    }
}

#[test]
fn drops_are_read() {
    let mut file = section(false);
    file.extend(interface(1, &[], false));
    let mut body = numbers(&[0, 0, 0], false);
    for (code, count) in [(4u16, 1000u64), (5, 7), (7, 3)] {
        body.extend(code.to_le_bytes());
        body.extend(8u16.to_le_bytes());
        body.extend(count.to_le_bytes());
    }
    file.extend(block(5, &body, false));
    let mut reader = Reader::new();
    let mut rest = &file[..];
    while let (taken @ 1.., _) | (taken, Step::Skipped) = reader.step(rest) {
        rest = &rest[taken..];
    }
    assert_eq!(reader.interfaces()[0].received, Some(1000));
    assert_eq!(reader.interfaces()[0].dropped, Some(10));
}

/// A packet of this many bytes, of the file with this number of bytes before it, as pcap or pcapng.
fn long(captured: usize, ng: bool) -> Vec<u8> {
    if ng {
        let bytes = vec![7; captured];
        let mut file = [section(false), interface(1, &[], false)].concat();
        file.extend(enhanced(0, 5, &bytes, false));
        file.extend(block(10, &bytes, false));
        file.extend(enhanced(0, 6, b"next", false));
        return file;
    }
    let mut file = pcap(0xa1b2c3d4, false, false);
    file.truncate(24);
    for (length, byte) in [(captured, 7), (4, b'n')] {
        let length = length as u32;
        for number in [1, 0, length, length] {
            file.extend(number.to_le_bytes());
        }
        file.resize(file.len() + length as usize, byte);
    }
    file
}

#[test]
fn a_long_packet_is_read_to_the_snap_length_and_never_asked_for() {
    for ng in [false, true] {
        for captured in [256 << 10, (256 << 10) + 1, (320 << 10) + 5, 5 << 20] {
            let file = long(captured, ng);
            for piece in [60_000, file.len()] {
                let mut reader = Reader::new();
                let (mut at, mut end, mut lengths) = (0, piece, Vec::new());
                loop {
                    let (taken, step) = reader.step(&file[at..end]);
                    at += taken;
                    match step {
                        Step::Packet(packet) => lengths.push((packet.bytes.len(), packet.length)),
                        Step::NeedBytes(needed) if at + needed > file.len() => break,
                        Step::NeedBytes(needed) => {
                            assert!(needed <= MAX_RECORD_BYTES, "{needed}");
                            end = (at + needed).max(end + piece).min(file.len());
                        }
                        step => assert_eq!(step, Step::Skipped),
                    }
                }
                let (read, next) = (captured.min(256 << 10), if ng { 2000 } else { 4 });
                let length = captured.max(next as usize) as u32;
                assert_eq!(lengths, [(read, length), (4, next)], "{ng} {captured} {piece}");
                assert_eq!(reader.warnings().len(), usize::from(captured > read));
                assert_eq!((at, reader.bytes_of_skipped_record()), (file.len(), 0));
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..400), piece in 1usize..50) {
        read(&bytes, piece);
    }

    #[test]
    fn damaged_files_are_read_to_an_end(at in 0usize..400, value: u8, cut in 0usize..400, ng: bool) {
        let mut file = if ng {
            let mut file = section(false);
            file.extend(interface(1, &[(2, b"eth0"), (9, &[9])], false));
            file.extend(enhanced(0, 5, b"some bytes of a packet", false));
            file.extend(enhanced(0, 6, b"and of another", false));
            file
        } else {
            pcap(0xa1b2c3d4, true, false)
        };
        let at = at % file.len();
        file[at] = value;
        file.truncate(file.len() - cut % file.len());
        let (packets, _) = read(&file, 64);
        prop_assert!(packets.len() <= 2 + file.len() / 16);
    }
}

/// A block that comes in pieces is parsed several times, and gives one warning.
#[test]
fn pieces_give_the_same_warnings() {
    let mut file = Vec::new();
    write::section(&mut file, &write::Section::default());
    // A block of 13 bytes, rounded up to 16, whose second length is another one.
    file.extend([99, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let warnings = |piece: usize| {
        let (mut reader, mut at, mut end) = (Reader::new(), 0, 0);
        while end < file.len() {
            end = (end + piece).min(file.len());
            while let (taken, Step::Skipped) = reader.step(&file[at..end]) {
                at += taken;
            }
        }
        reader.warnings().to_vec()
    };
    assert_eq!(warnings(1000).len(), 2);
    assert_eq!(warnings(1), warnings(1000));
}

#[test]
fn long_texts_of_interfaces_are_cut() {
    let long = "ä".repeat(30_000);
    let mut file = Vec::new();
    write::section(&mut file, &write::Section::default());
    let described = write::Description {
        name: &long,
        description: &long,
        filter: &long,
        ..write::Description::default()
    };
    write::interface(&mut file, &described);
    let (mut reader, mut at) = (Reader::new(), 0);
    while let (taken, Step::Skipped) = reader.step(&file[at..]) {
        at += taken;
    }
    let [read] = reader.interfaces() else { panic!("an interface") };
    assert_eq!((read.name.len(), read.description.len(), read.filter.len()), (1024, 1024, 8192));
    assert!(long.starts_with(&read.filter));
}
