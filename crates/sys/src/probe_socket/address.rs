//! Socket addresses as the kernel has them.

use std::ffi::c_int;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A socket address as the kernel has it.
#[repr(C)]
pub(super) union Address {
    any: libc::sockaddr,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
    room: libc::sockaddr_storage,
}

impl Address {
    /// An address and its length.
    pub(super) fn of(address: SocketAddr) -> (Self, libc::socklen_t) {
        match address {
            SocketAddr::V4(address) => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                (Address { v4 }, size_of::<libc::sockaddr_in>() as libc::socklen_t)
            }
            SocketAddr::V6(address) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                (Address { v6 }, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
            }
        }
    }

    #[allow(unsafe_code)]
    pub(super) fn empty() -> Self {
        // SAFETY: all zero is a value of `sockaddr_storage`, which holds only numbers.
        Address { room: unsafe { MaybeUninit::zeroed().assume_init() } }
    }

    pub(super) fn as_ptr(&self) -> *const libc::sockaddr {
        std::ptr::from_ref(self).cast()
    }

    /// The address; `None` when it is neither IPv4 nor IPv6.
    #[allow(unsafe_code)]
    pub(super) fn get(&self) -> Option<SocketAddr> {
        // SAFETY: every member begins with the family, and any bytes are a value of each of them; the
        // whole union was set before.
        let family = unsafe { self.any.sa_family };
        match c_int::from(family) {
            libc::AF_INET => {
                // SAFETY: as above.
                let v4 = unsafe { self.v4 };
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let v6 = unsafe { self.v6 };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(v6.sin6_port)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_converted_both_ways() {
        for text in ["198.18.0.1:80", "[fd00::1]:443"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Address::of(address).0.get(), Some(address));
        }
    }
}
