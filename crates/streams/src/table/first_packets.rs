//! The packets that began a stream, where streams are numbered by them.

/// Numbers of packets that began a stream, in ascending order: a byte or two each.
#[derive(Debug, Default)]
pub(crate) struct FirstPackets {
    /// The difference of each number from the one before: seven bits a byte, the lowest first; the
    /// eighth is set where more follow.
    bytes: Vec<u8>,
    last: u64,
}

impl FirstPackets {
    #[cold]
    pub(super) fn push(&mut self, packet: u64) {
        let mut rest = packet.saturating_sub(self.last);
        self.last = packet;
        while rest > 0x7f {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let (mut packet, mut difference, mut shift) = (0u64, 0u64, 0u32);
        self.bytes.iter().filter_map(move |byte| {
            difference |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            (byte & 0x80 == 0).then(|| {
                packet = packet.saturating_add(std::mem::take(&mut difference));
                shift = 0;
                packet
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::FirstPackets;

    #[test]
    fn numbers_of_any_size_come_back() {
        let numbers = [0, 1, 127, 128, 255, 1 << 20, u64::MAX / 2, u64::MAX];
        let mut packets = FirstPackets::default();
        numbers.iter().for_each(|number| packets.push(*number));
        assert!(packets.iter().eq(numbers));
    }
}
