//! Gilbert–Elliott losses: a two-state Markov chain with one transition per frame.
//!
//! ```text
//!            p = good_to_bad
//!   +------+ --------------> +-----+
//!   | good |                 | bad |     each frame is lost with the loss probability
//!   +------+ <-------------- +-----+     of the current state; then a transition follows
//!            r = bad_to_good
//! ```
//!
//! Source: E. N. Gilbert, "Capacity of a burst-noise channel", Bell System Technical Journal 39,
//! 1960; E. O. Elliott, ibid. 42, 1963.
//!
//! P(bad) = p / (p + r); mean loss = (r loss_in_good + p loss_in_bad) / (p + r). If frames are lost
//! always and only in the bad state, bursts are geometric with mean 1 / r frames, and gaps with
//! mean 1 / p. The initial state is sampled from the stationary distribution.
//!
//! Not modelled: time (idle periods do not count; use the two-state process for that) and frame
//! length.

use super::{Airtime, ChannelError, ErrorProcess, FRAME_LOSS};
use super::{ErrorKeys, HeaderRule};
use lasthop_base::rng::{Stream, Streams};
use lasthop_base::schema::keys::{Key, Kind, Node, Read, Table, table};
use lasthop_base::schema::quantity::Mean;
use lasthop_base::units::Probability;
use serde_json::{Map, Value};

table! {
    /// Keys of the Gilbert–Elliott model.
    struct Keys {
        /// Transition probability from the good to the bad state; with p_bad_to_good.
        p_good_to_bad: Option<Probability>;
        /// Transition probability from the bad to the good state; with p_good_to_bad.
        p_bad_to_good: Option<Probability>;
        /// Loss probability of a frame in the good state; with p_good_to_bad. Default: 0.
        loss_good: Option<Probability>;
        /// Loss probability of a frame in the bad state; with p_good_to_bad. Default: 1.
        loss_bad: Option<Probability>;
        /// Long-run fraction of lost frames, below 1; with mean_burst.
        mean_loss: Option<Probability>;
        /// Mean number of consecutive lost frames, at least 1; with mean_loss.
        mean_burst: Option<Mean>;
        /// Probability that the header of a lost frame is readable, for receivers that read the
        /// headers of damaged packets. Without it, no headers are readable.
        readable_headers: Option<Probability>;
    }
}

/// Parameters of the Gilbert–Elliott model with one transition per frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliottKeys {
    /// Transition probability from the good to the bad state.
    pub p_good_to_bad: Probability,
    /// Transition probability from the bad to the good state.
    pub p_bad_to_good: Probability,
    /// Loss probability of a frame in the good state.
    pub loss_good: Probability,
    /// Loss probability of a frame in the bad state.
    pub loss_bad: Probability,
    /// Probability that the header of a lost frame is readable.
    pub readable_headers: Option<Probability>,
}

impl Kind for GilbertElliottKeys {
    const KIND: &'static str = "gilbert-elliott";
    const ABOUT: &'static str = "A two-state Markov chain that makes one step a frame: give either p_good_to_bad and \
        p_bad_to_good, or mean_loss and mean_burst.";
}

impl Table for GilbertElliottKeys {
    const KEYS: &'static [Key] = Keys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        const PAIRS: &str = "either p_good_to_bad and p_bad_to_good, or mean_loss and mean_burst";
        let keys = Keys::read(node)?;
        let readable_headers = keys.readable_headers;
        let steps = keys.p_good_to_bad.is_some() || keys.p_bad_to_good.is_some();
        let means = keys.mean_loss.is_some() || keys.mean_burst.is_some();
        if steps == means {
            let found = if means { "keys of both forms" } else { "neither" };
            return Err(node.error(found, PAIRS));
        }
        let missing = |key: &str| node.key_error(key, lasthop_base::schema::error::MISSING, PAIRS);
        let zero = Probability::default();
        // By default all frames are lost in the bad state.
        let one = Probability::new(1.0).unwrap_or_default();
        if steps {
            let p_good_to_bad = keys.p_good_to_bad.ok_or_else(|| missing("p_good_to_bad"))?;
            let p_bad_to_good = keys.p_bad_to_good.ok_or_else(|| missing("p_bad_to_good"))?;
            if p_good_to_bad == zero && p_bad_to_good == zero {
                let found = format!("{p_bad_to_good} with p_good_to_bad {p_good_to_bad}");
                let allowed = "more than zero, because the good state never ends";
                return Err(node.key_error("p_bad_to_good", found, allowed));
            }
            return Ok(GilbertElliottKeys {
                p_good_to_bad,
                p_bad_to_good,
                loss_good: keys.loss_good.unwrap_or(zero),
                loss_bad: keys.loss_bad.unwrap_or(one),
                readable_headers,
            });
        }
        for (key, value) in [("loss_good", keys.loss_good), ("loss_bad", keys.loss_bad)] {
            if let Some(value) = value {
                let allowed = "no value, or p_good_to_bad and p_bad_to_good";
                return Err(node.key_error(key, value.to_string(), allowed));
            }
        }
        let loss = keys.mean_loss.ok_or_else(|| missing("mean_loss"))?;
        let burst = keys.mean_burst.ok_or_else(|| missing("mean_burst"))?.0;
        if loss.get() >= 1.0 {
            let allowed = "a probability below 1, such as \"2.5 %\"";
            return Err(node.key_error("mean_loss", loss.to_string(), allowed));
        }
        // The fraction of bad frames is p / (p + r); the mean burst length is 1 / r frames.
        let p = loss.get() / ((1.0 - loss.get()) * burst);
        let feasible = Probability::new(p).zip(Probability::new(1.0 / burst));
        let Some((p_good_to_bad, p_bad_to_good)) = feasible else {
            let least = loss.get() / (1.0 - loss.get());
            return Err(node.key_error(
                "mean_burst",
                burst.to_string(),
                format!(
                    "at least {least:.6} where mean_loss is {loss}: mean_loss / ((1 - mean_loss) \
                     * mean_burst) may not be above 1"
                ),
            ));
        };
        let (loss_good, loss_bad) = (zero, one);
        Ok(GilbertElliottKeys {
            p_good_to_bad,
            p_bad_to_good,
            loss_good,
            loss_bad,
            readable_headers,
        })
    }

    fn write(&self) -> Map<String, Value> {
        let keys = Keys {
            p_good_to_bad: Some(self.p_good_to_bad),
            p_bad_to_good: Some(self.p_bad_to_good),
            loss_good: Some(self.loss_good),
            loss_bad: Some(self.loss_bad),
            mean_loss: None,
            mean_burst: None,
            readable_headers: self.readable_headers,
        };
        keys.write()
    }
}

impl ErrorKeys for GilbertElliottKeys {
    type Process = GilbertElliott;

    fn build(&self, streams: &Streams, component: &str) -> Result<GilbertElliott, ChannelError> {
        let parameters = GilbertElliottParameters {
            good_to_bad: self.p_good_to_bad,
            bad_to_good: self.p_bad_to_good,
            loss_in_good: self.loss_good,
            loss_in_bad: self.loss_bad,
        };
        GilbertElliott::new(parameters, streams, component)
    }

    fn header(&self) -> Option<HeaderRule> {
        self.readable_headers.map(HeaderRule::Share)
    }
}

/// Parameters of a Gilbert–Elliott chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliottParameters {
    /// Transition probability per frame from good to bad (p).
    pub good_to_bad: Probability,
    /// Transition probability per frame from bad to good (r).
    pub bad_to_good: Probability,
    /// Loss probability of a frame in the good state.
    pub loss_in_good: Probability,
    /// Loss probability of a frame in the bad state.
    pub loss_in_bad: Probability,
}

impl GilbertElliottParameters {
    /// Returns the chain that loses a fraction `mean_loss` of all frames in bursts of `mean_burst`
    /// frames on average: r = 1 / burst, p = r loss / (1 - loss), no losses in the good state and
    /// only losses in the bad state.
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

/// Error process: a two-state Markov chain with one transition per frame.
///
/// ```
/// use lasthop_base::rng::Streams;
/// use lasthop_base::units::{Duration, Instant, Probability};
/// use lasthop_link::channel::{Airtime, ErrorProcess, GilbertElliott, GilbertElliottParameters};
///
/// let probability = |p| Probability::new(p).expect("a probability");
/// // Bursts of 4 frames on average; 0.02 / (0.02 + 0.25) = 7.4 % of frames are lost.
/// let parameters = GilbertElliottParameters {
///     good_to_bad: probability(0.02),
///     bad_to_good: probability(0.25),
///     loss_in_good: probability(0.0),
///     loss_in_bad: probability(1.0),
/// };
/// let streams = Streams { seed: 1, replication: 0 };
/// let mut process = GilbertElliott::new(parameters, &streams, "link.wireless.forward")?;
/// let lost = (0..100_000).filter(|frame| {
///     let start = Instant::ZERO + Duration::from_millis(1) * *frame;
///     process.is_lost(Airtime { start, end: start + Duration::from_millis(1), bits: 8_000 })
/// });
/// assert!((6_700..8_100).contains(&lost.count()));
/// # Ok::<(), lasthop_link::channel::ChannelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GilbertElliott {
    is_bad: bool,
    /// Probability of leaving the state, per state: good, bad.
    leave: [f64; 2],
    /// Loss probability per state.
    loss: [f64; 2],
    transitions: Stream,
    frames: Stream,
}

impl GilbertElliott {
    /// Starts in a state sampled from the stationary distribution. Transitions use the stream
    /// `transitions` of `component`, frame losses one number per frame from its stream `frame
    /// loss`.
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
            // inflated by (1 + c) / (1 - c). 5 standard errors, false positives below 1e-6.
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
        // The correlation of consecutive losses is below 0.2 * 0.2, so that 5 binomial errors are
        // about 4.8.
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
