//! Packet loss: independent, or in bursts by the Gilbert-Elliott model.

use super::profile::Loss;
use super::random::Draws;

/// The Gilbert-Elliott state of one direction.
#[derive(Debug, Clone, Default)]
pub(super) struct LossState {
    bad: bool,
}

impl LossState {
    /// Whether this packet is lost. The state changes after the packet, as in netem.
    pub(super) fn drops(&mut self, loss: Option<Loss>, draws: &Draws) -> bool {
        match loss {
            None => false,
            Some(Loss::Random { probability }) => draws.loss < probability,
            Some(Loss::GilbertElliott { to_bad, to_good, in_bad, in_good }) => {
                let (share, change) = if self.bad { (in_bad, to_good) } else { (in_good, to_bad) };
                self.bad ^= draws.state < change;
                draws.loss < share
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    fn lost(loss: Loss, seed: u64, packets: usize) -> Vec<bool> {
        let (mut random, mut state) = (Random::new(seed), LossState::default());
        (0..packets).map(|_| state.drops(Some(loss), &random.draw_packet())).collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
    }

    #[test]
    fn random_loss_has_its_probability() {
        for probability in [0.0, 0.001, 0.02, 0.5, 1.0] {
            let n = 100_000;
            let measured = share(&lost(Loss::Random { probability }, 7, n));
            // Five standard deviations of a binomial proportion.
            let margin = 5.0 * (probability * (1.0 - probability) / n as f64).sqrt();
            assert!((measured - probability).abs() <= margin, "{probability}: {measured}");
        }
    }

    #[test]
    fn bursts_have_the_configured_length_and_frequency() {
        let loss = Loss::GilbertElliott { to_bad: 0.01, to_good: 0.25, in_bad: 1.0, in_good: 0.0 };
        let lost = lost(loss, 3, 400_000);
        // The stationary probability of the bad state is p / (p + r).
        assert!((share(&lost) - 0.01 / 0.26).abs() < 0.003, "{}", share(&lost));
        let bursts: Vec<usize> =
            lost.split(|lost| !lost).map(<[bool]>::len).filter(|length| *length > 0).collect();
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        assert!((mean - 4.0).abs() < 0.2, "bursts of {mean} packets");
        // Burst lengths are geometric: a quarter of them are one packet.
        let single = bursts.iter().filter(|length| **length == 1).count() as f64;
        assert!((single / bursts.len() as f64 - 0.25).abs() < 0.03);
    }

    #[test]
    fn the_good_state_loses_packets_too() {
        let loss = Loss::GilbertElliott { to_bad: 0.1, to_good: 0.1, in_bad: 0.5, in_good: 0.1 };
        let measured = share(&lost(loss, 9, 400_000));
        assert!((measured - 0.3).abs() < 0.01, "{measured}");
    }
}
