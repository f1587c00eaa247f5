//! Estimate of the fraction of units lost per transmission, and the parity derived from it.

use super::Deviation;

/// Exponentially weighted moving average (EWMA) and variance of the fraction of units lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    weight: f64,
    deviation: Deviation,
    mean: f64,
    variance: f64,
}

impl Estimate {
    /// Creates an estimate of 0; new samples have weight `weight`.
    pub fn new(weight: f64, deviation: Deviation) -> Self {
        Estimate { weight, deviation, mean: 0.0, variance: 0.0 }
    }

    /// Adds the sample of a transmission of `units` units of which `lost` were lost.
    pub fn sample(&mut self, lost: u32, units: u32) {
        let error = f64::from(lost) / f64::from(units) - self.mean;
        self.mean += self.weight * error;
        self.variance = (1.0 - self.weight) * (self.variance + self.weight * error * error);
    }

    /// Returns the mean.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the expected fraction of `units` units lost plus one standard deviation.
    fn with_deviation(&self, units: u32) -> f64 {
        self.mean
            + match self.deviation {
                Deviation::Binomial => (self.mean * (1.0 - self.mean) / f64::from(units)).sqrt(),
                Deviation::Samples => self.variance.sqrt(),
                Deviation::None => 0.0,
            }
    }

    /// Returns the number of parity units among `units` for this loss, at most `units - 1`.
    pub fn parity(&self, units: u32) -> u32 {
        // The tolerance absorbs rounding errors of the mean just above an integer.
        let parity = (f64::from(units) * self.with_deviation(units) - 1e-9).ceil();
        (parity.max(0.0) as u32).min(units - 1)
    }

    /// Returns the number of units to send so that `needed` of them are received, at most `units`.
    pub fn units_for(&self, needed: u32, units: u32) -> u32 {
        let kept = (1.0 - self.with_deviation(units)).max(1e-3);
        ((f64::from(needed) / kept - 1e-9).ceil() as u32).clamp(1, units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(loss: f64) -> Estimate {
        Estimate { mean: loss, ..Estimate::new(0.005, Deviation::Binomial) }
    }

    /// Parity units computed by hand for these losses.
    #[test]
    fn parity_is_the_expected_loss_and_a_deviation() {
        let parity = |units| [0.05, 0.1, 0.2, 0.3, 0.4, 0.5].map(|p| settled(p).parity(units));
        assert_eq!(parity(20), [2, 4, 6, 9, 11, 13]);
        assert_eq!(parity(10), [2, 2, 4, 5, 6, 7]);
        assert_eq!(parity(40), [4, 6, 11, 15, 20, 24]);
        assert_eq!(settled(0.0).parity(20), 0);
        assert_eq!(settled(1.0).parity(20), 19, "a block has a data unit");
        assert_eq!(settled(0.3).parity(1), 0);
    }

    #[test]
    fn what_is_needed_is_sent_with_what_will_be_lost() {
        // The loss of 0.2 plus sqrt(0.16 / 20) leaves 71 %: 3 / 0.7106 = 4.2.
        assert_eq!(settled(0.2).units_for(3, 20), 5);
        assert_eq!(settled(0.0).units_for(3, 20), 3);
        assert_eq!(settled(0.9).units_for(5, 20), 20);
    }

    #[test]
    fn the_estimate_follows_the_samples() {
        let mut estimate = Estimate::new(0.5, Deviation::Samples);
        estimate.sample(10, 20);
        assert_eq!(estimate.mean(), 0.25);
        // Half of (0 + 0.5 * 0.5^2).
        assert_eq!(estimate.variance, 0.0625);
        assert_eq!(estimate.parity(20), 10, "0.25 + 0.25 of 20");
        estimate.sample(5, 20);
        assert_eq!((estimate.mean(), estimate.variance), (0.25, 0.03125));
    }
}
