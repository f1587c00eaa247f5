//! Delays of packets: from the arrival at the queue of the transmitter to the delivery by the receiver. They
//! contain the time in the queue, channel access with all retries, and the reorder buffer.

pub use lasthop_base::delays::Delays;
use lasthop_base::schema::metrics::{Statistic, metrics};
use std::sync::Arc;

metrics! {
    /// Delays of the packets of a direction of a WLAN, or of all its directions.
    pub struct DelayMetrics {
        /// Mean time from the arrival of a packet at the queue to its delivery by the WLAN.
        delay_mean_s: "Mean delay", Seconds, Lower, Mean, Statistic;
        /// Median of the time from the arrival at the queue to the delivery.
        delay_p50_s: "Delay, 50th percentile", Seconds, Lower, Mean, Statistic;
        /// Time from the arrival at the queue to the delivery that 95 % of the packets do not exceed.
        delay_p95_s: "Delay, 95th percentile", Seconds, Lower, Mean, Statistic;
        /// Time from the arrival at the queue to the delivery that 99 % of the packets do not exceed.
        delay_p99_s: "Delay, 99th percentile", Seconds, Lower, Mean, Statistic;
    }
}

impl From<Delays> for DelayMetrics {
    fn from(delays: Delays) -> Self {
        let delays = Arc::new(delays);
        let statistic = |of| Statistic::new(&delays, of);
        DelayMetrics {
            delay_mean_s: statistic(Delays::mean),
            delay_p50_s: statistic(|delays| delays.quantile(0.5)),
            delay_p95_s: statistic(|delays| delays.quantile(0.95)),
            delay_p99_s: statistic(|delays| delays.quantile(0.99)),
        }
    }
}
