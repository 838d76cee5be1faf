//! Reverse DNS: names of addresses, by the system's resolver.

use std::ffi::{CStr, c_char};
use std::net::{IpAddr, SocketAddr};

use super::address::Address;

/// Longest name with its final zero (`NI_MAXHOST`).
const MAX_NAME_BYTES: usize = 1025;

/// The name of an address; `None` when it has none. It may take the resolver many seconds.
#[allow(unsafe_code)]
pub fn reverse_dns_name(address: IpAddr) -> Option<String> {
    let (address, length) = Address::of(SocketAddr::new(address, 0));
    let mut name = [0 as c_char; MAX_NAME_BYTES];
    // SAFETY: `address` is a socket address of this length, `name` has room for MAX_NAME_BYTES, and no
    // name of a service is requested. Both outlive the call.
    let result = unsafe {
        libc::getnameinfo(
            address.as_ptr(),
            length,
            name.as_mut_ptr(),
            MAX_NAME_BYTES as libc::socklen_t,
            std::ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    };
    if result != 0 {
        return None;
    }
    // SAFETY: getnameinfo succeeded: `name` holds a string with a final zero.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    name.to_str().ok().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_name_has_none() {
        assert_eq!(reverse_dns_name(IpAddr::from([0, 0, 0, 0])), None);
    }
}
