//! BIC (Xu, Harfoush, Rhee, "Binary Increase Congestion Control for Fast Long-Distance Networks", INFOCOM 2004; Linux
//! `tcp_bic`).
//!
//! ```text
//!   W = w_max, the window before the latest loss; below 14 segments everything is as Reno
//!   avoidance   growth per window of ACKs, in segments:
//!     cwnd < W             (W - cwnd) / 4, at most 16; the last 4 segments take 5 round trips each   (binary search)
//!     W <= cwnd < W + 4    4/20                                                                      (max probing)
//!     cwnd < W + 48        (cwnd - W) / 3
//!     beyond               16
//!   congestion  W = cwnd, or 0.9 cwnd if cwnd < W (fast convergence); ssthresh = 0.8 cwnd
//!   timeout     ssthresh as for congestion; W is cleared
//! ```
//!
//! Constants are Linux's (the paper has beta = 0.875 and a divisor of 2). Before the first loss,
//! the window grows by at least 5 % per window of ACKs.
//!
//! *Not modelled*: Linux's correction for delayed ACKs.

use super::super::config::Config;
use super::family::AlgorithmKeys;
use super::sample::AckSample;
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::table;
use lasthop_base::units::Instant;

/// Window in segments below which Reno is used.
const LOW_WINDOW: f64 = 14.0;
/// Maximum growth per round trip in segments (S_max).
const MAX_INCREMENT: f64 = 16.0;
/// Multiplicative decrease (Linux: 819/1024).
const BETA: f64 = 819.0 / 1024.0;
/// Divisor of the distance to the maximum in each search step (BICTCP_B).
const DIVISOR: f64 = 4.0;
/// Duration of the last `DIVISOR` segments below the maximum, in round trips.
const SMOOTH_PART: f64 = 20.0;
/// Maximum number of ACKs per segment of growth before the first loss.
const MOST_ACKS: f64 = 20.0;

table! {
    /// BIC: binary search for the window before the latest loss, then probing beyond.
    pub struct BicKeys as "bic" {}
}

impl Copy for BicKeys {}

impl AlgorithmKeys for BicKeys {
    type Machine = Bic;

    const MEASURES: bool = false;

    fn build(&self, config: &Config, cwnd: f64) -> Bic {
        Bic { window: Window::new(config, cwnd), w_max: 0.0, prior_w_max: 0.0 }
    }
}

/// BIC's window.
#[derive(Clone, Copy, Debug)]
pub struct Bic {
    window: Window,
    /// Window before the latest loss, after fast convergence; zero before the first loss.
    w_max: f64,
    prior_w_max: f64,
}

impl Bic {
    /// Returns the number of ACKs per segment of growth.
    fn acks(&self) -> f64 {
        let (cwnd, w_max) = (self.window.cwnd(), self.w_max);
        if cwnd <= LOW_WINDOW {
            return cwnd;
        }
        let smooth = cwnd * SMOOTH_PART / DIVISOR;
        let acks = if cwnd < w_max {
            let distance = (w_max - cwnd) / DIVISOR;
            if distance > MAX_INCREMENT {
                cwnd / MAX_INCREMENT
            } else if distance <= 1.0 {
                smooth
            } else {
                cwnd / distance
            }
        } else if cwnd < w_max + DIVISOR {
            smooth
        } else if cwnd < w_max + MAX_INCREMENT * (DIVISOR - 1.0) {
            cwnd * (DIVISOR - 1.0) / (cwnd - w_max)
        } else {
            cwnd / MAX_INCREMENT
        };
        let most = if w_max == 0.0 { MOST_ACKS } else { f64::INFINITY };
        acks.min(most).max(1.0)
    }
}

impl WindowLaw for Bic {
    window_field!();

    fn grow(&mut self, sample: &AckSample) {
        if !self.window.slow_start(sample) {
            self.window.avoid(sample, self.acks());
        }
    }

    fn threshold(&mut self, _now: Instant, cause: Cause, _in_use: f64) -> f64 {
        let cwnd = self.window.cwnd();
        self.prior_w_max = self.w_max;
        self.w_max = match cause {
            Cause::Timeout => 0.0,
            _ if cwnd < self.w_max => cwnd * (1.0 + BETA) / 2.0,
            _ => cwnd,
        };
        if cwnd <= LOW_WINDOW { cwnd / 2.0 } else { cwnd * BETA }
    }

    fn undo(&mut self) {
        self.w_max = self.w_max.max(self.prior_w_max);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Acks, algorithm, ms};
    use super::super::{Congestion, CongestionControl};
    use super::*;

    /// Growth per window of ACKs after a loss at 100 segments.
    #[test]
    fn growth_around_the_maximum() {
        for (cwnd, adds) in [
            (10.0, 1.0),   // Reno
            (20.0, 16.0),  // 80 / 4 = 20, limited to 16
            (60.0, 10.0),  // 40 / 4
            (92.0, 2.0),   // 8 / 4
            (98.0, 0.2),   // the last 4 segments
            (100.0, 0.2),  // probing
            (103.0, 0.2),  //
            (109.0, 3.0),  // 9 / 3
            (130.0, 10.0), // 30 / 3
            (148.0, 16.0), //
            (500.0, 16.0), //
        ] {
            let mut bic = algorithm::<BicKeys>(cwnd);
            bic.w_max = 100.0;
            assert!((cwnd / bic.acks() - adds).abs() < 1e-9, "{cwnd}: {}", cwnd / bic.acks());
        }
        // Before the first loss: 5 % of the window.
        let mut bic = algorithm::<BicKeys>(400.0);
        assert_eq!(bic.acks(), MOST_ACKS);
        bic.w_max = 100.0;
        assert_eq!(bic.acks(), 25.0);
    }

    /// The search converges on the maximum. Each ACK adds 1/4 of the distance over the window, so
    /// that a round trip leaves exp(-1/4) of the distance. ACKs of partial segments cause a
    /// difference of up to 1 %.
    #[test]
    fn the_window_comes_back_to_its_maximum() {
        let mut bic = algorithm::<BicKeys>(100.0);
        bic.on_congestion(ms(0.0), Congestion::Loss, 100.0);
        assert!((bic.cwnd() - 100.0 * BETA).abs() < 1e-9 && bic.w_max == 100.0);
        let mut acks = Acks::new();
        let mut distance = 100.0 - bic.cwnd();
        for _ in 0..4 {
            acks.round(&mut bic, 100.0);
            distance *= (-0.25f64).exp();
            assert!((100.0 - bic.cwnd() - distance).abs() < 0.3, "{} {distance}", bic.cwnd());
        }
        acks.rounds(&mut bic, 100.0, 40);
        assert!(bic.cwnd() > 100.0);
    }

    /// 100, then a loss at 80 (below 100): W = 0.9 of it. 14 segments and less are halved. A
    /// timeout clears W.
    #[test]
    fn reductions() {
        let mut bic = algorithm::<BicKeys>(100.0);
        bic.on_congestion(ms(0.0), Congestion::Loss, 100.0);
        bic.set_cwnd(80.0);
        bic.on_congestion(ms(0.0), Congestion::Loss, 80.0);
        assert!((bic.w_max - 80.0 * (1.0 + BETA) / 2.0).abs() < 1e-9);
        bic.set_cwnd(14.0);
        bic.on_congestion(ms(0.0), Congestion::Loss, 14.0);
        assert_eq!(bic.cwnd(), 7.0);
        bic.on_timeout(ms(0.0), Some(7.0));
        assert_eq!((bic.cwnd(), bic.ssthresh(), bic.w_max), (1.0, 3.5, 0.0));
        bic.on_spurious();
        assert!(bic.cwnd() == 7.0 && bic.w_max > 0.0);
    }
}
