//! The random decisions of one direction: a seeded generator with a fixed number of draws per packet.

/// A seeded generator: SplitMix64 (Steele, Lea, Flood 2014). It is our own because a scenario
/// promises the same sequence for the same seed, and a library may change its generator.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

/// The numbers drawn for one packet. All are drawn whether or not they are used, so that the
/// decisions about a packet depend only on the seed and the packet's number. Shares are in [0, 1).
#[derive(Debug, Clone, Copy)]
pub(super) struct Draws {
    pub(super) loss: f64,
    pub(super) state: f64,
    pub(super) jitter: f64,
    pub(super) reorder: f64,
    pub(super) duplicate: f64,
    pub(super) corrupt: f64,
    pub(super) bit: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(super) fn draw_packet(&mut self) -> Draws {
        Draws {
            loss: self.next_share(),
            state: self.next_share(),
            jitter: self.next_share(),
            reorder: self.next_share(),
            duplicate: self.next_share(),
            corrupt: self.next_share(),
            bit: self.next(),
        }
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn next_share(&mut self) -> f64 {
        // 53 bits: the mantissa of a double.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_sequence_matches_the_reference_implementation() {
        // The first values for the seed 1234567.
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn shares_are_uniform() {
        let mut random = Random::new(1);
        let mean = (0..100_000).map(|_| random.next_share()).sum::<f64>() / 100_000.0;
        // Standard error 0.0009.
        assert!((mean - 0.5).abs() < 0.004, "{mean}");
    }
}
