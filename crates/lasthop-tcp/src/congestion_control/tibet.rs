//! TIBET (Capone, Fratta, Martignon, "Bandwidth Estimation Schemes for TCP over Wireless Networks", IEEE Trans. Mobile
//! Computing 3(2), 2004).
//!
//! ```text
//!   segment sent   length = 0.99 length + 0.01 its bytes       interval = 0.99 interval + 0.01 time since the previous one
//!                  B = (1 - e) length / interval + e B          e = exp(-interval / T0)
//!   new ACK        as Reno
//!   congestion     ssthresh = B rtt_min / segment, at least 2; cwnd = min(cwnd, ssthresh); rtt_min = 0.95 rtt_min
//!   timeout        as congestion; cwnd = 1
//! ```
//!
//! Numerator and denominator are averaged separately, so that the quotient is not biased. The
//! decrease of rtt_min discards a value measured before the path became longer. Under steady
//! congestion it also reduces the threshold.
//!
//! The first samples are averaged with increasing weights. T0 and the factor of 0.95 are chosen
//! here; they are not in the available sources.

use super::super::config::{Config, RecoveryKind};
use super::family::AlgorithmKeys;
use super::sample::Delivery;
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Duration, Instant};

/// Weight of the previous value in the averages.
const KEPT: f64 = 0.99;
/// Factor applied to rtt_min at each congestion event.
const RTT_KEPT: f64 = 0.95;

table! {
    /// TIBET: after a loss the threshold is computed from the filtered sending rate.
    pub struct TibetKeys as "tibet" {
        /// Time constant of the second filter, T0.
        time_constant: Duration = "500 ms", Limits::POSITIVE;
    }
}

impl Copy for TibetKeys {}

impl AlgorithmKeys for TibetKeys {
    type Machine = Tibet;

    const RECOVERY: [RecoveryKind; 2] = [RecoveryKind::NewReno; 2];

    fn build(&self, config: &Config, cwnd: f64) -> Tibet {
        Tibet {
            window: Window::new(config, cwnd),
            filter: Filter::new(self.time_constant),
            min_rtt: f64::INFINITY,
        }
    }
}

/// The bandwidth estimator.
#[derive(Clone, Copy, Debug)]
struct Filter {
    /// Time constant in seconds.
    time_constant: f64,
    last: Option<Instant>,
    samples: u32,
    /// Mean length of a segment in bytes, and mean interval between segments in seconds.
    length: f64,
    interval: f64,
    /// Estimated rate in bytes per second.
    rate: f64,
}

impl Filter {
    fn new(time_constant: Duration) -> Self {
        let time_constant = time_constant.as_secs_f64();
        Filter { time_constant, last: None, samples: 0, length: 0.0, interval: 0.0, rate: 0.0 }
    }

    fn add(&mut self, now: Instant, bytes: f64) {
        let Some(last) = self.last.replace(now) else { return };
        self.samples += 1;
        let kept = KEPT.min(1.0 - 1.0 / f64::from(self.samples));
        self.length = kept * self.length + (1.0 - kept) * bytes;
        self.interval = kept * self.interval + (1.0 - kept) * (now - last).as_secs_f64();
        if self.interval > 0.0 {
            let old = libm::exp(-self.interval / self.time_constant);
            self.rate = (1.0 - old) * self.length / self.interval + old * self.rate;
        }
    }
}

/// TIBET's window.
#[derive(Clone, Copy, Debug)]
pub struct Tibet {
    window: Window,
    filter: Filter,
    /// Minimum RTT in seconds.
    min_rtt: f64,
}

impl WindowLaw for Tibet {
    window_field!();

    fn threshold(&mut self, _now: Instant, _cause: Cause, in_use: f64) -> f64 {
        if !self.min_rtt.is_finite() {
            return in_use / 2.0;
        }
        let carried = self.filter.rate * self.min_rtt / self.window.segment() as f64;
        self.min_rtt *= RTT_KEPT;
        carried
    }

    fn measure(&mut self, delivery: &Delivery) {
        if let Some(rtt) = delivery.rtt {
            self.min_rtt = self.min_rtt.min(rtt.as_secs_f64());
        }
    }

    fn note_sent(&mut self, now: Instant, bytes: u64) {
        self.filter.add(now, bytes as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Acks, algorithm, ms};
    use super::super::{Congestion, CongestionControl};
    use super::*;

    /// Returns the estimate after segments of 1 kB at `times` (ms).
    fn estimate(times: impl Iterator<Item = f64>) -> f64 {
        let mut filter = Filter::new(Duration::from_millis(500));
        times.for_each(|at| filter.add(ms(at), 1000.0));
        filter.rate
    }

    /// 100 kB/s, in single segments and in bursts of ten.
    #[test]
    fn bunches_do_not_raise_the_estimate() {
        let even = estimate((0..5000).map(|index| 10.0 * f64::from(index)));
        assert!((even / 1e5 - 1.0).abs() < 1e-6, "{even}");
        let bunches =
            estimate((0..5000).map(|k| f64::from(k / 10) * 100.0 + f64::from(k % 10) * 0.1));
        assert!((bunches / 1e5 - 1.0).abs() < 0.06, "{bunches}");
    }

    /// 100 kB/s over 50 ms: five segments, then 0.95 and 0.95^2 times five.
    #[test]
    fn the_threshold_sinks_under_steady_congestion() {
        let mut tibet = algorithm::<TibetKeys>(20.0);
        Acks::new().ack(&mut tibet, 50.0, 1.0);
        (0..5000).for_each(|index| tibet.on_sent(ms(10.0 * f64::from(index)), 1000));
        for expected in [5.0, 4.75, 4.5125] {
            tibet.on_congestion(ms(0.0), Congestion::Loss, 20.0);
            assert!((tibet.ssthresh() - expected).abs() < 1e-4, "{}", tibet.ssthresh());
        }
        assert!((tibet.cwnd() - 4.5125).abs() < 1e-4);
    }
}
