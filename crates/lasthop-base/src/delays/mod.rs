//! Delays of packets: their mean, maximum and percentiles.

mod classes;

use crate::units::{Duration, Instant};
use classes::Classes;

/// Smallest difference in ns between percentiles.
pub const FINEST: u64 = 1_000;
/// Maximum delay in percentiles; longer delays count as this one.
const LONGEST: Duration = Duration::from_secs(1_000);

/// Delays of several packets.
#[derive(Clone, Debug)]
pub struct Delays {
    /// Sum of all delays in ns.
    sum: u128,
    /// Maximum delay in ns.
    max: u64,
    classes: Classes,
}

impl Default for Delays {
    /// Percentiles have two significant digits: at most 13 kB up to 1000 s, with three 90 kB, if every
    /// class of delays occurs.
    fn default() -> Self {
        Delays::with_digits(2)
    }
}

impl Delays {
    /// Creates delays whose percentiles have `digits` significant digits, from 1 to 4, and a resolution of at
    /// most 1 us.
    pub fn with_digits(digits: u8) -> Self {
        Delays { sum: 0, max: 0, classes: Classes::with_digits(digits) }
    }

    /// Creates queueing delays, whose percentiles have three significant digits.
    pub fn queueing() -> Self {
        Delays::with_digits(3)
    }

    /// Records a packet that waited from `from` until `until`.
    pub fn record(&mut self, from: Instant, until: Instant) {
        let delay = until.saturating_since(from);
        self.record_as(delay, delay.min(LONGEST));
    }

    /// Records a delay that counts as `class`, at most about 1000 s, in percentiles.
    #[inline]
    pub fn record_as(&mut self, delay: Duration, class: Duration) {
        self.sum += u128::from(delay.as_nanos());
        self.max = self.max.max(delay.as_nanos());
        self.classes.record(class.as_nanos());
    }

    /// Adds the delays of other packets.
    pub fn add(&mut self, other: &Delays) {
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.classes.add(&other.classes);
    }

    /// Returns the delays recorded since `earlier`, a copy made at an earlier time. Their maximum is
    /// rounded up to the digits of percentiles, unless it is the maximum of all delays.
    #[must_use]
    pub fn since(&self, earlier: &Delays) -> Delays {
        let mut classes = self.classes.clone();
        classes.subtract(&earlier.classes);
        let rounded = || classes.at(1.0).map_or(0, |max| max.min(self.max));
        let max = if self.max > earlier.max { self.max } else { rounded() };
        Delays { sum: self.sum.saturating_sub(earlier.sum), max, classes }
    }

    /// Number of packets.
    pub fn count(&self) -> u64 {
        self.classes.total()
    }

    /// Sum of the delays in seconds.
    pub fn sum(&self) -> f64 {
        self.sum as f64 / 1e9
    }

    /// Maximum delay; `None` without packets.
    pub fn max(&self) -> Option<Duration> {
        (self.count() > 0).then_some(Duration::from_nanos(self.max))
    }

    /// Mean delay in seconds; NaN without packets.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.classes.total() as f64 / 1e9
    }

    /// Returns the delay in seconds that the fraction `quantile` of the packets does not exceed; NaN without
    /// packets.
    pub fn quantile(&self, quantile: f64) -> f64 {
        self.class_at(quantile).map_or(f64::NAN, |class| class.as_nanos() as f64 / 1e9)
    }

    /// Returns the upper bound of the class of [`Self::quantile`]; `None` without packets.
    pub fn class_at(&self, quantile: f64) -> Option<Duration> {
        self.classes.at(quantile).map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(digits: u8, millis: impl IntoIterator<Item = u64>) -> Delays {
        let mut delays = Delays::with_digits(digits);
        for millis in millis {
            delays.record(Instant::ZERO, Instant::ZERO + Duration::from_millis(millis));
        }
        delays
    }

    /// Packets of 1 to 1000 ms, then of 200 to 300 ms: the difference has the statistics of the
    /// latter.
    #[test]
    fn the_difference_has_the_later_delays() {
        let earlier = delays(3, 1..=1000);
        let later = delays(3, (1..=1000).chain(200..=300));
        let since = later.since(&earlier);
        assert_eq!((since.count(), since.mean()), (101, 0.25));
        for (found, expected) in [
            (since.quantile(0.5), 0.25),
            (since.quantile(0.95), 0.295),
            (since.max().expect("packets").as_secs_f64(), 0.3),
        ] {
            assert!((found / expected - 1.0).abs() < 2e-3, "{found} instead of {expected}");
        }
        // A delay above all earlier ones is exact.
        let longest = delays(3, (1..=1000).chain([2000])).since(&earlier);
        assert_eq!(longest.max(), Some(Duration::from_millis(2000)));
    }

    #[test]
    fn there_may_be_no_later_delays() {
        let all = delays(2, 1..=10);
        let none = all.since(&all);
        assert!(none.mean().is_nan() && none.quantile(0.5).is_nan());
        assert_eq!((none.count(), none.max(), none.class_at(0.5)), (0, None, None));
        assert_eq!(all.since(&Delays::default()).count(), 10);
    }
}
