//! Fuzz targets of captures: files, packets, and the streams in them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Cursor;
use std::ops::ControlFlow;

use model::Evidence;
use streams::captured_stream::captured_stream;
use streams::{Collected, Collector, Stream, Table};
use sys::capture::Capture;
use wire::capture::{Damage, LinkType, MAX_RECORD_BYTES, Packet, Reader, Step, write};
use wire::packet::tcp::{Options, TcpOption};
use wire::packet::{Decoded, Tcp, decode, plain_segment};
use wire::payload::{dns, http, tls};

/// What a capture file has.
#[derive(Debug, PartialEq)]
struct Read<'a> {
    packets: Vec<Packet<'a>>,
    comments: usize,
    broken: Option<Damage>,
    warnings: Vec<Damage>,
    interfaces: Vec<wire::capture::Interface>,
    offset: u64,
}

/// Reads a file; in pieces: with no more bytes than the reader asked for.
fn read(bytes: &[u8], in_pieces: bool) -> Read<'_> {
    let mut reader = Reader::new();
    let (mut packets, mut comments, mut broken) = (Vec::new(), 0, None);
    let (mut at, mut steps) = (0, 0);
    let mut end = if in_pieces { 0 } else { bytes.len() };
    loop {
        let rest = &bytes[at..end];
        let (taken, step) = reader.step(rest);
        assert!(taken <= rest.len());
        at += taken;
        assert_eq!(reader.offset(), at as u64);
        steps += 1;
        // The shortest block has 12 bytes; the beginning of the file takes a step of its own.
        assert!(steps <= 2 * (bytes.len() / 12 + 2), "the reader makes no progress");
        match step {
            Step::Packet(packet) => {
                assert!(packet.bytes.len() < taken && packet.length as usize >= packet.bytes.len());
                assert_eq!(reader.interfaces()[packet.interface].link, packet.link);
                packets.push(packet);
            }
            Step::Skipped => assert!(taken > 0 || at == 0),
            Step::Comment(_) => comments += 1,
            Step::NeedBytes(wanted) => {
                assert!(taken == 0 && wanted > rest.len() && wanted <= MAX_RECORD_BYTES);
                if at + wanted > bytes.len() {
                    break;
                }
                assert!(in_pieces, "the reader asks for more than it needs");
                end = at + wanted;
            }
            Step::Damaged(damage) => {
                assert_eq!((taken, damage.offset), (0, at as u64));
                broken = Some(damage);
                break;
            }
        }
    }
    let (warnings, interfaces) = (reader.warnings().to_vec(), reader.interfaces().to_vec());
    assert!(warnings.len() <= 32 && interfaces.len() <= 4096);
    Read { packets, comments, broken, warnings, interfaces, offset: reader.offset() }
}

pub(super) fn capture(bytes: &[u8]) {
    let whole = read(bytes, false);
    assert_eq!(read(bytes, true), whole, "pieces of any size give the same result");
    // Everything that was read can be written, and is read again unchanged.
    let mut file = Vec::new();
    write::section(&mut file, &write::Section::default());
    for interface in &whole.interfaces {
        write::interface(&mut file, &write::Description::from(interface));
    }
    let timed = |packet: &&Packet<'_>| {
        packet.time_ns.is_some_and(|ns| (0..=i128::from(u64::MAX)).contains(&ns))
    };
    for packet in whole.packets.iter().filter(timed) {
        let record = write::Record {
            interface: packet.interface as u32,
            time_ns: packet.time_ns.unwrap_or_default(),
            bytes: packet.bytes,
            length: packet.length,
            drops: packet.drops,
            ..write::Record::default()
        };
        write::packet(&mut file, &record);
    }
    let again = read(&file, false);
    assert_eq!((&again.broken, &again.warnings[..]), (&None, &[][..]));
    assert!(again.packets.iter().eq(whole.packets.iter().filter(timed)));
    for (written, read) in again.interfaces.iter().zip(&whole.interfaces) {
        let (written, read) = (write::Description::from(written), write::Description::from(read));
        assert_eq!(written, read);
        assert!(read.name.len() <= 1024 && read.description.len() <= 1024);
        assert!(read.filter.len() <= 8192);
    }
}

/// A file that may be compressed: its bytes alone decide what is in it.
pub(super) fn file(bytes: &[u8]) {
    let of = |bytes: &[u8]| {
        let Ok(mut capture) = Capture::from_reader("a file", Cursor::new(bytes.to_vec())) else {
            return None;
        };
        let mut hash = DefaultHasher::new();
        let mut packets = 0u64;
        let end = capture.for_each_packet(|packet| {
            packets += 1;
            (packet.bytes, packet.time_ns, packet.interface, packet.length).hash(&mut hash);
            // A small compressed file may have millions of packets.
            if packets < 10_000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        Some((packets, hash.finish(), end.ok()))
    };
    let found = of(bytes);
    assert_eq!(of(bytes), found, "the same result twice");
    let plain = !bytes.starts_with(&[0x1f, 0x8b]) && !bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    if let Some((packets, hash, _)) = found.filter(|_| plain) {
        let whole = read(bytes, false);
        let mut by_reader = DefaultHasher::new();
        for packet in whole.packets.iter().take(10_000) {
            (packet.bytes, packet.time_ns, packet.interface, packet.length).hash(&mut by_reader);
        }
        assert_eq!((packets, hash), (whole.packets.len().min(10_000) as u64, by_reader.finish()));
    }
}

/// Two bytes of link type, two of the length that was not captured, one of where to truncate, and the
/// packet.
pub(super) fn packet(bytes: &[u8]) {
    let [a, b, c, d, cut, bytes @ ..] = bytes else { return };
    let link = LinkType(u16::from_le_bytes([*a, *b]));
    let length = bytes.len() as u32 + u32::from(u16::from_le_bytes([*c, *d]));
    let found = decode(link, bytes, length);
    if let Some((ip, tcp)) = plain_segment(link, bytes, length) {
        // The fast path gives the same result.
        let Ok(found) = &found else { panic!("plain, but not decoded") };
        assert_eq!((found.ip, Tcp::of(&found.ip)), (ip, Ok(tcp)));
    }
    let Ok(found) = found else { return };
    sound(&found, bytes);
    // Of a truncated packet, less is known, but nothing else.
    let cut = &bytes[..bytes.len() * usize::from(*cut) / 256];
    let Ok(less) = decode(link, cut, length) else { return };
    sound(&less, cut);
    if less.encapsulation.tunnels != found.encapsulation.tunnels {
        // Of a tunnel whose header is truncated, the outer packet is decoded.
        assert!(less.encapsulation.tunnels < found.encapsulation.tunnels);
        return;
    }
    assert_eq!(
        (less.ip.source, less.ip.destination, less.ip.protocol, less.ip.length, less.ip.id),
        (found.ip.source, found.ip.destination, found.ip.protocol, found.ip.length, found.ip.id)
    );
    assert!(less.ip.payload.len() <= found.ip.payload.len());
    if let (Ok(less), Ok(tcp)) = (Tcp::of(&less.ip), Tcp::of(&found.ip)) {
        assert_eq!(
            (less.source, less.sequence, less.length),
            (tcp.source, tcp.sequence, tcp.length)
        );
        assert!(tcp.options().zip(less.options()).all(|(all, some)| all == some));
        assert!(less.options().count() <= tcp.options().count());
    }
}

fn sound(found: &Decoded<'_>, bytes: &[u8]) {
    let (ip, path) = (&found.ip, &found.encapsulation);
    let (payload, all) = (ip.payload.as_ptr_range(), bytes.as_ptr_range());
    assert!(ip.payload.is_empty() || (payload.start >= all.start && payload.end <= all.end));
    assert!(ip.payload.len() as u64 <= u64::from(ip.length));
    assert_eq!(ip.source.is_ipv4(), ip.destination.is_ipv4());
    assert!(ip.ecn < 4 && path.vlan.is_none_or(|vlan| vlan < 4096) && path.tunnels <= 16);
    assert!(ip.fragment.is_none_or(|part| part.more || part.offset > 0));
    let Ok(tcp) = Tcp::of(ip) else { return };
    assert!(tcp.payload.len() as u64 <= u64::from(tcp.length) && tcp.length < ip.length);
    let options: Options<'_> = tcp.options();
    let stamps = options.clone().find_map(|option| match option {
        TcpOption::TimeStamps(value, echo) => Some((value, echo)),
        _ => None,
    });
    assert_eq!(tcp.time_stamps(), stamps, "the fast path gives the same result");
    assert!(!tcp.has_only_time_stamps() || stamps.is_some());
    assert!(options.clone().count() <= 20);
    for option in options {
        match option {
            TcpOption::WindowScale(shift) => assert!(shift <= 14),
            TcpOption::Sack(sack) => assert!(sack.blocks().count() <= 4),
            _ => {}
        }
    }
}

/// What must hold for any stream, as in `crates/streams/tests/hostile.rs`. Returns its packets.
fn stream(stream: &Stream) -> u64 {
    let mut stream = stream.clone();
    stream.finish();
    if let Some(exchange) = stream.current_exchange() {
        let _ = (exchange.response_wait(), exchange.total());
    }
    let length = stream.last - stream.first.min(stream.last);
    assert_eq!(stream.times().total(), length, "the time breakdown adds up");
    let captured = captured_stream(&stream, stream.first);
    assert!(captured.lost_us() <= captured.span_us, "more time was lost than there was");
    for direction in captured.directions() {
        assert!(direction.policed.len() <= 64);
    }
    for end in stream.ends.iter() {
        assert!(end.times.values().all(|time| time >= 0));
        let counts = &end.sent.counts;
        assert!(counts.new_bytes <= counts.bytes, "{counts:?}");
        end.sent.round_trip.timeout();
    }
    stream.captured_packets()
}

/// What must hold for any capture.
fn collected(of: &Collected, taken: u64, segments: u64) {
    let packets = &of.packets;
    assert_eq!((packets.packets, packets.segments), (taken, segments));
    assert!(packets.streams <= segments && packets.duplicate_packets <= segments);
    assert!(of.undecodable + of.unsupported_links + segments <= taken);
    assert!(packets.services.len() <= 256 && packets.worst.len() <= 1024);
    assert_eq!(of.requested.is_some(), packets.streams > 0, "the first stream was requested");
    assert!(packets.worst.len() as u64 == packets.streams.min(1024));
    for stream in &packets.worst {
        let directions = stream.directions();
        let shares = directions.iter().flat_map(|direction| &direction.time_breakdown);
        let total: u64 = shares.map(|share| share.time_us).sum();
        // Each category is rounded down.
        let adds_up = total <= stream.span_us && stream.span_us - total <= 23;
        assert!(adds_up, "the time breakdown adds up");
        assert!(stream.number < packets.streams && stream.lost_us() <= stream.span_us);
    }
    let in_services: u64 = packets.services.iter().map(|service| service.streams).sum();
    assert!(in_services <= packets.streams);
}

/// Takes all packets into a [`Table`], whose streams are checked, and into a [`Collector`].
fn all<'a>(packets: impl Iterator<Item = Packet<'a>>) -> Collected {
    let (mut table, mut collector) = (Table::new(), Collector::new(Some(0)));
    let (mut taken, mut segments, mut replaced, mut counted, mut last) = (0, 0, 0, 0, 0);
    for packet in packets {
        taken += 1;
        let segment = collector.take(&packet);
        let Ok(decoded) = decode(packet.link, packet.bytes, packet.length) else { continue };
        let Ok(tcp) = Tcp::of(&decoded.ip) else { continue };
        assert!(segment.is_some());
        segments += 1;
        last = packet.time_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(last);
        table.take(&decoded, &tcp, last, &mut |ended| {
            replaced += 1;
            counted += stream(ended);
        });
    }
    counted += table.streams().iter().map(stream).sum::<u64>();
    assert_eq!(counted, segments, "every segment belongs to a stream");
    assert_eq!(table.count(), replaced + table.streams().len() as u64);
    let all = collector.finish(vec!["a file".to_string()], 0);
    collected(&all, taken, segments);
    all
}

pub(super) fn collector(bytes: &[u8]) {
    let read = read(bytes, false);
    let packets = Some(all(read.packets.into_iter()).packets);
    if !bytes.len().is_multiple_of(8) {
        // A report takes ten times as long as all of the above.
        return;
    }
    let schema_version = Evidence::SCHEMA_VERSION;
    super::evidence::reported(&Evidence { schema_version, packets, ..Evidence::default() });
}

/// Bytes of a segment in the short form of [`segments`].
const SEGMENT_BYTES: usize = 12;

/// Segments in a short form, near each other as in real connections: four bits for the end, its
/// connection and what is odd; steps of time, sequence and acknowledgement; flags; window; length.
pub(super) fn segments(bytes: &[u8]) {
    let mut ends = [[10_000u32, 50_000]; 4];
    let mut at = 1_700_000_000_000_000_000i128;
    let frames: Vec<(i128, Vec<u8>, u32)> = bytes
        .as_chunks::<SEGMENT_BYTES>()
        .0
        .iter()
        .map(|[who, later, unit, step, step2, ack, ack2, flags, window, data, data2, option]| {
            let (connection, side) = (usize::from(who >> 1 & 3), usize::from(who & 1));
            let wide = |low: &u8, high: &u8| i32::from(i16::from_le_bytes([*low, *high]));
            // From a microsecond to days; back in time if the highest bit is set.
            let time = i128::from(*later) << (unit & 0x3f).min(44);
            at += if unit & 0x80 == 0 { time } else { -time };
            let ours = &mut ends[connection];
            let sequence = ours[side].wrapping_add_signed(wide(step, step2));
            let length = u16::from_le_bytes([*data, *data2]) % 9000;
            let acknowledgement = ours[1 - side].wrapping_add_signed(wide(ack, ack2));
            if who & 8 == 0 {
                let ends_it = u32::from(flags & 3 != 0);
                ours[side] = sequence.wrapping_add(u32::from(length) + ends_it);
            }
            let ports = [40_000 + connection as u16, 80];
            let (source, destination) = (side as u8 + 1, 2 - side as u8);
            let options: &[u8] = match option & 7 {
                1 => &[2, 4, 5, 180, 3, 3, option >> 4, 0],
                2 => &[1, 1, 8, 10, 0, *later, 0, *option, 0, *ack, 0, *data],
                3 => &[1, 1, 5, 10, 0, 0, 39, *step, 0, 0, 40, *ack],
                4 => &[4, 2, 1, 1],
                _ => &[],
            };
            let head = 20 + options.len() as u16;
            let mut frame = vec![0x45, option >> 6];
            frame.extend((20 + head + length).to_be_bytes());
            frame.extend([0, *option, 0x40, 0, 64, 6, 0, 0]);
            frame.extend([198, 18, 0, source, 198, 18, 0, destination]);
            frame.extend(ports[side].to_be_bytes());
            frame.extend(ports[1 - side].to_be_bytes());
            frame.extend(sequence.to_be_bytes());
            frame.extend(acknowledgement.to_be_bytes());
            frame.extend([(head * 4) as u8, *flags]);
            frame.extend([*window, *window, 0, 0, 0, 0]);
            frame.extend(options);
            let whole = frame.len() as u32 + u32::from(length);
            (at, frame, whole)
        })
        .collect();
    all(frames.iter().map(|(at, frame, length)| Packet {
        time_ns: Some(*at),
        interface: 0,
        link: LinkType::RAW,
        bytes: frame,
        length: *length,
        drops: None,
    }));
}

/// Payload that is parsed: HTTP, DNS, TLS.
pub(super) fn payload(bytes: &[u8]) {
    if let Some(request) = http::request(bytes) {
        assert!(!request.method.is_empty() && !request.target.is_empty());
        let line = [request.method, request.target].join(" ");
        assert!(bytes.starts_with(line.as_bytes()), "{line}");
        assert!(line.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
    }
    if let Some(status) = http::status(bytes) {
        assert!((100..600).contains(&status) && bytes.starts_with(b"HTTP/1."));
    }
    if let Some(message) = dns::message(bytes) {
        let text = message.text();
        assert!(message.name.ends_with(&[0]) && message.name.len() <= 255);
        assert!(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
    }
    let mut rest = bytes;
    while let Some((message, next)) = dns::tcp_message(rest) {
        assert!(message.name.ends_with(&[0]) && next.len() < rest.len());
        rest = next;
    }
    if let Some(hello) = tls::client_hello(bytes) {
        assert!(tls::record(bytes).is_some());
        let name = hello.server_name.unwrap_or("none");
        assert!((1..256).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic()));
        // A truncated one has the same name, or none.
        let half = tls::client_hello(&bytes[..bytes.len() / 2]);
        let half = half.and_then(|hello| hello.server_name);
        assert!(half.is_none() || half == hello.server_name);
    }
}
