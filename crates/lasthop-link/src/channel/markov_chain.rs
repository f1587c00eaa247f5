//! Losses by a Markov chain of several states with one transition per frame: Gilbert–Elliott with
//! more than two states.
//!
//! ```text
//!             transitions[i][j]
//!   +---------+ ----------> +---------+
//!   | state i |             | state j |     each frame is lost with the loss probability
//!   +---------+ <---------- +---------+     of the current state; then a transition follows
//!             transitions[j][i]
//! ```
//!
//! For example, a link with short bursts of interference and long fades needs three states.
//! `lasthop fit` writes the chain that it fits to a loss log as this process.
//!
//! Sources: the process is a hidden Markov model with two symbols, as in L. E. Baum, T. Petrie,
//! "Statistical inference for probabilistic functions of finite state Markov chains", Annals of
//! Mathematical Statistics 37, 1966. The stationary distribution is computed by the elimination of
//! W. K. Grassmann, M. I. Taksar, D. P. Heyman, "Regenerative analysis and steady state
//! distributions for Markov chains", Operations Research 33, 1985, which has no subtractions and
//! therefore no cancellation.
//!
//! Mean loss = sum of π_i loss_i. The initial state is sampled from π. A chain of two states uses
//! the same random numbers as Gilbert–Elliott and loses the same frames.
//!
//! Not modelled: time (idle periods do not count) and frame length.

use super::{Airtime, ChannelError, ErrorKeys, ErrorProcess, FRAME_LOSS, HeaderRule};
use lasthop_base::rng::{Stream, Streams};
use lasthop_base::schema::ScenarioError;
use lasthop_base::schema::keys::{Field, Limits, Node, Read, Shape, table};
use lasthop_base::units::{Duration, Probability};
use serde_json::Value;

/// Number of states of a chain.
const STATES: Limits = Limits::range(2, 16);
/// Maximum deviation of the sum of a row from 1, caused by printing five digits.
const ROUNDING: f64 = 1e-5;

table! {
    /// A Markov chain of 2 to 16 states with one transition per frame. A frame is lost with the
    /// loss probability of the current state.
    pub struct MarkovChainKeys as "markov-chain" {
        /// One row per state: the probabilities of the next states, in order. Each row adds up to
        /// 1.
        transitions: Rows, STATES;
        /// Loss probability of a frame in each state.
        loss: Probabilities, STATES;
        /// Probability that the header of a lost frame is readable, for receivers that read the
        /// headers of damaged packets. Without it, no headers are readable.
        readable_headers: Option<Probability>;
    }
}

impl ErrorKeys for MarkovChainKeys {
    type Process = MarkovChain;

    fn build(&self, streams: &Streams, component: &str) -> Result<MarkovChain, ChannelError> {
        MarkovChain::new(&self.parameters(), streams, component)
    }

    fn header(&self) -> Option<HeaderRule> {
        self.readable_headers.map(HeaderRule::Share)
    }

    fn resolve(&mut self, path: &str, _radio_frame: Option<Duration>) -> Read<()> {
        match self.parameters().stationary() {
            Err(ChannelError::ImpossibleChain { key, found, allowed }) => {
                Err(ScenarioError::new(format!("{path}.{key}"), found, allowed))
            }
            _ => Ok(()),
        }
    }
}

impl MarkovChainKeys {
    fn parameters(&self) -> MarkovChainParameters {
        let rows = self.transitions.0.iter().map(|row| row.0.clone());
        MarkovChainParameters { transitions: rows.collect(), loss: self.loss.0.clone() }
    }
}

/// A list of probabilities, one per state.
#[derive(Clone, Debug, PartialEq)]
pub struct Probabilities(pub Vec<Probability>);

/// A list of lists of probabilities, one per state.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows(pub Vec<Probabilities>);

/// Reads a list with one entry per state.
fn read_list<T: Field>(node: &Node<'_>, limits: Limits, allowed: &str) -> Read<Vec<T>> {
    let list = node.value.as_array().ok_or_else(|| node.wrong(allowed))?;
    if !limits.contains(list.len() as u64) {
        return Err(node.error(format!("a list of {}", list.len()), allowed));
    }
    let at = |(index, value)| {
        let path = format!("{}[{index}]", node.path);
        T::read(&Node { value, path, files: node.files }, limits)
    };
    list.iter().enumerate().map(at).collect()
}

impl Field for Probabilities {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::Probabilities;

    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        read_list(node, limits, &Self::SHAPE.allowed_list(limits)).map(Probabilities)
    }

    fn write(&self) -> Value {
        self.0.iter().map(Field::write).collect()
    }
}

impl Field for Rows {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::ProbabilityRows;

    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        read_list(node, limits, &Self::SHAPE.allowed_list(limits)).map(Rows)
    }

    fn write(&self) -> Value {
        self.0.iter().map(Field::write).collect()
    }
}

/// Parameters of a Markov chain with one transition per frame.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkovChainParameters {
    /// One row per state: probabilities of the next states. They add up to 1. A rounding error of
    /// at most 10^-5 is compensated by the probability of staying.
    pub transitions: Vec<Vec<Probability>>,
    /// Loss probability of a frame in each state.
    pub loss: Vec<Probability>,
}

impl MarkovChainParameters {
    /// Returns the stationary distribution of the states.
    ///
    /// # Errors
    /// If the numbers of states differ, if a row does not add up to 1, or if the stationary
    /// distribution depends on the initial state.
    pub fn stationary(&self) -> Result<Vec<f64>, ChannelError> {
        let states = self.transitions.len();
        let wrong = |key: String, found: String, allowed: &str| {
            Err(ChannelError::ImpossibleChain { key, found, allowed: allowed.to_owned() })
        };
        for (index, row) in self.transitions.iter().enumerate() {
            if row.len() != states {
                let found = format!("{} probabilities with {states} rows", row.len());
                return wrong(format!("transitions[{index}]"), found, "one per row");
            }
            let sum: f64 = row.iter().map(|p| p.get()).sum();
            if (sum - 1.0).abs() > ROUNDING {
                let found = format!("a row that adds up to {sum}");
                return wrong(format!("transitions[{index}]"), found, "one that adds up to 1");
            }
        }
        if self.loss.len() != states {
            let found = format!("{} probabilities with {states} states", self.loss.len());
            return wrong("loss".to_owned(), found, "one for each state");
        }
        let Some(law) = self.recurrent().and_then(|kept| self.law_of(&kept)) else {
            let found = "recurrent states in more than one class";
            let allowed =
                "a chain whose stationary distribution does not depend on its initial state";
            return wrong("transitions".to_owned(), found.to_owned(), allowed);
        };
        Ok(law)
    }

    /// Returns the long-run fraction of lost frames.
    ///
    /// # Errors
    /// As for [`stationary`](Self::stationary).
    pub fn mean_loss(&self) -> Result<f64, ChannelError> {
        let law = self.stationary()?;
        Ok(law.iter().zip(&self.loss).map(|(share, loss)| share * loss.get()).sum::<f64>().min(1.0))
    }

    /// The recurrent states; `None` if they form several classes.
    fn recurrent(&self) -> Option<Vec<usize>> {
        let states = self.transitions.len();
        let mut reaches: Vec<Vec<bool>> = self
            .transitions
            .iter()
            .map(|row| row.iter().map(|p| p.get() > 0.0).collect())
            .collect();
        for via in 0..states {
            for from in 0..states {
                for to in 0..states {
                    reaches[from][to] |= reaches[from][via] && reaches[via][to];
                }
            }
        }
        let returns = |from: usize| (0..states).all(|to| !reaches[from][to] || reaches[to][from]);
        let kept: Vec<usize> = (0..states).filter(|&state| returns(state)).collect();
        let is_one =
            kept.iter().all(|&from| kept.iter().all(|&to| from == to || reaches[from][to]));
        is_one.then_some(kept)
    }

    /// Returns the stationary distribution over all states. `kept` are the recurrent states, which
    /// form one class. `None` if the probabilities are too small for 64-bit floating-point numbers.
    fn law_of(&self, kept: &[usize]) -> Option<Vec<f64>> {
        let row = |from: &usize| -> Vec<f64> {
            kept.iter().map(|to| self.transitions[*from][*to].get()).collect()
        };
        let mut p: Vec<Vec<f64>> = kept.iter().map(row).collect();
        // Eliminates the last state, repeatedly: the chain is observed only in the other states.
        for last in (1..kept.len()).rev() {
            let (rest, from_last) = p.split_at_mut(last);
            let from_last = &from_last[0][..last];
            let leave: f64 = from_last.iter().sum();
            for row in rest {
                row[last] /= leave;
                let share = row[last];
                for (way, onward) in row.iter_mut().zip(from_last) {
                    *way += share * onward;
                }
            }
        }
        let mut weights: Vec<f64> = vec![1.0];
        for state in 1..kept.len() {
            weights.push(weights.iter().zip(&p).map(|(weight, row)| weight * row[state]).sum());
        }
        let sum: f64 = weights.iter().sum();
        let mut law = vec![0.0; self.transitions.len()];
        for (state, weight) in kept.iter().zip(weights) {
            law[*state] = weight / sum;
        }
        law.iter().all(|share| share.is_finite()).then_some(law)
    }
}

/// Error process: a Markov chain of several states with one transition per frame.
///
/// ```
/// use lasthop_base::rng::Streams;
/// use lasthop_base::units::{Duration, Instant, Probability};
/// use lasthop_link::channel::{Airtime, ErrorProcess, MarkovChain, MarkovChainParameters};
///
/// let row = |row: &[f64]| row.iter().map(|&p| Probability::new(p).expect("a probability")).collect();
/// // Each frame in state 1 is followed by two lost frames, in states 2 and 3.
/// let parameters = MarkovChainParameters {
///     transitions: vec![row(&[0.0, 1.0, 0.0]), row(&[0.0, 0.0, 1.0]), row(&[1.0, 0.0, 0.0])],
///     loss: row(&[0.0, 1.0, 1.0]),
/// };
/// let streams = Streams { seed: 1, replication: 0 };
/// let mut process = MarkovChain::new(&parameters, &streams, "link.a").expect("a chain");
/// let frame = |index: u64| {
///     let start = Instant::ZERO + Duration::from_millis(1) * index;
///     Airtime { start, end: start + Duration::from_millis(1), bits: 8_000 }
/// };
/// assert_eq!((0..300).filter(|&index| process.is_lost(frame(index))).count(), 200);
/// ```
#[derive(Clone, Debug)]
pub struct MarkovChain {
    state: usize,
    /// For each state, the cumulative probabilities of the transitions to the other states, in
    /// order.
    onward: Vec<Box<[f64]>>,
    /// Loss probability per state.
    loss: Box<[f64]>,
    transitions: Stream,
    frames: Stream,
}

impl MarkovChain {
    /// Starts in a state sampled from the stationary distribution. Transitions use the stream
    /// `transitions` of `component`, frame losses one number per frame from its stream `frame
    /// loss`.
    ///
    /// # Errors
    /// As for [`MarkovChainParameters::stationary`].
    pub fn new(
        parameters: &MarkovChainParameters,
        streams: &Streams,
        component: &str,
    ) -> Result<Self, ChannelError> {
        let law = parameters.stationary()?;
        let mut transitions = streams.stream(component, "transitions");
        let rows = parameters.transitions.iter().enumerate();
        let onward = rows.map(|(state, row)| cumulated(row.iter().map(|p| p.get()), state));
        Ok(MarkovChain {
            // The initial state is sampled like a transition from the first state.
            state: next(&cumulated(law.iter().copied(), 0), 0, transitions.uniform()),
            onward: onward.collect(),
            loss: parameters.loss.iter().map(|p| p.get()).collect(),
            transitions,
            frames: streams.stream(component, FRAME_LOSS),
        })
    }

    /// The state for the next frame, counted from 0.
    pub fn state(&self) -> usize {
        self.state
    }
}

/// The cumulative probabilities of all states except `state`.
fn cumulated(probabilities: impl Iterator<Item = f64>, state: usize) -> Box<[f64]> {
    let mut sum = 0.0;
    let others = probabilities.enumerate().filter(|(to, _)| *to != state);
    others
        .map(|(_, p)| {
            sum += p;
            sum
        })
        .collect()
}

/// Returns the next state for a uniform random number: another state, or `state` itself.
#[inline]
fn next(onward: &[f64], state: usize, number: f64) -> usize {
    match onward.iter().position(|&bound| number < bound) {
        Some(place) => place + usize::from(place >= state),
        None => state,
    }
}

impl ErrorProcess for MarkovChain {
    #[inline]
    fn is_lost(&mut self, _airtime: Airtime) -> bool {
        let state = self.state;
        self.state = next(&self.onward[state], state, self.transitions.uniform());
        self.frames.uniform() < self.loss[state]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Channel, GilbertElliott, GilbertElliottParameters};
    use super::*;

    fn chain(rows: &[&[f64]], loss: &[f64]) -> MarkovChainParameters {
        let list = |row: &[f64]| row.iter().map(|&p| probability(p)).collect();
        MarkovChainParameters {
            transitions: rows.iter().map(|row| list(row)).collect(),
            loss: list(loss),
        }
    }

    /// Short bursts of interference, and long fades with some losses.
    fn fades() -> MarkovChainParameters {
        chain(
            &[&[0.99, 0.007, 0.003], &[0.24, 0.7, 0.06], &[0.009, 0.021, 0.97]],
            &[0.001, 0.95, 0.4],
        )
    }

    #[test]
    fn two_states_lose_the_frames_that_gilbert_elliott_loses() {
        for (p, r, good, bad) in
            [(0.05, 0.3, 0.01, 0.9), (1.0, 1.0, 0.2, 0.3), (0.0, 0.5, 0.1, 1.0)]
        {
            let parameters = GilbertElliottParameters {
                good_to_bad: probability(p),
                bad_to_good: probability(r),
                loss_in_good: probability(good),
                loss_in_bad: probability(bad),
            };
            let rows: [&[f64]; 2] = [&[1.0 - p, p], &[r, 1.0 - r]];
            for replication in 0..50 {
                let streams = Streams { seed: 7, replication };
                let mut known = GilbertElliott::new(parameters, &streams, "chain").expect("moves");
                let own = chain(&rows, &[good, bad]);
                let mut own = MarkovChain::new(&own, &streams, "chain").expect("moves");
                for airtime in back_to_back(8, Duration::from_millis(1)).take(2000) {
                    assert_eq!(own.is_lost(airtime), known.is_lost(airtime));
                }
            }
        }
    }

    #[test]
    fn the_stationary_law_is_that_of_known_chains() {
        // A ring 1 -> 2 -> 3 -> 1: probabilities in proportion to the mean sojourn times, 1 : 2 :
        // 4.
        let ring = [&[0.0, 1.0, 0.0][..], &[0.0, 0.5, 0.5], &[0.25, 0.0, 0.75]];
        // Birth-death chain with rates a and b upwards, c and d downwards: probabilities 1 : a/c :
        // ab/cd.
        let birth = [&[0.9, 0.1, 0.0][..], &[0.4, 0.4, 0.2], &[0.0, 0.8, 0.2]];
        // The first state is transient; the others alternate.
        let left = [&[0.5, 0.25, 0.25][..], &[0.0, 0.0, 1.0], &[0.0, 1.0, 0.0]];
        // Transition probabilities of 10^-14: subtraction would leave two digits.
        let rare = [&[1.0, 1e-14, 0.0][..], &[0.0, 1.0, 2e-14], &[3e-14, 0.0, 1.0]];
        for (rows, shares) in [
            (ring, [1.0 / 7.0, 2.0 / 7.0, 4.0 / 7.0]),
            (birth, [16.0 / 21.0, 4.0 / 21.0, 1.0 / 21.0]),
            (left, [0.0, 0.5, 0.5]),
            (rare, [6.0 / 11.0, 3.0 / 11.0, 2.0 / 11.0]),
        ] {
            let found = chain(&rows, &[0.0, 0.0, 1.0]);
            let law = found.stationary().expect("a unique distribution");
            for (own, share) in law.iter().zip(shares) {
                assert!((own - share).abs() < 1e-15, "{law:?}, expected {shares:?}");
            }
            assert_eq!(found.mean_loss().expect("a unique distribution"), law[2]);
        }
    }

    #[test]
    fn steps_have_their_probabilities_and_losses_those_of_the_state() {
        // 1 000 000 frames: the transitions from each state and its losses among the visits to this
        // state. Binomial, 5 standard errors, 12 counts: false positives below 1e-5.
        let parameters = fades();
        let mut process = MarkovChain::new(&parameters, &STREAMS, "chain").expect("a chain");
        let (mut steps, mut lost, mut visits) = ([[0; 3]; 3], [0; 3], [0; 3]);
        for airtime in back_to_back(8, Duration::from_millis(1)).take(1_000_000) {
            let from = process.state();
            lost[from] += u64::from(process.is_lost(airtime));
            visits[from] += 1;
            steps[from][process.state()] += 1;
        }
        for from in 0..3 {
            assert_binomial(lost[from], visits[from], parameters.loss[from].get());
            for (count, p) in steps[from].iter().zip(&parameters.transitions[from]) {
                assert_binomial(*count, visits[from], p.get());
            }
        }
    }

    #[test]
    fn the_first_frame_meets_the_stationary_law() {
        // 20 000 replications, 5 standard errors for each of three states: false positives below
        // 2e-6.
        let parameters = fades();
        let law = parameters.stationary().expect("a unique distribution");
        let mut starts = [0; 3];
        for replication in 0..20_000 {
            let streams = Streams { seed: 7, replication };
            let process = MarkovChain::new(&parameters, &streams, "chain").expect("a chain");
            starts[process.state()] += 1;
        }
        for (count, share) in starts.into_iter().zip(law) {
            assert_binomial(count, 20_000, share);
        }
    }

    #[test]
    fn periods_last_geometrically() {
        // Frames are always and only lost in the second state: burst lengths equal its sojourn
        // times.
        let sure = chain(&[&[0.9, 0.1, 0.0], &[0.3, 0.6, 0.1], &[0.0, 0.0, 1.0]], &[0.0, 1.0, 0.0]);
        assert_eq!(sure.stationary().expect("a unique distribution"), [0.0, 0.0, 1.0]);
        let rows = [&[0.9, 0.1, 0.0][..], &[0.3, 0.6, 0.1], &[0.5, 0.0, 0.5]];
        let process = MarkovChain::new(&chain(&rows, &[0.0, 1.0, 0.0]), &STREAMS, "chain");
        let runs = bursts(&mut Channel::MarkovChain(process.expect("a chain")), 1_000_000);
        assert_geometric(&runs, 0.6);
    }

    #[test]
    fn impossible_chains_are_refused() {
        let two: [&[f64]; 2] = [&[0.5, 0.5], &[0.5, 0.5]];
        for (rows, loss, found) in [
            (&[&[0.5, 0.5][..], &[1.0]][..], &[0.0, 1.0][..], "1 probabilities with 2 rows"),
            (&[&[0.5, 0.5], &[0.5, 0.4]], &[0.0, 1.0], "a row that adds up to 0.9"),
            (&two, &[0.0, 1.0, 1.0], "3 probabilities with 2 states"),
            (&[&[1.0, 0.0], &[0.0, 1.0]], &[0.0, 1.0], "in more than one class"),
        ] {
            let error = MarkovChain::new(&chain(rows, loss), &STREAMS, "chain").unwrap_err();
            assert!(error.to_string().contains(found), "{error}");
        }
        // Rounding errors are not rejected; the probability of staying compensates for them.
        let rounded = chain(&[&[0.333333; 3][..]; 3], &[0.0, 0.0, 1.0]);
        assert!(rounded.mean_loss().is_ok_and(|loss| (loss - 1.0 / 3.0).abs() < 1e-6));
    }
}
