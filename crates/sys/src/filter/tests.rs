//! Tests of the filters: what they match, which programs the kernel gets, which errors are reported.

use proptest::prelude::*;

use super::*;

const SNAP: u32 = 262_144;

fn ethernet(text: &str) -> Result<Filter, FilterError> {
    Filter::compile(text, LinkType::ETHERNET, SNAP)
}

/// A TCP segment to port 80 in IPv4 in Ethernet; with a VLAN tag or without.
fn segment(vlan: Option<u16>) -> Vec<u8> {
    let mut frame = vec![2; 12];
    if let Some(vlan) = vlan {
        frame.extend([0x81, 0]);
        frame.extend(vlan.to_be_bytes());
    }
    frame.extend([8, 0]);
    frame.extend([0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    frame.extend([0x13, 0x88, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
    frame
}

fn matches(text: &str, packet: &[u8]) -> bool {
    ethernet(text).expect(text).matches(packet, packet.len() as u32)
}

#[test]
fn the_language_is_that_of_tcpdump() {
    let packet = segment(None);
    for text in [
        "",
        "tcp port 80",
        "tcp dst port http and src host 198.18.0.1",
        "net 198.18.0.0/15 and not udp",
        "tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn",
        "ip[2:2] = 40 && len <= 54",
        "ether host 02:02:02:02:02:02",
        "portrange 79-81 or icmp6",
    ] {
        assert!(matches(text, &packet), "{text}");
        assert_eq!(
            ethernet(text).unwrap().kernel_program(),
            Some(&ethernet(text).unwrap().program[..])
        );
    }
    for text in ["udp", "tcp port 81", "ip6", "greater 55", "vlan", "host 198.18.0.3"] {
        assert!(!matches(text, &packet), "{text}");
    }
    assert!(!matches("tcp port 80", &packet[..30]), "bytes that were not captured do not match");
}

#[test]
fn vlan_filters_run_on_packets_as_files_have_them() {
    let tagged = segment(Some(7));
    for (text, is) in [
        ("vlan", true),
        ("vlan 7 and tcp port 80", true),
        ("(vlan 8)", false),
        ("tcp port 80", false),
        ("tcp port 80 or (vlan and tcp port 80)", true),
    ] {
        assert_eq!(matches(text, &tagged), is, "{text}");
        assert_eq!(
            ethernet(text).unwrap().kernel_program().is_none(),
            text.contains("vlan"),
            "{text}"
        );
    }
    let refused = ethernet("vlan and outbound").unwrap_err();
    assert!(refused.to_string().contains("cannot be combined with vlan"), "{refused}");
    assert!(ethernet("outbound").unwrap().kernel_program().is_some());
    assert!(!names_vlan("host vlan.example and not host my-vlan"));
}

#[test]
fn fields_of_cooked_headers_are_read_from_ancillary_data() {
    let cooked = |text| Filter::compile(text, LinkType::LINUX_SLL2, SNAP).unwrap();
    let filter = cooked("ip and tcp port 80");
    let kernel = filter.kernel_program().expect("a program for the kernel");
    assert_eq!(kernel.len(), filter.program.len());
    assert_eq!(kernel[0].operand, ANCILLARY_OFFSET, "the protocol");
    assert!(kernel.iter().any(|one| one.code == 0x30 && one.operand == 9), "{kernel:?}");
    assert!(cooked("outbound").kernel_program().is_some());
    assert!(cooked("link[11] = 6").kernel_program().is_none(), "the kernel does not have it");
    let mut packet = vec![8, 0, 0, 0, 0, 0, 0, 1, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0];
    packet.extend(&segment(None)[14..]);
    assert!(filter.matches(&packet, packet.len() as u32));
    assert!(cooked("link[11] = 6").matches(&packet, packet.len() as u32));
}

#[test]
fn packets_without_a_link_header() {
    let filter = Filter::compile("tcp port 80", LinkType::RAW, 96).unwrap();
    assert!(filter.matches(&segment(None)[14..], 40));
    let returned: Vec<_> = filter.program.iter().filter(|one| one.code == 6).collect();
    assert_eq!(returned[0].operand, 96, "the snap length");
}

#[test]
fn syntax_errors_have_a_reason_and_a_word() {
    for (text, at) in [
        ("tcp prot 80", Some("prot")),
        ("tcp port 80 andd udp", Some("andd")),
        ("(tcp port 80", None),
        ("tcp port 80)", Some(")")),
        ("tcp and and udp", Some("and")),
        ("tcp[13 & 2 != 0", Some("!=")),
        ("tcp port", None),
    ] {
        let refused = ethernet(text).unwrap_err();
        assert_eq!(refused.word.as_deref(), at, "{refused}");
        assert!(refused.to_string().contains(text), "{refused}");
    }
    let refused = ethernet("tcp port 99999").unwrap_err();
    assert!(refused.reason.contains("99999"), "{refused}");
    assert!(ethernet("tcp\0udp").is_err());
    for deep in ["(", "not ", "tcp[", "-"] {
        for length in [MAX_FILTER_BYTES / deep.len(), MAX_FILTER_BYTES / deep.len() + 1] {
            assert!(ethernet(&deep.repeat(length)).is_err(), "{deep} {length} times");
        }
    }
}

#[test]
fn long_filters_compile_within_seconds() {
    let addresses: Vec<String> =
        (0..400).map(|number| format!("host 10.{}.{}.1", number / 250, number % 250)).collect();
    let long = addresses.join(" or ");
    let begun = std::time::Instant::now();
    let filter = ethernet(&long).expect("a filter");
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    assert!(filter.kernel_program().is_none(), "longer than a kernel accepts");
    let mut packet = segment(None);
    assert!(!filter.matches(&packet, 54));
    packet[26..30].copy_from_slice(&[10, 1, 149, 1]);
    assert!(filter.matches(&packet, 54));
}

proptest! {
    #[test]
    // Without letters: a resolver would look up names of hosts.
    fn any_signs_are_compiled_or_refused(text in "[0-9 ()\\[\\]&|!<>=:/.+*-]{0,60}") {
        let _ = ethernet(&text);
    }

    #[test]
    fn any_words_are_compiled_or_refused(words in proptest::collection::vec(
        prop_oneof!["tcp", "udp", "port", "host", "not", "and", "or", "\\(", "\\)", "vlan", "80",
                    "1\\.2\\.3\\.4", "ip6", "\\[", "\\]", "=", "mpls", "len", "greater", "net"], 0..20,
    ), packet in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(filter) = ethernet(&words.join(" ")) {
            filter.matches(&packet, packet.len() as u32);
        }
    }

    #[test]
    fn any_packet_is_matched_or_not(packet in proptest::collection::vec(any::<u8>(), 0..80), length: u32) {
        for text in ["tcp port 80", "ip6 or vlan 3", "tcp[tcp[12]:4] = 5", "ip[0:4] > 7 or icmp"] {
            ethernet(text).unwrap().matches(&packet, length);
        }
    }
}
