//! NewReno-FF (Barman, Matta, "Effectiveness of Loss Labeling in Improving TCP Performance in Wired/Wireless Networks",
//! ICNP 2002) with the flip-flop filter (Kim, Noble, "Mobile Network Estimation", MobiCom 2001).
//!
//! ```text
//!   each RTT sample x:                centre = 0.1 centre + 0.9 x
//!     inside centre +- 3 MR / 1.128:  MR = 0.9 MR + 0.1 |x - previous x|, not an outlier
//!     outside:                        an outlier
//!   loss    more than `outliers` outliers in the last `history` samples: congestion, as NewReno
//!           otherwise a random loss: only the retransmission
//!   timeout as NewReno
//! ```
//!
//! The filter classifies a loss by the variation of the RTT, because congestion makes the RTT jump.
//! Retransmissions of a link layer have the same effect and are then classified as congestion.
//! `history` and `outliers` are chosen here; they are not in the available sources. The moving
//! range MR begins at half of the first sample; its minimum is one clock tick.

use super::super::config::{Config, RecoveryKind};
use super::Congestion;
use super::family::AlgorithmKeys;
use super::sample::Delivery;
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::Instant;

/// Weight of the previous value in the agile filter.
const AGILE: f64 = 0.1;
const STABLE: f64 = 0.9;
/// Control limits in moving ranges: three standard deviations. The mean range of two values is
/// 1.128 standard deviations.
const LIMIT: f64 = 3.0 / 1.128;

table! {
    /// NewReno-FF: losses with a steady RTT are random and do not reduce the window.
    pub struct NewRenoFfKeys as "newreno-ff" {
        /// Number of latest RTT samples examined.
        history: u32 = "10", Limits::range(1, 64);
        /// Maximum number of outliers among them for a random loss; more indicate congestion.
        outliers: u32 = "2", Limits::range(0, 64);
    }
}

impl Copy for NewRenoFfKeys {}

impl AlgorithmKeys for NewRenoFfKeys {
    type Machine = NewRenoFf;

    const RECOVERY: [RecoveryKind; 2] = [RecoveryKind::NewReno; 2];

    fn build(&self, config: &Config, cwnd: f64) -> NewRenoFf {
        NewRenoFf {
            keys: *self,
            window: Window::new(config, cwnd),
            filter: FlipFlop::new(config.clock_granularity.as_secs_f64()),
        }
    }
}

/// Flip-flop filter, in seconds.
#[derive(Clone, Copy, Debug)]
struct FlipFlop {
    centre: f64,
    moving_range: f64,
    least_range: f64,
    /// Previous sample; zero before the first.
    last: f64,
    /// Whether each of the latest 64 samples was an outlier; the latest is the lowest bit.
    outliers: u64,
}

impl FlipFlop {
    fn new(least_range: f64) -> Self {
        FlipFlop { centre: 0.0, moving_range: 0.0, least_range, last: 0.0, outliers: 0 }
    }

    fn add(&mut self, sample: f64) {
        if self.last == 0.0 {
            (self.centre, self.moving_range) = (sample, sample / 2.0);
        }
        let last = if self.last == 0.0 { sample } else { self.last };
        self.last = sample;
        let is_outlier = (sample - self.centre).abs() > LIMIT * self.moving_range;
        self.outliers = self.outliers << 1 | u64::from(is_outlier);
        if !is_outlier {
            let range = STABLE * self.moving_range + (1.0 - STABLE) * (sample - last).abs();
            self.moving_range = range.max(self.least_range);
        }
        self.centre = AGILE * self.centre + (1.0 - AGILE) * sample;
    }

    /// Returns the number of outliers in the latest `history` samples.
    fn count(&self, history: u32) -> u32 {
        (self.outliers & (u64::MAX >> (64 - history))).count_ones()
    }
}

/// Reno's window, reduced only by losses classified as congestion.
#[derive(Clone, Copy, Debug)]
pub struct NewRenoFf {
    keys: NewRenoFfKeys,
    window: Window,
    filter: FlipFlop,
}

impl WindowLaw for NewRenoFf {
    window_field!();

    fn threshold(&mut self, _now: Instant, cause: Cause, in_use: f64) -> f64 {
        let is_congested = self.filter.count(self.keys.history) > self.keys.outliers;
        if cause == Cause::Congestion(Congestion::Loss) && !is_congested {
            self.window.unchanged()
        } else {
            in_use / 2.0
        }
    }

    fn measure(&mut self, delivery: &Delivery) {
        if let Some(rtt) = delivery.rtt {
            self.filter.add(rtt.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CongestionControl;
    use super::super::testing::{Acks, algorithm, avoid, ms};
    use super::*;

    /// 100 ms gives MR = 50, then 45 without a change. 160 ms is within 100 +- 119.7 and gives MR =
    /// 46.5 and a centre of 154. 300 ms exceeds 154 + 123.7.
    #[test]
    fn the_filter_by_hand() {
        let mut filter = FlipFlop::new(0.001);
        for (sample, range, centre, outliers) in [
            (0.1, 0.045, 0.1, 0),
            (0.16, 0.0465, 0.154, 0),
            (0.3, 0.0465, 0.2854, 1),
            (0.3, 0.04185, 0.29854, 1),
        ] {
            filter.add(sample);
            assert!((filter.moving_range - range).abs() < 1e-12, "{}", filter.moving_range);
            assert!((filter.centre - centre).abs() < 1e-12, "{}", filter.centre);
            assert_eq!(filter.count(10), outliers);
        }
        assert_eq!(filter.count(1), 0, "the latest was quiet");
    }

    #[test]
    fn steady_round_trips_make_a_loss_random() {
        for (rtts, cwnd) in [([100.0, 101.0], 20.0), ([100.0, 300.0], 10.0)] {
            let mut algorithm = algorithm::<NewRenoFfKeys>(20.0);
            avoid(&mut algorithm, 20.0);
            let mut acks = Acks::new();
            (0..60).for_each(|_| acks.ack(&mut algorithm, 100.0, 1.0));
            // Three jumps of the RTT, up and down.
            for _ in 0..3 {
                rtts.iter().for_each(|rtt| acks.ack(&mut algorithm, *rtt, 1.0));
            }
            algorithm.set_cwnd(20.0);
            algorithm.on_congestion(ms(0.0), Congestion::Loss, 20.0);
            assert_eq!(algorithm.cwnd(), cwnd, "{rtts:?}");
            algorithm.on_timeout(ms(0.0), Some(cwnd));
            assert_eq!((algorithm.cwnd(), algorithm.ssthresh()), (1.0, cwnd / 2.0));
        }
    }
}
