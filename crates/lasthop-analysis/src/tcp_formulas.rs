//! Throughput of TCP as a function of packet loss and RTT: Mathis and Padhye (PFTK).
//!
//! All formulas give segments per second, with p the probability of a loss event, R the RTT and T₀ the first
//! retransmission timeout in seconds, b the segments per ACK, W the receiver's window in segments.
//!
//! - **Mathis**: K / (R √p), K = √(3 / 2b) for losses at regular distance. For independent losses
//!   the authors measure about 1.31 (b = 1) and 0.93 (b = 2), 1.07 times as much.
//! - **PFTK simplified**: min(W / R, 1 / (R √(2bp/3) + T₀ min(1, 3 √(3bp/8)) p (1 + 32p²)))
//! - **PFTK full**: (A + w + Q(w)/(1-p)) / (R n + Q(w) T₀ f(p)/(1-p)) with A = (1-p)/p,
//!   E = (2+b)/3b + √(8(1-p)/3bp + ((2+b)/3b)²), f(p) = 1 + p + 2p² + 4p³ + 8p⁴ + 16p⁵ + 32p⁶,
//!   Q(w) = min(1, (1-(1-p)³)(1 + (1-p)³ (1-(1-p)^(w-3))) / (1-(1-p)^w));
//!   w = E and n = bE/2 + 1 if E < W, w = W and n = bW/8 + A/W + 2 otherwise
//!
//! Sources: M. Mathis, J. Semke, J. Mahdavi, T. Ott, "The macroscopic behavior of the TCP congestion
//! avoidance algorithm", CCR 27(3), 1997. J. Padhye, V. Firoiu, D. Towsley, J. Kurose, "Modeling TCP
//! Reno performance", IEEE/ACM Trans. Networking 8(2), 2000. The formulas are quoted from secondary
//! literature and have not been compared with the two papers.
//!
//! Limitations: slow start, queues and variants other than Reno are not modelled. PFTK assumes that all
//! packets of a round after the first loss are lost, and therefore underestimates the throughput slightly
//! for independent losses.
//!
//! ```
//! use lasthop_analysis::tcp_formulas::{LossSpacing, TcpPath};
//!
//! // 1 % loss, RTT 100 ms, first RTO 1 s, an ACK for each segment, no window limit.
//! let path = TcpPath::new(0.01, 0.1, 1.0, 1, f64::INFINITY)?;
//! assert!((path.mathis(LossSpacing::Regular) - 150.0_f64.sqrt() * 10.0).abs() < 1e-9);
//! # Ok::<(), lasthop_analysis::AnalysisError>(())
//! ```

use super::{AnalysisError, Result, count, positive, probability};

/// A path and its TCP connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpPath {
    loss: f64,
    round_trip: f64,
    timeout: f64,
    segments_per_ack: f64,
    window: f64,
}

/// Distribution of the losses, for [`TcpPath::mathis`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LossSpacing {
    /// Losses at regular distance: K = √(3 / 2b).
    #[default]
    Regular,
    /// Independent losses: 1.07 times the value for regular distance.
    Independent,
}

impl TcpPath {
    /// Creates a path. `loss`: loss probability; `round_trip` and first timeout in seconds;
    /// segments per ACK, usually 1 or 2; maximum window in segments, infinite for no limit.
    ///
    /// # Errors
    /// If an argument is out of its range, or the throughput is unlimited: no loss and no window.
    pub fn new(
        loss: f64,
        round_trip: f64,
        timeout: f64,
        segments_per_ack: u32,
        window: f64,
    ) -> Result<Self> {
        let loss = probability("loss", loss)?;
        let round_trip = positive("round_trip", round_trip, "seconds")?;
        let timeout = positive("timeout", timeout, "seconds")?;
        let segments_per_ack = f64::from(count("segments_per_ack", segments_per_ack, 1..=1000)?);
        if window.is_nan() || window < 1.0 {
            let allowed = "segments, at least 1, or infinite";
            return Err(AnalysisError::new("window", window, allowed));
        }
        // Below this value, 1 / p is not finite.
        if window.is_infinite() && loss < f64::MIN_POSITIVE {
            return Err(AnalysisError::new("loss", loss, "above 0 where no window limits TCP"));
        }
        Ok(TcpPath { loss, round_trip, timeout, segments_per_ack, window })
    }

    /// Returns segments per second by the square-root formula, at most W / R.
    pub fn mathis(&self, spacing: LossSpacing) -> f64 {
        let factor = match spacing {
            LossSpacing::Regular => 1.0,
            LossSpacing::Independent => 1.31 / 1.5f64.sqrt(),
        };
        let window = factor * (1.5 / self.segments_per_ack / self.loss).sqrt();
        window.min(self.window) / self.round_trip
    }

    /// Returns segments per second by the simplified form of PFTK.
    pub fn padhye_simplified(&self) -> f64 {
        let (p, b) = (self.loss, self.segments_per_ack);
        let waiting = (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0);
        let time = self.round_trip * (2.0 * b * p / 3.0).sqrt()
            + self.timeout * waiting * p * (1.0 + 32.0 * p * p);
        (1.0 / time).min(self.window / self.round_trip)
    }

    /// Returns segments per second by the full form of PFTK, at most W / R. The formula counts
    /// segments sent during timeouts in addition to those of the window.
    pub fn padhye(&self) -> f64 {
        let (p, b) = (self.loss, self.segments_per_ack);
        if p < f64::MIN_POSITIVE {
            return self.window / self.round_trip;
        }
        let arrival = 1.0 - p;
        let offset = (2.0 + b) / (3.0 * b);
        let unlimited = offset + (8.0 * arrival / (3.0 * b * p) + offset * offset).sqrt();
        let is_limited = unlimited >= self.window;
        let window = if is_limited { self.window } else { unlimited };
        let backoff = 1.0 + p * (1.0 + p * (2.0 + p * (4.0 + p * (8.0 + p * (16.0 + p * 32.0)))));
        let timeouts = timeout_share(p, window);
        let rounds = if is_limited {
            b / 8.0 * window + arrival / (p * window) + 2.0
        } else {
            b / 2.0 * window + 1.0
        };
        // Numerator and denominator are multiplied by p (1 - p) to avoid infinities at the ends of
        // the range.
        let segments = arrival * arrival + p * (arrival * window + timeouts);
        let time = p * (arrival * self.round_trip * rounds + timeouts * self.timeout * backoff);
        (segments / time).min(self.window / self.round_trip)
    }
}

/// Returns Q: the probability that a loss in a window of `window` segments ends in a timeout.
fn timeout_share(loss: f64, window: f64) -> f64 {
    if window <= 3.0 || loss >= 1.0 {
        return 1.0;
    }
    // 1 - (1-p)^n without cancellation.
    let some = |n: f64| -(n * (-loss).ln_1p()).exp_m1();
    (some(3.0) * (1.0 + (1.0 - some(3.0)) * some(window - 3.0)) / some(window)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(loss: f64, window: f64) -> TcpPath {
        TcpPath::new(loss, 0.1, 0.4, 1, window).unwrap()
    }

    #[test]
    fn small_losses_end_in_the_square_root_law() {
        for segments_per_ack in [1, 2] {
            let path = TcpPath::new(1e-8, 0.1, 0.4, segments_per_ack, f64::INFINITY).unwrap();
            let mathis = path.mathis(LossSpacing::Regular);
            assert!((path.padhye_simplified() / mathis - 1.0).abs() < 1e-3);
            assert!((path.padhye() / mathis - 1.0).abs() < 1e-3);
        }
        let constant = path(1e-4, f64::INFINITY).mathis(LossSpacing::Regular) * 0.1 * 1e-2;
        assert!((constant - 1.2247).abs() < 1e-4);
        let constant = path(1e-4, f64::INFINITY).mathis(LossSpacing::Independent) * 0.1 * 1e-2;
        assert!((constant - 1.31).abs() < 1e-12);
    }

    #[test]
    fn the_full_form_by_hand() {
        // p = 0.02, b = 1: E = 1 + √(130.6667 + 1) = 12.474609; Q = (1 - 0.98³)(1 + 0.98³ (1 -
        // 0.98^9.474609)) / (1 - 0.98^12.474609) = 0.058808 · 1.163924 / 0.222779 = 0.307248;
        // f = 1.020833; (49 + 12.474609 + 0.313518) / (0.1 · 7.237305 + 0.307248 · 0.4 · 1.020833 /
        // 0.98) = 61.788127 / 0.851750 = 72.5425.
        assert!((path(0.02, f64::INFINITY).padhye() - 72.54).abs() < 0.02);
    }

    #[test]
    fn a_window_limits_and_total_loss_leaves_timeouts() {
        assert_eq!(path(0.0, 20.0).padhye(), 200.0);
        assert_eq!(path(0.0, 20.0).padhye_simplified(), 200.0);
        assert_eq!(path(0.0, 20.0).mathis(LossSpacing::Regular), 200.0);
        assert!(path(0.001, 8.0).padhye() < 80.0);
        // All segments are lost: one segment per timeout, which doubles six times.
        assert!((path(1.0, f64::INFINITY).padhye() - 1.0 / (0.4 * 64.0)).abs() < 1e-12);
    }

    #[test]
    fn unlimited_throughput_is_refused() {
        let error = TcpPath::new(0.0, 0.1, 0.4, 1, f64::INFINITY).unwrap_err();
        assert!(error.to_string().starts_with("loss: found 0; expected"), "{error}");
        assert_eq!(TcpPath::new(0.1, 0.0, 0.4, 1, 4.0).unwrap_err().argument, "round_trip");
        assert_eq!(TcpPath::new(0.1, 0.1, -1.0, 1, 4.0).unwrap_err().argument, "timeout");
        assert_eq!(TcpPath::new(0.1, 0.1, 1.0, 0, 4.0).unwrap_err().argument, "segments_per_ack");
        assert_eq!(TcpPath::new(0.1, 0.1, 1.0, 1, 0.5).unwrap_err().argument, "window");
    }
}
