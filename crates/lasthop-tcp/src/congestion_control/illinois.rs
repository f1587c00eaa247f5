//! Illinois (Liu, Başar, Srikant, "TCP-Illinois: A Loss- and Delay-Based Congestion Control Algorithm for High-Speed
//! Networks", VALUETOOLS 2006; Linux `tcp_illinois`).
//!
//! ```text
//!   once per round trip: d_a = mean RTT sample - RTT_min, d_m = RTT_max - RTT_min
//!     alpha   10 for d_a <= d_m/100, else k1 / (k2 + d_a), which falls to 0.3 at d_m
//!             after a higher d_a, alpha returns to 10 only after 5 round trips with d_a <= d_m/100
//!     beta    1/8 for d_a <= d_m/10, 1/2 for d_a >= 8 d_m/10, linear in between
//!     cwnd < 15: alpha = 1, beta = 1/2
//!   avoidance    cwnd += alpha / cwnd each ACK
//!   congestion   ssthresh = (1 - beta) cwnd
//!   timeout      ssthresh as for congestion; then alpha = 1, beta = 1/2
//! ```
//!
//! *Not modelled*: the integer arithmetic of the Linux module, with which this is otherwise
//! identical.

use super::super::config::Config;
use super::family::AlgorithmKeys;
use super::rounds::Rounds;
use super::sample::{AckSample, Delivery};
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::table;
use lasthop_base::units::Instant;

const ALPHA_MIN: f64 = 0.3;
const ALPHA_MAX: f64 = 10.0;
const BETA_MIN: f64 = 0.125;
const BETA_MAX: f64 = 0.5;
/// Round trips below the first delay threshold before alpha returns to its maximum.
const THETA: u32 = 5;
/// Window in segments below which Reno is used.
const LOW_WINDOW: f64 = 15.0;

table! {
    /// Illinois: losses reduce the window; delays determine the amounts of growth and reduction.
    pub struct IllinoisKeys as "illinois" {}
}

impl Copy for IllinoisKeys {}

impl AlgorithmKeys for IllinoisKeys {
    type Machine = Illinois;

    fn build(&self, config: &Config, cwnd: f64) -> Illinois {
        Illinois {
            window: Window::new(config, cwnd),
            rounds: Rounds::default(),
            base_rtt: f64::INFINITY,
            max_rtt: 0.0,
            // Linux begins with the maximum.
            alpha: ALPHA_MAX,
            beta: BETA_MAX,
            was_above: false,
            rounds_below: 0,
        }
    }
}

/// Illinois' window.
#[derive(Clone, Copy, Debug)]
pub struct Illinois {
    window: Window,
    rounds: Rounds,
    /// Minimum RTT in seconds.
    base_rtt: f64,
    max_rtt: f64,
    alpha: f64,
    beta: f64,
    /// Whether the delay has exceeded the first threshold since alpha was at its maximum.
    was_above: bool,
    rounds_below: u32,
}

impl Illinois {
    fn alpha(&mut self, delay: f64, most: f64) -> f64 {
        let first = most / 100.0;
        if delay > first {
            self.was_above = true;
            let (most, delay) = (most - first, delay - first);
            return most * ALPHA_MAX / (most + delay * (ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN);
        }
        if self.was_above {
            self.rounds_below += 1;
            if self.rounds_below < THETA {
                return self.alpha;
            }
            (self.was_above, self.rounds_below) = (false, 0);
        }
        ALPHA_MAX
    }

    fn beta(delay: f64, most: f64) -> f64 {
        let (second, third) = (most / 10.0, most * 0.8);
        if delay <= second {
            BETA_MIN
        } else if delay >= third {
            BETA_MAX
        } else {
            BETA_MIN + (BETA_MAX - BETA_MIN) * (delay - second) / (third - second)
        }
    }

    /// Updates alpha and beta after a round trip whose samples had the given mean, in seconds.
    fn adjust(&mut self, mean: f64) {
        if self.window.cwnd() < LOW_WINDOW {
            (self.alpha, self.beta) = (1.0, BETA_MAX);
            return;
        }
        let (delay, most) = (mean - self.base_rtt, self.max_rtt - self.base_rtt);
        self.alpha = self.alpha(delay, most);
        self.beta = Illinois::beta(delay, most);
    }
}

impl WindowLaw for Illinois {
    window_field!();

    fn grow(&mut self, sample: &AckSample) {
        if let Some(round) = self.rounds.end(sample.snd_una, sample.snd_max)
            && round.samples > 0
        {
            self.adjust(round.sum / f64::from(round.samples));
        }
        if !self.window.slow_start(sample) {
            self.window.avoid(sample, self.window.cwnd() / self.alpha);
        }
    }

    fn threshold(&mut self, _now: Instant, cause: Cause, _in_use: f64) -> f64 {
        let threshold = (1.0 - self.beta) * self.window.cwnd();
        if cause == Cause::Timeout {
            (self.alpha, self.beta) = (1.0, BETA_MAX);
            (self.was_above, self.rounds_below) = (false, 0);
            self.rounds = Rounds::default();
        }
        threshold
    }

    fn measure(&mut self, delivery: &Delivery) {
        if let Some(rtt) = delivery.rtt {
            self.base_rtt = self.base_rtt.min(rtt.as_secs_f64());
            self.max_rtt = self.max_rtt.max(rtt.as_secs_f64());
            self.rounds.add(rtt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Acks, algorithm, avoid, ms};
    use super::super::{Congestion, CongestionControl};
    use super::*;

    /// With d_m = 100 ms: alpha is 10 at 1 ms and 0.3 at 100 ms, 990 / (99 + 32.33 (d - 1)) in
    /// between. beta increases from 1/8 at 10 ms to 1/2 at 80 ms.
    #[test]
    fn the_two_curves() {
        for (delay, alpha, beta) in [
            (0.0, 10.0, 0.125),
            (1.0, 10.0, 0.125),
            (4.0, 990.0 / 196.0, 0.125),
            (10.0, 990.0 / 390.0, 0.125),
            (31.0, 990.0 / 1069.0, 0.2375),
            (45.0, 990.0 / (99.0 + 44.0 * 97.0 / 3.0), 0.3125),
            (80.0, 990.0 / (99.0 + 79.0 * 97.0 / 3.0), 0.5),
            (100.0, 0.3, 0.5),
        ] {
            let mut illinois = algorithm::<IllinoisKeys>(50.0);
            assert!((illinois.alpha(delay, 100.0) - alpha).abs() < 1e-9, "{delay}");
            assert!((Illinois::beta(delay, 100.0) - beta).abs() < 1e-9, "{delay}");
        }
    }

    #[test]
    fn five_quiet_rounds_bring_the_greatest_growth_back() {
        let mut illinois = algorithm::<IllinoisKeys>(50.0);
        illinois.alpha = illinois.alpha(50.0, 100.0);
        let slow = illinois.alpha;
        let alphas: Vec<_> = (0..6).map(|_| illinois.alpha(0.0, 100.0)).collect();
        assert_eq!(alphas, [slow, slow, slow, slow, 10.0, 10.0]);
    }

    /// With empty queues, 10 segments per window and a reduction by 1/8; with full queues, 0.3 and
    /// 1/2.
    #[test]
    fn windows_on_an_empty_and_on_a_full_path() {
        for (rtt, adds, kept) in [(100.0, 10.0, 0.875), (200.0, 0.3, 0.5)] {
            let mut illinois = algorithm::<IllinoisKeys>(50.0);
            let mut acks = Acks::new();
            avoid(&mut illinois, 50.0);
            for sample in [200.0, 100.0, 100.0] {
                acks.ack(&mut illinois, sample, 1.0);
            }
            illinois.was_above = false;
            illinois.set_cwnd(50.0);
            acks.rounds(&mut illinois, rtt, 3);
            illinois.set_cwnd(50.0);
            acks.round(&mut illinois, rtt);
            assert!((illinois.cwnd() - 50.0 - adds).abs() < 1.0, "{rtt}: {}", illinois.cwnd());
            illinois.set_cwnd(50.0);
            illinois.on_congestion(ms(0.0), Congestion::Loss, 50.0);
            assert!((illinois.cwnd() - 50.0 * kept).abs() < 1e-9, "{rtt}: {}", illinois.cwnd());
        }
    }

    #[test]
    fn small_windows_are_renos() {
        let mut illinois = algorithm::<IllinoisKeys>(10.0);
        let mut acks = Acks::new();
        avoid(&mut illinois, 10.0);
        acks.rounds(&mut illinois, 100.0, 3);
        assert!((illinois.cwnd() - 13.0).abs() < 0.7, "{}", illinois.cwnd());
        illinois.on_congestion(ms(0.0), Congestion::Loss, 13.0);
        assert_eq!(illinois.ssthresh(), illinois.cwnd());
        illinois.on_timeout(ms(0.0), Some(13.0));
        assert_eq!((illinois.alpha, illinois.beta), (1.0, 0.5));
    }
}
