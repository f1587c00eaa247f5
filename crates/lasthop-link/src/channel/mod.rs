//! Error processes: models of the losses on a link.
//!
//! An error process belongs to one direction of a link. It is called with the exact time interval
//! of each transmission, in order, and returns whether the frame is lost. Its state is a function
//! of time, so that idle periods count.
//!
//! # Common random numbers
//!
//! A process uses exactly one random number per frame from its stream `frame loss` (or none at all)
//! and compares it with the loss probability of the frame. The k-th frame is compared with the k-th
//! number, regardless of the protocol; the units of a coded frame share their numbers
//! ([`ErrorProcess::lost_units`]). Sojourn times and state transitions use separate streams: two
//! protocols that send different frames encounter the same good and bad periods.
//!
//! # Receptions
//!
//! A frame received with errors is lost, unless the keys of the process specify which of these
//! frames have a readable header: see [`WithHeaders`]. A medium queries the header of a lost frame
//! only if the result is used.

mod bits;
mod family;
mod headers;

pub use clean::Clean;
pub use exponential_bits::ExponentialBits;
pub use gilbert_elliott::{GilbertElliott, GilbertElliottParameters};
pub use headers::{HeaderRule, Reception, WithHeaders};
pub use independent_bits::IndependentBits;
pub use listed::Listed;
pub use markov_chain::{MarkovChain, MarkovChainParameters};
pub use on_off::OnOff;
pub use outages::Outages;
pub use product::Product;
pub use slotted_gilbert_elliott::{SlottedGilbertElliott, SlottedGilbertElliottParameters};
pub use trace::{CsvColumn, LossRecord, Trace, TraceEnd, TraceError};
pub use two_state::{TwoState, TwoStateParameters};
pub use uniform::Uniform;

use family::{ErrorKeys, error_processes};
use lasthop_base::rng::Streams;
use lasthop_base::schema::keys::{Read, kinds};
use lasthop_base::units::{Duration, Instant};

/// Purpose of the stream from which each process takes its one number per frame.
const FRAME_LOSS: &str = "frame loss";

/// Transmission of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Airtime {
    /// Start of the transmission of the first bit.
    pub start: Instant,
    /// End of the transmission of the last bit.
    pub end: Instant,
    /// Length of the frame in bits, link header included.
    pub bits: u64,
}

/// An error process, which decides about the losses on one direction of a link.
///
/// Successive calls must have non-decreasing, non-overlapping air times.
pub trait ErrorProcess {
    /// Returns `true` if the frame is lost.
    fn is_lost(&mut self, airtime: Airtime) -> bool;

    /// Returns the lost units of a frame as a bit mask, if units can be lost individually. A frame
    /// has at most 64 units, which are transmitted in succession and have equal lengths.
    fn lost_units(&mut self, airtime: Airtime, units: u8) -> u64 {
        one_by_one(airtime, units, |unit| self.is_lost(unit))
    }

    /// Returns the reception of a frame whose first `header_bits` bits are its header. Replaces
    /// [`Self::is_lost`] for this frame, with the same losses. Processes without bit errors destroy
    /// whole frames.
    fn reception(&mut self, airtime: Airtime, _header_bits: u64) -> Reception {
        match self.is_lost(airtime) {
            true => Reception::Lost,
            false => Reception::Intact,
        }
    }

    /// Returns `true` if the header of the latest frame, which was lost, is readable.
    fn is_header_readable(&self) -> bool {
        false
    }

    /// Number of lost frames with a readable header so far. `None` if the process leaves no headers
    /// readable.
    fn readable_headers(&self) -> Option<u64> {
        None
    }

    /// Advances the process to `now`; no subsequent frame starts before. This has no effect except
    /// on the run time of the next call, because each call advances the process to its own time.
    fn catch_up(&mut self, _now: Instant) {}

    /// State changes per second of simulated time; 0 if the process is independent of time.
    fn replay_rate(&self) -> f64 {
        0.0
    }
}

/// A bit mask of the first `units` units, at most 64.
fn all_units(units: u8) -> u64 {
    if units >= 64 { u64::MAX } else { (1 << units) - 1 }
}

/// Calls `is_lost` for each unit of a frame as if it were a frame.
fn one_by_one(airtime: Airtime, units: u8, mut is_lost: impl FnMut(Airtime) -> bool) -> u64 {
    let length = (airtime.end - airtime.start).as_nanos();
    let bits = airtime.bits / u64::from(units.max(1));
    let at = |unit: u8| {
        airtime.start + Duration::from_nanos(length * u64::from(unit) / u64::from(units))
    };
    (0..units).fold(0, |lost, unit| {
        let airtime = Airtime { start: at(unit), end: at(unit + 1), bits };
        lost | u64::from(is_lost(airtime)) << unit
    })
}

/// The reason why an error process cannot be built from its parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChannelError {
    /// A state of the two-state process has a mean duration of 0.
    #[error("{state} state: invalid mean duration `0 s`: expected more than 0 s")]
    NoSojourn {
        /// `good` or `bad`.
        state: &'static str,
    },
    /// Both transition probabilities of a Gilbert–Elliott chain are 0, so that it has no unique
    /// stationary distribution.
    #[error(
        "Gilbert-Elliott: invalid transition probabilities 0 and 0: expected at least one above 0"
    )]
    FrozenChain,
    /// The parameters of a chain of several states are inconsistent.
    #[error("Markov chain: {key}: invalid value ({found}): expected {allowed}")]
    ImpossibleChain {
        /// The parameter.
        key: String,
        /// Its value.
        found: String,
        /// The allowed values.
        allowed: String,
    },
    /// The slots of a slotted chain have length 0.
    #[error("slotted Gilbert-Elliott: invalid slot duration `0 s`: expected more than 0 s")]
    NoSlot,
    /// Both states of a slotted chain last forever, so that it has no unique stationary
    /// distribution.
    #[error(
        "slotted Gilbert-Elliott: invalid probabilities of staying 1 and 1: expected at least one \
         below 1"
    )]
    FrozenSlots,
    /// No chain has this mean loss and this mean burst length.
    #[error(
        "Gilbert-Elliott: impossible mean burst of {burst} frames with a mean loss of {loss}: expected \
         a loss below 1 and a finite burst of at least max(1, loss / (1 - loss)) frames"
    )]
    ImpossibleBurst {
        /// Requested mean fraction of lost frames.
        loss: f64,
        /// Requested mean number of frames per burst.
        burst: f64,
    },
}

// The list of error processes: module, variant, and the keys, which define the `kind` in scenarios.
error_processes! {
    clean: Clean(CleanKeys);
    uniform: Uniform(UniformKeys);
    two_state: TwoState(TwoStateKeys);
    independent_bits: IndependentBits(IndependentBitsKeys);
    exponential_bits: ExponentialBits(ExponentialBitsKeys);
    gilbert_elliott: GilbertElliott(GilbertElliottKeys);
    markov_chain: MarkovChain(MarkovChainKeys);
    slotted_gilbert_elliott: SlottedGilbertElliott(SlottedGilbertElliottKeys);
    trace: Trace(TraceKeys);
    on_off: OnOff(OnOffKeys);
    outages: Outages(OutagesKeys);
    listed: Listed(ListedKeys);
    // Composed of other processes, and not usable as a component.
    @of Factor: product: Product(ProductKeys);
}

impl Channel {
    /// Returns `true` if the frame is lost. Air times must be non-decreasing and must not overlap.
    #[inline(always)]
    pub fn is_lost(&mut self, airtime: Airtime) -> bool {
        match self {
            Channel::Clean(_) => false,
            Channel::Uniform(process) => process.is_lost(airtime),
            _ => self.is_lost_with_memory(airtime.start, airtime.end, airtime.bits),
        }
    }
}

impl ErrorProcess for Channel {
    #[inline]
    fn is_lost(&mut self, airtime: Airtime) -> bool {
        Channel::is_lost(self, airtime)
    }

    fn lost_units(&mut self, airtime: Airtime, units: u8) -> u64 {
        self.dispatch_lost_units(airtime, units)
    }

    fn reception(&mut self, airtime: Airtime, header_bits: u64) -> Reception {
        self.dispatch_reception(airtime, header_bits)
    }

    #[cold]
    fn is_header_readable(&self) -> bool {
        self.dispatch_is_header_readable()
    }

    fn readable_headers(&self) -> Option<u64> {
        self.dispatch_readable_headers()
    }

    fn catch_up(&mut self, now: Instant) {
        self.dispatch_catch_up(now);
    }

    fn replay_rate(&self) -> f64 {
        self.dispatch_replay_rate()
    }
}

#[cfg(test)]
mod testing {
    //! Functions for the tests of the processes.

    use super::*;
    use lasthop_base::rng::Streams;
    use lasthop_base::units::{Duration, Probability};

    /// Source of the random number streams of the tests; the seed is fixed.
    pub const STREAMS: Streams = Streams { seed: 7, replication: 0 };

    /// Start and end of frames in ms, and whether they are lost if the link is down from 30 to 50
    /// ms, from 80 to 100 ms …
    pub const FRAMES_BETWEEN_DOWN_TIMES: [(u64, u64, bool); 10] = [
        (0, 10, false),
        (20, 30, false),
        (30, 31, true),
        (49, 50, true),
        (50, 60, false),
        (79, 81, true),
        (100, 130, false),
        (149, 151, true),
        (160, 240, true),
        (1_000_000_000, 1_000_000_030, false),
    ];

    /// The probability `p`, which must be valid.
    pub fn probability(p: f64) -> Probability {
        Probability::new(p).expect("a literal in [0, 1]")
    }

    /// Air times of consecutive frames of `bits` bits and duration `length`, back to back.
    pub fn back_to_back(bits: u64, length: Duration) -> impl Iterator<Item = Airtime> {
        let mut start = Instant::ZERO;
        std::iter::from_fn(move || {
            let airtime = Airtime { start, end: start + length, bits };
            start = airtime.end;
            Some(airtime)
        })
    }

    /// Number of lost frames among the first `n` frames.
    pub fn losses(channel: &mut Channel, n: u64, bits: u64) -> u64 {
        let airtimes = back_to_back(bits, Duration::from_millis(1));
        airtimes.take(n as usize).map(|airtime| u64::from(channel.is_lost(airtime))).sum()
    }

    /// Checks a count against the binomial distribution: 5 standard errors; false positives below
    /// 1e-6 per test.
    pub fn assert_binomial(count: u64, n: u64, p: f64) {
        let (mean, error) = (n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
        assert!((count as f64 - mean).abs() <= 5.0 * error, "{count} of {n}, expected p = {p}");
    }

    /// Lengths of the loss bursts.
    pub fn bursts(channel: &mut Channel, frames: u64) -> Vec<u64> {
        let (mut runs, mut run) = (Vec::new(), 0);
        for airtime in back_to_back(8, Duration::from_millis(1)).take(frames as usize) {
            if channel.is_lost(airtime) {
                run += 1;
            } else if run > 0 {
                runs.push(std::mem::take(&mut run));
            }
        }
        runs
    }

    /// Checks burst lengths against the geometric distribution P(k) = q^(k-1) (1-q): the counts of
    /// 1, 2, …, 6 and "7 or more", each within 5 standard errors (false positives below 5e-6 for
    /// all seven).
    pub fn assert_geometric(runs: &[u64], q: f64) {
        let n = runs.len() as u64;
        for k in 1..=6u64 {
            let count = runs.iter().filter(|&&run| run == k).count() as u64;
            assert_binomial(count, n, q.powi(k as i32 - 1) * (1.0 - q));
        }
        let count = runs.iter().filter(|&&run| run >= 7).count() as u64;
        assert_binomial(count, n, q.powi(6));
    }
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;

    #[test]
    fn a_clean_channel_loses_nothing() {
        assert_eq!(losses(&mut Channel::Clean(Clean {}), 1000, 2016), 0);
    }

    #[test]
    fn processes_without_losses_draw_no_random_numbers() {
        let cases = [(0.0, true), (1e-9, false), (1.0, false)];
        for (value, is_clean) in cases {
            let [loss, ber] = [probability(value); 2];
            let uniform = uniform::UniformKeys { loss, readable_headers: None, whole_frames: None };
            let bits = independent_bits::IndependentBitsKeys { ber, header: None };
            for keys in [Errors::Uniform(uniform), Errors::IndependentBits(bits)] {
                let process = keys.build(&STREAMS, "link").expect("a process");
                assert_eq!(matches!(process, Channel::Clean(_)), is_clean, "{value}: {keys:?}");
            }
        }
    }

    #[test]
    fn the_kth_frame_meets_the_kth_number_whatever_its_size() {
        // A larger loss probability loses a superset of the frames: the random numbers are common.
        let mut small = Channel::Uniform(Uniform::new(probability(0.02), &STREAMS, "link"));
        let mut large =
            Channel::IndependentBits(IndependentBits::new(probability(1e-3), &STREAMS, "link"));
        for airtime in
            back_to_back(2016, lasthop_base::units::Duration::from_millis(1)).take(10_000)
        {
            let (lost, surely) = (small.is_lost(airtime), large.is_lost(airtime));
            assert!(!lost || surely);
        }
    }
}
