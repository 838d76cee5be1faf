//! The two ends of a stream as a key, the lower one first.

use std::hash::BuildHasher as _;
use std::net::{IpAddr, SocketAddr};

use hashbrown::DefaultHashBuilder;
use wire::packet::{Ip, Tcp};

use crate::stream::{v4_number, v4_pair};

/// Addresses and ports of both ends, the lower one first; those of IPv4 fit into one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    V4(u128),
    V6([u128; 2], u32),
}

impl Key {
    /// Address and port of each end in one number, the lower one first, if they are of IPv4.
    #[inline(always)]
    pub(super) fn v4_ends(&self) -> Option<[u64; 2]> {
        match self {
            Key::V4(ends) => Some([(ends >> 64) as u64, *ends as u64]),
            Key::V6(..) => None,
        }
    }

    #[inline(always)]
    pub(super) fn hash(&self, build: &DefaultHashBuilder) -> u64 {
        match self {
            Key::V4(ends) => build.hash_one(ends),
            Key::V6(..) => build.hash_one(self),
        }
    }
}

/// Sender and receiver of a segment.
#[inline(always)]
pub(super) fn ends_of(ip: &Ip<'_>, tcp: &Tcp<'_>) -> [SocketAddr; 2] {
    [SocketAddr::new(ip.source, tcp.source), SocketAddr::new(ip.destination, tcp.destination)]
}

/// The key of two ends, and whether the first of them is the lower one.
#[inline(always)]
pub(super) fn key_of([a, b]: [SocketAddr; 2]) -> (Key, bool) {
    if let (Some(a), Some(b)) = (v4_number(a), v4_number(b)) {
        return (Key::V4(v4_pair(a, b)), a <= b);
    }
    let numbers = |end: SocketAddr| match end.ip() {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped().to_bits(), end.port()),
        IpAddr::V6(ip) => (ip.to_bits(), end.port()),
    };
    let (a, b) = (numbers(a), numbers(b));
    let (low, high) = (a.min(b), a.max(b));
    (Key::V6([low.0, high.0], u32::from(low.1) << 16 | u32::from(high.1)), a <= b)
}
