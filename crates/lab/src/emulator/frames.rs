//! Frames for the tests of the emulator: well-formed ones and arbitrary bytes.

use proptest::prelude::*;

use super::packet::checksum;

const ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// UDP from 198.18.0.1 to 198.18.0.2 with DF set; `bytes` is the length of the IP packet.
pub(super) fn udp_v4(bytes: usize) -> Vec<u8> {
    let mut frame = ETHERNET.to_vec();
    frame.extend_from_slice(&[8, 0]);
    frame.extend_from_slice(&ip_v4(bytes));
    frame
}

/// The same in a VLAN.
pub(super) fn tagged(bytes: usize) -> Vec<u8> {
    let mut frame = ETHERNET.to_vec();
    frame.extend_from_slice(&[0x81, 0, 0, 7, 8, 0]);
    frame.extend_from_slice(&ip_v4(bytes));
    frame
}

fn ip_v4(bytes: usize) -> Vec<u8> {
    let mut ip = vec![0x45, 0];
    ip.extend_from_slice(&(bytes as u16).to_be_bytes());
    ip.extend_from_slice(&[0, 1, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    let sum = checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut udp = vec![0x30, 0x39, 0x30, 0x3a];
    udp.extend_from_slice(&((bytes - 20) as u16).to_be_bytes());
    udp.extend_from_slice(&[0, 0]);
    udp.resize(bytes - 20, 0x5a);
    let sum = udp_v4_sum(&ip, &udp);
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    ip.extend_from_slice(&udp);
    ip
}

/// The sum over a UDP datagram with its checksum; 0 when that is correct.
pub(super) fn udp_v4_sum(ip: &[u8], udp: &[u8]) -> u16 {
    checksum(&[&ip[12..20], &[0, 17], &(udp.len() as u16).to_be_bytes(), udp])
}

/// UDP over IPv6 without a checksum; `bytes` is the length of the IP packet.
pub(super) fn udp_v6(bytes: usize) -> Vec<u8> {
    let mut frame = ETHERNET.to_vec();
    frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend_from_slice(&((bytes - 40) as u16).to_be_bytes());
    frame.extend_from_slice(&[17, 64]);
    for last in [1, 2] {
        frame.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    frame.resize(14 + bytes, 0x5a);
    frame
}

/// Any frame: random bytes, well-formed ones, and well-formed ones truncated or altered.
pub(super) fn any() -> impl Strategy<Value = Vec<u8>> {
    let well_formed = (0..3, 48_usize..2000).prop_map(|(kind, bytes)| match kind {
        0 => udp_v4(bytes),
        1 => udp_v6(bytes),
        _ => tagged(bytes),
    });
    let damaged = (
        well_formed.clone(),
        0_usize..2000,
        prop::collection::vec((0_usize..80, any_byte()), 0..6),
    )
        .prop_map(|(mut frame, length, changes)| {
            for (at, byte) in changes {
                if let Some(place) = frame.get_mut(at) {
                    *place = byte;
                }
            }
            frame.truncate(length);
            frame
        });
    prop_oneof![prop::collection::vec(any_byte(), 0..100), well_formed, damaged]
}

fn any_byte() -> impl Strategy<Value = u8> {
    proptest::num::u8::ANY
}
