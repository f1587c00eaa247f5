//! Metrics of queueing delays.

use lasthop_base::delays::{Delays, FINEST};
use lasthop_base::schema::metrics::{Statistic, metrics};
use std::sync::Arc;

metrics! {
    /// Queueing delays of the packets that a direction of a link has begun to send.
    pub struct QueueingMetrics {
        /// Mean time that packets wait in the queue before they are first sent.
        queueing_delay_mean_s: "Mean queueing delay", Seconds, Lower, Mean, Statistic;
        /// Median of the time that packets wait in the queue before they are first sent.
        queueing_delay_p50_s: "Queueing delay, 50th percentile", Seconds, Lower, Mean, Statistic;
        /// Time in the queue that 95 % of the packets do not exceed.
        queueing_delay_p95_s: "Queueing delay, 95th percentile", Seconds, Lower, Mean, Statistic;
        /// Time in the queue that 99 % of the packets do not exceed.
        queueing_delay_p99_s: "Queueing delay, 99th percentile", Seconds, Lower, Mean, Statistic;
        /// Longest time in the queue.
        queueing_delay_max_s: "Maximum queueing delay", Seconds, Lower, Max, Statistic;
    }
}

fn max(delays: &Delays) -> f64 {
    delays.max().map_or(f64::NAN, |max| max.as_nanos() as f64 / 1e9)
}

fn at(delays: &Delays, quantile: f64) -> f64 {
    // The histogram returns the upper bound of a class: of the first one, if no packet waits.
    let value = delays.quantile(quantile).min(max(delays));
    if value < FINEST as f64 / 1e9 { 0.0 } else { value }
}

impl From<Delays> for QueueingMetrics {
    fn from(delays: Delays) -> Self {
        let delays = Arc::new(delays);
        let statistic = |of| Statistic::new(&delays, of);
        QueueingMetrics {
            queueing_delay_mean_s: statistic(Delays::mean),
            queueing_delay_p50_s: statistic(|delays| at(delays, 0.5)),
            queueing_delay_p95_s: statistic(|delays| at(delays, 0.95)),
            queueing_delay_p99_s: statistic(|delays| at(delays, 0.99)),
            queueing_delay_max_s: statistic(max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::units::{Duration, Instant};

    /// Mean, percentiles 50, 95 and 99, and maximum.
    fn values(delays: &Delays) -> [f64; 5] {
        let mut values = Vec::new();
        QueueingMetrics::from(delays.clone()).report(&mut |_, value| values.push(value.value()));
        values.try_into().expect("five metrics")
    }

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
        let [mean, p50, p95, p99, max] = values(&all);
        assert_eq!([mean, max], [0.5005, 1.0]);
        for (found, expected) in [(p50, 0.5), (p95, 0.95), (p99, 0.99)] {
            assert!((found / expected - 1.0).abs() < 1e-3, "{found} instead of {expected}");
        }
    }

    #[test]
    fn packets_that_never_wait_and_no_packets() {
        let mut delays = Delays::queueing();
        assert!(values(&delays).iter().all(|value| value.is_nan()));
        for millis in 0..10 {
            let now = Instant::ZERO + Duration::from_millis(millis);
            delays.record(now, now);
        }
        assert_eq!(values(&delays), [0.0; 5]);
        // One packet of ten waits: the median is 0, not the upper bound of the first class.
        delays.record(Instant::ZERO, Instant::ZERO + Duration::from_millis(40));
        let [_, p50, _, _, max] = values(&delays);
        assert_eq!([p50, max], [0.0, 0.04]);
    }
}
