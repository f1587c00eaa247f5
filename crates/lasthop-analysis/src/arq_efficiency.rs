//! Efficiency of the classic link protocols on frames lost independently: the fraction of the
//! link's rate that carries new frames, for a sender that always has some.
//!
//! Time is counted in frame times. `round_trip` runs from the start of a frame to the arrival of
//! its acknowledgment: 1 + 2 a with propagation a and an acknowledgment of no length. A loss is
//! noticed, by a timeout or a negative acknowledgment, `recovery` frame times after the start of
//! the frame, and that is no sooner than an acknowledgment could have come.
//!
//! - stop-and-wait: (1-p) / ((1-p) R + p T)
//! - go-back-N: from one restart to the next come n good frames, geometric, then a lost one. The lost
//!   one starts after ⌊n/W⌋ R + (n mod W) frame times with a window W < R, after n with W ≥ R, so
//!   the efficiency is (q/p) / (q/p + max(R - W, 0) f + T), q = 1 - p, f = E⌊n/W⌋ = q^W / (1 - q^W)
//! - selective repeat: (1-p) min(1, W / R). Exact for W ≥ R in a window that a missing frame does
//!   not stall; with one, an upper bound.
//! - NACK-only RLP with n rounds: residual loss p (1 - (1-p_c)(1-p))^n
//!
//! Source: textbook results (for example W. Stallings, "Data and Computer Communications", on link
//! control performance). With R = T = 1 + 2a and W ≥ R go-back-N is (1-p) / (1 + 2ap). For W < R
//! textbooks have W (1-p) / ((1+2a)(1 - p + pW)), which takes f as q / (pW); ours is exact.
//!
//! Not modelled: lost acknowledgments (`control_loss` of the RLP apart), losses in bursts, stalls of
//! a selective-repeat window behind a missing frame.

use super::{AnalysisError, Result, count, positive, probability};

/// What the efficiency of a protocol depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArqLink {
    loss: f64,
    round_trip: f64,
    recovery: f64,
}

impl ArqLink {
    /// Frame loss probability below 1; frame times from the start of a frame to its
    /// acknowledgment, at least 1; frame times from the start of a lost frame to its
    /// retransmission, at least as many.
    ///
    /// # Errors
    /// If one is out of its range.
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

    /// One frame at a time.
    pub fn stop_and_wait(&self) -> f64 {
        let arrives = 1.0 - self.loss;
        arrives / (arrives * self.round_trip + self.loss * self.recovery)
    }

    /// At most `window` frames outstanding; a loss repeats all from the lost one on.
    ///
    /// # Errors
    /// If `window` is 0.
    pub fn go_back_n(&self, window: u32) -> Result<f64> {
        let window = f64::from(count("window", window, 1..=u32::MAX)?);
        let arrives = 1.0 - self.loss;
        // p f, which tends to 1 / W where nothing is lost.
        let rounds = if self.loss > 0.0 {
            let all = window * (-self.loss).ln_1p();
            -self.loss * all.exp() / all.exp_m1()
        } else {
            1.0 / window
        };
        let idle = (self.round_trip - window).max(0.0);
        Ok(arrives / (arrives + idle * rounds + self.loss * self.recovery))
    }

    /// At most `window` frames outstanding; only lost frames are repeated.
    ///
    /// # Errors
    /// If `window` is 0.
    pub fn selective_repeat(&self, window: u32) -> Result<f64> {
        let window = f64::from(count("window", window, 1..=u32::MAX)?);
        Ok((1.0 - self.loss) * (window / self.round_trip).min(1.0))
    }
}

/// Fraction of frames that a NACK-only radio link protocol leaves lost after `rounds`
/// retransmissions, each of which takes a NACK (lost with probability `control_loss`) and a frame.
/// The receiver counts the rounds.
///
/// # Errors
/// If a loss is no probability or `rounds` exceeds 1000.
pub fn rlp_residual_loss(loss: f64, control_loss: f64, rounds: u32) -> Result<f64> {
    let loss = probability("loss", loss)?;
    let control = probability("control_loss", control_loss)?;
    let rounds = count("rounds", rounds, 0..=1000)?;
    Ok(loss * (1.0 - (1.0 - control) * (1.0 - loss)).powi(rounds as i32))
}
