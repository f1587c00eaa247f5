//! Error processes: which frames does the air destroy?
//!
//! An error process belongs to one direction of a link. It is told the exact air time of each
//! frame, in order, and answers whether the frame is lost. It is a function of time, so that idle
//! periods count.
//!
//! # Common random numbers
//!
//! A process draws exactly one number per frame from its stream `frame loss` (or none at all) and
//! compares it with the frame's loss probability: the k-th frame meets the k-th number, whatever
//! the protocol; units of a coded frame share their numbers ([`ErrorProcess::lost_units`]). Sojourns and state transitions come from streams of their own: two protocols that
//! send different frames still meet the same good and bad periods.
//!
//! # Receptions
//!
//! A damaged frame is lost, unless the keys of the process say which damaged frames leave a readable header: see
//! [`WithHeaders`]. A medium asks about the header of a frame that was lost, and only where somebody wants to know.

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

/// Purpose of the stream from which every process takes its one number per frame.
const FRAME_LOSS: &str = "frame loss";

/// One frame's stay on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Airtime {
    /// First bit leaves the transmitter.
    pub start: Instant,
    /// Last bit has left the transmitter.
    pub end: Instant,
    /// Bits of the frame, link header included.
    pub bits: u64,
}

/// A source of frame losses on one direction of a link.
///
/// Calls come with non-decreasing, non-overlapping air times.
pub trait ErrorProcess {
    /// Is this frame destroyed?
    fn is_lost(&mut self, airtime: Airtime) -> bool;

    /// Which of the `units` of a frame are destroyed, a bit each, where any of them can be destroyed
    /// without the others: at most 64, one after the other on the air, each as long as the others.
    fn lost_units(&mut self, airtime: Airtime, units: u8) -> u64 {
        one_by_one(airtime, units, |unit| self.is_lost(unit))
    }

    /// What reaches the far end of this frame, whose first `header_bits` bits are its header: in place of
    /// [`Self::is_lost`], and of the same frames. A process that does not know bits destroys whole frames.
    fn reception(&mut self, airtime: Airtime, _header_bits: u64) -> Reception {
        match self.is_lost(airtime) {
            true => Reception::Lost,
            false => Reception::Intact,
        }
    }

    /// Of the latest frame, which was lost: can its header be read?
    fn is_header_readable(&self) -> bool {
        false
    }

    /// Lost frames so far whose header could be read, of a process that leaves any.
    fn readable_headers(&self) -> Option<u64> {
        None
    }

    /// Goes on to `now`, before which no frame starts any more. It changes nothing but the time that
    /// the next frame takes: a process looks at its own time when it is asked.
    fn catch_up(&mut self, _now: Instant) {}

    /// Changes of state in a second of simulated time; 0 where time does not matter.
    fn replay_rate(&self) -> f64 {
        0.0
    }
}

/// A bit for each of so many units, at most 64.
fn all_units(units: u8) -> u64 {
    if units >= 64 { u64::MAX } else { (1 << units) - 1 }
}

/// Asks for each unit of a frame as for a frame.
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

/// Why an error process cannot be built from its parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChannelError {
    /// A state of the two-state process would last no time.
    #[error("{state} state: found a mean duration of 0 s; allowed: any duration above 0 s")]
    NoSojourn {
        /// `good` or `bad`.
        state: &'static str,
    },
    /// Both transition probabilities of a Gilbert–Elliott chain are zero: it has no unique
    /// stationary law.
    #[error(
        "Gilbert-Elliott: found 0 for both transition probabilities; allowed: at least one above 0"
    )]
    FrozenChain,
    /// A chain of several states does not fit together.
    #[error("Markov chain: {key}: found {found}; allowed: {allowed}")]
    ImpossibleChain {
        /// Which parameter.
        key: String,
        /// What it is.
        found: String,
        /// What it may be.
        allowed: String,
    },
    /// The slots of a chain in time would have no length.
    #[error("slotted Gilbert-Elliott: found a slot of 0 s; allowed: any duration above 0 s")]
    NoSlot,
    /// Neither state of a chain in time ever ends: it has no unique stationary law.
    #[error(
        "slotted Gilbert-Elliott: found 1 for both probabilities of staying; allowed: at least one \
         below 1"
    )]
    FrozenSlots,
    /// No chain has this mean loss and this mean burst.
    #[error(
        "Gilbert-Elliott: found a mean burst of {burst} frames at a mean loss of {loss}; allowed: \
         a loss below 1 and a finite burst of at least max(1, loss / (1 - loss)) frames"
    )]
    ImpossibleBurst {
        /// Mean fraction of frames lost that was asked for.
        loss: f64,
        /// Mean number of frames in a burst that was asked for.
        burst: f64,
    },
}

// The list of error processes: the file of each, its machine, and the keys and so the `kind` that it
// has in scenarios.
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
    // Made of others, and no part of another.
    @of Factor: product: Product(ProductKeys);
}

impl Channel {
    /// Is this frame destroyed? Air times do not decrease and do not overlap.
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
    //! What the tests of the processes share.

    use super::*;
    use lasthop_base::rng::Streams;
    use lasthop_base::units::{Duration, Probability};

    /// Where the test streams come from; all seeds are fixed.
    pub const STREAMS: Streams = Streams { seed: 7, replication: 0 };

    /// Start and end of frames in ms, and whether they are lost where the link is down from 30 to 50 ms, from 80 to 100 ms …
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

    /// A probability known to be one.
    pub fn probability(p: f64) -> Probability {
        Probability::new(p).expect("a literal in [0, 1]")
    }

    /// Air times of `bits`-bit frames, back to back, each `length` long.
    pub fn back_to_back(bits: u64, length: Duration) -> impl Iterator<Item = Airtime> {
        let mut start = Instant::ZERO;
        std::iter::from_fn(move || {
            let airtime = Airtime { start, end: start + length, bits };
            start = airtime.end;
            Some(airtime)
        })
    }

    /// Losses among the first `n` frames.
    pub fn losses(channel: &mut Channel, n: u64, bits: u64) -> u64 {
        let airtimes = back_to_back(bits, Duration::from_millis(1));
        airtimes.take(n as usize).map(|airtime| u64::from(channel.is_lost(airtime))).sum()
    }

    /// Holds a binomial count against its law: 5 standard errors, false alarm below 1e-6 a test.
    pub fn assert_binomial(count: u64, n: u64, p: f64) {
        let (mean, error) = (n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
        assert!((count as f64 - mean).abs() <= 5.0 * error, "{count} of {n}, expected p = {p}");
    }

    /// Lengths of the runs of losses.
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

    /// Holds run lengths against the geometric law P(k) = q^(k-1) (1-q): counts of 1, 2, …, 6 and
    /// "7 or more", each within 5 standard errors (false alarm below 5e-6 over the seven).
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
    fn the_kth_frame_meets_the_kth_number_whatever_its_size() {
        // A larger loss probability loses a superset of frames: the numbers are common.
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
