//! Gilbert–Elliott losses in time: a two-state Markov chain with one transition per time slot.
//!
//! ```text
//!              1 - stay_good
//!          +------+ ------> +-----+
//! stay_good| good |         | bad |stay_bad     one transition at each multiple of the slot
//!          +------+ <------ +-----+
//!              1 - stay_bad
//! ```
//!
//! Slot k is the time from k to k + 1 slot durations. A frame is lost with the loss probability of
//! the state in the slot in which its transmission starts. Frames in one slot share the state, and
//! are lost independently given the state. Transitions continue while the link is idle.
//!
//! Source: section 3 of F. Vacirca, A. De Vendictis, A. Baiocchi, "Investigating Interactions
//! between ARQ Mechanisms and TCP over Wireless Links": one transition per radio frame of 10 ms.
//!
//! P(bad) = (1 - stay_good) / (2 - stay_good - stay_bad), which is also the distribution of the
//! first slot. A state lasts k slots with probability stay^(k-1) (1 - stay). Sojourn times are
//! sampled with one random number each.
//!
//! Not modelled: state changes within a slot, frames longer than a slot (the first slot counts),
//! more than two states, correlation with the other direction. A long idle time samples all sojourn
//! times within it.

use super::{Airtime, ChannelError, ErrorProcess, FRAME_LOSS};
use super::{ErrorKeys, HeaderRule};
use lasthop_base::rng::{Stream, Streams};
use lasthop_base::schema::ScenarioError;
use lasthop_base::schema::keys::{Limits, Read, table};
use lasthop_base::units::{Duration, Instant, Probability};

table! {
    /// A two-state Markov chain with one transition per time slot. A frame is lost with the loss
    /// probability of the state in the slot in which its transmission starts.
    pub struct SlottedGilbertElliottKeys as "slotted-gilbert-elliott" {
        /// Slot duration. Default on a radio: its frame; elsewhere required.
        slot: Option<Duration>, Limits::POSITIVE;
        /// Probability that a good slot is followed by another good one.
        stay_good: Probability;
        /// Probability that a bad slot is followed by another bad one.
        stay_bad: Probability;
        /// Loss probability of a frame in a good slot.
        loss_good: Probability = "0 %";
        /// Loss probability of a frame in a bad slot.
        loss_bad: Probability = "100 %";
        /// Probability that the header of a lost frame is readable, for receivers that read the
        /// headers of damaged packets. Without it, no headers are readable.
        readable_headers: Option<Probability>;
    }
}

impl ErrorKeys for SlottedGilbertElliottKeys {
    type Process = SlottedGilbertElliott;

    fn build(
        &self,
        streams: &Streams,
        component: &str,
    ) -> Result<SlottedGilbertElliott, ChannelError> {
        let parameters = SlottedGilbertElliottParameters {
            slot: self.slot.unwrap_or_default(),
            stay_good: self.stay_good,
            stay_bad: self.stay_bad,
            loss_good: self.loss_good,
            loss_bad: self.loss_bad,
        };
        SlottedGilbertElliott::new(parameters, streams, component)
    }

    fn header(&self) -> Option<HeaderRule> {
        self.readable_headers.map(HeaderRule::Share)
    }

    fn resolve(&mut self, path: &str, radio_frame: Option<Duration>) -> Read<()> {
        self.slot = self.slot.or(radio_frame);
        if self.slot.is_none() {
            return Err(ScenarioError::new(
                format!("{path}.slot"),
                lasthop_base::schema::error::MISSING,
                "a duration such as \"10 ms\"; only on a radio it has a default, the radio's frame",
            ));
        }
        if self.stay_good.get() == 1.0 && self.stay_bad.get() == 1.0 {
            return Err(ScenarioError::new(
                format!("{path}.stay_bad"),
                "100 % with stay_good 100 %",
                "below 100 %, because the good state never ends",
            ));
        }
        Ok(())
    }
}

/// Parameters of a slotted Gilbert–Elliott process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlottedGilbertElliottParameters {
    /// Slot duration, above 0.
    pub slot: Duration,
    /// Probability that a good slot is followed by another good one.
    pub stay_good: Probability,
    /// Probability that a bad slot is followed by another bad one.
    pub stay_bad: Probability,
    /// Loss probability of a frame in a good slot.
    pub loss_good: Probability,
    /// Loss probability of a frame in a bad slot.
    pub loss_bad: Probability,
}

/// Error process: a two-state Markov chain with one transition per time slot.
///
/// ```
/// use lasthop_base::rng::Streams;
/// use lasthop_base::units::{Duration, Instant, Probability};
/// use lasthop_link::channel::{Airtime, ErrorProcess};
/// use lasthop_link::channel::{SlottedGilbertElliott, SlottedGilbertElliottParameters};
///
/// let probability = |p| Probability::new(p).expect("a probability");
/// // The states change every 10 ms: each slot of 10 frames is lost as a whole or not at all.
/// let parameters = SlottedGilbertElliottParameters {
///     slot: Duration::from_millis(10),
///     stay_good: probability(0.0),
///     stay_bad: probability(0.0),
///     loss_good: probability(0.0),
///     loss_bad: probability(1.0),
/// };
/// let streams = Streams { seed: 1, replication: 0 };
/// let mut process = SlottedGilbertElliott::new(parameters, &streams, "link.a").expect("a slot");
/// let frame = |index: u64| {
///     let start = Instant::ZERO + Duration::from_millis(1) * index;
///     Airtime { start, end: start + Duration::from_millis(1), bits: 8_000 }
/// };
/// assert_eq!((0..200).filter(|&index| process.is_lost(frame(index))).count(), 100);
/// ```
#[derive(Clone, Debug)]
pub struct SlottedGilbertElliott {
    is_bad: bool,
    /// Loss probability of the current state.
    current: f64,
    /// End of the current state.
    until: Instant,
    slot: u64,
    /// Loss probability per state: good, bad.
    loss: [f64; 2],
    /// Logarithm of the probability of staying, per state.
    log_stay: [f64; 2],
    sojourns: Stream,
    frames: Stream,
}

impl SlottedGilbertElliott {
    /// Starts at time 0 in a state sampled from the stationary distribution. Sojourn times use the
    /// stream `sojourns` of `component`, frame losses one number per frame from its stream `frame
    /// loss`.
    ///
    /// # Errors
    /// If the slot duration is 0, or if both states last forever.
    pub fn new(
        parameters: SlottedGilbertElliottParameters,
        streams: &Streams,
        component: &str,
    ) -> Result<Self, ChannelError> {
        let SlottedGilbertElliottParameters { slot, stay_good, stay_bad, loss_good, loss_bad } =
            parameters;
        if slot == Duration::ZERO {
            return Err(ChannelError::NoSlot);
        }
        let stay = [stay_good.get(), stay_bad.get()];
        if stay == [1.0, 1.0] {
            return Err(ChannelError::FrozenSlots);
        }
        let mut sojourns = streams.stream(component, "sojourns");
        let is_bad = sojourns.bernoulli((1.0 - stay[0]) / (2.0 - stay[0] - stay[1]));
        let loss = [loss_good.get(), loss_bad.get()];
        let mut process = SlottedGilbertElliott {
            is_bad,
            current: loss[usize::from(is_bad)],
            until: Instant::ZERO,
            slot: slot.as_nanos(),
            loss,
            log_stay: stay.map(libm::log),
            sojourns,
            frames: streams.stream(component, FRAME_LOSS),
        };
        // The residual length of a geometric sojourn time is geometric again.
        process.draw_length();
        Ok(process)
    }

    /// Returns `true` if the process was in a bad slot at the start of the last frame.
    pub fn is_bad(&self) -> bool {
        self.is_bad
    }

    /// Samples the sojourn time in slots: at least k slots with probability stay^(k-1).
    fn draw_length(&mut self) {
        let log_stay = self.log_stay[usize::from(self.is_bad)];
        // 1 - u is in (0, 1]: the quotient is finite, and 0 if the probability of staying is 0.
        let more = libm::log(1.0 - self.sojourns.uniform()) / log_stay;
        let slots = if log_stay == 0.0 { u64::MAX } else { (more as u64).saturating_add(1) };
        let length = slots.saturating_mul(self.slot);
        self.until = Instant::from_nanos(self.until.as_nanos().saturating_add(length));
    }

    /// Advances the state to `start`; no subsequent frame starts before.
    #[cold]
    fn go_on(&mut self, start: Instant) {
        while self.until <= start && self.until != Instant::NEVER {
            self.is_bad = !self.is_bad;
            self.draw_length();
        }
        self.current = self.loss[usize::from(self.is_bad)];
    }
}

impl ErrorProcess for SlottedGilbertElliott {
    #[inline]
    fn is_lost(&mut self, airtime: Airtime) -> bool {
        if self.until <= airtime.start {
            self.go_on(airtime.start);
        }
        self.frames.uniform() < self.current
    }

    fn catch_up(&mut self, now: Instant) {
        self.go_on(now);
    }

    fn replay_rate(&self) -> f64 {
        1e9 / self.slot as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::Channel;
    use super::super::testing::*;
    use super::*;

    const SLOT: Duration = Duration::from_millis(10);

    fn parameters(stay_good: f64, stay_bad: f64) -> SlottedGilbertElliottParameters {
        SlottedGilbertElliottParameters {
            slot: SLOT,
            stay_good: probability(stay_good),
            stay_bad: probability(stay_bad),
            loss_good: probability(0.01),
            loss_bad: probability(0.9),
        }
    }

    fn process(
        parameters: SlottedGilbertElliottParameters,
        replication: u64,
    ) -> SlottedGilbertElliott {
        let streams = Streams { seed: 7, replication };
        SlottedGilbertElliott::new(parameters, &streams, "slotted").expect("moves")
    }

    /// A frame that starts `nanos` after the start of slot `slot`.
    fn at(slot: u64, nanos: u64) -> Airtime {
        let start = Instant::from_nanos(slot * SLOT.as_nanos() + nanos);
        Airtime { start, end: start + Duration::from_nanos(400_000), bits: 336 }
    }

    /// States of the first `slots` slots.
    fn states(process: &mut SlottedGilbertElliott, slots: u64) -> Vec<bool> {
        let state = |slot| {
            process.is_lost(at(slot, 0));
            process.is_bad()
        };
        (0..slots).map(state).collect()
    }

    #[test]
    fn the_first_slot_has_the_stationary_law() {
        let set = parameters(0.9, 0.7);
        let bad = (0..20_000).filter(|&r| states(&mut process(set, r), 1)[0]).count() as u64;
        assert_binomial(bad, 20_000, 0.25);
    }

    #[test]
    fn states_last_geometrically() {
        for (stay_good, stay_bad) in [(0.9, 0.9), (0.8, 0.3)] {
            let states = states(&mut process(parameters(stay_good, stay_bad), 1), 1_000_000);
            for (wanted, stay) in [(false, stay_good), (true, stay_bad)] {
                let runs: Vec<u64> = states
                    .chunk_by(|a, b| a == b)
                    .filter(|run| run[0] == wanted)
                    .map(|run| run.len() as u64)
                    .collect();
                // Without the last run, which is truncated.
                assert_geometric(&runs[..runs.len() - 1], stay);
            }
        }
    }

    #[test]
    fn frames_of_one_slot_share_the_state_and_nothing_else() {
        // Two frames in each of 200 000 slots. Only one slot in twenty is used, so that states are
        // practically independent (0.8^20 = 0.01). Both frames are lost with probability sum of
        // pi_s p_s^2. Binomial, 5 standard errors times 1.01, false positives below 1e-6.
        let mut process = process(parameters(0.9, 0.9), 2);
        let n = 200_000;
        let both = (0..n)
            .filter(|slot| {
                let first = process.is_lost(at(20 * slot, 0));
                let second = process.is_lost(at(20 * slot, SLOT.as_nanos() - 1));
                first && second
            })
            .count();
        assert_binomial(both as u64, n, 0.5 * (0.01f64.powi(2) + 0.9f64.powi(2)));
    }

    #[test]
    fn states_do_not_depend_on_what_is_sent() {
        let (mut busy, mut sparse) =
            (process(parameters(0.9, 0.7), 3), process(parameters(0.9, 0.7), 3));
        for slot in 0..50_000 {
            for part in 0..3 {
                busy.is_lost(at(slot, part * 3_000_000));
            }
            if slot % 7 == 0 {
                sparse.is_lost(at(slot, 9_999_999));
                assert_eq!((busy.is_bad, busy.until), (sparse.is_bad, sparse.until));
            }
        }
    }

    #[test]
    fn extremes_are_what_they_say() {
        // States that alternate in every slot; then a good state that lasts forever.
        let alternating = states(&mut process(parameters(0.0, 0.0), 0), 100);
        assert!(alternating.windows(2).all(|pair| pair[0] != pair[1]));
        let mut good = Channel::SlottedGilbertElliott(process(
            SlottedGilbertElliottParameters { loss_good: probability(0.0), ..parameters(1.0, 0.5) },
            0,
        ));
        assert_eq!(losses(&mut good, 100_000, 8), 0);
        let frozen = parameters(1.0, 1.0);
        let error = SlottedGilbertElliott::new(frozen, &STREAMS, "slotted").unwrap_err();
        assert_eq!(error, ChannelError::FrozenSlots);
        let still = SlottedGilbertElliottParameters { slot: Duration::ZERO, ..frozen };
        let error = SlottedGilbertElliott::new(still, &STREAMS, "slotted").unwrap_err();
        assert_eq!(error, ChannelError::NoSlot);
    }
}
