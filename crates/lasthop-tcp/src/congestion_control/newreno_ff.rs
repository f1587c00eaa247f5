//! NewReno-FF (Barman, Matta, "Effectiveness of Loss Labeling in Improving TCP Performance in Wired/Wireless Networks",
//! ICNP 2002) with the flip-flop filter (Kim, Noble, "Mobile Network Estimation", MobiCom 2001).
//!
//! ```text
//!   each sample x of the round trip:   centre = 0.1 centre + 0.9 x
//!     inside centre +- 3 MR / 1.128:   MR = 0.9 MR + 0.1 |x - the last|, a quiet sample
//!     outside:                         an outlier
//!   loss    more than `outliers` of the last `history` samples were outliers: congestion, as NewReno
//!           otherwise a random loss: nothing but the retransmission
//!   timeout as NewReno
//! ```
//!
//! A path is judged by how its round trips vary: congestion makes them jump. Repeats of a link do too, and are then taken
//! for congestion. `history` and `outliers` are not in the sources at hand: our choice. The moving range begins at half
//! of the first sample and does not fall below a tick of the clock.

use super::super::config::{Config, RecoveryKind};
use super::Congestion;
use super::family::LawKeys;
use super::sample::{AckSample, Delivery};
use super::window::{Cause, Window, WindowLaw};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::Instant;

/// Weight of what is known, in the agile filter and in the moving range.
const AGILE: f64 = 0.1;
const STABLE: f64 = 0.9;
/// Control limits, in moving ranges: three standard deviations, of which a range of two values has 1.128.
const LIMIT: f64 = 3.0 / 1.128;

table! {
    /// NewReno-FF: losses on a path whose round trips are steady are random and cost nothing.
    pub struct NewRenoFfKeys as "newreno-ff" {
        /// Samples of the round trip that are judged.
        history: u32 = "10", Limits::range(1, 64);
        /// More outliers among them mean congestion.
        outliers: u32 = "2", Limits::range(0, 64);
    }
}

impl Copy for NewRenoFfKeys {}

impl LawKeys for NewRenoFfKeys {
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

/// The filter, in seconds.
#[derive(Clone, Copy, Debug)]
struct FlipFlop {
    centre: f64,
    moving_range: f64,
    least_range: f64,
    /// Zero before the first.
    last: f64,
    /// The latest 64 samples, the last one in the lowest bit: was it an outlier?
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

    /// Outliers among the latest `history` samples.
    fn count(&self, history: u32) -> u32 {
        (self.outliers & (u64::MAX >> (64 - history))).count_ones()
    }
}

/// Reno's window, for losses that look like congestion.
#[derive(Clone, Copy, Debug)]
pub struct NewRenoFf {
    keys: NewRenoFfKeys,
    window: Window,
    filter: FlipFlop,
}

impl WindowLaw for NewRenoFf {
    fn state(&self) -> &Window {
        &self.window
    }

    fn state_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn grow(&mut self, sample: &AckSample) {
        self.window.reno(sample);
    }

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
    use super::super::testing::{Acks, avoid, law, ms};
    use super::*;

    /// By hand: 100 ms (MR 50, then 45 for no change), 160 ms lies within 100 +- 119.7 and makes MR 46.5 and the centre
    /// 154; 300 ms lies beyond 154 + 123.7.
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
            let mut law = law::<NewRenoFfKeys>(20.0);
            avoid(&mut law, 20.0);
            let mut acks = Acks::new();
            (0..60).for_each(|_| acks.ack(&mut law, 100.0, 1.0));
            // Three jumps up and down.
            for _ in 0..3 {
                rtts.iter().for_each(|rtt| acks.ack(&mut law, *rtt, 1.0));
            }
            law.set_cwnd(20.0);
            law.on_congestion(ms(0.0), Congestion::Loss, 20.0);
            assert_eq!(law.cwnd(), cwnd, "{rtts:?}");
            law.on_timeout(ms(0.0), Some(cwnd));
            assert_eq!((law.cwnd(), law.ssthresh()), (1.0, cwnd / 2.0));
        }
    }
}
