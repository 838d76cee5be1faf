//! The two ends of a stream as a key, the lower one first.

use std::hash::BuildHasher as _;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use hashbrown::DefaultHashBuilder;
use wire::packet::{Ip, Tcp};

/// Addresses and ports of both ends, the lower one first; those of IPv4 fit into one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    V4(u128),
    V6([u128; 2], u32),
}

impl Key {
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
    if let (SocketAddr::V4(a), SocketAddr::V4(b)) = (a, b) {
        let number =
            |end: SocketAddrV4| u64::from(end.ip().to_bits()) << 16 | u64::from(end.port());
        let (a, b) = (number(a), number(b));
        return (Key::V4(u128::from(a.min(b)) << 64 | u128::from(a.max(b))), a <= b);
    }
    let numbers = |end: SocketAddr| match end.ip() {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped().to_bits(), end.port()),
        IpAddr::V6(ip) => (ip.to_bits(), end.port()),
    };
    let (a, b) = (numbers(a), numbers(b));
    let (low, high) = (a.min(b), a.max(b));
    (Key::V6([low.0, high.0], u32::from(low.1) << 16 | u32::from(high.1)), a <= b)
}
