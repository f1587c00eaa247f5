//! Loss of a single frame under bit errors: the long-run fraction of frames of one size that an error
//! process destroys.
//!
//! - independent bit errors of rate e: 1 - (1-e)^L
//! - errors at exponential intervals of mean M bits: 1 - exp(-L / M)
//! - two states in continuous time, good and bad, of exponential duration g and b: 1 - π exp(G) 1,
//!   with
//!
//! ```text
//!   G = | L ln(1-e_g) - T/g           T/g          |     π = (g, b) / (g + b)
//!       |        T/b           L ln(1-e_b) - T/b   |
//! ```
//!
//! for a frame of L bits and air time T. Times at which frames are sent must not depend on the state.
//!
//! Source: [`lasthop_link::channel`], whose processes these are; the exponential of a 2 × 2 matrix is
//! textbook.
//!
//! Limitation: the correlation of losses is not modelled; see [`super::gilbert_elliott`] for its channel.

use super::{Result, not_negative, positive, probability};

/// Returns the loss probability of a frame of `bits` under independent bit errors.
///
/// # Errors
/// If `ber` is not a probability.
pub fn independent_bits(ber: f64, bits: u64) -> Result<f64> {
    let ber = probability("ber", ber)?;
    // The product of 0 and the logarithm of 0 is NaN.
    Ok(if bits == 0 { 0.0 } else { -f64::exp_m1(bits as f64 * f64::ln_1p(-ber)) })
}

/// Returns the loss probability of a frame of `bits` with errors at exponential intervals of `mean`
/// bits.
///
/// # Errors
/// If `mean` is not above 0.
pub fn exponential_bits(mean: f64, bits: u64) -> Result<f64> {
    Ok(-f64::exp_m1(-(bits as f64) / positive("mean", mean, "bits")?))
}

/// A channel with a good and a bad state in continuous time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoStateLoss {
    /// Mean durations of the good and the bad state, in seconds.
    pub durations: [f64; 2],
    /// Bit error rates in the good and the bad state.
    pub bers: [f64; 2],
}

impl TwoStateLoss {
    /// Returns the loss probability of a frame of `bits` with an air time of `airtime` seconds.
    ///
    /// # Errors
    /// If a duration is not above 0, a bit error rate is not a probability, or the air time is
    /// negative.
    pub fn of(&self, bits: u64, airtime: f64) -> Result<f64> {
        let [good, bad] = self.durations;
        let (good, bad) = (positive("good", good, "s")?, positive("bad", bad, "s")?);
        for (argument, ber) in [("good_ber", self.bers[0]), ("bad_ber", self.bers[1])] {
            probability(argument, ber)?;
        }
        let airtime = not_negative("airtime", airtime, "s")?;
        // If every bit of a state is wrong, a frame survives in the other state only.
        let alone = |state: f64, other: f64, ber: f64| {
            let survival = f64::exp(bits as f64 * f64::ln_1p(-ber) - airtime / state);
            Ok(1.0 - state / (state + other) * survival)
        };
        match self.bers.map(|ber| bits > 0 && ber >= 1.0) {
            [true, true] => return Ok(1.0),
            [false, true] => return alone(good, bad, self.bers[0]),
            [true, false] => return alone(bad, good, self.bers[1]),
            [false, false] if bits == 0 => return Ok(0.0),
            [false, false] => {}
        }
        let [of_good, of_bad] = self.bers.map(|ber| bits as f64 * f64::ln_1p(-ber));
        let (g, h) = (airtime / good, airtime / bad);
        let (in_good, in_bad) = (good / (good + bad), bad / (good + bad));
        // With the eigenvalues u > d of G, survival is (1 - w) e^u + w e^d. The form avoids
        // cancellation, both for small losses and for frames far longer than the periods.
        let apart = of_good - of_bad;
        let mean = (of_good + of_bad - g - h) / 2.0;
        let root = ((apart - g + h).powi(2) / 4.0 + g * h).sqrt();
        if root - mean == 0.0 {
            return Ok(0.0);
        }
        let u = (of_good * h + of_bad * g - of_good * of_bad) / (root - mean);
        let d = mean - root;
        let s = (g + h + (in_good - in_bad) * apart) / 2.0;
        let w = match root {
            0.0 => 0.0,
            _ if s > 0.0 => in_good * in_bad * apart * apart / (2.0 * root * (root + s)),
            _ => (root - s) / (2.0 * root),
        };
        // Not a negation, which would turn 0 into -0.
        Ok((0.0 - u.exp_m1() * (1.0 - w) - d.exp_m1() * w).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: TwoStateLoss = TwoStateLoss { durations: [10.0, 0.1], bers: [1e-6, 1e-2] };

    #[test]
    fn the_two_states_give_the_published_points() {
        for (bad, percent) in [(0.1, 1.47), (0.2, 2.43), (0.5, 5.22), (1.0, 9.53)] {
            let loss = TwoStateLoss { durations: [10.0, bad], ..STUDY }.of(2000, 0.031_25);
            let loss = 100.0 * loss.expect("a loss");
            assert!((loss - percent).abs() < 0.01, "{bad} s: {loss} %");
        }
    }

    #[test]
    fn where_every_bit_is_wrong_is_the_limit_of_ever_more_errors() {
        for bers in [[0.0, 1.0], [1e-4, 1.0], [1.0, 1e-4]] {
            let wrong = TwoStateLoss { bers, ..STUDY }.of(2000, 0.031_25).expect("a loss");
            let bers = bers.map(|ber| f64::min(ber, 1.0 - 1e-15));
            let near = TwoStateLoss { bers, ..STUDY }.of(2000, 0.031_25).expect("a loss");
            assert!((wrong - near).abs() < 1e-5, "{bers:?}: {wrong}, {near}");
        }
        let never = TwoStateLoss { bers: [1.0, 1.0], ..STUDY };
        assert_eq!(never.of(2000, 0.031_25), Ok(1.0));
        assert_eq!(never.of(0, 0.0), Ok(0.0));
    }

    #[test]
    fn equal_states_are_one_and_short_frames_meet_one() {
        let equal = TwoStateLoss { durations: [0.3, 0.01], bers: [1e-3, 1e-3] };
        let one = independent_bits(1e-3, 2000).expect("a loss");
        assert!((equal.of(2000, 0.05).expect("a loss") - one).abs() < 1e-12);
        let mixed = (10.0 * independent_bits(1e-6, 400).expect("a loss")
            + 0.1 * independent_bits(1e-2, 400).expect("a loss"))
            / 10.1;
        assert!((STUDY.of(400, 0.0).expect("a loss") - mixed).abs() < 1e-12);
    }

    #[test]
    fn a_frame_far_longer_than_the_periods_meets_their_mean() {
        // A million periods: the bit error rates average, here to almost no loss and to certain
        // loss.
        let clean = TwoStateLoss { durations: [1e-6, 1e-6], bers: [1e-9, 2e-9] };
        let loss = clean.of(1000, 1.0).expect("a loss");
        assert!((loss / 1.5e-6 - 1.0).abs() < 1e-3, "{loss}");
        assert_eq!(STUDY.of(80_000_000, 1e4).expect("a loss"), 1.0);
    }

    #[test]
    fn small_losses_keep_their_digits_and_nonsense_is_refused() {
        assert!((independent_bits(1e-18, 8).expect("a loss") / 8e-18 - 1.0).abs() < 1e-12);
        for (durations, airtime) in [([10.0, 0.1], 1e-3), ([0.1, 10.0], 1e-3), ([1e-6; 2], 1e3)] {
            let loss = TwoStateLoss { durations, bers: [1e-18; 2] }.of(8, airtime);
            assert!((loss.expect("a loss") / 8e-18 - 1.0).abs() < 1e-12);
        }
        for airtime in [0.0, 1.0] {
            let loss = TwoStateLoss { bers: [0.0; 2], ..STUDY }.of(8, airtime).expect("a loss");
            assert_eq!(loss.to_bits(), 0);
        }
        assert!((exponential_bits(131_072.0, 8000).expect("a loss") - 0.0592).abs() < 5e-5);
        assert!(independent_bits(1.5, 8).is_err());
        assert!(exponential_bits(0.0, 8).is_err());
        assert!(TwoStateLoss { durations: [0.0, 1.0], ..STUDY }.of(8, 1.0).is_err());
        assert!(TwoStateLoss { bers: [0.0, 1.5], ..STUDY }.of(8, 1.0).is_err());
        assert!(STUDY.of(8, f64::NAN).is_err());
    }
}
