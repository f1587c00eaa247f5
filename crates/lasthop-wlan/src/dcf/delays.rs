//! Delays of packets: from the arrival at the queue of the transmitter to the delivery by the receiver. They
//! contain the time in the queue, channel access with all retries, and the reorder buffer.

use hdrhistogram::Histogram;
use lasthop_base::schema::metrics::metrics;
use lasthop_base::units::{Duration, Instant};

/// Smallest difference in ns between percentiles.
const FINEST: u64 = 1_000;
/// Maximum delay in ns in percentiles; longer delays count as this one.
const LONGEST: u64 = Duration::from_secs(1_000).as_nanos();

metrics! {
    /// Delays of the packets of a direction of a WLAN, or of all its directions.
    pub struct DelayMetrics {
        /// Mean time from the arrival of a packet at the queue to its delivery by the WLAN.
        delay_mean_s: "Mean delay", Seconds, Lower, Mean;
        /// Median of the time from the arrival at the queue to the delivery.
        delay_p50_s: "Delay, 50th percentile", Seconds, Lower, Mean;
        /// Time from the arrival at the queue to the delivery that 95 % of the packets do not exceed.
        delay_p95_s: "Delay, 95th percentile", Seconds, Lower, Mean;
        /// Time from the arrival at the queue to the delivery that 99 % of the packets do not exceed.
        delay_p99_s: "Delay, 99th percentile", Seconds, Lower, Mean;
    }
}

/// Delays of the packets delivered in one direction, or in several.
#[derive(Clone, Debug)]
pub struct Delays {
    /// Sum of all delays in ns.
    sum: u128,
    /// Percentiles with two significant digits: at most 13 kB up to [`LONGEST`], with three 90 kB.
    histogram: Histogram<u32>,
}

impl Default for Delays {
    fn default() -> Self {
        let Ok(mut histogram) = Histogram::new_with_bounds(FINEST, 2 * FINEST, 2) else {
            unreachable!("from 1 us on in 2 digits is a range")
        };
        histogram.auto(true);
        Delays { sum: 0, histogram }
    }
}

impl Delays {
    /// Records a packet.
    pub(super) fn record(&mut self, arrived: Instant, delivered: Instant) {
        let delay = delivered.saturating_since(arrived).as_nanos();
        self.sum += u128::from(delay);
        let Ok(()) = self.histogram.record(delay.min(LONGEST)) else {
            unreachable!("delays up to 1000 s fit the histogram")
        };
    }

    /// Adds the delays of another direction.
    pub fn add(&mut self, other: &Delays) {
        self.sum += other.sum;
        let Ok(()) = self.histogram.add(&other.histogram) else {
            unreachable!("the histogram grows as needed")
        };
    }
}

impl From<&Delays> for DelayMetrics {
    fn from(delays: &Delays) -> Self {
        let Delays { sum, histogram } = delays;
        let at = |quantile: f64| match histogram.is_empty() {
            true => f64::NAN,
            false => histogram.value_at_quantile(quantile) as f64 / 1e9,
        };
        DelayMetrics {
            delay_mean_s: *sum as f64 / histogram.len() as f64 / 1e9,
            delay_p50_s: at(0.5),
            delay_p95_s: at(0.95),
            delay_p99_s: at(0.99),
        }
    }
}
