//! Which hosts the reader can do something about: a public server of others is not one of them.

use std::net::IpAddr;

use model::{Evidence, Remedy};

use crate::remedies::advice;

/// Whether a host is likely to belong to somebody else: its address is public, and that of the end at
/// which it was observed is not. Behind a public address at that end, too, either may be the reader's.
pub(crate) fn belongs_to_others(host: IpAddr, own: IpAddr) -> bool {
    is_public(host) && !is_public(own)
}

/// The same for a peer of the host that was watched, whose addresses are those of its sockets.
pub(crate) fn peer_belongs_to_others(evidence: &Evidence, peer: IpAddr) -> bool {
    let sockets = evidence.sockets.iter().flat_map(|table| &table.sockets);
    let mut own = sockets.map(|socket| socket.local.ip());
    is_public(peer) && !own.any(is_public)
}

/// Leaves out what only the owners of a host can do. Where nothing is left, it says so.
pub(crate) fn without_remedies_of(host: IpAddr, remedies: Vec<Remedy>) -> Vec<Remedy> {
    let host = host.to_canonical().to_string();
    let there = |remedy: &Remedy| remedy.host.as_ref() == Some(&host);
    let (left_out, mut kept): (Vec<_>, Vec<_>) = remedies.into_iter().partition(there);
    if kept.is_empty() && !left_out.is_empty() {
        kept.push(advice(format!("only the operator of {host} can fix this")));
    }
    kept
}

/// Whether an address can be reached from the whole Internet (the IANA special-purpose registries,
/// as far as hosts have such addresses).
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            let shared = first == 100 && (64..128).contains(&second);
            let benchmark = first == 198 && (18..20).contains(&second);
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_documentation()
                || v4.is_multicast()
                || first == 0
                || first >= 240
                || shared
                || benchmark)
        }
        // Global unicast is 2000::/3; 2001:db8::/32 is for documentation.
        IpAddr::V6(v6) => {
            let [first, second, ..] = v6.segments();
            (0x2000..0x4000).contains(&first) && (first, second) != (0x2001, 0x0db8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{add_socket, healthy};
    use crate::remedies::advice_about;

    #[test]
    fn a_public_server_belongs_to_others_from_a_private_address() {
        let others =
            |host: &str, own: &str| belongs_to_others(host.parse().unwrap(), own.parse().unwrap());
        assert!(others("11.0.0.2", "192.168.1.9") && others("2600::2", "fd00::9"));
        for (host, own) in [
            ("10.0.0.2", "10.0.0.9"),
            ("11.0.0.2", "11.0.0.9"),
            ("100.64.0.2", "10.0.0.9"),
            ("198.18.0.2", "127.0.0.1"),
            ("2001:db8::2", "fe80::1"),
        ] {
            assert!(!others(host, own), "{host} from {own}");
        }
    }

    #[test]
    fn a_watched_host_with_a_public_address_may_own_its_peers() {
        let mut evidence = healthy();
        let peer = "11.0.0.2".parse().unwrap();
        assert!(peer_belongs_to_others(&evidence, peer));
        add_socket(&mut evidence, "12.0.0.1:443", "13.0.0.1:4000", None);
        assert!(!peer_belongs_to_others(&evidence, peer));
    }

    #[test]
    fn what_only_others_can_do_is_left_out() {
        let host: IpAddr = "11.0.0.2".parse().unwrap();
        let there = || advice_about("11.0.0.2", "run netwhy on 11.0.0.2");
        let text = |remedies| without_remedies_of(host, remedies).remove(0).text;
        assert_eq!(text(vec![there(), advice("here")]), "here");
        assert_eq!(text(vec![there()]), "only the operator of 11.0.0.2 can fix this");
    }
}
