//! Gilbert–Elliott losses: a two-state Markov chain that steps once per frame.
//!
//! ```text
//!            p = good_to_bad
//!   +------+ --------------> +-----+
//!   | good |                 | bad |     each frame is lost with the probability
//!   +------+ <-------------- +-----+     of the state it meets; then the chain steps
//!            r = bad_to_good
//! ```
//!
//! Source: E. N. Gilbert, "Capacity of a burst-noise channel", Bell System Technical Journal 39,
//! 1960; E. O. Elliott, ibid. 42, 1963.
//!
//! P(bad) = p / (p + r); mean loss = (r loss_in_good + p loss_in_bad) / (p + r). With loss only in
//! bad and certain there, bursts are geometric with mean 1 / r frames and gaps with mean 1 / p.
//! The first state is drawn from the stationary law.
//!
//! Not modelled: time (idle periods do not count; use the two-state process for that) and size.

use super::{Airtime, ChannelError, ErrorProcess, FRAME_LOSS};
use crate::rng::{Stream, Streams};
use crate::units::Probability;

/// Parameters of a Gilbert–Elliott chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliottParameters {
    /// Probability per frame of going from good to bad (p).
    pub good_to_bad: Probability,
    /// Probability per frame of going from bad to good (r).
    pub bad_to_good: Probability,
    /// Loss probability of a frame in the good state.
    pub loss_in_good: Probability,
    /// Loss probability of a frame in the bad state.
    pub loss_in_bad: Probability,
}

impl GilbertElliottParameters {
    /// The chain that loses `mean_loss` of all frames in bursts of `mean_burst` frames on average:
    /// r = 1 / burst, p = r loss / (1 - loss), nothing lost in good and everything in bad.
    pub fn from_burst(mean_loss: Probability, mean_burst: f64) -> Result<Self, ChannelError> {
        let loss = mean_loss.get();
        let error = ChannelError::ImpossibleBurst { loss, burst: mean_burst };
        if !mean_burst.is_finite() || mean_burst < 1.0 || loss >= 1.0 {
            return Err(error);
        }
        let back = 1.0 / mean_burst;
        let (Some(good_to_bad), Some(bad_to_good), Some(never), Some(always)) = (
            Probability::new(back * loss / (1.0 - loss)),
            Probability::new(back),
            Probability::new(0.0),
            Probability::new(1.0),
        ) else {
            return Err(error);
        };
        Ok(GilbertElliottParameters {
            good_to_bad,
            bad_to_good,
            loss_in_good: never,
            loss_in_bad: always,
        })
    }
}

/// A Markov chain that steps once per frame.
#[derive(Clone, Debug)]
pub struct GilbertElliott {
    is_bad: bool,
    /// Probability of leaving the state, by state: good, bad.
    leave: [f64; 2],
    /// Loss probability by state.
    loss: [f64; 2],
    transitions: Stream,
    frames: Stream,
}

impl GilbertElliott {
    /// Starts in a state drawn from the stationary law. Steps come from the stream `transitions`
    /// of `component`, one number per frame from its stream `frame loss`.
    pub fn new(
        parameters: GilbertElliottParameters,
        streams: &Streams,
        component: &str,
    ) -> Result<Self, ChannelError> {
        let leave = [parameters.good_to_bad.get(), parameters.bad_to_good.get()];
        if leave == [0.0, 0.0] {
            return Err(ChannelError::FrozenChain);
        }
        let mut transitions = streams.stream(component, "transitions");
        Ok(GilbertElliott {
            is_bad: transitions.bernoulli(leave[0] / (leave[0] + leave[1])),
            leave,
            loss: [parameters.loss_in_good.get(), parameters.loss_in_bad.get()],
            transitions,
            frames: streams.stream(component, FRAME_LOSS),
        })
    }
}

impl ErrorProcess for GilbertElliott {
    #[inline]
    fn is_lost(&mut self, _airtime: Airtime) -> bool {
        let state = usize::from(self.is_bad);
        self.is_bad ^= self.transitions.bernoulli(self.leave[state]);
        self.frames.uniform() < self.loss[state]
    }
}

#[cfg(test)]
mod tests {
    use super::super::Channel;
    use super::super::testing::*;
    use super::*;

    fn channel(parameters: GilbertElliottParameters) -> Channel {
        Channel::GilbertElliott(GilbertElliott::new(parameters, &STREAMS, "chain").expect("moves"))
    }

    #[test]
    fn bursts_have_their_mean_loss_and_geometric_length() {
        let n = 1_000_000;
        for (loss, burst) in [(0.02, 1.5), (0.05, 4.0), (0.3, 2.0)] {
            let parameters =
                GilbertElliottParameters::from_burst(probability(loss), burst).expect("possible");
            let runs = bursts(&mut channel(parameters), n);
            assert_geometric(&runs, 1.0 - 1.0 / burst);
            // Loss indicators are correlated by (1 - p - r)^k: the variance of their mean is
            // inflated by (1 + c) / (1 - c). 5 standard errors, false alarm below 1e-6.
            let c = 1.0 - parameters.good_to_bad.get() - parameters.bad_to_good.get();
            let error = (loss * (1.0 - loss) / n as f64 * (1.0 + c) / (1.0 - c)).sqrt();
            let rate = runs.iter().sum::<u64>() as f64 / n as f64;
            assert!((rate - loss).abs() < 5.0 * error, "{rate}, expected {loss}");
        }
    }

    #[test]
    fn losses_in_both_states_mix_by_the_stationary_law() {
        let parameters = GilbertElliottParameters {
            good_to_bad: probability(0.2),
            bad_to_good: probability(0.6),
            loss_in_good: probability(0.01),
            loss_in_bad: probability(0.5),
        };
        // Correlation of neighbours is below 0.2 * 0.2, so 5 binomial errors are about 4.8.
        let exact = (0.6 * 0.01 + 0.2 * 0.5) / 0.8;
        assert_binomial(losses(&mut channel(parameters), 1_000_000, 8), 1_000_000, exact);
    }

    #[test]
    fn impossible_chains_are_refused() {
        for (loss, burst) in [(0.1, 0.5), (0.9, 2.0), (1.0, 4.0), (0.1, f64::NAN)] {
            let error = GilbertElliottParameters::from_burst(probability(loss), burst).unwrap_err();
            assert!(error.to_string().contains("mean burst"), "{error}");
        }
        let frozen = GilbertElliottParameters {
            good_to_bad: probability(0.0),
            bad_to_good: probability(0.0),
            loss_in_good: probability(0.0),
            loss_in_bad: probability(1.0),
        };
        let error = GilbertElliott::new(frozen, &STREAMS, "chain").unwrap_err();
        assert_eq!(error, ChannelError::FrozenChain);
    }
}
