//! Delays of packets: their mean, maximum and percentiles. Also the metrics of queueing delays.

use hdrhistogram::Histogram;
use lasthop_base::schema::metrics::metrics;
use lasthop_base::units::{Duration, Instant};

/// Smallest difference in ns between percentiles.
const FINEST: u64 = 1_000;
/// Maximum delay in ns in percentiles; longer delays count as this one.
const LONGEST: u64 = Duration::from_secs(1_000).as_nanos();

metrics! {
    /// Queueing delays of the packets that a direction of a link has begun to send.
    pub struct QueueingMetrics {
        /// Mean time that packets wait in the queue before they are first sent.
        queueing_delay_mean_s: "Mean queueing delay", Seconds, Lower, Mean;
        /// Median of the time that packets wait in the queue before they are first sent.
        queueing_delay_p50_s: "Queueing delay, 50th percentile", Seconds, Lower, Mean;
        /// Time in the queue that 95 % of the packets do not exceed.
        queueing_delay_p95_s: "Queueing delay, 95th percentile", Seconds, Lower, Mean;
        /// Time in the queue that 99 % of the packets do not exceed.
        queueing_delay_p99_s: "Queueing delay, 99th percentile", Seconds, Lower, Mean;
        /// Longest time in the queue.
        queueing_delay_max_s: "Maximum queueing delay", Seconds, Lower, Max;
    }
}

/// Delays of several packets.
#[derive(Clone, Debug)]
pub struct Delays {
    /// Sum of all delays in ns.
    sum: u128,
    /// Maximum delay in ns.
    max: u64,
    histogram: Histogram<u32>,
}

impl Default for Delays {
    /// Percentiles have two significant digits: at most 13 kB up to 1000 s, with three 90 kB.
    fn default() -> Self {
        Delays::with_digits(2)
    }
}

impl Delays {
    /// Creates delays whose percentiles have `digits` significant digits, from 1 to 5, and a resolution of at
    /// most 1 us.
    pub fn with_digits(digits: u8) -> Self {
        let Ok(mut histogram) = Histogram::new_with_bounds(FINEST, 2 * FINEST, digits) else {
            unreachable!("from 1 us on in up to 5 digits is a range")
        };
        histogram.auto(true);
        Delays { sum: 0, max: 0, histogram }
    }

    /// Creates queueing delays, whose percentiles have three significant digits.
    pub fn queueing() -> Self {
        Delays::with_digits(3)
    }

    /// Records a packet that waited from `from` until `until`.
    pub fn record(&mut self, from: Instant, until: Instant) {
        let delay = until.saturating_since(from).as_nanos();
        self.sum += u128::from(delay);
        self.max = self.max.max(delay);
        let Ok(()) = self.histogram.record(delay.min(LONGEST)) else {
            unreachable!("delays up to 1000 s fit the histogram")
        };
    }

    /// Adds the delays of other packets.
    pub fn add(&mut self, other: &Delays) {
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        let Ok(()) = self.histogram.add(&other.histogram) else {
            unreachable!("the histogram grows as needed")
        };
    }

    /// Mean delay in seconds; NaN without packets.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.histogram.len() as f64 / 1e9
    }

    /// Returns the delay in seconds that the fraction `quantile` of the packets does not exceed; NaN without
    /// packets.
    pub fn quantile(&self, quantile: f64) -> f64 {
        match self.histogram.is_empty() {
            true => f64::NAN,
            false => self.histogram.value_at_quantile(quantile) as f64 / 1e9,
        }
    }
}

impl From<&Delays> for QueueingMetrics {
    fn from(delays: &Delays) -> Self {
        let max = match delays.histogram.is_empty() {
            true => f64::NAN,
            false => delays.max as f64 / 1e9,
        };
        // The histogram returns the upper bound of a class: of the first one, if no packet waits.
        let at = |quantile: f64| {
            let value = delays.quantile(quantile).min(max);
            if value < FINEST as f64 / 1e9 { 0.0 } else { value }
        };
        QueueingMetrics {
            queueing_delay_mean_s: delays.mean(),
            queueing_delay_p50_s: at(0.5),
            queueing_delay_p95_s: at(0.95),
            queueing_delay_p99_s: at(0.99),
            queueing_delay_max_s: max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delays of 1 to 1000 ms: the percentiles are known, up to three digits.
    #[test]
    fn percentiles_of_known_delays() {
        let mut delays = [Delays::queueing(), Delays::queueing()];
        for millis in 1..=1000_u64 {
            let until = Instant::ZERO + Duration::from_millis(millis);
            delays[usize::from(millis % 3 == 0)].record(Instant::ZERO, until);
        }
        let [mut all, some] = delays;
        all.add(&some);
        let metrics = QueueingMetrics::from(&all);
        assert_eq!(metrics.queueing_delay_mean_s, 0.5005);
        assert_eq!(metrics.queueing_delay_max_s, 1.0);
        for (found, expected) in [
            (metrics.queueing_delay_p50_s, 0.5),
            (metrics.queueing_delay_p95_s, 0.95),
            (metrics.queueing_delay_p99_s, 0.99),
        ] {
            assert!((found / expected - 1.0).abs() < 1e-3, "{found} instead of {expected}");
        }
    }

    #[test]
    fn packets_that_never_wait_and_no_packets() {
        let mut delays = Delays::queueing();
        let none = QueueingMetrics::from(&delays);
        assert!(none.queueing_delay_mean_s.is_nan() && none.queueing_delay_p50_s.is_nan());
        assert!(none.queueing_delay_max_s.is_nan());
        for millis in 0..10 {
            let now = Instant::ZERO + Duration::from_millis(millis);
            delays.record(now, now);
        }
        let zero = QueueingMetrics::from(&delays);
        assert_eq!(zero.queueing_delay_p50_s, 0.0);
        assert_eq!(zero.queueing_delay_p99_s, 0.0);
        assert_eq!(zero.queueing_delay_max_s, 0.0);
        // One packet of ten waits: the median is 0, not the upper bound of the first class.
        delays.record(Instant::ZERO, Instant::ZERO + Duration::from_millis(40));
        let one = QueueingMetrics::from(&delays);
        assert_eq!((one.queueing_delay_p50_s, one.queueing_delay_max_s), (0.0, 0.04));
    }
}
