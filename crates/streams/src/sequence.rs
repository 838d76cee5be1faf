//! Sequence numbers that do not wrap: the 32 bits of a header, unwrapped to 64.

/// A sequence number that does not wrap. The first one of a direction is in the middle of the
/// second 4 GiB, which leaves room for data from before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

/// Offset of the first sequence number of a direction: room for older data.
const BASE: u64 = 1 << 32;

impl Sequence {
    /// This number, unless it is the default 0, which no direction begins with.
    #[inline]
    pub fn known(self) -> Option<Self> {
        (self.0 != 0).then_some(self)
    }

    /// The first sequence number captured of a direction.
    #[inline]
    pub fn first(header: u32) -> Self {
        Sequence(BASE + u64::from(header))
    }

    /// The number with these 32 bits that is nearest to this one: within 2 GiB either way.
    #[inline]
    pub fn near(self, header: u32) -> Self {
        // Modular arithmetic (RFC 9293, 3.4).
        let distance = header.wrapping_sub(self.0 as u32) as i32;
        Sequence(self.0.wrapping_add_signed(i64::from(distance)))
    }

    /// The number so many bytes later.
    #[inline]
    pub fn plus(self, bytes: u32) -> Self {
        Sequence(self.0.wrapping_add(u64::from(bytes)))
    }

    /// Bytes from an earlier number to this one; 0 if it is not earlier.
    #[inline]
    pub fn since(self, earlier: Sequence) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The 32 bits that a header holds.
    #[inline]
    pub fn header(self) -> u32 {
        self.0 as u32
    }
}

/// By how many ticks a TCP time stamp is later than another one, in modular arithmetic (RFC 7323,
/// 5.2).
#[inline]
pub(crate) fn timestamp_ticks_after(timestamp: u32, other: u32) -> i32 {
    timestamp.wrapping_sub(other).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_continue_beyond_32_bits() {
        let first = Sequence::first(u32::MAX - 10);
        let next = first.near(5);
        assert_eq!(next.since(first), 16);
        assert_eq!(next.near(u32::MAX - 10), first);
        assert_eq!(first.since(next), 0);
        let mut far = first;
        for step in 1..=20u32 {
            far = far.near((u32::MAX - 10).wrapping_add(step.wrapping_mul(1 << 30)));
        }
        assert_eq!(far.since(first), 20 << 30);
    }

    #[test]
    fn time_stamps_wrap() {
        assert_eq!(timestamp_ticks_after(3, u32::MAX), 4);
        assert_eq!(timestamp_ticks_after(u32::MAX, 3), -4);
    }
}
