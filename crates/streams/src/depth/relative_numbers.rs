//! Relative sequence numbers of one end.

use crate::sequence::Sequence;

/// Counts the sequence numbers of one end from its first packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RelativeNumbers {
    /// The first sequence number, and what it counts as.
    first: Option<(Sequence, i64)>,
    last: Sequence,
}

impl RelativeNumbers {
    /// The sequence number of a packet of this end; the first one counts as `first`.
    pub(super) fn sequence(&mut self, header: u32, first: i64) -> i64 {
        if self.first.is_none() {
            self.last = Sequence::first(header);
            self.first = Some((self.last, first));
        }
        self.last = self.last.near(header);
        self.relative(self.last)
    }

    /// The acknowledgement of a packet of the other end.
    pub(super) fn acknowledgement(&mut self, header: u32) -> i64 {
        if self.first.is_none() {
            return self.sequence(header, 1);
        }
        self.relative(self.last.near(header))
    }

    fn relative(&self, number: Sequence) -> i64 {
        let (first, counts_as) = self.first.unwrap_or_default();
        number.0.wrapping_sub(first.0).cast_signed().saturating_add(counts_as)
    }
}

#[cfg(test)]
mod tests {
    use super::RelativeNumbers;

    #[test]
    fn numbers_are_counted_from_the_first() {
        let mut numbers = RelativeNumbers::default();
        assert_eq!(numbers.sequence(u32::MAX, 0), 0);
        assert_eq!(numbers.sequence(9, 0), 10);
        assert_eq!(numbers.acknowledgement(u32::MAX - 1), -1);
        assert_eq!(RelativeNumbers::default().acknowledgement(77), 1);
    }
}
