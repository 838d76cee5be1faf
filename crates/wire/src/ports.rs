//! Sets of ports: those that connect() may use.

use crate::netlink::Malformed;

/// A set of ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSet {
    bits: Box<[u64; 1024]>,
    count: u32,
}

impl PortSet {
    /// The ports that connect() may use: `ip_local_port_range` (`32768\t60999`) without
    /// `ip_local_reserved_ports` (`8080,9000-9100`, may be empty).
    ///
    /// # Errors
    ///
    /// One of the texts does not have that form.
    pub fn available(range: &str, reserved: &str) -> Result<Self, Malformed> {
        let mut set = PortSet { bits: Box::new([0; 1024]), count: 0 };
        let bad = Malformed::new("range of local ports");
        let mut words = range.split_ascii_whitespace().map(str::parse::<u16>);
        let (Some(Ok(first)), Some(Ok(last)), None) = (words.next(), words.next(), words.next())
        else {
            return Err(bad);
        };
        set.change(first, last, true);
        for part in reserved.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let bad = |_| Malformed::new("list of reserved ports");
            set.change(
                first.trim().parse().map_err(bad)?,
                last.trim().parse().map_err(bad)?,
                false,
            );
        }
        Ok(set)
    }

    fn change(&mut self, first: u16, last: u16, to: bool) {
        for port in first..=last {
            // There are 1024 words of 64 bits: one bit for each of 65,536 ports.
            let Some(word) = self.bits.get_mut(usize::from(port / 64)) else { continue };
            let bit = 1 << (port % 64);
            match (to, *word & bit != 0) {
                (true, false) => self.count += 1,
                (false, true) => self.count -= 1,
                _ => {}
            }
            if to { *word |= bit } else { *word &= !bit }
        }
    }

    /// Whether a port is in the set.
    pub fn contains(&self, port: u16) -> bool {
        let word = self.bits.get(usize::from(port / 64));
        word.is_some_and(|word| word & 1 << (port % 64) != 0)
    }

    /// How many ports are in the set.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether no port is in the set.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reserved_ports_are_not_available() {
        let set = PortSet::available("32768\t60999\n", "\n").unwrap();
        assert_eq!(set.len(), 28_232);
        let set = PortSet::available("1000 1009", "80,1003,1008-2000,1003\n").unwrap();
        assert_eq!(set.len(), 7);
        assert!(set.contains(1000) && !set.contains(1003) && !set.contains(80));
        assert_eq!(PortSet::available("0 65535", "").unwrap().len(), 65_536);
        assert!(PortSet::available("9 1", "").unwrap().is_empty());
    }

    #[test]
    fn other_text_is_refused() {
        for (range, reserved) in [("", ""), ("1", ""), ("1 2 3", ""), ("1 70000", ""), ("1 2", "x")]
        {
            assert!(PortSet::available(range, reserved).is_err(), "{range} {reserved}");
        }
    }

    proptest! {
        #[test]
        fn the_length_is_the_number_of_members(first: u16, last: u16, a: u16, b: u16) {
            let set = PortSet::available(&format!("{first} {last}"), &format!("{a}-{b}")).unwrap();
            let members = (0..=u16::MAX).filter(|port| set.contains(*port)).count();
            prop_assert_eq!(members as u32, set.len());
        }

        #[test]
        fn any_text_is_parsed_or_refused(range: String, reserved: String) {
            let _ = PortSet::available(&range, &reserved);
        }
    }
}
