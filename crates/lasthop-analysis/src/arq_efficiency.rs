//! Efficiency of classic link protocols with independent frame losses: the fraction of the link's rate
//! that carries new frames, for a saturated sender.
//!
//! Time is counted in frame times. `round_trip` is the time R from the start of a frame to the arrival of
//! its acknowledgment: 1 + 2 a with propagation delay a and an acknowledgment of length 0. A loss is
//! detected `recovery` frame times T after the start of the frame, by a timeout or a negative
//! acknowledgment. T is at least R.
//!
//! - stop-and-wait: (1-p) / ((1-p) R + p T)
//! - go-back-N: between restarts, n frames are received, n geometric, then one is lost. The lost frame
//!   starts after ⌊n/W⌋ R + (n mod W) frame times with a window W < R, after n with W ≥ R. The efficiency
//!   is (q/p) / (q/p + max(R - W, 0) f + T), q = 1 - p, f = E⌊n/W⌋ = q^W / (1 - q^W)
//! - selective repeat: (1-p) min(1, W / R). Exact for W ≥ R if a missing frame does not stall the window;
//!   otherwise an upper bound.
//! - NACK-only RLP with n rounds: residual loss p (1 - (1-p_c)(1-p))^n
//!
//! Source: textbook results (for example W. Stallings, "Data and Computer Communications", on link
//! control performance). With R = T = 1 + 2a and W ≥ R go-back-N is (1-p) / (1 + 2ap). For W < R
//! textbooks give W (1-p) / ((1+2a)(1 - p + pW)), which approximates f by q / (pW); the form above is exact.
//!
//! Limitations: lost acknowledgments (except `control_loss` of the RLP), loss bursts, and stalls of a
//! selective-repeat window behind a missing frame are not modelled.
//!
//! ```
//! use lasthop_analysis::arq_efficiency::rlp_residual_loss;
//!
//! // Three rounds at 10 % loss, no NACK lost: four losses in a row.
//! assert!((rlp_residual_loss(0.1, 0.0, 3)? - 0.1_f64.powi(4)).abs() < 1e-12);
//! # Ok::<(), lasthop_analysis::AnalysisError>(())
//! ```

use super::{AnalysisError, Result, count, positive, probability};

/// Link parameters on which the efficiency of a protocol depends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArqLink {
    loss: f64,
    round_trip: f64,
    recovery: f64,
}

impl ArqLink {
    /// Creates a link. `loss`: frame loss probability, below 1. `round_trip`: frame times from the
    /// start of a frame to its acknowledgment, at least 1. `recovery`: frame times from the start
    /// of a lost frame to its retransmission, at least `round_trip`.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn new(loss: f64, round_trip: f64, recovery: f64) -> Result<Self> {
        if probability("loss", loss)? >= 1.0 {
            return Err(AnalysisError::new("loss", loss, "a probability below 1"));
        }
        if positive("round_trip", round_trip, "frame times")? < 1.0 {
            let allowed = "at least 1 frame time, that of the frame itself";
            return Err(AnalysisError::new("round_trip", round_trip, allowed));
        }
        if positive("recovery", recovery, "frame times")? < round_trip {
            let allowed = format!("at least the round trip, {round_trip} frame times");
            return Err(AnalysisError::new("recovery", recovery, allowed));
        }
        Ok(ArqLink { loss, round_trip, recovery })
    }

    /// Returns the efficiency of stop-and-wait: one frame at a time.
    pub fn stop_and_wait(&self) -> f64 {
        let arrives = 1.0 - self.loss;
        arrives / (arrives * self.round_trip + self.loss * self.recovery)
    }

    /// Returns the efficiency of go-back-N: at most `window` outstanding frames; after a loss, all
    /// frames from the lost one onwards are retransmitted.
    ///
    /// # Errors
    /// If `window` is 0.
    pub fn go_back_n(&self, window: u32) -> Result<f64> {
        let window = f64::from(count("window", window, 1..=u32::MAX)?);
        let arrives = 1.0 - self.loss;
        // p f, which tends to 1 / W as p tends to 0.
        let rounds = if self.loss > 0.0 {
            let all = window * (-self.loss).ln_1p();
            -self.loss * all.exp() / all.exp_m1()
        } else {
            1.0 / window
        };
        let idle = (self.round_trip - window).max(0.0);
        Ok(arrives / (arrives + idle * rounds + self.loss * self.recovery))
    }

    /// Returns the efficiency of selective repeat: at most `window` outstanding frames; only lost
    /// frames are retransmitted.
    ///
    /// # Errors
    /// If `window` is 0.
    pub fn selective_repeat(&self, window: u32) -> Result<f64> {
        let window = f64::from(count("window", window, 1..=u32::MAX)?);
        Ok((1.0 - self.loss) * (window / self.round_trip).min(1.0))
    }
}

/// Returns the residual frame loss of a NACK-only radio link protocol after `rounds`
/// retransmissions. Each needs a NACK, lost with probability `control_loss`, and a frame. The
/// receiver counts the rounds.
///
/// # Errors
/// If a loss is not a probability or `rounds` exceeds 1000.
pub fn rlp_residual_loss(loss: f64, control_loss: f64, rounds: u32) -> Result<f64> {
    let loss = probability("loss", loss)?;
    let control = probability("control_loss", control_loss)?;
    let rounds = count("rounds", rounds, 0..=1000)?;
    Ok(loss * (1.0 - (1.0 - control) * (1.0 - loss)).powi(rounds as i32))
}
