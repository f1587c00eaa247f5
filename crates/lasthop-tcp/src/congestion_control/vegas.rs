//! Vegas (Brakmo, O'Malley, Peterson, "TCP Vegas: New Techniques for Congestion Detection and Avoidance", SIGCOMM 1994;
//! Linux `tcp_vegas`).
//!
//! ```text
//!   once per round trip, with its minimum RTT:   diff = cwnd (1 - base_rtt / RTT)   segments in queues
//!   slow start   doubles every other round trip; ends if diff > gamma with cwnd = cwnd base_rtt / RTT + 1
//!   avoidance    diff < alpha: cwnd += 1     diff > beta: cwnd -= 1     otherwise cwnd is unchanged
//!   congestion   as Reno
//! ```
//!
//! In a round trip with fewer than three samples, the window changes like Reno's. alpha and beta
//! are Linux's, 2 and 4 (the paper: 1 and 3).
//!
//! *Not modelled*: retransmission after fine-grained timeouts at the first duplicate, and the
//! reduction by 1/4 for losses detected this way.

use super::super::config::Config;
use super::family::AlgorithmKeys;
use super::rounds::Rounds;
use super::sample::{AckSample, Delivery};
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::Instant;

/// Minimum number of samples per round trip: a single sample could be a delayed ACK (Linux).
const SAMPLES: u32 = 3;
const QUEUED: Limits = Limits::range(0, 1_000);

table! {
    /// Vegas: keeps a few segments in queues, measured by the RTT, and so avoids losses.
    pub struct VegasKeys as "vegas" {
        /// Number of queued segments below which the window grows.
        alpha: u32 = "2", QUEUED;
        /// Number of queued segments above which the window shrinks.
        beta: u32 = "4", QUEUED;
        /// Number of queued segments above which slow start ends.
        gamma: u32 = "1", QUEUED;
    }
}

impl Copy for VegasKeys {}

impl AlgorithmKeys for VegasKeys {
    type Machine = Vegas;

    fn build(&self, config: &Config, cwnd: f64) -> Vegas {
        Vegas {
            keys: *self,
            window: Window::new(config, cwnd),
            rounds: Rounds::default(),
            base_rtt: f64::INFINITY,
            doubles: true,
        }
    }
}

/// Vegas' window.
#[derive(Clone, Copy, Debug)]
pub struct Vegas {
    keys: VegasKeys,
    window: Window,
    rounds: Rounds,
    /// Minimum RTT in seconds.
    base_rtt: f64,
    /// Whether slow start grows the window in this round trip.
    doubles: bool,
}

impl Vegas {
    /// Adjusts the window after a round trip with a minimum RTT of `rtt` seconds.
    fn adjust(&mut self, rtt: f64) {
        let cwnd = self.window.cwnd();
        let holds = cwnd * self.base_rtt / rtt;
        let queued = cwnd - holds;
        let VegasKeys { alpha, beta, gamma } = self.keys;
        if self.window.is_in_slow_start() {
            if queued > f64::from(gamma) {
                self.window.set(cwnd.min(holds + 1.0).max(2.0));
                self.window.ssthresh = self.window.cwnd();
            }
            self.doubles = !self.doubles;
        } else if queued > f64::from(beta) {
            self.window.set((cwnd - 1.0).max(2.0));
            // This reduction must not start a slow start; only a loss may.
            self.window.ssthresh = self.window.ssthresh.min(self.window.cwnd());
        } else if queued < f64::from(alpha) {
            self.window.set(cwnd + 1.0);
        }
    }
}

impl WindowLaw for Vegas {
    window_field!();

    fn grow(&mut self, sample: &AckSample) {
        if let Some(round) = self.rounds.end(sample.snd_una, sample.snd_max) {
            if round.samples >= SAMPLES {
                self.adjust(round.min_rtt);
            } else {
                self.window.reno(sample);
            }
        } else if self.doubles {
            self.window.slow_start(sample);
        }
    }

    fn threshold(&mut self, _now: Instant, _cause: Cause, in_use: f64) -> f64 {
        self.rounds = Rounds::default();
        self.doubles = true;
        in_use / 2.0
    }

    fn measure(&mut self, delivery: &Delivery) {
        if let Some(rtt) = delivery.rtt {
            self.base_rtt = self.base_rtt.min(rtt.as_secs_f64());
            self.rounds.add(rtt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CongestionControl;
    use super::super::testing::{Acks, algorithm, avoid};
    use super::*;

    /// With a window of 20 and a minimum RTT of 100 ms, 20 (1 - 100 / RTT) is 1.82 at 110 ms, 3.33
    /// at 120 ms and 4.62 at 130 ms.
    #[test]
    fn the_window_follows_the_backlog() {
        for (rtt, by) in [(100.0, 1.0), (110.0, 1.0), (120.0, 0.0), (130.0, -1.0)] {
            let mut vegas = algorithm::<VegasKeys>(20.0);
            let mut acks = Acks::new();
            avoid(&mut vegas, 20.0);
            acks.round(&mut vegas, 100.0);
            vegas.set_cwnd(20.0);
            acks.round(&mut vegas, rtt);
            let before = vegas.cwnd();
            acks.round(&mut vegas, rtt);
            assert!((vegas.cwnd() - before - by).abs() < 1e-9, "{rtt}: {before} {}", vegas.cwnd());
        }
    }

    /// A bottleneck with a capacity of 50 segments per 100 ms: 2 to 4 segments stay in its queue,
    /// and the window at 52 to 54.
    #[test]
    fn it_settles_between_alpha_and_beta() {
        let mut vegas = algorithm::<VegasKeys>(30.0);
        let mut acks = Acks::new();
        avoid(&mut vegas, 30.0);
        for _ in 0..100 {
            let rtt = 100.0 * (vegas.cwnd() / 50.0).max(1.0);
            acks.round(&mut vegas, rtt);
        }
        assert!((52.0..=54.0).contains(&vegas.cwnd()), "{}", vegas.cwnd());
    }

    /// Slow start doubles the window every other round trip, and ends with more than one segment in
    /// queues.
    #[test]
    fn slow_start_grows_every_other_round() {
        let mut vegas = algorithm::<VegasKeys>(4.0);
        let mut acks = Acks::new();
        let mut windows = Vec::new();
        for _ in 0..7 {
            acks.round(&mut vegas, 100.0);
            windows.push(vegas.cwnd().round());
        }
        assert!(windows.windows(2).filter(|pair| pair[1] == pair[0]).count() >= 2, "{windows:?}");
        assert!(vegas.cwnd() >= 14.0 && vegas.ssthresh().is_infinite(), "{windows:?}");
        let before = vegas.cwnd();
        acks.rounds(&mut vegas, 130.0, 2);
        assert!(vegas.ssthresh() <= before && !vegas.window.is_in_slow_start());
    }
}
