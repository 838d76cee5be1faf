//! Which packets vanish: at random, or in bursts by the model of Gilbert and Elliott.

use super::dice::Draws;
use super::profile::Loss;

/// The state of the loss of one direction.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    bad: bool,
}

impl Losses {
    /// Whether this packet vanishes. The state changes after the packet, as in netem.
    pub(super) fn takes(&mut self, loss: Option<Loss>, draws: &Draws) -> bool {
        match loss {
            None => false,
            Some(Loss::Random { probability }) => draws.loss < probability,
            Some(Loss::GilbertElliott { to_bad, to_good, in_bad, in_good }) => {
                let (share, turn) = if self.bad { (in_bad, to_good) } else { (in_good, to_bad) };
                self.bad ^= draws.state < turn;
                draws.loss < share
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dice::Dice;
    use super::*;

    fn lost(loss: Loss, seed: u64, packets: usize) -> Vec<bool> {
        let (mut dice, mut losses) = (Dice::new(seed), Losses::default());
        (0..packets).map(|_| losses.takes(Some(loss), &dice.packet())).collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
    }

    #[test]
    fn random_loss_takes_its_share() {
        for probability in [0.0, 0.001, 0.02, 0.5, 1.0] {
            let n = 100_000;
            let seen = share(&lost(Loss::Random { probability }, 7, n));
            // Five standard deviations of a binomial share.
            let margin = 5.0 * (probability * (1.0 - probability) / n as f64).sqrt();
            assert!((seen - probability).abs() <= margin, "{probability}: {seen}");
        }
    }

    #[test]
    fn bursts_are_as_long_and_as_frequent_as_asked() {
        let loss = Loss::GilbertElliott { to_bad: 0.01, to_good: 0.25, in_bad: 1.0, in_good: 0.0 };
        let lost = lost(loss, 3, 400_000);
        // In the long run the share of bad times is p / (p + r).
        assert!((share(&lost) - 0.01 / 0.26).abs() < 0.003, "{}", share(&lost));
        let bursts: Vec<usize> =
            lost.split(|lost| !lost).map(<[bool]>::len).filter(|length| *length > 0).collect();
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        assert!((mean - 4.0).abs() < 0.2, "bursts of {mean} packets");
        // Geometric: a quarter of the bursts is one packet long.
        let single = bursts.iter().filter(|length| **length == 1).count() as f64;
        assert!((single / bursts.len() as f64 - 0.25).abs() < 0.03);
    }

    #[test]
    fn good_times_may_lose_too() {
        let loss = Loss::GilbertElliott { to_bad: 0.1, to_good: 0.1, in_bad: 0.5, in_good: 0.1 };
        let seen = share(&lost(loss, 9, 400_000));
        assert!((seen - 0.3).abs() < 0.01, "{seen}");
    }
}
