//! The random decisions of one direction: a seeded generator, the same number of draws a packet.

/// A seeded generator: SplitMix64 (Steele, Lea, Flood 2014). Own, because the sequence that a seed
/// gives is part of what a scenario promises: a library may change its generator, this must not.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

/// What was drawn for one packet. Everything is drawn whether it is used or not, so that the
/// decisions on a packet depend on the seed and its number only. Shares are in [0, 1).
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

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Dice(seed)
    }

    pub(super) fn packet(&mut self) -> Draws {
        Draws {
            loss: self.share(),
            state: self.share(),
            jitter: self.share(),
            reorder: self.share(),
            duplicate: self.share(),
            corrupt: self.share(),
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

    fn share(&mut self) -> f64 {
        // 53 bits: as many as a double holds.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn the_sequence_is_that_of_the_published_generator() {
        // First values for the seed 1234567 of the reference implementation.
        let mut dice = Dice::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| dice.next()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn shares_are_even() {
        let mut dice = Dice::new(1);
        let mean = (0..100_000).map(|_| dice.share()).sum::<f64>() / 100_000.0;
        // Standard error 0.0009.
        assert!((mean - 0.5).abs() < 0.004, "{mean}");
    }
}
