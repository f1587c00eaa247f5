//! Statistics of the Gilbert–Elliott channel: loss rate, runs of losses, losses in a block.
//!
//! ```text
//!            p = good_to_bad
//!   +------+ --------------> +-----+
//!   | good |                 | bad |     each frame is lost with the probability
//!   +------+ <-------------- +-----+     of the state it meets
//!            r = bad_to_good
//! ```
//!
//! The first state has the stationary distribution π = (r, p) / (p + r). The distribution of the losses
//! then does not depend on whether the chain steps before or after a frame.
//!
//! With P the transition matrix, L = diag(loss in good, loss in bad) and K = I - L, a run of losses
//! begins in a state with distribution α = π K P L / (π K P L e), and P(length ≥ k) = α (P L)^(k-1) e. Its
//! mean is πLe / (π K P L e): frames lost over runs begun.
//!
//! Source: E. N. Gilbert, "Capacity of a burst-noise channel", Bell System Technical Journal 39,
//! 1960; E. O. Elliott, ibid. 42, 1963. The matrices are derived here.
//!
//! Limitations: the chain steps once per frame, without regard to the duration and size of frames.

use super::{AnalysisError, Result, count, probability};
use lasthop_link::channel::GilbertElliottParameters;

/// Maximum number of frames of a block, or of a distribution of run lengths.
pub const MAX_FRAMES: u32 = 10_000;
/// Maximum number of frames between two observations of the channel.
pub const MAX_SPACING: u32 = 1_000_000;

/// A Gilbert–Elliott channel in its stationary distribution. States are indexed 0 for good, 1 for
/// bad.
///
/// ```
/// use lasthop_analysis::GilbertElliottLaw;
///
/// // Probabilities of a transition from good to bad and back, and of a loss in each state.
/// let channel = GilbertElliottLaw::new(0.02, 0.25, 0.0, 1.0)?;
/// assert!((channel.loss_rate() - 0.02 / 0.27).abs() < 1e-12);
/// # Ok::<(), lasthop_analysis::AnalysisError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliottLaw {
    /// Probability per step of leaving the state.
    leave: [f64; 2],
    stationary: [f64; 2],
    loss: [f64; 2],
}

impl GilbertElliottLaw {
    /// Creates a channel from the transition probabilities per frame and the loss probability of a
    /// frame in each state. In the notation of Vacirca et al., g = 1 - good_to_bad and b = 1 -
    /// bad_to_good.
    ///
    /// # Errors
    /// If a parameter is not a probability, or if the chain never moves, so that its stationary
    /// distribution is not unique.
    pub fn new(
        good_to_bad: f64,
        bad_to_good: f64,
        loss_in_good: f64,
        loss_in_bad: f64,
    ) -> Result<Self> {
        let leave =
            [probability("good_to_bad", good_to_bad)?, probability("bad_to_good", bad_to_good)?];
        let loss =
            [probability("loss_in_good", loss_in_good)?, probability("loss_in_bad", loss_in_bad)?];
        let sum = leave[0] + leave[1];
        if sum == 0.0 {
            let allowed = "above 0, or bad_to_good above 0: a chain that moves";
            return Err(AnalysisError::new("good_to_bad", good_to_bad, allowed));
        }
        Ok(GilbertElliottLaw { leave, stationary: [leave[1] / sum, leave[0] / sum], loss })
    }

    /// Creates a channel that loses each frame independently with probability `loss`.
    ///
    /// # Errors
    /// If `loss` is not a probability.
    pub fn independent(loss: f64) -> Result<Self> {
        let loss = probability("loss", loss)?;
        Self::new(0.5, 0.5, loss, loss)
    }

    /// Returns the channel observed at every n-th frame, n = `frames`: equal loss probabilities,
    /// and the transition matrix P^n.
    ///
    /// # Errors
    /// If `frames` is not from 1 to [`MAX_SPACING`].
    pub fn spaced(&self, frames: u32) -> Result<Self> {
        let frames = count("spacing", frames, 1..=MAX_SPACING)?;
        if frames == 1 {
            return Ok(*self);
        }
        let sum = self.leave[0] + self.leave[1];
        // 1 - (1 - p - r)^frames, without rounding errors even if transitions are rare.
        let mixed = if sum < 1.0 {
            -(f64::from(frames) * (-sum).ln_1p()).exp_m1()
        } else {
            1.0 - (1.0 - sum).powi(frames as i32)
        };
        let leave = [0, 1].map(|state| (self.stationary[1 - state] * mixed).min(1.0));
        Ok(GilbertElliottLaw { leave, ..*self })
    }

    /// Returns the stationary distribution: good, bad.
    pub fn stationary(&self) -> [f64; 2] {
        self.stationary
    }

    /// Returns the probability per step of leaving each state.
    pub fn leave(&self) -> [f64; 2] {
        self.leave
    }

    /// Returns the loss probability of a frame in each state.
    pub fn loss(&self) -> [f64; 2] {
        self.loss
    }

    /// Returns 1 - p - r: the correlation of the states of consecutive frames.
    pub fn memory(&self) -> f64 {
        1.0 - self.leave[0] - self.leave[1]
    }

    /// Returns the fraction of all frames that is lost.
    pub fn loss_rate(&self) -> f64 {
        (self.stationary[0] * self.loss[0] + self.stationary[1] * self.loss[1]).min(1.0)
    }

    /// Performs one step of the chain: row vector times P.
    pub(super) fn step(&self, v: [f64; 2]) -> [f64; 2] {
        let [p, r] = self.leave;
        [v[0] * (1.0 - p) + v[1] * r, v[0] * p + v[1] * (1.0 - r)]
    }

    /// Returns the part of a row vector that is lost (`true`) or received.
    fn part(&self, v: [f64; 2], lost: bool) -> [f64; 2] {
        [0, 1].map(|state| v[state] * if lost { self.loss[state] } else { 1.0 - self.loss[state] })
    }

    /// Returns the distribution of the state in the first frame of a run, not normalized.
    fn run_start(&self, lost: bool) -> Result<[f64; 2]> {
        let start = self.part(self.step(self.part(self.stationary, !lost)), lost);
        if start[0] + start[1] > 0.0 {
            Ok(start)
        } else {
            let found = format!("a loss rate of {}", self.loss_rate());
            let allowed = "a channel on which frames are lost and frames arrive, in turn";
            Err(AnalysisError::new("channel", found, allowed))
        }
    }

    /// Returns the mean number of frames in a run of losses (`lost`) or of received frames.
    ///
    /// # Errors
    /// If such runs do not occur, or if one never ends.
    pub fn mean_run(&self, lost: bool) -> Result<f64> {
        let start = self.run_start(lost)?;
        let inside = self.part(self.stationary, lost);
        Ok((inside[0] + inside[1]) / (start[0] + start[1]))
    }

    /// Returns P(a run of losses, or of received frames, has 1, 2, ..., `longest` frames).
    ///
    /// # Errors
    /// If such runs do not occur, if one never ends, or if `longest` is not from 1 to
    /// [`MAX_FRAMES`].
    pub fn run_lengths(&self, lost: bool, longest: u32) -> Result<Vec<f64>> {
        let longest = count("longest", longest, 1..=MAX_FRAMES)?;
        let start = self.run_start(lost)?;
        let sum = start[0] + start[1];
        let mut v = start.map(|x| x / sum);
        Ok((0..longest)
            .map(|_| {
                let next = self.step(v);
                let end = self.part(next, !lost);
                v = self.part(next, lost);
                end[0] + end[1]
            })
            .collect())
    }

    /// Returns P(0, 1, ..., `frames` of `frames` consecutive frames are lost).
    ///
    /// # Errors
    /// If `frames` is not from 1 to [`MAX_FRAMES`].
    pub fn losses_among(&self, frames: u32) -> Result<Vec<f64>> {
        let frames = count("frames", frames, 1..=MAX_FRAMES)?;
        // Row n: probability of n losses so far, by the state of the next frame.
        let mut law = Vec::with_capacity(frames as usize + 1);
        law.push(self.stationary);
        for _ in 0..frames {
            let mut before = [0.0; 2];
            for cell in &mut law {
                let (kept, lost) = (self.part(*cell, false), before);
                before = self.part(*cell, true);
                *cell = self.step([kept[0] + lost[0], kept[1] + lost[1]]);
            }
            law.push(self.step(before));
        }
        Ok(law.into_iter().map(|[good, bad]| good + bad).collect())
    }

    /// Returns the correlation of the losses of two frames at a distance of `distance` frames, at
    /// least 1; 0 if all frames or none are lost.
    ///
    /// # Errors
    /// If `distance` is not from 1 to [`MAX_SPACING`].
    pub fn loss_correlation(&self, distance: u32) -> Result<f64> {
        let distance = count("distance", distance, 1..=MAX_SPACING)?;
        let rate = self.loss_rate();
        let variance = rate * (1.0 - rate);
        if variance <= 0.0 {
            return Ok(0.0);
        }
        let between = (self.loss[1] - self.loss[0]).powi(2) * self.stationary[0];
        Ok(between * self.stationary[1] * self.memory().powi(distance as i32) / variance)
    }
}

impl TryFrom<GilbertElliottParameters> for GilbertElliottLaw {
    type Error = AnalysisError;
    fn try_from(parameters: GilbertElliottParameters) -> Result<Self> {
        Self::new(
            parameters.good_to_bad.get(),
            parameters.bad_to_good.get(),
            parameters.loss_in_good.get(),
            parameters.loss_in_bad.get(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(p: f64, r: f64, good: f64, bad: f64) -> GilbertElliottLaw {
        GilbertElliottLaw::new(p, r, good, bad).unwrap()
    }

    /// Computes the probability of every pattern of losses in a block by summing over all paths of
    /// states.
    fn brute_force(law: &GilbertElliottLaw, frames: u32) -> Vec<f64> {
        let mut counts = vec![0.0; frames as usize + 1];
        for pattern in 0..1u32 << frames {
            let mut v = law.stationary();
            for frame in 0..frames {
                v = law.step(law.part(v, pattern >> frame & 1 == 1));
            }
            counts[pattern.count_ones() as usize] += v[0] + v[1];
        }
        counts
    }

    #[test]
    fn losses_among_are_those_of_all_patterns() {
        for law in [law(0.1, 0.3, 0.05, 0.8), law(1.0, 1.0, 0.0, 1.0), law(0.0, 0.2, 0.1, 0.9)] {
            for (a, b) in law.losses_among(10).unwrap().iter().zip(brute_force(&law, 10)) {
                assert!((a - b).abs() < 1e-14, "{a} {b}");
            }
        }
    }

    #[test]
    fn independent_losses_are_binomial_and_their_runs_geometric() {
        let law = GilbertElliottLaw::independent(0.2).unwrap();
        let mut binomial = 0.8f64.powi(12);
        for (n, p) in law.losses_among(12).unwrap().into_iter().enumerate() {
            assert!((p - binomial).abs() < 1e-15);
            binomial *= (12 - n) as f64 / (n + 1) as f64 * 0.25;
        }
        for (k, p) in law.run_lengths(true, 8).unwrap().into_iter().enumerate() {
            assert!((p - 0.8 * 0.2f64.powi(k as i32)).abs() < 1e-15);
        }
        assert!((law.mean_run(true).unwrap() - 1.25).abs() < 1e-14);
        assert!((law.mean_run(false).unwrap() - 5.0).abs() < 1e-14);
        assert!(law.loss_correlation(1).unwrap().abs() < 1e-15);
    }

    #[test]
    fn runs_of_gilberts_channel_are_sojourns() {
        // Frames are lost in the bad state only, and always: a run is a sojourn in that state.
        let law = law(0.02, 0.25, 0.0, 1.0);
        assert!((law.mean_run(true).unwrap() - 4.0).abs() < 1e-12);
        assert!((law.mean_run(false).unwrap() - 50.0).abs() < 1e-11);
        let lengths = law.run_lengths(true, 20).unwrap();
        for (k, p) in lengths.iter().enumerate() {
            assert!((p - 0.25 * 0.75f64.powi(k as i32)).abs() < 1e-15);
        }
        assert!((law.loss_correlation(3).unwrap() - 0.73f64.powi(3)).abs() < 1e-14);
    }

    #[test]
    fn the_mean_run_is_that_of_its_law() {
        let law = law(0.1, 0.1, 0.01, 0.9);
        for lost in [true, false] {
            let lengths = law.run_lengths(lost, 5000).unwrap();
            let mean: f64 = lengths.iter().enumerate().map(|(k, p)| (k + 1) as f64 * p).sum();
            assert!((mean / law.mean_run(lost).unwrap() - 1.0).abs() < 1e-12);
            assert!((lengths.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn spacing_is_a_power_of_the_matrix() {
        for one in [law(0.1, 0.3, 0.0, 1.0), law(0.9, 0.8, 0.0, 1.0), law(1e-12, 1e-13, 0.0, 1.0)] {
            let five = one.spaced(5).unwrap();
            let mut v = [1.0, 0.0];
            for _ in 0..5 {
                v = one.step(v);
            }
            assert!((v[1] / five.leave()[0] - 1.0).abs() < 1e-12, "{v:?} {five:?}");
            assert_eq!(one.stationary(), five.stationary());
        }
        // A chain that changes its state in each frame appears frozen if every second frame is
        // observed.
        assert_eq!(law(1.0, 1.0, 0.0, 1.0).spaced(2).unwrap().leave(), [0.0, 0.0]);
    }

    #[test]
    fn impossible_questions_are_refused() {
        let frozen = GilbertElliottLaw::new(0.0, 0.0, 0.0, 1.0).unwrap_err();
        assert!(frozen.to_string().contains("good_to_bad: found 0; expected"), "{frozen}");
        let wrong = GilbertElliottLaw::new(0.1, f64::NAN, 0.0, 1.0).unwrap_err();
        assert_eq!((wrong.argument, wrong.found.as_str()), ("bad_to_good", "NaN"));
        let clean = law(0.1, 0.1, 0.0, 0.0);
        assert!(clean.mean_run(true).unwrap_err().to_string().contains("loss rate of 0"));
        assert!(clean.run_lengths(false, 5).is_err());
        assert!(clean.losses_among(0).is_err());
        assert!(clean.losses_among(MAX_FRAMES + 1).is_err());
        assert!(clean.spaced(0).is_err());
    }
}
