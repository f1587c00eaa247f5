//! Delays of packets: from the arrival at the queue of the transmitter to the delivery by the receiver. They
//! contain the time in the queue, channel access with all retries, and the reorder buffer.

use lasthop_base::schema::metrics::metrics;
pub use lasthop_link::queue::Delays;

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

impl From<&Delays> for DelayMetrics {
    fn from(delays: &Delays) -> Self {
        DelayMetrics {
            delay_mean_s: delays.mean(),
            delay_p50_s: delays.quantile(0.5),
            delay_p95_s: delays.quantile(0.95),
            delay_p99_s: delays.quantile(0.99),
        }
    }
}
